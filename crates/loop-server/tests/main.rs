//! The tests of the server, as one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

#[cfg(feature = "http")]
mod api;
#[cfg(feature = "http")]
mod approvers;
#[cfg(feature = "http")]
mod attacks;
#[cfg(feature = "http")]
mod audit;
#[cfg(feature = "http")]
mod bench;
#[cfg(feature = "http")]
mod doors;
#[cfg(feature = "http")]
mod engine;
#[cfg(feature = "http")]
mod events;
#[cfg(feature = "http")]
mod faults;
#[cfg(feature = "http")]
mod openapi;
mod pages;
#[cfg(feature = "http")]
mod socket;
