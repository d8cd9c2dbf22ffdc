//! What a call to a model waits for: reported to the run's listeners as it happens, and ended by a stop.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use loop_llm::request::{CallProgress, ProgressListener};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::watch::events::{CallNews, ReplyPart};

/// What is reported of a call while it is under way.
#[derive(Clone, Debug)]
pub(crate) enum CallEvent<'a> {
    /// A piece of its reply.
    Text(&'a Arc<str>),
    /// A piece of it that is not its text.
    Part(ReplyPart),
    /// It waits.
    News(CallNews),
}

/// Receives what happens to one call.
pub(crate) type OnEvent = Arc<dyn Fn(CallEvent<'_>) + Send + Sync>;

/// Whether a call waits before it is sent, and whether a stop ends that wait.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) cancel: CancellationToken,
    state: Mutex<WaitState>,
}

#[derive(Debug, Default)]
struct WaitState {
    /// Nothing is under way to the provider.
    waits: bool,
    /// A try before this wait may cost something.
    is_billed: bool,
    /// The run is to stop.
    stops: bool,
}

impl Waits {
    pub(crate) fn new(cancel: &CancellationToken) -> Self {
        Self { cancel: cancel.clone(), state: Mutex::default() }
    }

    /// Whether the run is to stop: then a call that is not sent is not waited for.
    pub(crate) fn stop(&self, stops: bool) {
        self.change(|state| state.stops = stops);
    }

    /// Whether the call waits, and nothing that was sent before costs anything.
    pub(crate) fn is_free(&self) -> bool {
        let state = self.lock();
        state.waits && !state.is_billed
    }

    /// A listener that keeps the state and calls the callback, for as long as the call lasts: a client may keep the
    /// request, and with it the listener, for longer.
    pub(crate) fn listener(self: &Arc<Self>, hear: &OnEvent) -> ProgressListener {
        let (waits, hear) = (Arc::clone(self), Arc::downgrade(hear));
        ProgressListener::new(move |progress| {
            let Some(hear) = hear.upgrade() else { return };
            let news = match progress {
                CallProgress::Retrying { next_try, wait, kind, status, message, .. } => CallNews::Retrying {
                    next_try: *next_try,
                    wait_ms: millis(*wait),
                    kind: *kind,
                    status: *status,
                    message: Arc::clone(message),
                },
                CallProgress::Queued { wait } => CallNews::Queued { wait_ms: wait.map(millis) },
                CallProgress::Sent => CallNews::Sent,
                _ => return,
            };
            hear(CallEvent::News(news));
            waits.change(|state| match progress {
                CallProgress::Retrying { is_free, .. } => {
                    (state.waits, state.is_billed) = (true, state.is_billed || !is_free);
                }
                CallProgress::Sent => state.waits = false,
                _ => state.waits = true,
            });
        })
    }

    fn change(&self, change: impl FnOnce(&mut WaitState)) {
        let mut state = self.lock();
        change(&mut state);
        if state.waits && state.stops {
            self.cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells how long a provider has sent nothing.
pub(crate) struct SilenceTimer<'a> {
    waits: &'a Waits,
    hear: &'a OnEvent,
    since: Instant,
    next: Instant,
    /// Whether something has come since the clock was read: it is read when nothing more is there, not for each piece.
    has_come: bool,
    /// Set anew only when it ends too early: a piece sets no timer.
    sleep: Pin<Box<Sleep>>,
}

impl<'a> SilenceTimer<'a> {
    pub(crate) fn new(waits: &'a Waits, hear: &'a OnEvent) -> Self {
        let since = Instant::now();
        let (next, sleep) = (since + FIRST, Box::pin(sleep_until(since + FIRST)));
        Self { waits, hear, since, next, has_come: false, sleep }
    }

    /// Something has come.
    pub(crate) fn ends(&mut self) {
        self.has_come = true;
    }

    fn begin_again(&mut self) {
        self.since = Instant::now();
        self.next = self.since + QUIET;
    }

    /// Waits for this, and tells on the way how long nothing has come.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let done = poll_fn(|context| {
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(done));
                }
                if std::mem::take(&mut self.has_come) {
                    self.begin_again();
                }
                while self.sleep.as_mut().poll(context).is_ready() {
                    if self.sleep.deadline() >= self.next {
                        return Poll::Ready(None);
                    }
                    self.sleep.as_mut().reset(self.next);
                }
                Poll::Pending
            });
            match done.await {
                Some(done) => return done,
                // The wait of what is not sent yet was reported before.
                None if self.waits.lock().waits => self.begin_again(),
                None => {
                    (self.hear)(CallEvent::News(CallNews::Silent { for_ms: millis(self.since.elapsed()) }));
                    let (now, soon) = (Instant::now(), self.since + QUIET);
                    self.next = if soon > now { soon } else { now + QUIET_AGAIN };
                }
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long a provider may send nothing after it was called before that is reported.
const FIRST: Duration = Duration::from_millis(800);
/// How long it may send nothing after that, or between two pieces, before that is reported.
const QUIET: Duration = Duration::from_secs(5);
/// How long until it is reported again.
const QUIET_AGAIN: Duration = Duration::from_secs(15);
