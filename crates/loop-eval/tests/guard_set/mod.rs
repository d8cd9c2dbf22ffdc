//! The labelled set of `loopgate guard score`: made here, and held against the rules of labelling.
//!
//! `UPDATE_SET=1 cargo test -p loop-eval --test it guard_set` writes it anew.

mod draft;
mod loops;
mod productive;
mod repairs;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use draft::{Draft, Rng};
use loop_core::canonical;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const OF_A_KIND: usize = 12;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/loops.jsonl")
}

/// Half by half, whatever the kind.
fn split(id: &str) -> &'static str {
    if Sha256::digest(id.as_bytes())[0].is_multiple_of(2) { "dev" } else { "held_out" }
}

fn made() -> Vec<Value> {
    let kinds = productive::KINDS.iter().map(|kind| ("productive", kind, OF_A_KIND));
    let repairs = repairs::KINDS.iter().map(|kind| ("productive", kind, repairs::OF_A_KIND));
    let kinds = kinds.chain(repairs);
    let kinds = kinds.chain(loops::KINDS.iter().map(|kind| ("loop", kind, OF_A_KIND)));
    let mut lines = Vec::new();
    for (label, (kind, make), times) in kinds {
        for n in 0..times {
            let id = format!("{kind}-{n:02}");
            let mut draft = Draft::default();
            make(&mut Rng::of(&id), &mut draft);
            let mut line = json!({
                "id": id,
                "source": "loopgate-set",
                "licence": "MIT OR Apache-2.0",
                "model": "none",
                "task": format!("{label}:{kind}"),
                "prompt": "",
                "success": null,
                "label": label,
                "kind": kind,
                "split": split(&id),
                "effects": draft.effects,
                "steps": draft.steps,
            });
            if let Some(at) = draft.loop_from {
                line["loop_from"] = json!(at);
            }
            lines.push(line);
        }
    }
    lines
}

fn stored() -> Vec<Value> {
    let text = std::fs::read_to_string(file()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_committed_set_is_the_one_that_is_made() {
    let text: String = made().iter().map(|line| format!("{}\n", canonical(line))).collect();
    if std::env::var_os("UPDATE_SET").is_some() {
        std::fs::write(file(), &text).unwrap();
    }
    let stored = std::fs::read_to_string(file()).unwrap();
    assert!(stored == text, "data/loops.jsonl is not what is made here: UPDATE_SET=1 writes it anew");
}

#[test]
fn every_label_follows_the_rules() {
    let mut wrong = Vec::new();
    for line in made() {
        let effects: BTreeMap<String, String> = serde_json::from_value(line["effects"].clone()).unwrap();
        let found = rules::first_in_loop(line["steps"].as_array().unwrap(), &effects);
        let stated = line.get("loop_from").map(|at| at.as_u64().unwrap() as usize);
        assert_eq!(stated.is_some(), line["label"] == "loop");
        if found != stated {
            wrong.push(format!("{}: said {stated:?}, by the rules {found:?}", line["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_enough_of_each_label_and_split() {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let mut bodies = BTreeSet::new();
    for line in stored() {
        let of = |key: &str| line[key].as_str().unwrap().to_owned();
        assert_eq!(of("split"), split(&of("id")));
        *counts.entry((of("label"), of("split"))).or_default() += 1;
        kinds.entry(of("kind")).or_default().insert(of("split"));
        assert!(ids.insert(of("id")), "{} twice", of("id"));
        assert!(bodies.insert(line["steps"].to_string()), "{} is the same as another run", of("id"));
    }
    assert!(counts.len() == 4 && counts.values().all(|count| *count >= 100), "{counts:?}");
    for label in ["loop", "productive"] {
        let all: usize = counts.iter().filter(|(key, _)| key.0 == label).map(|(_, count)| count).sum();
        assert!(all >= 240, "{all} of {label}");
    }
    assert!(kinds.values().all(|splits| splits.len() == 2), "a kind is in one half only: {kinds:?}");
    let page = std::fs::read_to_string(
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/guard-scores.md"),
    )
    .unwrap();
    assert!(kinds.keys().all(|kind| page.contains(&format!("`{kind}`"))));
}
