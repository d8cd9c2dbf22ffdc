//! Connectors with real servers: `cargo xtask servers` runs these tests.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[cfg(all(feature = "mcp", unix))]
mod mcp;
#[cfg(feature = "postgres")]
mod postgres;
