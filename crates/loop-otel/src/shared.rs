//! What the listeners of runs, the models and the exporter share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loop_core::RunId;
use tokio::sync::Notify;

use crate::config::TelemetryConfig;
use crate::data::{Record, Span};
use crate::meter::Meter;
use crate::model::{CallName, CallTiming};
use crate::spans::RunSpans;

/// The two signals whose items wait to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
}

/// What the listeners of runs, the models and the exporter share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: TelemetryConfig,
    pub(crate) meter: Meter,
    pub(crate) runs: Mutex<BTreeMap<RunId, RunSpans>>,
    timings: Mutex<BTreeMap<CallName, CallTiming>>,
    spans: Mutex<Queue>,
    records: Mutex<Queue>,
    /// Notified when as much waits as is sent together.
    pub(crate) is_full: Notify,
    /// Notified when a run was told of to its end.
    pub(crate) has_settled: Notify,
}

/// Encoded items that wait to be sent.
#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Vec<u8>>,
    bytes: usize,
    /// How many are taken, and neither accepted nor given up.
    taken: u64,
    dropped: u64,
}

impl Shared {
    pub(crate) fn new(config: TelemetryConfig) -> Self {
        Self {
            config,
            meter: Meter::new(),
            runs: Mutex::default(),
            timings: Mutex::default(),
            spans: Mutex::default(),
            records: Mutex::default(),
            is_full: Notify::new(),
            has_settled: Notify::new(),
        }
    }

    pub(crate) fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, RunSpans>> {
        lock(&self.runs)
    }

    /// Queues a span, or drops it and counts it. Never waits.
    pub(crate) fn send_span(&self, span: &Span) {
        if self.config.traces.is_some() {
            self.push(Signal::Traces, span.encoded(self.config.longest_text));
        }
    }

    /// Queues a log record, or drops it and counts it. Never waits.
    pub(crate) fn send_record(&self, record: &Record) {
        if self.config.logs.is_some() {
            self.push(Signal::Logs, record.encoded(self.config.longest_text));
        }
    }

    fn push(&self, signal: Signal, item: Vec<u8>) {
        let mut queue = self.queue(signal);
        if queue.items.len() >= self.config.max_queue || queue.bytes + item.len() > MAX_QUEUE_BYTES {
            queue.dropped += 1;
            return;
        }
        queue.bytes += item.len();
        queue.items.push_back(item);
        if queue.items.len() >= self.config.max_batch {
            self.is_full.notify_one();
        }
    }

    /// The items that are sent next, oldest first.
    pub(crate) fn take(&self, signal: Signal) -> Vec<Vec<u8>> {
        let mut queue = self.queue(signal);
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < self.config.max_batch {
            let Some(next) = queue.items.front() else { break };
            bytes += next.len();
            if bytes > MAX_REQUEST_BYTES && !batch.is_empty() {
                break;
            }
            batch.extend(queue.items.pop_front());
        }
        queue.bytes = queue.bytes.saturating_sub(batch.iter().map(Vec::len).sum());
        queue.taken += batch.len() as u64;
        batch
    }

    /// How many items wait, and how many were dropped.
    pub(crate) fn counts(&self, signal: Signal) -> (u64, u64) {
        let queue = self.queue(signal);
        (queue.items.len() as u64 + queue.taken, queue.dropped)
    }

    /// Items that were taken were accepted.
    pub(crate) fn accepted(&self, signal: Signal, items: u64) {
        let mut queue = self.queue(signal);
        queue.taken = queue.taken.saturating_sub(items);
    }

    /// Counts items that were taken and are given up.
    pub(crate) fn give_up(&self, signal: Signal, items: u64) {
        self.accepted(signal, items);
        self.queue(signal).dropped += items;
    }

    fn queue(&self, signal: Signal) -> MutexGuard<'_, Queue> {
        lock(match signal {
            Signal::Traces => &self.spans,
            Signal::Logs => &self.records,
        })
    }

    /// Keeps what a client knows of a call until the call is journaled.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most bytes that wait of one signal.
const MAX_QUEUE_BYTES: usize = 16 << 20;
/// The most bytes of one request, unless one item has more.
const MAX_REQUEST_BYTES: usize = 3 << 20;
/// The most calls whose end was heard of and that are not journaled yet.
const MAX_TIMINGS: usize = 4_096;
