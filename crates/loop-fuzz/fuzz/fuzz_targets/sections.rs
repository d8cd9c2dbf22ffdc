//! `cargo fuzz run sections`: see `crates/loop-fuzz/src/sections.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("sections", data));
