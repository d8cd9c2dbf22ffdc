//! A journal that was changed: it is refused, or what it says follows from itself. I-11, I-12, K16.

use std::sync::{Arc, OnceLock};

use loop_core::Run;
use loop_core::types::RunId;
use loop_runtime::journal::{Entry, Recorded, replay};
use loop_testkit::fuzz::{FuzzRun, document};

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

fn begun() -> &'static FuzzRun {
    static BEGUN: OnceLock<FuzzRun> = OnceLock::new();
    BEGUN.get_or_init(|| FuzzRun::start(document()))
}
