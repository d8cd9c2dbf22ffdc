//! `cargo fuzz run history`: see `crates/loop-llm/tests/fuzz/history.rs`.
#![no_main]

#[path = "../../crates/loop-llm/tests/fuzz/history.rs"]
mod history;

libfuzzer_sys::fuzz_target!(|data: &[u8]| history::target(data));
