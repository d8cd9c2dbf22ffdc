//! Replays a journal and checks that every decision is the recorded one.

use loop_core::Run;
use loop_runtime::journal::{Entry, Recorded};

/// Where a replay differs from the journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The journal has no entry.
    #[error("nothing was written down")]
    Empty,
    /// A stored value changes when it is deserialised and serialised again.
    #[error("entry {seq} does not come back from storage as it was: {message}")]
    Stored {
        /// The entry's sequence number.
        seq: u64,
        /// The difference.
        message: String,
    },
    /// An event does not follow from the ones before it.
    #[error("entry {seq} does not follow from the ones before it: {message}")]
    Rejected {
        /// The entry's sequence number.
        seq: u64,
        /// What is wrong.
        message: String,
    },
    /// The same event led to other decisions.
    #[error("entry {seq} was decided otherwise: {was} was written down, {now} comes out now")]
    Differs {
        /// The entry's sequence number.
        seq: u64,
        /// The recorded decision.
        was: String,
        /// The decision of the replay.
        now: String,
    },
}

/// Replays a run, entry by entry and through its serialised form, and returns its final state.
///
/// # Errors
/// The first entry that differs.
pub fn verify(recorded: &Recorded) -> Result<Run, VerifyError> {
    let mut state: Option<Run> = None;
    for entry in &recorded.entries {
        let stored = |message: String| VerifyError::Stored { seq: entry.seq, message };
        let text = serde_json::to_string(entry).map_err(|error| stored(error.to_string()))?;
        let read: Entry = serde_json::from_str(&text).map_err(|error| stored(error.to_string()))?;
        if read != *entry {
            return Err(stored("it reads otherwise".to_owned()));
        }
        let rejected =
            |error: loop_core::Rejected| VerifyError::Rejected { seq: entry.seq, message: error.to_string() };
        let notes = match &mut state {
            None => {
                let (run, notes) = Run::open(&read.event, recorded.spec.clone()).map_err(rejected)?;
                state = Some(run);
                notes
            }
            Some(run) => run.apply(&read.event).map_err(rejected)?,
        };
        if notes != entry.notes {
            let shown = |notes| serde_json::to_string(notes).unwrap_or_default();
            return Err(VerifyError::Differs {
                seq: entry.seq,
                was: shown(&entry.notes),
                now: shown(&notes),
            });
        }
    }
    state.ok_or(VerifyError::Empty)
}
