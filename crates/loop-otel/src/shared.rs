//! State that the observers of runs and the timed models share.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use loop_core::types::RunId;
use tokio::sync::Notify;

use crate::config::TelemetryConfig;
use crate::model::{CallName, CallTiming};
use crate::send::Sender;
use crate::spans::RunSpans;

/// State that the observers of runs and the timed models share.
#[derive(Debug)]
pub(crate) struct OtelState {
    pub(crate) config: TelemetryConfig,
    pub(crate) sender: Sender,
    runs: Mutex<BTreeMap<RunId, RunSpans>>,
    timings: Mutex<BTreeMap<CallName, CallTiming>>,
    /// Notified when a run is reported completely.
    pub(crate) has_settled: Notify,
}

impl OtelState {
    pub(crate) fn new(config: TelemetryConfig, sender: Sender) -> Self {
        let (runs, timings) = (Mutex::default(), Mutex::default());
        Self { config, sender, runs, timings, has_settled: Notify::new() }
    }

    pub(crate) fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, RunSpans>> {
        lock(&self.runs)
    }

    /// Stores the timing of a call until the call is journaled.
    pub(crate) fn keep_timing(&self, name: CallName, timing: CallTiming) {
        let mut timings = lock(&self.timings);
        if timings.len() >= MAX_TIMINGS {
            timings.pop_first();
        }
        timings.insert(name, timing);
    }

    pub(crate) fn take_timing(&self, name: &CallName) -> Option<CallTiming> {
        lock(&self.timings).remove(name)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most calls that have ended and are not journaled yet.
const MAX_TIMINGS: usize = 4_096;
