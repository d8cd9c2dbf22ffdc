//! Rate limits that all callers of a profile share.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CallerTimeout, Item, Watch, later, watched};
use crate::error::{ErrorPhase, LlmError, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::progress::{CallProgress, ProgressListener};
use crate::request::ModelRequest;
use crate::scripted::RequestPurpose;

/// The limits of a provider. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Maximum calls that start within any minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum tokens of the calls that start within any minute.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Maximum concurrent calls.
    pub calls_at_once: Option<NonZeroU32>,
    /// The longest delay that a server may request and that is waited for. During a longer one, calls fail at once.
    pub max_server_delay: Duration,
}

impl Default for RateLimits {
    /// No limits, and server delays of up to a minute.
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            calls_at_once: None,
            max_server_delay: Duration::from_secs(60),
        }
    }
}

/// The rate limiter of a provider: one for all models of a profile, each with a clone.
///
/// Calls are sent in the order in which they arrive. Until the provider reports the tokens of a call, a quarter of its
/// bytes and its maximum output are counted. A call that no model saw counts as none. A call that exceeds the tokens of a
/// whole minute fails at once with [`FailureKind::RequestTooLarge`].
///
/// After an error of kind [`FailureKind::RateLimited`] or [`FailureKind::Overloaded`] with a delay, no call is sent
/// until the delay is over. A delay above [`RateLimits::max_server_delay`] is not waited for: until it is over, calls
/// fail at once.
#[derive(Clone, Debug)]
pub struct RateGate {
    limits: RateLimits,
    state: Arc<Mutex<RateState>>,
}

#[derive(Debug, Default)]
struct RateState {
    next: u64,
    under_way: u32,
    /// Waiting calls, in order.
    line: VecDeque<WaitingCall>,
    /// Calls that started within the last minute, in order.
    begun: VecDeque<StartedCall>,
    /// The sum of their tokens.
    tokens: u64,
    closed: Option<Pause>,
}

