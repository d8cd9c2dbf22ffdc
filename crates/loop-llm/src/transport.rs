//! Sends a call and reads its reply, with a timeout for each part.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::Stream;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Request, Url};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::codec::{Body, Decoder, SendingBody, request_id};
use crate::error::{ErrorPhase, LlmError};
use crate::exchange::{Exchange, Head, Interrupted};
use crate::mask;
use crate::model::{EventStream, ModelEvent};
use crate::reach::Server;

/// The timeouts of a call. The connect timeout of ten seconds is extra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// From sending the request to the first byte of the reply.
    pub first_byte: Duration,
    /// Between two bytes.
    pub idle: Duration,
    /// Between two events with content. Comments and pings do not count.
    pub progress: Duration,
    /// After the stop reason, until usage and the end of the stream arrive. Then the reply ends without them.
    pub after_end: Duration,
    /// From sending the request to the end of the reply.
    pub total: Duration,
}

impl Default for Timers {
    /// 2 minutes to the first byte, 1 minute between bytes, 2 minutes between events, 2 seconds after the end, 10 minutes
    /// in total.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            first_byte: seconds(120),
            idle: seconds(60),
            progress: seconds(120),
            after_end: seconds(2),
            total: seconds(600),
        }
    }
}

/// Maps a status other than 2xx to an error.
pub(crate) type Classify = fn(u16, &HeaderMap, &[u8], SystemTime, &Secrets) -> LlmError;

/// A call that is ready to be sent.
pub(crate) struct Post {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) server: Server,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) secrets: Secrets,
    pub(crate) timers: Timers,
    pub(crate) classify: Classify,
}

/// Sends a call and waits for the first byte of its reply. Dropping the future or the stream closes the connection.
///
/// Until the reply comes, the future holds little more than the boxed call: what an async block moves, it has space for
/// twice.
pub(crate) fn send(
    post: Post,
    decoder: Decoder,
    warnings: Vec<Arc<str>>,
) -> impl Future<Output = Result<EventStream, LlmError>> + Send {
    let Post { client, url, server, headers, body, secrets, timers, classify } = post;
    let start = Instant::now();
    let end = start + timers.total;
    let first = (start + timers.first_byte).min(end);
    let mut request = Request::new(Method::POST, url);
    *request.headers_mut() = headers;
    *request.body_mut() = Some(reqwest::Body::wrap(SendingBody::from(body)));
    let alarm = Alarm::new(first.min(start + timers.idle).min(start + timers.progress));
    let exchange = Exchange::begin(&client, request);
    let call = Call { warnings, secrets, ..Call::new(exchange, decoder, timers, end, alarm) };
    begin(Box::new(call), start, first, server, classify)
}

/// Waits for the head and the first byte of a reply, at most from `start` until `first`.
async fn begin(
    mut call: Box<Call<Exchange>>,
    start: Instant,
    first: Instant,
    server: Server,
    classify: Classify,
) -> Result<EventStream, LlmError> {
    let late = || {
        let message = format!("no answer within {} s", (first - start).as_secs_f32());
        LlmError::new(FailureKind::Timeout, ErrorPhase::Headers, message)
    };
    let head = poll_fn(|cx| match call.body.poll_head(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => call.alarm.poll(first, cx).map(|()| None),
    });
    let Head { status, headers } =
        head.await.ok_or_else(late)?.map_err(|error| server.error(error, &call.secrets))?;
    server.answered();
    if !(200..300).contains(&status) {
        let text = head_of(&mut call.body, first.min(Instant::now() + ERROR_BODY_TIME)).await;
        let mut error = classify(status, &headers, &text, SystemTime::now(), &call.secrets);
        if matches!(status, 301 | 302 | 303 | 307 | 308) {
            error.message =
                format!("the server answered with a redirect ({status}), which is not followed").into();
        }
        if server.is_keyless && error.kind == FailureKind::Auth {
            error.message =
                format!("no key was sent; `api_key_env` names its variable: {}", error.message).into();
        }
        if server.is_root && matches!(status, 404 | 405) {
            error.message =
                format!("{}; most base URLs end in /v1, and this one has no path", error.message).into();
        }
        return Err(error);
    }
    call.request = request_id(&headers, &call.secrets);
    drop(headers);
    match poll_fn(|cx| call.poll_first(first, cx)).await {
        None => return Err(late()),
        Some(Err(error)) => {
            let message = mask::line(&error.message(), &call.secrets);
            return Err(LlmError::new(FailureKind::Connection, ErrorPhase::Headers, message));
        }
        Some(Ok(())) => {}
    }
    Ok(Box::into_pin(call))
}

