//! Tells a runner's observers of a run that an engine drives.

use std::sync::Arc;

use loop_core::EventKind;
use loop_core::run::RunTool;
use loop_core::types::{Millis, RunId};
use loop_journal::Entry;

use super::EngineRun;
use super::work::WorkKey;
use crate::drive::parts::RunParts;
use crate::watch::events::{Feed, RunEvent};

/// A tool call that was commanded.
#[derive(Clone, Debug)]
pub(super) struct DispatchedCall {
    pub(super) call: RunTool,
    /// Its idempotency key.
    pub(super) key: Arc<str>,
    pub(super) at: Millis,
}

/// What the observers of a runner receive of one run: the entries that this process has written. An engine repeats a
/// run from its beginning whenever it continues, and nothing of that is reported.
pub(super) struct Observers {
    parts: Arc<RunParts>,
    run: RunId,
    /// One for each observer. Empty: nothing was written yet, or there is no observer.
    feeds: Vec<Feed>,
    /// The number of the entry that is reported next.
    next: u64,
}

impl Observers {
    pub(super) fn new(parts: &Arc<RunParts>, run: &RunId) -> Self {
        Self { parts: Arc::clone(parts), run: run.clone(), feeds: Vec::new(), next: 0 }
    }

    /// Entries that the journal had are passed over: calls that ended in them are not reported.
    pub(super) fn pass_over(&self, run: &mut EngineRun, entry: &Entry) {
        if let EventKind::ToolFinished { key, attempt, .. } = &entry.event.kind {
            run.dispatched.remove(&WorkKey { key: *key, attempt: *attempt });
        }
    }

    /// Entries were written, and the journal had the `earlier` ones.
    pub(super) fn hear(&mut self, run: &mut EngineRun, earlier: &[Entry], new: &[Arc<Entry>]) {
        let watchers = &self.parts.watchers;
        if self.feeds.is_empty() {
            for watcher in watchers {
                watcher.tell(|observer| observer.drives(run.state(), earlier));
            }
            self.feeds = watchers.iter().map(|watcher| watcher.feed(&self.run)).collect();
        }
        for DispatchedCall { call, key, at } in std::mem::take(&mut run.dispatched).into_values() {
            for watcher in watchers {
                watcher.tell(|observer| observer.dispatches(&self.run, &call, &key, at));
            }
        }
        for entry in new {
            self.next = entry.seq + 1;
            for feed in &self.feeds {
                feed.tell(RunEvent::Recorded(Arc::clone(entry)));
            }
        }
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        if self.feeds.is_empty() {
            return;
        }
        for watcher in &self.parts.watchers {
            watcher.tell(|observer| observer.leaves(&self.run, self.next));
        }
    }
}
