//! `cargo fuzz run sections`: see `crates/loop-core/tests/fuzz/sections.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/sections.rs"]
mod sections;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sections::target(data));
