//! The offline stub, against prompts written by hand in the forms of the built-in ones.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-offline --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod conversation;
mod document;
mod model;
