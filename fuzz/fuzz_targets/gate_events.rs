//! `cargo fuzz run gate_events`: see `crates/loop-core/tests/fuzz/gate_events.rs`.
#![no_main]

#[path = "../../crates/loop-core/tests/fuzz/gate_events.rs"]
mod gate_events;

libfuzzer_sys::fuzz_target!(|data: &[u8]| gate_events::target(data));
