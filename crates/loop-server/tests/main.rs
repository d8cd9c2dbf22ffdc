//! The tests of the server.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[cfg(feature = "http")]
mod attacks;
#[cfg(feature = "http")]
mod doors;
mod pages;
#[cfg(feature = "http")]
mod socket;