/// A streamed body.
trait Pieces {
    /// Everything that has arrived, appended to `pieces`, at least one piece. False at the end.
    fn poll_pieces(
        &mut self,
        pieces: &mut Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Interrupted>>;
}

impl Pieces for Exchange {
    fn poll_pieces(
        &mut self,
        pieces: &mut Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Interrupted>> {
        self.poll_pieces(pieces, cx)
    }
}

/// The one timer of a call.
///
/// Setting a timer wakes the timer thread, so it is reset only where it would fire too late. Where it fires too early, it
/// is set again.
struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    fn new(first: Instant) -> Self {
        Self(Box::pin(sleep_until(first)))
    }

    /// Whether it would fire after `deadline`.
    fn is_later(&self, deadline: Instant) -> bool {
        deadline < self.0.deadline()
    }

    /// Ready after `deadline`.
    fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_later(deadline) {
            self.0.as_mut().reset(deadline);
        }
        loop {
            ready!(self.0.as_mut().poll(cx));
            if self.0.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.0.as_mut().reset(deadline);
        }
    }
}

/// A call whose reply is streaming.
///
/// The clock is read once for all pieces of the body that arrived together: before they are waited for, or on arrival if
/// they were ready.
struct Call<B> {
    body: B,
    /// What has arrived together; empty between two reads. Each piece is decoded once the events of those before it were
    /// taken, so that few events wait.
    pieces: Vec<Bytes>,
    /// How many of them were decoded.
    decoded: usize,
    /// When they arrived, and whether the reply was to end by then. `None`: they were waited for.
    arrived: Option<(Instant, bool)>,
    decoder: Decoder,
    warnings: Vec<Arc<str>>,
    timers: Timers,
    alarm: Alarm,
    end: Instant,
    progress: Instant,
    /// Whether there was progress since the clock was read.
    has_replied: bool,
    /// When the reply ends without usage, once the stop reason was received.
    settled: Option<Instant>,
    /// Since when the next piece is waited for.
    waiting: Option<Instant>,
    /// Whether the task yielded since the last piece.
    has_yielded: bool,
    secrets: Secrets,
    /// The provider's request id.
    request: Option<Arc<str>>,
}

impl<B: Pieces + Unpin> Stream for Call<B> {
    type Item = Result<ModelEvent, LlmError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let call = self.get_mut();
        loop {
            if let Some(item) = call.decoder.reply.next_item() {
                return Poll::Ready(Some(call.completed(item)));
            }
            if call.decoder.is_done() {
                return Poll::Ready(None);
            }
            if !call.decode_next() {
                // What arrived together is reported together, so that a reply that comes fast is not taken word by word.
                if let Some(item) = call.decoder.reply.next_delta() {
                    return Poll::Ready(Some(call.completed(item)));
                }
                ready!(call.poll_read(cx));
            }
        }
    }
}

impl<B: Pieces> Call<B> {
    fn new(body: B, mut decoder: Decoder, timers: Timers, end: Instant, alarm: Alarm) -> Self {
        decoder.reply.join_deltas();
        Self {
            body,
            pieces: Vec::new(),
            decoded: 0,
            arrived: None,
            decoder,
            warnings: Vec::new(),
            timers,
            alarm,
            end,
            progress: end,
            // The first byte counts as progress.
            has_replied: true,
            settled: None,
            waiting: None,
            has_yielded: false,
            secrets: Secrets::default(),
            request: None,
        }
    }

