//! The decisions of the core, one module a subject.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-core --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod bounded;
mod claims;
mod common;
mod compaction;
mod conversation;
mod crash;
mod document;
mod doubts;
mod driving;
mod eager;
mod execution;
mod final_pass;
mod fork;
mod gate;
mod grammar;
mod invariants;
mod judgement;
mod limits;
mod live;
mod money;
mod neutral;
mod order;
mod output;
mod pattern;
mod people;
mod policy;
mod policy_authority;
mod policy_problems;
mod policy_run;
mod policy_shown;
mod polls;
mod prices;
mod properties;
mod repeating;
mod repeats;
mod repeats_ledger;
mod repeats_progress;
mod repeats_sequence;
mod repeats_stable;
mod repeats_three_tier;
mod replay;
mod reserve;
mod retry;
mod routes;
mod saving;
mod selection;
mod shared_budget;
mod stops;
mod trouble;
mod verdicts;
mod walk;
mod ways_out;
mod worst_case;
