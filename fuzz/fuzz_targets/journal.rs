//! `cargo fuzz run journal`: see `crates/loop-runtime/tests/fuzz/journal.rs`.
#![no_main]

#[path = "../../crates/loop-runtime/tests/fuzz/journal.rs"]
mod journal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal::target(data));
