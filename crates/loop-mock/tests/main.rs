//! The servers, asked by a plain client: what they read, what they write, and how they misbehave.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-mock --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod loopback;
mod offline;
mod protocols;
mod raw;
mod schemas;
mod strict;
