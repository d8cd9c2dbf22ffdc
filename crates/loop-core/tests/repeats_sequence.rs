//! The likeness of two texts: as Python's difflib has it, pair for pair.
//!
//! `samples/sequence_matcher.json` was written by `samples/sequence_matcher.py` with Python 3.11.

use loop_core::repeats::ratio_millis;
use proptest::prelude::*;

type Pair = (String, String, u64, u64);

fn golden() -> Vec<Pair> {
    serde_json::from_str(include_str!("samples/sequence_matcher.json")).unwrap()
}

/// In integers: twice the common characters by all.
fn millis(common: u64, both: u64) -> u32 {
    (2_000 * common).checked_div(both).unwrap_or(1_000) as u32
}

#[test]
fn every_pair_is_as_alike_as_it_is_in_python() {
    // S3-12, S3-d4: with the rule for long texts, and in this order.
    let golden = golden();
    assert!(golden.len() >= 400);
    assert!(golden.iter().filter(|pair| pair.1.chars().count() >= 200).count() >= 50);
    for (a, b, common, both) in &golden {
        assert_eq!(ratio_millis(a, b), millis(*common, *both), "{a:?} to {b:?}");
    }
}

#[test]
fn the_ratios_that_were_measured() {
    // S3-d1, S3-d2, S3-d3, S3-d4
    for (a, b, expected) in [
        ("fix bug", "fix the bug", 777),
        ("delete user", "deactivate user", 692),
        ("user", "user", 1_000),
        ("enable mfa", "disable mfa", 761),
        ("grant access alice", "revoke access alice", 756),
        ("invoice 1041", "invoice 1042", 916),
        ("disk space server01", "disk space server02", 947),
        ("python 3.10 install", "python 3.11 install", 947),
        ("python 310 install", "python 311 install", 944),
        ("how to reset password", "reset password how to", 666),
        ("tide", "diet", 250),
        ("diet", "tide", 500),
        ("", "", 1_000),
        ("", "a", 0),
    ] {
        assert_eq!(ratio_millis(a, b), expected, "{a:?} to {b:?}");
    }
}

#[test]
fn what_is_frequent_in_a_long_text_is_not_searched_for() {
    // S3-d4: from 200 characters of the second text on.
    assert_eq!(ratio_millis(&"ab".repeat(99), &"ba".repeat(99)), 994);
    assert_eq!(ratio_millis(&"ab".repeat(100), &"ba".repeat(100)), 0);
    assert_eq!(ratio_millis(&"ab".repeat(100), &"ba".repeat(99)), 994);
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn a_text_is_wholly_alike_to_itself_and_never_more_to_another(a in "[ab é]{0,40}", b in "[ab é]{0,40}") {
        prop_assert_eq!(ratio_millis(&a, &a), 1_000);
        let millis = ratio_millis(&a, &b);
        let (shorter, longer) = {
            let lengths = [a.chars().count(), b.chars().count()];
            (lengths[0].min(lengths[1]) as u32, lengths[0].max(lengths[1]) as u32)
        };
        prop_assert!(millis <= (2_000 * shorter).checked_div(shorter + longer).unwrap_or(1_000));
        prop_assert!(a == b || millis < 1_000);
    }
}