    /// Adds model, request id and times to an item.
    fn completed(&mut self, mut item: Result<ModelEvent, LlmError>) -> Result<ModelEvent, LlmError> {
        if let Ok(ModelEvent::Finished(reply)) = &mut item {
            let mut warnings = std::mem::take(&mut self.warnings);
            warnings.append(&mut reply.warnings);
            reply.warnings = warnings;
            reply.request = self.request.clone();
        }
        if let Err(error) = &mut item
            && let Some(request) = &self.request
        {
            error.detail.get_or_insert_default().request.get_or_insert_with(|| Arc::clone(request));
        }
        item
    }

    /// Reads the first piece. `None` where it did not arrive by `first`.
    fn poll_first(&mut self, first: Instant, cx: &mut Context<'_>) -> Poll<Option<Result<(), Interrupted>>> {
        match self.body.poll_pieces(&mut self.pieces, cx) {
            Poll::Ready(Ok(true)) => self.has_yielded = false,
            Poll::Ready(Ok(false)) => self.decoder.end_of_body(),
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Pending => return self.alarm.poll(first, cx).map(|()| None),
        }
        Poll::Ready(Some(Ok(())))
    }

    /// Reads the next piece, or the end of the body.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.body.poll_pieces(&mut self.pieces, cx) {
            Poll::Ready(Ok(true)) if self.waiting.take().is_some() => self.has_yielded = false,
            // A server that always has data ready must not skip the timeouts.
            Poll::Ready(Ok(true)) => {
                let now = Instant::now();
                if now >= self.end {
                    self.interrupt(FailureKind::Timeout, TOO_LONG);
                } else {
                    self.has_yielded = false;
                    self.arrived = Some((now, self.settled.is_some_and(|at| now >= at)));
                }
            }
            Poll::Ready(Ok(false)) => self.decoder.end_of_body(),
            Poll::Ready(Err(error)) => {
                let message = mask::line(&error.message(), &self.secrets);
                self.interrupt(FailureKind::StreamInterrupted, &message);
            }
            Poll::Pending => {
                let since = self.waiting.unwrap_or_else(|| {
                    let now = Instant::now();
                    self.note(now);
                    now
                });
                self.waiting = Some(since);
                let idle = since + self.timers.idle;
                let settled = self.settled.unwrap_or(self.end).min(self.end);
                let deadline = idle.min(settled).min(self.progress);
                // The last events often arrive together: yield once before a timer is set.
                if self.alarm.is_later(deadline) && !std::mem::replace(&mut self.has_yielded, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ready!(self.alarm.poll(deadline, cx));
                let message = if deadline == settled {
                    TOO_LONG
                } else if deadline == self.progress {
                    NO_PROGRESS
                } else {
                    "no byte of the reply came for longer than that may take"
                };
                self.interrupt(FailureKind::Timeout, message);
            }
        }
        Poll::Ready(())
    }

    /// Decodes the next piece that has arrived. False where there is none.
    fn decode_next(&mut self) -> bool {
        let Some(piece) = self.pieces.get_mut(self.decoded).map(std::mem::take) else { return false };
        let received = self.decoder.reply.received;
        self.decoder.feed(&piece);
        self.has_replied |= self.decoder.reply.received > received;
        self.decoded += 1;
        if self.decoded == self.pieces.len() {
            self.pieces.clear();
            self.decoded = 0;
            if let Some((now, is_settled)) = self.arrived.take() {
                self.note(now);
                if is_settled || now >= self.progress {
                    self.interrupt(FailureKind::Timeout, NO_PROGRESS);
                }
            }
        }
        true
    }

    /// Records progress as of `now`.
    fn note(&mut self, now: Instant) {
        if std::mem::take(&mut self.has_replied) {
            self.progress = now + self.timers.progress;
        }
        if self.settled.is_none() && self.decoder.reply.is_ending() {
            self.settled = Some(now + self.timers.after_end);
        }
    }

    fn interrupt(&mut self, kind: FailureKind, message: &str) {
        self.decoder.broken_off(kind, message);
    }
}

