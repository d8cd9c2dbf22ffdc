//! Observers: they receive what happens in a runner's runs, on threads of their own.
//!
//! Nothing of what an observer does reaches a run. One that is slow misses events and receives how many it missed, one
//! that panics is called again with the next event, one that never returns keeps its own thread and nothing else.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loop_core::Run;
use loop_core::run::RunTool;
use loop_core::types::{Millis, RunId};
use loop_journal::Entry;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::watch::events::{Feed, Load, MAX_TEXT_BYTES, QueuedEvent, RunEvent};
use crate::watch::steps::{Progress, Step};

/// Receives what happens in a runner's runs. A closure over the run's name and the event is one.
pub trait Observer: Send + Sync {
    /// Receives one event. The events of one run come in order; those of runs in parallel may mix. It is never called
    /// twice at the same time, and it may block.
    fn observe(&self, _run: &RunId, _event: &RunEvent) {}

    /// A driver begins to drive a run that is in this state. `earlier` are the entries that other drivers journaled;
    /// none of them is reported. It is called on the task that begins the run, before the first event, and must not
    /// block.
    ///
    /// An [engine](crate::engine) repeats a run from its beginning whenever it continues: there this is called when the
    /// process has written its first entry, with the state after it, and again in each process that writes some.
    fn drives(&self, _run: &Run, _earlier: &[Entry]) {}

    /// A tool is dispatched at this instant of the run, with this idempotency key. It is called on the run's task and
    /// must not block. For a run on an [engine](crate::engine), it is called in each process that continues the run,
    /// with the calls that are in flight.
    fn dispatches(&self, _run: &RunId, _call: &RunTool, _key: &Arc<str>, _at: Millis) {}

    /// A driver leaves a run, because it is over or waits for a person, and has journaled entries up to this sequence
    /// number, which is the next one. It is called on the run's task and must not block; the last events may still be
    /// waiting for the observer.
    fn leaves(&self, _run: &RunId, _next: u64) {}

    /// Whether this observer is called in place, with [`step`](Self::step) alone, and has no thread.
    fn is_in_place(&self) -> bool {
        false
    }

    /// A step of a run. It is called on the run's own task, in the order in which observers were added, and should
    /// return soon. An error and a panic are collected with the outcome, and nothing of it reaches the run.
    ///
    /// # Errors
    /// What went wrong in the observer.
    fn step(&self, _at: &Progress, _step: Step<'_>) -> Result<(), String> {
        Ok(())
    }
}

impl<F: Fn(&RunId, &RunEvent) + Send + Sync> Observer for F {
    fn observe(&self, run: &RunId, event: &RunEvent) {
        self(run, event);
    }
}

/// What one observer of a runner received so far, over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// How many times it was called, with calls that panicked and the calls at a run's end that report missed events.
    pub received: u64,
    /// How many events it missed, because it was too slow.
    pub lost: u64,
    /// How many of its calls panicked.
    pub panics: u64,
}

/// An observer with its thread and its queue. The thread ends when the loop and its runs are gone.
pub(crate) struct Watcher {
    observer: Arc<dyn Observer>,
    sender: UnboundedSender<QueuedEvent>,
    load: Arc<Load>,
    progress: Arc<DeliveryCounts>,
}

#[derive(Default)]
struct DeliveryCounts {
    received: AtomicU64,
    panics: AtomicU64,
    went_on: Notify,
}

