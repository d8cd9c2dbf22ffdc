//! `cargo fuzz run contract`: see `crates/loop-core/tests/fuzz/contract.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/contract.rs"]
mod contract;

libfuzzer_sys::fuzz_target!(|data: &[u8]| contract::target(data));
