//! Runs on Restate: against a real server, with workers that are processes of their own.
//!
//! `cargo xtask servers restate` fetches the server and runs `server::`, `load::`, `cluster::`, `waiting::`, `blobs::` and `cost::`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unreachable_pub)]

#[cfg(target_os = "linux")]
mod blobs;
#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod cost;
mod harness;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod server;
mod store;
#[cfg(target_os = "linux")]
mod waiting;
