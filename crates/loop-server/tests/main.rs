//! The tests of the server.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod attacks;
mod doors;
mod socket;
