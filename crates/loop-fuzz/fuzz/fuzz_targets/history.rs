//! `cargo fuzz run history`: see `crates/loop-fuzz/src/history.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("history", data));
