//! A journal that was changed: it is refused, or what it says follows from itself. I-11, I-12, K16.

use std::sync::{Arc, OnceLock};

use loop_core::{Run, RunId};
use loop_runtime::journal::{Entry, Recorded, replay};

use crate::drive::{Driven, document};

/// The bytes are the entries behind the first one, as JSON, a line each.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let parsed: Vec<Entry> = lines.map_while(|line| serde_json::from_str(line).ok()).collect();
    for entry in &parsed {
        let written = serde_json::to_string(entry).unwrap();
        assert_eq!(
            &serde_json::from_str::<Entry>(&written).unwrap(),
            entry,
            "what is read is written the same"
        );
    }
    let driven = begun();
    let (first, notes) = &driven.journal[0];
    let head = Entry { seq: 0, event: first.clone(), notes: notes.clone() };
    let mut recorded = Recorded {
        spec: Arc::clone(driven.run.spec()),
        manifest: "[]".into(),
        origin: None,
        entries: [vec![head], parsed].concat(),
        unverified: None,
        imported: false,
        since_last_ms: None,
    };
    let run = RunId::new("r1");
    // Every prefix of what is accepted is accepted, and the next entry follows from it.
    let mut before: Option<Run> = None;
    let entries = std::mem::take(&mut recorded.entries);
    for (at, entry) in entries.into_iter().enumerate() {
        recorded.entries.push(entry.clone());
        let Ok(state) = replay(&run, &recorded) else { return };
        if let Some(before) = &mut before {
            assert_eq!(entry.seq, u64::try_from(at).unwrap(), "a gap was accepted");
            assert_eq!(before.apply(&entry.event).unwrap(), entry.notes, "other decisions were accepted");
            assert_eq!(*before, state);
        }
        before = Some(state);
    }
}

fn begun() -> &'static Driven {
    static BEGUN: OnceLock<Driven> = OnceLock::new();
    BEGUN.get_or_init(|| Driven::start(document()))
}

/// The lines of a run that is whole, for a corpus.
#[cfg(test)]
pub(crate) fn sample() -> String {
    let mut driven = Driven::start(document());
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_corpus_has_a_whole_run() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/journal/whole");
        if std::env::var_os("UPDATE_CORPUS").is_some() {
            std::fs::write(&path, sample()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), sample(), "UPDATE_CORPUS=1 writes it");
    }
}
