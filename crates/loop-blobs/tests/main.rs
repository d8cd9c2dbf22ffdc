//! The store as its users see it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod files;
#[cfg(feature = "s3")]
mod moto;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod server;
