//! The walk: every reachable state of small runs, breadth first, with every invariant checked on every edge.
//!
//! In a test run each alphabet is walked whole. `cargo xtask explore` walks further, and prints what was seen.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub
)]

#[path = "../common/mod.rs"]
mod common;

mod alphabet;
mod alphabets;
mod checks;
mod edge;
mod money;
mod oracle;
mod rank;
mod search;
mod shape;
mod strays;
mod truth;

use loop_core::CostMode;

use alphabet::Alphabet;
use search::{Scope, walk};

/// Walks an alphabet and prints a line about it.
fn explore(alphabet: &Alphabet, scope: Scope) {
    let walked = walk(alphabet, scope);
    let ends: Vec<String> = walked.ends.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    println!(
        "{:20} {:8} states {:9} edges  {} events deep, {} at the most{}  {}",
        alphabet.name,
        walked.states,
        walked.edges,
        walked.depth,
        walked.bound,
        if walked.whole { "" } else { "  (cut)" },
        ends.join(", ")
    );
}

const WHOLE: Scope = Scope { states: 200_000, whole: true };

#[test]
fn plain() {
    explore(&alphabets::plain(), WHOLE);
}

#[test]
fn verdicts() {
    explore(&alphabets::verdicts(), WHOLE);
}

#[test]
fn tools() {
    explore(&alphabets::tools(), WHOLE);
}

#[test]
fn stops() {
    explore(&alphabets::stops(), WHOLE);
}

#[test]
fn time() {
    explore(&alphabets::time(), WHOLE);
}

#[test]
fn crashes() {
    explore(&alphabets::crashes(), WHOLE);
}

#[test]
fn lost_writes() {
    explore(&alphabets::lost_writes(), WHOLE);
}

#[test]
fn people() {
    explore(&alphabets::people(), WHOLE);
}

#[test]
fn money_strict() {
    explore(&alphabets::money(CostMode::Strict), WHOLE);
}

#[test]
fn money_estimated() {
    explore(&alphabets::money(CostMode::Estimated), WHOLE);
}

#[test]
fn money_after() {
    explore(&alphabets::money(CostMode::After), WHOLE);
}

#[test]
fn tokens_strict() {
    explore(&alphabets::tokens(CostMode::Strict), WHOLE);
}

#[test]
fn tokens_estimated() {
    explore(&alphabets::tokens(CostMode::Estimated), WHOLE);
}

#[test]
fn tokens_after() {
    explore(&alphabets::tokens(CostMode::After), WHOLE);
}

#[test]
fn context() {
    explore(&alphabets::context(), WHOLE);
}

#[test]
fn picking() {
    explore(&alphabets::picking(), WHOLE);
}

#[test]
fn five_passes() {
    explore(&alphabets::five_passes(), WHOLE);
}

#[test]
fn everything() {
    explore(&alphabets::everything(2), Scope { states: 3_000, whole: false });
}
