//! `cargo fuzz run similarity`: see `crates/loop-fuzz/src/similarity.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("similarity", data));
