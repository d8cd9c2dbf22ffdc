//! Fuzz targets of the core, on their committed inputs and mutations of them.

mod canonical;
mod contract;
mod gate_events;
mod merge;
mod sections;
mod similarity;

use loop_testkit::fuzz::check;

#[test]
fn arguments_have_one_canonical_text() {
    check("canonical", canonical::target);
}

#[test]
fn only_a_block_with_the_nonce_decides() {
    check("contract", contract::target);
}

#[test]
fn what_is_accepted_keeps_the_promises_of_the_core() {
    check("gate_events", gate_events::target);
}

#[test]
fn merging_keeps_what_is_not_proposed() {
    check("merge", merge::target);
}

#[test]
fn sections_are_read_the_same_in_any_pieces() {
    check("sections", sections::target);
}

#[test]
fn similarity_is_bounded_and_symmetric() {
    check("similarity", similarity::target);
}
