//! The in-memory state of a run that has not ended.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use loop_core::EventKind;
use loop_core::run::StopMode;
use loop_core::types::RunId;
use loop_runtime::journal::queue::Submission;
use loop_runtime::run::Remote;
use tokio::sync::{broadcast, watch};

/// The phase of a run in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// It has not begun.
    Queued,
    /// It is driven, or it is about to be.
    Running,
    /// It waits for a person. No task and no permit is held for it.
    Waiting {
        /// When the deadline of the answer is, in milliseconds since 1970 (UTC).
        until_unix_ms: u64,
    },
    /// It cannot continue until the operator has done something.
    Interrupted,
    /// It is left to another version of the program.
    OtherVersion,
    /// It has ended.
    Ended,
}

/// A chunk of a streamed reply. It is not journaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyPiece {
    /// The call's key.
    pub call: Arc<str>,
    /// The attempt, from 1. The text starts over with each attempt.
    pub attempt: u32,
    /// The next chunk of the text.
    pub text: Arc<str>,
}

/// The state that readers watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    phase: RunPhase,
    entries: u64,
}

/// What is known of a run since its submission.
#[derive(Debug)]
pub(super) struct SubmittedRun {
    pub(super) run: RunId,
    pub(super) domain: Arc<str>,
    /// Who submitted it. Empty: it was not submitted to this server.
    pub(super) caller: Arc<str>,
    pub(super) priority: i32,
    /// When it was accepted.
    pub(super) unix_ms: u64,
    pub(super) item: Arc<str>,
    pub(super) title: Arc<str>,
    pub(super) tags: Vec<String>,
    /// Its position in the order of arrival.
    pub(super) nth: i64,
}

impl SubmittedRun {
    /// From a row of the queue and the run's start: the item's id and title, and its tags.
    pub(super) fn of(row: &Submission, nth: i64, item: [&Arc<str>; 2], tags: Vec<String>) -> Self {
        let [item, title] = item.map(Arc::clone);
        let (run, domain, caller) = (row.run.clone(), Arc::clone(&row.domain), Arc::clone(&row.caller));
        Self { run, domain, caller, priority: row.priority, unix_ms: row.unix_ms, item, title, tags, nth }
    }
}

#[derive(Debug)]
pub(super) struct RunCell {
    known: SubmittedRun,
    live: watch::Sender<Live>,
    /// Created for the first listener.
    texts: OnceLock<broadcast::Sender<ReplyPiece>>,
    inside: Mutex<CellInner>,
}

impl Deref for RunCell {
    type Target = SubmittedRun;

    fn deref(&self) -> &SubmittedRun {
        &self.known
    }
}

/// The state that is not watched.
#[derive(Debug, Default)]
struct CellInner {
    remote: Option<Remote>,
    stop: Option<StopMode>,
    /// Whether a run that it called received an instruction or answer since its driver began.
    said_below: bool,
    trouble: Option<Arc<str>>,
    /// The ids of the requests from other servers that its driver has received.
    handed_over: BTreeSet<Arc<str>>,
}

impl RunCell {
    pub(super) fn new(known: SubmittedRun, phase: RunPhase, stop: Option<StopMode>) -> Self {
        let live = watch::Sender::new(Live { phase, entries: 0 });
        let inside = Mutex::new(CellInner { stop, ..CellInner::default() });
        Self { known, live, texts: OnceLock::new(), inside }
    }

    pub(super) fn phase(&self) -> RunPhase {
        self.live.borrow().phase
    }

    pub(super) fn entries(&self) -> u64 {
        self.live.borrow().entries
    }

    pub(super) fn is_said_below(&self) -> bool {
        self.with(|inside| inside.said_below)
    }

    pub(super) fn set_said_below(&self, is_said: bool) {
        self.with(|inside| inside.said_below = is_said);
    }

    pub(super) fn set_phase(&self, phase: RunPhase) {
        self.live.send_modify(|live| live.phase = phase);
    }

