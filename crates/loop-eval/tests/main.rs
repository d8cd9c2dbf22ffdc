//! Cases, backtests and adversaries.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-eval --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod backtest;
mod bad_input;
mod baseline;
mod examples;
mod redteam;
mod schema;
mod step;
mod trials;
mod trust;
mod verdicts;
