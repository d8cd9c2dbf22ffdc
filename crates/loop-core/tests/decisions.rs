//! The revision of the decisions: fixed runs are decided as it says.

use loop_core::{DECISIONS, Digest};
use loop_testkit::drivers::{Recursion, RunDriver, Timing, cases};
use loop_testkit::{Numbers, random_run, random_setup};
use serde_json::json;

/// Each run with the digest of its decisions.
const RECORDED: &str = include_str!("samples/decisions.txt");

fn line(name: &str, decisions: &str) -> String {
    let digest = Digest::of("decisions", decisions.as_bytes()).to_string();
    format!("{} {name}\n", &digest[..16])
}

fn decided_now() -> String {
    let mut lines = format!("revision {DECISIONS}\n");
    for case in cases() {
        lines.push_str(&line(case.name, &Recursion.drive(&case).lines(Timing::Virtual).join("\n")));
    }
    for seeds in [0..40_u64, 40..80] {
        let name = format!("random runs {} to {}", seeds.start, seeds.end - 1);
        let notes = seeds.map(|seed| {
            let mut numbers = Numbers(seed);
            let world = random_run(random_setup(&mut numbers), &mut numbers);
            world.all_notes().map(|note| json!(note).to_string()).collect::<Vec<_>>().join("\n")
        });
        lines.push_str(&line(&name, &notes.collect::<Vec<_>>().join("\n")));
    }
    lines
}

#[test]
fn the_revision_is_raised_when_decisions_change() {
    // ADR 0117: a program of another revision has to know that it is one.
    let now = decided_now();
    let changed: Vec<&str> = now.lines().filter(|line| !RECORDED.lines().any(|it| it == *line)).collect();
    assert!(
        now == RECORDED,
        "decided otherwise, or written otherwise: {changed:#?}\n\
         If a run that was recorded before would be decided otherwise, raise DECISIONS in src/run/mod.rs, once between two \
         releases. Then replace tests/samples/decisions.txt with:\n{now}"
    );
}
