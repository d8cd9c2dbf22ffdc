//! `cargo fuzz run sanitiser`: see `crates/loop-fuzz/src/sanitiser.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("sanitiser", data));
