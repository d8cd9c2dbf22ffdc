//! The observer that receives the events of a runner's runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::Run;
use loop_core::run::RunTool;
use loop_core::types::{Millis, RunId};
use loop_runtime::journal::Entry;
use loop_runtime::observe::{Observer, RunEvent};

use crate::shared::OtelState;
use crate::spans::RunSpans;

/// The observer of a runner.
#[derive(Debug)]
pub(crate) struct Listener(pub(crate) Arc<OtelState>);

impl Observer for Listener {
    fn observe(&self, run: &RunId, event: &RunEvent) {
        if matches!(event, RunEvent::Text { .. } | RunEvent::Part { .. }) {
            return;
        }
        let shared = &*self.0;
        let mut runs = shared.runs();
        let Some(spans) = runs.get_mut(run) else { return };
        match event {
            RunEvent::Recorded(entry) => spans.hear(entry, shared),
            RunEvent::Call { key, attempt, news } => spans.news(*key, *attempt, news),
            RunEvent::Lost { entries, .. } => spans.missed(*entries),
            RunEvent::Text { .. } | RunEvent::Part { .. } => {}
        }
        if spans.is_settled() {
            self.end(run, &mut runs);
        }
    }

    fn drives(&self, run: &Run, earlier: &[Entry]) {
        if self.0.runs().get_mut(run.id()).is_some_and(|spans| spans.continues(earlier)) {
            return;
        }
        let spans = RunSpans::new(run, earlier, &self.0.config.sampler, &self.0);
        let mut runs = self.0.runs();
        if runs.len() >= MAX_RUNS {
            runs.pop_first();
        }
        runs.insert(run.id().clone(), spans);
    }

    fn dispatches(&self, run: &RunId, call: &RunTool, key: &Arc<str>, at: Millis) {
        if let Some(spans) = self.0.runs().get_mut(run) {
            spans.dispatched(call, key, at);
        }
    }

    fn leaves(&self, run: &RunId, next: u64) {
        let mut runs = self.0.runs();
        let Some(spans) = runs.get_mut(run) else { return };
        spans.leaves(next);
        if spans.is_settled() {
            self.end(run, &mut runs);
        }
    }
}

impl Listener {
    /// Reports the end of a run. It holds the lock meanwhile, so that a flush which no longer sees the run has its last
    /// span.
    fn end(&self, run: &RunId, runs: &mut BTreeMap<RunId, RunSpans>) {
        if let Some(spans) = runs.remove(run) {
            spans.end(&self.0);
        }
        self.0.has_settled.notify_waiters();
    }
}

/// The most runs in progress. Beyond that, the oldest is no longer reported.
const MAX_RUNS: usize = 10_000;
