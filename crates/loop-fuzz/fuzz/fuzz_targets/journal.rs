//! `cargo fuzz run journal`: see `crates/loop-fuzz/src/journal.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("journal", data));
