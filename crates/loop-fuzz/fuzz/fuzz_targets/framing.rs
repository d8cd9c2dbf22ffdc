//! `cargo fuzz run framing`: see `crates/loop-fuzz/src/framing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("framing", data));
