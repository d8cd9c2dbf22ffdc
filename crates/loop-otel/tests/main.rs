//! Telemetry against a receiver on this machine.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod receiver;
mod runs;
mod spans;
mod wire;
mod world;