#[derive(Debug)]
struct WaitingCall {
    id: u64,
    tokens: u64,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct StartedCall {
    id: u64,
    at: Instant,
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    /// The end of a server's delay that is too long to wait for.
    hopeless: Option<Instant>,
}

/// What a waiting call does next.
enum NextStep {
    /// It starts.
    Now,
    /// It waits until it is woken, or until `from` if it is the first.
    Later { from: Instant, is_first: bool },
    /// It fails, with the rest of the server's delay.
    Hopeless(Duration),
}

const MINUTE: Duration = Duration::from_secs(60);
/// A longer wait is reported again if it grew by this much.
const NOTICEABLE: Duration = Duration::from_secs(1);

impl RateGate {
    /// A limiter without waiting calls.
    pub fn new(limits: RateLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, RateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the limits. Dropping the future leaves the queue.
    async fn enter(
        &self,
        tokens: u64,
        patience: CallerTimeout,
        progress: &ProgressListener,
    ) -> Result<Permit, LlmError> {
        if let Some(max) = self.limits.tokens_per_minute.filter(|max| tokens > max.get()) {
            return Err(too_large(tokens, max));
        }
        let place = QueuePlace::last(self, tokens);
        let gone = patience.end();
        let mut reported: Option<Instant> = None;
        loop {
            let turn = self.lock().turn(place.id, Instant::now(), &self.limits);
            let (from, is_first) = match turn {
                NextStep::Now => {
                    if reported.is_some() {
                        progress.tell(&CallProgress::Sent);
                    }
                    return Ok(Permit { gate: self.clone(), id: place.id });
                }
                NextStep::Hopeless(rest) => return Err(too_long(rest)),
                NextStep::Later { from, is_first } => (from, is_first),
            };
            let now = Instant::now();
            let wait = from.saturating_duration_since(now);
            if !patience.covers(wait) {
                return Err(too_long(wait));
            }
            // Reported again only if the wait became longer.
            if reported.is_none_or(|until| from > later(until, NOTICEABLE)) {
                reported = Some(from.max(now));
                progress.tell(&CallProgress::Queued { wait: (!wait.is_zero()).then_some(wait) });
            }
            // Only the first call in the queue has a timer. The others are woken.
            let alarm =
                [is_first.then_some(from).filter(|from| *from > now), gone].into_iter().flatten().min();
            let woken = place.wake.notified();
            match alarm {
                Some(at) => drop(tokio::time::timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }

    /// Holds all calls back for the server's delay.
    fn close(&self, requested: Duration) {
        let now = Instant::now();
        let max = self.limits.max_server_delay;
        let until = later(now, requested.min(max));
        let hopeless = (requested > max).then(|| later(now, requested));
        let mut state = self.lock();
        if state.closed.is_none_or(|closed| closed.until <= until) {
            state.closed = Some(Pause { until, hopeless });
            state.line.iter().for_each(|waiting| waiting.wake.notify_one());
        }
    }

    fn learn(&self, id: u64, error: &LlmError) {
        // Only a delay that the server requested affects other calls.
        let is_servers = matches!(error.phase, ErrorPhase::Headers | ErrorPhase::Stream);
        if let RetryAdvice::After(requested) = error.retry
            && is_servers
            && matches!(error.kind, FailureKind::RateLimited | FailureKind::Overloaded)
        {
            self.close(requested);
        }
        let reported = error.partial.as_ref().and_then(|partial| partial.usage);
        if error.is_free() {
            self.lock().correct(id, 0);
        } else if let Some(usage) = reported {
            self.lock().correct(id, usage.total());
        }
    }
}

impl RateState {
    /// What call `id` does next. `Now` also counts it as started.
    fn turn(&mut self, id: u64, now: Instant, limits: &RateLimits) -> NextStep {
        self.forget(now);
        if self.closed.is_some_and(|closed| closed.until <= now) {
            self.closed = None;
        }
        if let Some(requested) = self.closed.and_then(|closed| closed.hopeless) {
            return NextStep::Hopeless(requested - now);
        }
        let place = self.line.iter().position(|waiting| waiting.id == id).unwrap_or(self.line.len());
        let from = self.earliest(place, now, limits);
        let has_room = limits.calls_at_once.is_none_or(|max| self.under_way < max.get());
        if place > 0 || from > now || !has_room {
            return NextStep::Later { from, is_first: place == 0 };
        }
        if let Some(waiting) = self.line.pop_front() {
            self.under_way += 1;
            self.tokens = self.tokens.saturating_add(waiting.tokens);
            self.begun.push_back(StartedCall { id, at: now, tokens: waiting.tokens });
            self.wake();
        }
        NextStep::Now
    }

    /// When the call at `place` can start at the earliest, if all calls before it start as early as they can and end
    /// quickly.
    fn earliest(&self, place: usize, now: Instant, limits: &RateLimits) -> Instant {
        let mut from = self.closed.map_or(now, |closed| closed.until);
        let (requests, max_tokens) = (limits.requests_per_minute, limits.tokens_per_minute);
        if requests.is_none() && max_tokens.is_none() {
            return from;
        }
        let max_requests = requests.map_or(usize::MAX, |max| max.get() as usize);
        let max_tokens = max_tokens.map_or(u64::MAX, NonZeroU64::get);
        let mut planned: VecDeque<(Instant, u64)> = VecDeque::new();
        let mut begun = self.begun.iter().map(|begun| (begun.at, begun.tokens)).peekable();
        let mut count = self.begun.len();
        let mut tokens = self.tokens;
        for waiting in self.line.iter().take(place + 1) {
            while let Some((at, oldest)) = begun.peek().or(planned.front()).copied() {
                let is_full = count >= max_requests || tokens.saturating_add(waiting.tokens) > max_tokens;
                if at + MINUTE > from && !is_full {
                    break;
                }
                from = from.max(at + MINUTE);
                if begun.next().is_none() {
                    planned.pop_front();
                }
                count -= 1;
                tokens = tokens.saturating_sub(oldest);
            }
            planned.push_back((from, waiting.tokens));
            count += 1;
            tokens = tokens.saturating_add(waiting.tokens);
        }
        from
    }

    /// Drops calls that started more than a minute ago.
    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.begun.front().filter(|begun| begun.at + MINUTE <= now) {
            self.tokens = self.tokens.saturating_sub(oldest.tokens);
            self.begun.pop_front();
        }
    }

    /// Replaces estimated tokens by reported ones. The end of the call wakes the next one.
    fn correct(&mut self, id: u64, tokens: u64) {
        if let Ok(at) = self.begun.binary_search_by_key(&id, |begun| begun.id)
            && let Some(begun) = self.begun.get_mut(at)
        {
            self.tokens = self.tokens.saturating_sub(begun.tokens).saturating_add(tokens);
            begun.tokens = tokens;
        }
    }

    /// Wakes the first call in the queue.
    fn wake(&self) {
        if let Some(first) = self.line.front() {
            first.wake.notify_one();
        }
    }
}

/// A place in the queue.
#[derive(Debug)]
struct QueuePlace<'a> {
    gate: &'a RateGate,
    id: u64,
    wake: Arc<Notify>,
}

impl<'a> QueuePlace<'a> {
    fn last(gate: &'a RateGate, tokens: u64) -> Self {
        let mut state = gate.lock();
        let id = state.next;
        state.next += 1;
        let wake = Arc::new(Notify::new());
        state.line.push_back(WaitingCall { id, tokens, wake: Arc::clone(&wake) });
        Self { gate, id, wake }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        if let Some(at) = state.line.iter().position(|waiting| waiting.id == self.id) {
            state.line.remove(at);
            state.wake();
        }
    }
}

/// A call in progress. Dropping it lets another one start.
#[derive(Debug)]
struct Permit {
    gate: RateGate,
    id: u64,
}

impl Watch for Permit {
    fn see(&mut self, item: &mut Item) {
        match item {
            Ok(ModelEvent::Finished(reply)) => {
                if let Some(usage) = reply.usage {
                    self.gate.lock().correct(self.id, usage.total());
                }
            }
            Ok(_) => {}
            Err(error) => self.gate.learn(self.id, error),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.under_way -= 1;
        state.wake();
    }
}

fn too_large(tokens: u64, max: NonZeroU64) -> LlmError {
    let message = format!(
        "the call may need {tokens} tokens, and `tokens_per_minute` allows {max}, so that it could never begin; \
         raise that limit, or let the call write less"
    );
    LlmError::unsendable(FailureKind::RequestTooLarge, message)
}

fn too_long(wait: Duration) -> LlmError {
    let (message, retry) = if wait.is_zero() {
        let message = "other calls of this provider took all the time that this one had; \
                       allow more calls at once or more time";
        (message.to_owned(), RetryAdvice::Backoff)
    } else {
        let message = format!(
            "the provider's rate limit lets this call go in {:.1} s, which is longer than it can wait",
            wait.as_secs_f64()
        );
        (message, RetryAdvice::After(wait))
    };
    let mut error = LlmError::unsendable(FailureKind::RateLimited, message);
    error.retry = retry;
    error
}

/// Estimated tokens of a call.
fn estimate(request: &ModelRequest) -> u64 {
    (request.bytes() as u64 / 4).saturating_add(request.max_output_tokens.unwrap_or_default())
}

/// A model whose calls wait for a [`RateGate`].
///
/// A call that cannot start within its `timeout_ms` fails at once, with [`RetryAdvice::After`] if it is known when it
/// could start. One that waits for other calls gives up a sixteenth of that time before its end. Nothing was sent, so it
/// is [free](LlmError::is_free). A call is in progress until its stream ends or is dropped.
#[derive(Debug)]
pub struct RateLimited<M: ?Sized> {
    gate: RateGate,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> RateLimited<M> {
    /// Wraps `inner` with the limiter `gate`.
    pub fn new(inner: Arc<M>, gate: RateGate) -> Self {
        Self { gate, inner }
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for RateLimited<M> {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    fn masks(&self) -> bool {
        self.inner.masks()
    }

    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        self.inner.resumes(run, answered);
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let patience = CallerTimeout::of(request);
        let permit = self.gate.enter(estimate(request), patience, &request.progress).await?;
        match self.inner.stream(&patience.rest(request)).await {
            Ok(events) => Ok(watched(events, permit)),
            Err(error) => {
                permit.gate.learn(permit.id, &error);
                Err(error)
            }
        }
    }
}
