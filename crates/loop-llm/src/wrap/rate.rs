//! Taking turns: a limit that all callers of a profile share.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Item, Patience, Watch, later, watched};
use crate::error::{ErrorPhase, LlmError, LlmErrorKind, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::progress::{CallProgress, ProgressListener};
use crate::request::ModelRequest;
use crate::secrets::Secrets;

/// How much may be asked of a provider. What is not given is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The most calls that begin within any minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The most tokens of calls that begin within any minute.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// The most calls that are under way.
    pub calls_at_once: Option<NonZeroU32>,
    /// The longest delay a server may ask for and be waited for; callers are not made to wait for a longer one.
    pub max_server_delay: Duration,
}

impl Default for RateLimits {
    /// No limits; a server's delay is waited for up to a minute.
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            calls_at_once: None,
            max_server_delay: Duration::from_secs(60),
        }
    }
}

/// The gate of a provider: one for all models of a profile, a clone with each of them.
///
/// Calls go in the order in which they came. A call counts as a quarter of its bytes and all the output that it may
/// write, until the provider says how many tokens it was; one that no model saw counts as none. A call that is larger
/// than a whole minute's tokens could never go, and fails at once with [`LlmErrorKind::RequestTooLarge`].
///
/// When a call is answered with [`LlmErrorKind::RateLimited`] or [`LlmErrorKind::Overloaded`] and a delay, nobody
/// goes until the delay is over. A delay of more than [`RateLimits::max_server_delay`] is not waited for: for so
/// long as that, calls fail at once.
#[derive(Clone, Debug)]
pub struct RateGate {
    limits: RateLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    under_way: u32,
    /// Those that wait, in order.
    line: VecDeque<Waiting>,
    /// Those that began within the last minute, in order.
    begun: VecDeque<Begun>,
    /// Their tokens together.
    tokens: u64,
    closed: Option<Closed>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    tokens: u64,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct Begun {
    id: u64,
    at: Instant,
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    until: Instant,
    /// When the server wants to be asked again, where that is too long to wait for.
    hopeless: Option<Instant>,
}

/// What one that waits is to do.
enum Turn {
    /// Go.
    Now,
    /// Wait until somebody wakes it, and not beyond the instant that it may go at, where that is in its own hands.
    Later { from: Instant, is_first: bool },
    /// Give up.
    Hopeless(Duration),
}

const MINUTE: Duration = Duration::from_secs(60);
/// A change of a wait that a person would notice.
const NOTICEABLE: Duration = Duration::from_secs(1);

impl RateGate {
    /// An open gate.
    pub fn new(limits: RateLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn. Dropping the future gives the place in the line back.
    async fn enter(
        &self,
        tokens: u64,
        patience: Patience,
        progress: &ProgressListener,
    ) -> Result<Permit, LlmError> {
        if let Some(max) = self.limits.tokens_per_minute.filter(|max| tokens > max.get()) {
            return Err(too_large(tokens, max));
        }
        let place = Place::last(self, tokens);
        let gone = patience.end();
        let mut reported: Option<Instant> = None;
        loop {
            let turn = self.lock().turn(place.id, Instant::now(), &self.limits);
            let (from, is_first) = match turn {
                Turn::Now => {
                    if reported.is_some() {
                        progress.tell(&CallProgress::Sent);
                    }
                    return Ok(Permit { gate: self.clone(), id: place.id });
                }
                Turn::Hopeless(rest) => return Err(too_long(rest)),
                Turn::Later { from, is_first } => (from, is_first),
            };
            let now = Instant::now();
            let wait = from.saturating_duration_since(now);
            if !patience.covers(wait) {
                return Err(too_long(wait));
            }
            // Told again only where the wait became longer than what was told.
            if reported.is_none_or(|until| from > later(until, NOTICEABLE)) {
                reported = Some(from.max(now));
                progress.tell(&CallProgress::Queued { wait: (!wait.is_zero()).then_some(wait) });
            }
            // Only the first in the line has an instant of its own; the others are woken.
            let alarm =
                [is_first.then_some(from).filter(|from| *from > now), gone].into_iter().flatten().min();
            let woken = place.wake.notified();
            match alarm {
                Some(at) => drop(tokio::time::timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }

    /// Lets nobody go for as long as a server asked.
    fn close(&self, requested: Duration) {
        let now = Instant::now();
        let max = self.limits.max_server_delay;
        let until = later(now, requested.min(max));
        let hopeless = (requested > max).then(|| later(now, requested));
        let mut state = self.lock();
        if state.closed.is_none_or(|closed| closed.until <= until) {
            state.closed = Some(Closed { until, hopeless });
            state.line.iter().for_each(|waiting| waiting.wake.notify_one());
        }
    }

    fn learn(&self, id: u64, error: &LlmError) {
        // What nobody but ourselves said has no weight with others.
        let is_servers = matches!(error.phase, ErrorPhase::Headers | ErrorPhase::Stream);
        if let RetryAdvice::After(requested) = error.retry
            && is_servers
            && matches!(error.kind, LlmErrorKind::RateLimited | LlmErrorKind::Overloaded)
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

impl State {
    /// What `id` is to do; when it may go, it has gone.
    fn turn(&mut self, id: u64, now: Instant, limits: &RateLimits) -> Turn {
        self.forget(now);
        if self.closed.is_some_and(|closed| closed.until <= now) {
            self.closed = None;
        }
        if let Some(requested) = self.closed.and_then(|closed| closed.hopeless) {
            return Turn::Hopeless(requested - now);
        }
        let place = self.line.iter().position(|waiting| waiting.id == id).unwrap_or(self.line.len());
        let from = self.earliest(place, now, limits);
        let has_room = limits.calls_at_once.is_none_or(|max| self.under_way < max.get());
        if place > 0 || from > now || !has_room {
            return Turn::Later { from, is_first: place == 0 };
        }
        if let Some(waiting) = self.line.pop_front() {
            self.under_way += 1;
            self.tokens = self.tokens.saturating_add(waiting.tokens);
            self.begun.push_back(Begun { id, at: now, tokens: waiting.tokens });
            self.wake();
        }
        Turn::Now
    }

    /// When the one at `place` may go if all before it go as early as they may and no call takes long.
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

    /// Drops what began more than a minute ago.
    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.begun.front().filter(|begun| begun.at + MINUTE <= now) {
            self.tokens = self.tokens.saturating_sub(oldest.tokens);
            self.begun.pop_front();
        }
    }

    /// Puts told tokens in place of estimated ones. The call ends with it, which wakes the next one.
    fn correct(&mut self, id: u64, tokens: u64) {
        if let Ok(at) = self.begun.binary_search_by_key(&id, |begun| begun.id)
            && let Some(begun) = self.begun.get_mut(at)
        {
            self.tokens = self.tokens.saturating_sub(begun.tokens).saturating_add(tokens);
            begun.tokens = tokens;
        }
    }

    /// Wakes the first in the line.
    fn wake(&self) {
        if let Some(first) = self.line.front() {
            first.wake.notify_one();
        }
    }
}

/// A place in the line.
#[derive(Debug)]
struct Place<'a> {
    gate: &'a RateGate,
    id: u64,
    wake: Arc<Notify>,
}

impl<'a> Place<'a> {
    fn last(gate: &'a RateGate, tokens: u64) -> Self {
        let mut state = gate.lock();
        let id = state.next;
        state.next += 1;
        let wake = Arc::new(Notify::new());
        state.line.push_back(Waiting { id, tokens, wake: Arc::clone(&wake) });
        Self { gate, id, wake }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        if let Some(at) = state.line.iter().position(|waiting| waiting.id == self.id) {
            state.line.remove(at);
            state.wake();
        }
    }
}

/// A call that is under way. Dropping it makes room for another.
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
    LlmError::unsendable(LlmErrorKind::RequestTooLarge, message)
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
    let mut error = LlmError::new(LlmErrorKind::RateLimited, ErrorPhase::Encode, message);
    error.retry = retry;
    error
}

/// Tokens that a call may become.
fn estimate(request: &ModelRequest) -> u64 {
    (request.bytes() as u64 / 4).saturating_add(request.max_output_tokens.unwrap_or_default())
}

/// A model whose calls take turns at a [`RateGate`].
///
/// A call that cannot go within its `timeout_ms` fails at once, with [`RetryAdvice::After`] where it is known when
/// it could, and one that waits for others gives up a sixteenth of that time before its end; nothing was sent, so it is
/// [free](LlmError::is_free). A call is under way until its stream ends or is
/// dropped.
#[derive(Debug)]
pub struct RateLimited<M: ?Sized> {
    gate: RateGate,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> RateLimited<M> {
    /// The same model behind `gate`.
    pub fn new(inner: Arc<M>, gate: RateGate) -> Self {
        Self { gate, inner }
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for RateLimited<M> {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let patience = Patience::of(request);
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
