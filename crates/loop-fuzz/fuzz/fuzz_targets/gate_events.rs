//! `cargo fuzz run gate_events`: see `crates/loop-fuzz/src/gate_events.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loop_fuzz::run("gate_events", data));