impl Watcher {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        let (sender, receiver) = unbounded_channel();
        let (load, progress) = (Arc::new(Load::new(MAX_TEXT_BYTES)), Arc::<DeliveryCounts>::default());
        let (own_load, own_progress) = (Arc::clone(&load), Arc::clone(&progress));
        let listener = Arc::clone(&observer);
        // A thread rather than a task: the end of a runtime waits for its blocking tasks, but not for this.
        let thread = std::thread::Builder::new().name("loop-observer".to_owned());
        let spawned = thread.spawn(move || listen(listener.as_ref(), receiver, &own_load, &own_progress));
        if let Err(error) = spawned {
            panic!("no thread for an observer: {error}");
        }
        Self { observer, sender, load, progress }
    }

    pub(crate) fn feed(&self, run: &RunId) -> Feed {
        Feed::new(Some(run.clone()), self.sender.clone(), Arc::clone(&self.load))
    }

    /// Tells the observer something on the run's own task. A panic is counted and changes nothing.
    pub(crate) fn tell(&self, call: impl FnOnce(&dyn Observer)) {
        if std::panic::catch_unwind(AssertUnwindSafe(|| call(self.observer.as_ref()))).is_err() {
            self.progress.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn observed(&self) -> Observed {
        Observed {
            received: self.progress.received.load(Ordering::Acquire),
            lost: self.load.lost.load(Ordering::Relaxed),
            panics: self.progress.panics.load(Ordering::Relaxed),
        }
    }

    /// Waits until everything that was queued before is heard.
    pub(crate) async fn caught_up(&self) {
        let reported = self.load.reported.load(Ordering::Relaxed);
        loop {
            let went_on = self.progress.went_on.notified();
            if self.progress.received.load(Ordering::Acquire) >= reported {
                return;
            }
            went_on.await;
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.observed().fmt(f)
    }
}

fn listen(
    observer: &dyn Observer,
    mut receiver: UnboundedReceiver<QueuedEvent>,
    load: &Load,
    progress: &DeliveryCounts,
) {
    let hear = |run: &RunId, event: &RunEvent| {
        if std::panic::catch_unwind(AssertUnwindSafe(|| observer.observe(run, event))).is_err() {
            progress.panics.fetch_add(1, Ordering::Relaxed);
        }
    };
    while let Some(queued) = receiver.blocking_recv() {
        let QueuedEvent { run, lost, event } = queued;
        load.taken(&event);
        if let Some(run) = run {
            if let Some(lost) = lost {
                hear(&run, &lost);
            }
            hear(&run, &event);
        }
        progress.received.fetch_add(1, Ordering::Release);
        progress.went_on.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::watch::events::MAX_EVENTS;
    use loop_core::{Event, EventKind};

    fn entry(seq: u64) -> RunEvent {
        let event = Event { at: Millis(seq), kind: EventKind::DeadlineReached };
        RunEvent::Recorded(Arc::new(Entry { seq, event, notes: Vec::new() }))
    }

    #[tokio::test]
    async fn what_was_left_out_at_a_runs_end_is_told_behind_all_else_of_it() {
        // U8
        let (release, blocked) = channel::<()>();
        let blocked = Mutex::new(blocked);
        let (sender, received) = channel();
        let watcher = Watcher::new(Arc::new(move |run: &RunId, event: &RunEvent| {
            blocked.lock().unwrap().recv().ok();
            sender.send((run.clone(), event.clone())).unwrap();
        }));
        let (first, second) = (watcher.feed(&RunId::new("a")), watcher.feed(&RunId::new("b")));
        for seq in 0..MAX_EVENTS as u64 + 7 {
            first.tell(entry(seq));
        }
        second.tell(entry(0));
        // The queue is full, and both runs end.
        drop((first.clone(), first, second));
        drop(release);
        watcher.caught_up().await;
        let received: Vec<_> = received.try_iter().collect();
        let reported: Vec<_> = received
            .iter()
            .enumerate()
            .filter_map(|(n, (run, event))| match event {
                RunEvent::Lost { texts: 0, entries } => Some((n, run.as_str(), *entries)),
                _ => None,
            })
            .collect();
        let entries = received.len() - 2;
        // The one that the observer was busy with made room for another.
        assert!((MAX_EVENTS..=MAX_EVENTS + 1).contains(&entries), "{entries}");
        let missed = (MAX_EVENTS + 8 - entries) as u64;
        assert_eq!(reported, [(entries, "a", missed - 1), (entries + 1, "b", 1)]);
        assert_eq!(watcher.observed(), Observed { received: received.len() as u64, lost: missed, panics: 0 });
    }
}