    /// Sets the phase of a run that is not driven. False: it is driven or has ended, and its phase stays.
    pub(super) fn leave_rest(&self, phase: RunPhase) -> bool {
        self.live.send_if_modified(|live| {
            let rests = matches!(
                live.phase,
                RunPhase::Waiting { .. } | RunPhase::Interrupted | RunPhase::OtherVersion
            );
            if rests {
                live.phase = phase;
            }
            rests
        })
    }

    pub(super) fn set_entries(&self, entries: u64) {
        self.live.send_modify(|live| live.entries = live.entries.max(entries));
    }

    pub(super) fn tell(&self, text: ReplyPiece) {
        if let Some(texts) = self.texts.get() {
            // The listeners may be gone.
            _ = texts.send(text);
        }
    }

    pub(super) fn live(&self) -> LiveRun {
        let texts = self.texts.get_or_init(|| broadcast::Sender::new(MAX_TEXTS));
        LiveRun { live: self.live.subscribe(), texts: texts.subscribe() }
    }

    pub(super) fn remote(&self) -> Option<Remote> {
        self.with(|inside| inside.remote.clone())
    }

    pub(super) fn set_remote(&self, remote: Option<Remote>) {
        self.with(|inside| {
            inside.remote = remote;
            inside.handed_over.clear();
        });
    }

    /// Hands a request from another server to the driver, once. False: the run has no driver, or the driver is ending.
    pub(super) fn hand_over(&self, id: &Arc<str>, kind: EventKind) -> bool {
        self.with(|inside| {
            let Some(remote) = &inside.remote else { return false };
            let is_new = inside.handed_over.insert(Arc::clone(id));
            !is_new || remote.carry_out(Arc::clone(id), kind)
        })
    }

    /// How it is to be stopped as soon as it begins. `None`: it is not.
    pub(super) fn stop(&self) -> Option<StopMode> {
        self.with(|inside| inside.stop)
    }

    pub(super) fn set_stop(&self, how: StopMode) {
        self.with(|inside| inside.stop = Some(how));
    }

    pub(super) fn trouble(&self) -> Option<Arc<str>> {
        self.with(|inside| inside.trouble.clone())
    }

    pub(super) fn set_trouble(&self, trouble: Option<Arc<str>>) {
        self.with(|inside| inside.trouble = trouble);
    }

    fn with<T>(&self, change: impl FnOnce(&mut CellInner) -> T) -> T {
        change(&mut self.inside.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A watch on a run that has not ended.
#[derive(Debug)]
pub struct LiveRun {
    live: watch::Receiver<Live>,
    texts: broadcast::Receiver<ReplyPiece>,
}

impl LiveRun {
    /// Its phase.
    pub fn phase(&self) -> RunPhase {
        self.live.borrow().phase
    }

    /// How many entries it has, if this process has driven it. 0: unknown.
    pub fn entries(&self) -> u64 {
        self.live.borrow().entries
    }

    /// Waits until its phase or its number of entries changes. False: it has ended, and nothing changes any more.
    pub async fn changed(&mut self) -> bool {
        self.live.changed().await.is_ok()
    }

    /// Waits for a change, or for the next chunk of a reply. `Ok(None)`: its phase or its number of entries changed. An
    /// error is the number of chunks that were dropped because the reader is slow. 0 means that the run has ended.
    ///
    /// # Errors
    /// Chunks were dropped, or the run has ended.
    pub async fn next(&mut self) -> Result<Option<ReplyPiece>, u64> {
        tokio::select! {
            biased;
            changed = self.live.changed() => changed.map(|()| None).map_err(|_| 0),
            text = self.texts.recv() => match text {
                Ok(text) => Ok(Some(text)),
                Err(broadcast::error::RecvError::Lagged(lost)) => Err(lost),
                Err(broadcast::error::RecvError::Closed) => Err(0),
            },
        }
    }

    /// Waits until it has ended or waits for a person.
    pub(super) async fn rests(&mut self) {
        let is_at_rest = |live: &Live| !matches!(live.phase, RunPhase::Queued | RunPhase::Running);
        // An error: it has ended.
        _ = self.live.wait_for(is_at_rest).await;
    }
}

/// How many chunks a slow reader may be behind.
const MAX_TEXTS: usize = 128;
