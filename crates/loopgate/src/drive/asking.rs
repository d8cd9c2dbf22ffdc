//! The pending requests of a run and of the runs that it called, and the answers of the person at this terminal.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::{EventKind, Run};
use loop_runtime::journal::{Journal as _, StoredJournal, replay};
use loop_runtime::run::RunId;

use super::ask::{answered, ask};
use crate::context::Signals;
use crate::output::{Failure, stream, typed};
use crate::shown::people;

/// A run with pending requests, and the manifest of its tools.
pub(crate) struct AskingRun {
    pub(crate) state: Run,
    pub(crate) manifest: Arc<str>,
}

/// What people said to runs.
pub(crate) type PersonEvents = BTreeMap<RunId, Vec<EventKind>>;

/// The runs with pending requests: this one first, then those that it called. Empty: there are none.
pub(crate) async fn asking(journal: &StoredJournal, run: &RunId) -> Result<Vec<AskingRun>, Failure> {
    let (mut runs, mut asking) = (vec![run.clone()], Vec::new());
    while let Some(run) = runs.pop() {
        let recorded = journal.read(&run).await?;
        let state = replay(&run, &recorded)?;
        runs.extend(state.waits_below().cloned());
        if !state.requested().is_empty() {
            asking.push(AskingRun { state, manifest: recorded.manifest });
        }
    }
    Ok(asking)
}

/// Asks the person at this terminal about each request. `None`: they leave it for later.
pub(crate) async fn ask_all(
    lines: &mut typed::Lines,
    signals: &mut Signals,
    asking: &[AskingRun],
) -> Option<PersonEvents> {
    let mut stated = PersonEvents::new();
    let asked = asking.iter().flat_map(|it| it.state.requested().into_iter().map(move |asks| (it, asks)));
    for (AskingRun { state, manifest }, requested) in asked {
        let details = people::details(state, manifest, &requested);
        let answer = tokio::select! {
            biased;
            _ = signals.next() => {
                stream::note("");
                return None;
            }
            answer = ask(lines, &requested, &details) => answer?,
        };
        let of_run = stated.entry(requested.run).or_default();
        of_run.push(answered(requested.key, answer, Some(requested.binding)));
    }
    Some(stated)
}
