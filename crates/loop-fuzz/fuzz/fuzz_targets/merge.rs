//! `cargo fuzz run merge`: see `crates/loop-fuzz/src/merge.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("merge", data));
