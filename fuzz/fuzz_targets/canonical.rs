//! `cargo fuzz run canonical`: see `crates/loop-core/tests/fuzz/canonical.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/canonical.rs"]
mod canonical;

libfuzzer_sys::fuzz_target!(|data: &[u8]| canonical::target(data));
