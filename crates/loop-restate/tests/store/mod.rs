//! The store of blobs as its users see it.

mod files;
#[cfg(feature = "s3")]
mod moto;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod server;
