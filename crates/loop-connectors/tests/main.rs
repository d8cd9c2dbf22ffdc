//! Connectors with real servers: `cargo xtask servers` runs these tests.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[cfg(feature = "postgres")]
mod postgres;
