//! Telemetry against a receiver on this machine.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod receiver;
mod runs;
mod spans;
mod wire;
mod world;
