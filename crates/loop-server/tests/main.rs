//! The tests of the server, as one program.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod api;
mod attacks;
mod bench;
mod doors;
mod engine;
mod events;
mod openapi;
mod socket;
