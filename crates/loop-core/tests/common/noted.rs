//! What notes say of a run, read from its evidence alone: independent of the ledger.

use loop_core::repeats::RepeatNote;
use loop_core::spec::Repeats;
use loop_core::types::Status;
use loop_core::{Evidence, Run};

/// Every note of the run is true, and no policy without notes has one.
pub fn notes_are_true(run: &Run) {
    let has_notes = !matches!(run.spec().repeats(), Repeats::ThreeTier | Repeats::Off);
    for (at, evidence) in run.evidence().iter().enumerate() {
        let Some(note) = run.repeat_note(evidence.id) else { continue };
        assert!(has_notes, "{note:?} under {:?}", run.spec().repeats());
        let before = &run.evidence()[..=at];
        match note {
            RepeatNote::Failures { times, same, .. } => {
                // Back to the last success of the tool: at least so many failures of it.
                let is_it = |it: &&Evidence| it.tool == evidence.tool;
                let row =
                    before.iter().rev().filter(is_it).take_while(|it| !it.observation.status.is_citable());
                assert!(times as usize <= row.count() && same <= times, "{note:?} of {}", evidence.id);
                assert_ne!(evidence.observation.status, Status::Pending);
            }
            RepeatNote::SameResult { times, .. } | RepeatNote::SameSearch { times } => {
                let digest = evidence.observation.digest;
                let same =
                    before.iter().filter(|it| it.tool == evidence.tool && it.observation.digest == digest);
                assert!(
                    evidence.observation.status.is_citable() && times as usize <= same.count(),
                    "{note:?}"
                );
            }
            RepeatNote::Cycle { length, times } => {
                assert!((length * times) as usize <= before.len(), "{note:?}");
            }
        }
    }
}
