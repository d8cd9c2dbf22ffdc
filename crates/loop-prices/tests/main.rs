//! The table of prices.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-prices --test it NAME::` runs one module.
#![expect(clippy::unwrap_used)]

mod table;
