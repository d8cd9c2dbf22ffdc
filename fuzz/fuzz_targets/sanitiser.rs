//! `cargo fuzz run sanitiser`: see `crates/loop-runtime/tests/fuzz/sanitiser.rs`.
#![no_main]

#[path = "../../crates/loop-runtime/tests/fuzz/sanitiser.rs"]
mod sanitiser;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sanitiser::target(data));
