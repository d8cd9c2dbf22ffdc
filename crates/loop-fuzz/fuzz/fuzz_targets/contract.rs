//! `cargo fuzz run contract`: see `crates/loop-fuzz/src/contract.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("contract", data));