/// The first bytes of an error's body that arrive in time.
async fn head_of(exchange: &mut Exchange, end: Instant) -> Vec<u8> {
    let (mut head, mut pieces) = (Vec::new(), Vec::new());
    while let Ok(Ok(true)) = timeout_at(end, poll_fn(|cx| exchange.poll_pieces(&mut pieces, cx))).await {
        pieces.drain(..).for_each(|piece| head.extend_from_slice(&piece));
        if head.len() >= MAX_ERROR_BODY {
            head.truncate(MAX_ERROR_BODY);
            break;
        }
    }
    head
}

const TOO_LONG: &str = "the reply took longer than a call may";
const NO_PROGRESS: &str = "the reply said nothing for longer than it may";
/// Maximum bytes of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Timeout for an error's body.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::StreamExt;
    use futures::stream::BoxStream;

    use super::*;
    use crate::codec::{Aliases, Codec};
    use crate::error::Partial;
    use crate::profile::Profile;
    use crate::request::ModelRequest;

    /// The last item of a body that never ends, with each piece after so many seconds, and the seconds at which it
    /// arrived.
    async fn end(pieces: &[(u64, &str)], timers: Timers) -> (Result<ModelEvent, LlmError>, u64) {
        let pieces: Vec<_> =
            pieces.iter().map(|(wait, text)| (*wait, Bytes::from(format!("{text}\n\n")))).collect();
        let pieces = futures::stream::iter(pieces).then(|(wait, bytes)| async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            bytes
        });
        let start = Instant::now();
        let mut call = call(pieces.chain(futures::stream::pending()).boxed(), timers);
        loop {
            let item = call.next().await.unwrap();
            if matches!(item, Err(_) | Ok(ModelEvent::Finished(_))) {
                return (item, start.elapsed().as_secs());
            }
        }
    }

    impl Pieces for BoxStream<'static, Bytes> {
        fn poll_pieces(
            &mut self,
            pieces: &mut Vec<Bytes>,
            cx: &mut Context<'_>,
        ) -> Poll<Result<bool, Interrupted>> {
            let piece = ready!(self.poll_next_unpin(cx));
            let is_piece = piece.is_some();
            pieces.extend(piece);
            Poll::Ready(Ok(is_piece))
        }
    }

    /// What arrives together, one time after the other.
    struct Batches(Vec<&'static [&'static str]>);

    impl Pieces for Batches {
        fn poll_pieces(
            &mut self,
            pieces: &mut Vec<Bytes>,
            _: &mut Context<'_>,
        ) -> Poll<Result<bool, Interrupted>> {
            let batch = self.0.pop();
            let texts = batch.into_iter().flatten();
            pieces.extend(texts.map(|text| Bytes::from(format!("data: {text}\n\n"))));
            Poll::Ready(Ok(batch.is_some()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deltas_that_arrive_together_are_told_together_before_more_is_read() {
        const TEXT: &str = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
        const CALL: &str =
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}"#;
        const PIECE: &str =
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}]}"#;
        const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
        // The last arrives first.
        const BATCHES: [&[&str]; 3] =
            [&[PIECE, STOP], &[TEXT, TEXT, CALL, PIECE, PIECE], &[TEXT, TEXT, TEXT]];
        let mut call = call(Batches(BATCHES.to_vec()), Timers::default());
        let mut reported = Vec::new();
        while let Some(item) = call.next().await {
            let left = call.body.0.len();
            reported.push(match item.unwrap() {
                ModelEvent::TextDelta { text } => (left, text.to_string()),
                ModelEvent::ToolArgumentsDelta { text, .. } => (left, format!("({text})")),
                ModelEvent::ToolCallStarted { name, .. } => (left, name.to_string()),
                ModelEvent::Finished(reply) => (left, format!("{}{}", reply.text, reply.tool_calls.len())),
                _ => continue,
            });
        }
        let expected = [(2, "aaa"), (1, "aa"), (1, "f"), (1, "(  )"), (0, "( )"), (0, "aaaaa1")];
        assert_eq!(reported, expected.map(|(left, text)| (left, text.to_owned())));
    }

    fn call<B: Pieces>(body: B, timers: Timers) -> Call<B> {
        let start = Instant::now();
        let codec = Codec::new(Profile::named("compatible").unwrap());
        let request = ModelRequest::default();
        let decoder = codec.decoder(&request, Aliases::default(), Secrets::default());
        Call::new(body, decoder, timers, start + timers.total, Alarm::new(start))
    }

    async fn read(call: &mut Call<BoxStream<'static, Bytes>>) {
        poll_fn(|cx| call.poll_read(cx)).await;
        while call.decode_next() {}
    }

    const TEXT: &str = r#"data: {"choices":[{"delta":{"content":"Hi"}}]}"#;
    const STOP: &str = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    const USAGE: &str = r#"data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1}}"#;

    #[tokio::test(start_paused = true)]
    async fn after_the_word_for_the_end_a_reply_waits_for_a_moment_alone() {
        let mut pieces = vec![(0, TEXT), (5, STOP), (1, USAGE)];
        pieces.extend([(1, ": ping"); 500]);
        let (item, seconds) = end(&pieces, Timers::default()).await;
        let Ok(ModelEvent::Finished(reply)) = item else { panic!("it was whole: {item:?}") };
        assert_eq!((&*reply.text, reply.usage.unwrap().input, seconds), ("Hi", 8, 7));
        let (item, seconds) = end(&[(0, TEXT), (5, STOP)], Timers::default()).await;
        assert!(matches!(item, Ok(ModelEvent::Finished(_))) && seconds == 7);
        let (item, seconds) = end(&[(0, TEXT), (5, STOP), (1, "data: [DONE]")], Timers::default()).await;
        assert!(matches!(item, Ok(ModelEvent::Finished(_))) && seconds == 6);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_when_the_moment_is_over_is_heard_and_always_more_is_not() {
        let pieces = [TEXT, STOP, USAGE].into_iter().chain(std::iter::repeat(": ping"));
        let body = futures::stream::iter(pieces.map(|piece| Bytes::from(format!("{piece}\n\n"))));
        let mut call = call(body.boxed(), Timers::default());
        read(&mut call).await;
        read(&mut call).await;
        tokio::time::advance(Duration::from_secs(3)).await;
        read(&mut call).await;
        assert!(call.decoder.is_done());
        let Some(Ok(ModelEvent::Finished(reply))) = call.collect::<Vec<_>>().await.pop() else {
            panic!("it was whole")
        };
        assert_eq!((&*reply.text, reply.usage.unwrap().input), ("Hi", 8));
    }

    #[tokio::test(start_paused = true)]
    async fn fragments_of_calls_and_refusals_are_progress_and_empty_ones_are_none() {
        let call =
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}]}"#;
        let refusal = r#"data: {"choices":[{"delta":{"refusal":"no"}}]}"#;
        for piece in [call, refusal] {
            let mut pieces = vec![(50, piece); 8];
            pieces.extend([(0, STOP), (0, "data: [DONE]")]);
            let (item, seconds) = end(&pieces, Timers::default()).await;
            assert!(matches!(item, Ok(ModelEvent::Finished(_))), "{item:?}");
            assert_eq!(seconds, 400);
        }
        let empty = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0}],"refusal":""}}]}"#;
        let (item, seconds) = end(&[(50, empty); 8], Timers::default()).await;
        let error = item.unwrap_err();
        assert_eq!((error.kind, error.partial), (FailureKind::Timeout, Some(Box::<Partial>::default())));
        // The first of them begins the reply.
        assert_eq!(seconds, 170);
    }
}
