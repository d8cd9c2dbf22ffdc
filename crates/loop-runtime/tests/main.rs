//! The driver, its journals and its agents.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-runtime --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod agent_callbacks;
mod agent_cancel;
mod agent_conversation;
mod agent_growth;
mod agent_needs;
mod agent_output;
mod agent_traces;
mod agent_ways;
mod agent_wire;
mod agents;
mod asked;
mod common;
mod door;
mod drivers;
mod durable;
mod eager;
mod engine;
mod engine_drivers;
mod examples;
mod explain;
mod first_pass;
mod forecast;
mod fork;
mod founding;
mod fuzz;
mod guides;
mod hooks;
mod journal;
mod observers;
mod pages;
mod people;
mod priced;
mod recursing;
mod replay;
mod report;
mod results;
mod resume;
mod save;
mod save_http;
mod selection;
mod shared_budget;
mod sim;
mod smart;
mod stops;
mod streaming;
mod strict;
mod trees;
mod versions;
mod waits;
mod ways;
mod whole;
mod why;
