//! The queue of a signal: how many items wait to be sent, and how many were dropped.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::shared::lock;

/// Reports failures to the operator, each kind once per process.
pub(crate) struct Reports {
    report: Box<dyn Fn(&str) + Send + Sync>,
    kinds: Mutex<BTreeSet<&'static str>>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

impl Reports {
    pub(crate) fn new(report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { report: Box::new(report), kinds: Mutex::default() }
    }

    pub(crate) fn line(&self, line: &str) {
        (self.report)(&format!("telemetry: {line}"));
    }

    pub(crate) fn once(&self, kind: &'static str, line: &str) {
        if lock(&self.kinds).insert(kind) {
            self.line(line);
        }
    }
}

/// The items of one signal that wait, in order of arrival.
#[derive(Debug)]
pub(crate) struct Queue {
    max_items: usize,
    reports: Arc<Reports>,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The bytes of each item, including those that are being sent.
    sizes: VecDeque<usize>,
    bytes: usize,
    dropped: u64,
}

impl Queue {
    pub(crate) fn new(max_items: usize, reports: &Arc<Reports>) -> Self {
        Self { max_items, reports: Arc::clone(reports), state: Mutex::default() }
    }

    /// Whether an item of this size fits. If not, it is counted as dropped.
    pub(crate) fn admits(&self, size: usize) -> bool {
        let mut state = lock(&self.state);
        if state.sizes.len() >= self.max_items || state.bytes + size > MAX_QUEUE_BYTES {
            self.drops(state, 1);
            return false;
        }
        state.sizes.push_back(size);
        state.bytes += size;
        true
    }

    /// Removes the first items, which were accepted or are dropped.
    pub(crate) fn settles(&self, items: usize, are_accepted: bool) {
        let mut state = lock(&self.state);
        let settled = items.min(state.sizes.len());
        let bytes: usize = state.sizes.drain(..settled).sum();
        state.bytes -= bytes;
        if !are_accepted {
            self.drops(state, items as u64);
        }
    }

    fn drops(&self, mut state: MutexGuard<'_, QueueState>, items: u64) {
        state.dropped += items;
        drop(state);
        let line = "spans or log records are dropped, because the receiver does not accept them, or not as fast as they come";
        self.reports.once("dropped", line);
    }

    /// How many items wait, and how many were dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.sizes.len() as u64, state.dropped)
    }
}

/// The most bytes of one signal that wait.
const MAX_QUEUE_BYTES: usize = 16 << 20;
