//! The tests of the server.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod attacks;
mod doors;
mod socket;
//! The tests of the server, as one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]
#[cfg(feature = "http")]
mod api;
mod bench;
mod engine;
#[cfg(feature = "http")]
mod events;
#[cfg(feature = "http")]
mod openapi;
#[cfg(feature = "http")]
mod server;
