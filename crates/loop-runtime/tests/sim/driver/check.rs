//! What holds of a journal and an outcome once a run has ended.

use std::sync::Arc;

use loop_core::invariants::{Checker, Transition};
use loop_core::types::RunId;
use loop_core::{Outcome, Run};
use loop_runtime::journal::{Entry, Recorded, replay};
use loop_testkit::sim::SimFault;

/// I-11, I-13: what was acknowledged is in the journal, in order; its replay is the run; every invariant holds on it.
pub(crate) fn journal(
    run: &RunId,
    recorded: &Recorded,
    acknowledged: &[Arc<Entry>],
    outcome: &Outcome,
) -> Result<(), SimFault> {
    let fault = |check: &'static str, what: String| Err(SimFault { check, what });
    let lost = acknowledged.iter().zip(&recorded.entries).find(|(known, entry)| ***known != **entry);
    if let Some((known, _)) = lost {
        return fault(
            "I-13 what was acknowledged is in the journal",
            format!("entry {} is another", known.seq),
        );
    }
    if acknowledged.len() > recorded.entries.len() {
        let what =
            format!("{} entries were acknowledged, {} are there", acknowledged.len(), recorded.entries.len());
        return fault("I-13 what was acknowledged is in the journal", what);
    }
    let replayed = match replay(run, recorded) {
        Ok(replayed) => replayed,
        Err(error) => return fault("I-11 a replay gives the same run", error.to_string()),
    };
    if replayed.outcome() != Some(outcome) {
        return fault("I-11 a replay gives the same outcome", format!("{:?}", replayed.phase().name()));
    }
    let Some(first) = recorded.entries.first() else { return Ok(()) };
    let (mut run, notes) = match Run::open(&first.event, Arc::clone(&recorded.spec)) {
        Ok(opened) => opened,
        Err(error) => return fault("I-11 a journal opens", error.to_string()),
    };
    let (mut checker, mut found) = Checker::start(&run, &notes);
    for entry in &recorded.entries[1..] {
        let before = run.clone();
        let notes = match run.apply(&entry.event) {
            Ok(notes) => notes,
            Err(error) => return fault("I-11 an entry follows", error.to_string()),
        };
        found.extend(checker.step(&Transition {
            before: &before,
            event: &entry.event,
            notes: &notes,
            after: &run,
        }));
        if let Some(violation) = found.first() {
            return fault(violation.name, violation.to_string());
        }
    }
    Ok(())
}
