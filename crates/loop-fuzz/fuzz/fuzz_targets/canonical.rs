//! `cargo fuzz run canonical`: see `crates/loop-fuzz/src/canonical.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("canonical", data));
