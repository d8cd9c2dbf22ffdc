//! Domain folders: what is read, what is refused, and where.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-domain --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod calibration;
mod check;
#[cfg(all(feature = "command", unix))]
mod command;
mod crm;
mod errors;
mod examples;
#[cfg(feature = "files")]
mod files;
mod guide;
mod http;
mod keys_page;
mod lies;
mod loading;
mod mcp;
mod policy;
mod postgres;
mod prices;
mod protocols;
mod readme;
mod schema;
mod secrets;
mod serve;
mod smart;
mod wire;
mod writing;
