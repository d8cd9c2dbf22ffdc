//! The revision of the decisions: fixed runs are decided as it says.

use loop_core::Note;
use loop_core::run::DECISIONS;
use loop_core::types::Digest;
use loop_testkit::drivers::{Recursion, RunDriver, cases};
use loop_testkit::{Numbers, World, random_run, random_setup};
use serde_json::json;

/// Each run with the digest of its decisions.
const RECORDED: &str = include_str!("samples/decisions.txt");

fn line<'n>(name: &str, notes: impl IntoIterator<Item = &'n Note>) -> String {
    let decisions: Vec<String> = notes.into_iter().map(|note| json!(note).to_string()).collect();
    let digest = Digest::of("decisions", decisions.join("\n").as_bytes()).to_string();
    format!("{} {name}\n", &digest[..16])
}

fn decided_now() -> String {
    let mut lines = format!("revision {DECISIONS}\n");
    for case in cases() {
        let record = Recursion.drive(&case);
        lines.push_str(&line(case.name, record.entries.iter().flat_map(|(_, notes)| notes)));
    }
    for seeds in [0..40_u64, 40..80] {
        let name = format!("random runs {} to {}", seeds.start, seeds.end - 1);
        let worlds: Vec<World> = seeds
            .map(|seed| {
                let mut numbers = Numbers(seed);
                random_run(random_setup(&mut numbers), &mut numbers)
            })
            .collect();
        lines.push_str(&line(&name, worlds.iter().flat_map(World::all_notes)));
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
