//! `cargo fuzz run similarity`: see `crates/loop-core/tests/fuzz/similarity.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/similarity.rs"]
mod similarity;

libfuzzer_sys::fuzz_target!(|data: &[u8]| similarity::target(data));
