//! Runs on Restate: against a real server, with workers that are processes of their own.
//!
//! `cargo xtask servers restate` fetches the server and runs `server::`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unreachable_pub, dead_code)]

mod harness;
#[cfg(target_os = "linux")]
mod server;
