//! `cargo fuzz run merge`: see `crates/loop-core/tests/fuzz/merge.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/merge.rs"]
mod merge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| merge::target(data));
