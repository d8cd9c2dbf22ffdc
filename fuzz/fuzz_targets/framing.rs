//! `cargo fuzz run framing`: see `crates/loop-llm/tests/fuzz/framing.rs`.
#![no_main]

#[path = "../../crates/loop-llm/tests/fuzz/framing.rs"]
mod framing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| framing::target(data));
