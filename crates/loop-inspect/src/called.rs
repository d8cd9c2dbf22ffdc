//! The tree of called runs: the runs that a run called as tools, and the runs that those called.

use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::journal::{Journal as _, JournalError, Recorded, StoredJournal};

/// A run that another run called as a tool, with its entries.
#[derive(Clone, Debug)]
pub struct CalledRun {
    /// The run.
    pub run: RunId,
    /// Its entries.
    pub recorded: Recorded,
}

/// The runs below a run, depth first: each comes after the run that called it. A run that cannot be read is left out,
/// since an audit reports it.
///
/// # Errors
/// If the journal cannot be read at all.
pub async fn called_runs(
    journal: &StoredJournal,
    recorded: &Recorded,
) -> Result<Vec<CalledRun>, JournalError> {
    let (mut called, mut next) = (Vec::<CalledRun>::new(), ids(recorded));
    next.reverse();
    while let Some(run) = next.pop() {
        if called.iter().any(|known| known.run == run) {
            continue;
        }
        let recorded = match journal.read(&run).await {
            Ok(recorded) => recorded,
            Err(error @ JournalError::Storage { .. }) => return Err(error),
            Err(_) => continue,
        };
        next.extend(ids(&recorded).into_iter().rev());
        called.push(CalledRun { run, recorded });
    }
    Ok(called)
}

/// The runs that a run called, in the order in which they ended or began to wait.
fn ids(recorded: &Recorded) -> Vec<RunId> {
    let id = |kind: &EventKind| match kind {
        EventKind::ToolFinished { observation, .. } => observation.child.as_ref()?.run.clone(),
        EventKind::RunWaits { used, .. } => used.run.clone(),
        _ => None,
    };
    recorded.entries.iter().filter_map(|entry| id(&entry.event.kind)).collect()
}
