//! What a model sees.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-prompts --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod common;
mod instruction;
mod notes;
mod offline;
mod overrides;
mod prefix;
mod results;
mod snapshots;
mod thread;
mod ways_out;
mod wording;
