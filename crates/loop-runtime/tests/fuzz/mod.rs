//! Fuzz targets of journals and prompts, on their committed inputs and mutations of them.

mod journal;
mod sanitiser;

use loop_runtime::journal::Entry;
use loop_testkit::fuzz::{FuzzRun, check, document, folder};

#[test]
fn what_replays_follows_from_itself() {
    check("journal", journal::target);
}

#[test]
fn no_text_closes_its_own_fence() {
    check("sanitiser", sanitiser::target);
}

#[test]
fn the_inputs_of_the_journal_have_a_whole_run() {
    let path = folder("journal").join("whole");
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::write(&path, sample()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), sample(), "UPDATE_CORPUS=1 writes it");
}

/// The lines of a run that is whole.
fn sample() -> String {
    let mut driven = FuzzRun::start(document());
    let contract = |confidence: &str, actions: &str| {
        format!(
            "## 🔍 Situation\n\nIt is so [E1].\n\n```json\n{{\"nonce\": \"n0nce\", \"analysis_confidence\": \"{confidence}\", \"ai_actions\": {actions}}}\n```\n"
        )
    };
    let ask = r#"[{"action_id": "a", "action_type": "look", "parameters": {"target": "x"}, "priority": "required"}]"#;
    assert!(driven.replied(&contract("low", ask)));
    assert!(driven.replied(&contract("high", "[]")));
    let entries = (1..).zip(&driven.journal[1..]).map(|(seq, (event, notes))| {
        serde_json::to_string(&Entry { seq, event: event.clone(), notes: notes.clone() }).unwrap()
    });
    entries.map(|line| line + "\n").collect()
}
