//! Sends a call and reads its reply, with a timeout for each part.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Request, Response, Url};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::codec::{Body, Decoder, Sending, classify, request_id};
use crate::error::{ErrorPhase, LlmError};
use crate::http::http_error;
use crate::mask;
use crate::model::{EventStream, ModelEvent};

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

/// A call that is ready to be sent.
pub(crate) struct Post {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) decoder: Decoder,
    pub(crate) warnings: Vec<Arc<str>>,
    pub(crate) secrets: Secrets,
    pub(crate) timers: Timers,
}

/// Sends a call and waits for the first byte of its reply. Dropping the future or the stream closes the connection.
pub(crate) async fn send(post: Post) -> Result<EventStream, LlmError> {
    let Post { client, url, headers, body, decoder, warnings, secrets, timers } = post;
    let start = Instant::now();
    let end = start + timers.total;
    let first = (start + timers.first_byte).min(end);
    let mut request = Request::new(Method::POST, url);
    *request.headers_mut() = headers;
    *request.body_mut() = Some(reqwest::Body::wrap(Sending::from(body)));
    let late = || {
        let message = format!("no answer within {} s", (first - start).as_secs_f32());
        LlmError::new(FailureKind::Timeout, ErrorPhase::Headers, message)
    };
    let failed = |error: reqwest::Error| {
        let phase = if error.is_connect() { ErrorPhase::Connect } else { ErrorPhase::Headers };
        LlmError::new(FailureKind::Connection, phase, mask::line(&http_error(error), &secrets))
    };
    let sent = timeout_at(first, client.execute(request)).await;
    let mut response = sent.map_err(|_| late())?.map_err(failed)?;
    let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
    if !(200..300).contains(&status) {
        let text = head_of(response, first.min(Instant::now() + ERROR_BODY_TIME)).await;
        let mut error = classify(status, &headers, &text, SystemTime::now(), &secrets);
        if matches!(status, 301 | 302 | 303 | 307 | 308) {
            error.message =
                format!("the server answered with a redirect ({status}), which is not followed").into();
        }
        return Err(error);
    }
    let mut call = Box::new(Call {
        warnings,
        request: request_id(&headers, &secrets),
        ..Call::new(Arriving::of(response), decoder, timers, end)
    });
    match timeout_at(first, call.arrive()).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => call.decoder.end_of_body(),
        Ok(Err(error)) => return Err(failed(error)),
        Err(_) => return Err(late()),
    }
    call.secrets = secrets;
    let events = futures::stream::unfold(call, |mut call| async move { Some((call.next().await?, call)) });
    Ok(events.boxed())
}

/// A streamed body.
trait Pieces {
    /// Everything that has arrived, appended to `pieces`, at least one piece. False at the end.
    fn poll_pieces(
        &mut self,
        pieces: &mut Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, reqwest::Error>>;
}

/// The body of a response. The connection hands over one chunk at a time, and waits until it was taken.
struct Arriving {
    response: Response,
    /// What has arrived and was not passed on.
    pieces: Vec<Bytes>,
    end: Option<Result<(), reqwest::Error>>,
    has_yielded: bool,
}

impl Arriving {
    fn of(response: Response) -> Self {
        Self { response, pieces: Vec::new(), end: None, has_yielded: false }
    }
}

impl Pieces for Arriving {
    fn poll_pieces(
        &mut self,
        pieces: &mut Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, reqwest::Error>> {
        while self.end.is_none() && self.pieces.len() < MAX_PIECES {
            // Dropping the pending future loses no bytes.
            match pin!(self.response.chunk()).poll(cx) {
                Poll::Ready(Ok(Some(piece))) => {
                    self.has_yielded = false;
                    self.pieces.push(piece);
                }
                Poll::Ready(end) => self.end = Some(end.map(drop)),
                // The connection reads on meanwhile: the next poll is after every other task of this thread.
                Poll::Pending
                    if !self.pieces.is_empty() && !std::mem::replace(&mut self.has_yielded, true) =>
                {
                    return pin!(yield_now()).poll(cx).map(|()| Ok(true));
                }
                Poll::Pending => break,
            }
        }
        if !self.pieces.is_empty() {
            pieces.append(&mut self.pieces);
            return Poll::Ready(Ok(true));
        }
        self.end.take().map_or(Poll::Pending, |end| Poll::Ready(end.map(|()| false)))
    }
}

/// A limit of the time of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Total,
    Progress,
    Idle,
}

impl Limit {
    fn message(self) -> &'static str {
        match self {
            Self::Total => "the reply took longer than a call may",
            Self::Progress => "the reply said nothing for longer than it may",
            Self::Idle => "no byte of the reply came for longer than that may take",
        }
    }
}

/// A call whose reply is streaming.
struct Call<B> {
    body: B,
    /// What has arrived together; empty between two reads. Each piece is decoded once the events of those before it were
    /// taken, so that few events wait.
    pieces: Vec<Bytes>,
    /// When they arrived.
    arrived: Instant,
    /// How many of them were decoded.
    decoded: usize,
    /// The limit that ends the reply once they are decoded: it was over before they were waited for.
    overdue: Option<Limit>,
    decoder: Decoder,
    warnings: Vec<Arc<str>>,
    timers: Timers,
    end: Instant,
    progress: Instant,
    /// Whether there was progress since the clock was read.
    has_replied: bool,
    /// When the reply ends without usage, once the stop reason was received.
    settled: Option<Instant>,
    /// Fires at the deadline of a read, or before it.
    timer: Option<Pin<Box<Sleep>>>,
    secrets: Secrets,
    /// The provider's request id.
    request: Option<Arc<str>>,
}

impl<B: Pieces> Call<B> {
    fn new(body: B, mut decoder: Decoder, timers: Timers, end: Instant) -> Self {
        decoder.reply.join_deltas();
        Self {
            body,
            pieces: Vec::new(),
            arrived: Instant::now(),
            decoded: 0,
            overdue: None,
            decoder,
            warnings: Vec::new(),
            timers,
            end,
            progress: end,
            // The first byte counts as progress.
            has_replied: true,
            settled: None,
            timer: None,
            secrets: Secrets::default(),
            request: None,
        }
    }

    /// The next event. What arrived together is reported together, so that a reply that comes fast is not taken word by
    /// word.
    async fn next(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        loop {
            if let Some(item) = self.decoder.reply.next_item() {
                return Some(self.completed(item));
            }
            if self.decoder.is_done() {
                return None;
            }
            if !self.decode_next() {
                if let Some(item) = self.decoder.reply.next_delta() {
                    return Some(self.completed(item));
                }
                self.read().await;
            }
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

    /// Waits for pieces of the body. False at its end.
    async fn arrive(&mut self) -> Result<bool, reqwest::Error> {
        let is_more = poll_fn(|cx| self.body.poll_pieces(&mut self.pieces, cx)).await?;
        self.arrived = Instant::now();
        Ok(is_more)
    }

    /// Reads the next pieces, or the end of the body.
    async fn read(&mut self) {
        let now = Instant::now();
        if std::mem::take(&mut self.has_replied) {
            self.progress = now + self.timers.progress;
        }
        let settled = self.settled.unwrap_or(self.end).min(self.end);
        let idle = now + self.timers.idle;
        let limits = [(settled, Limit::Total), (self.progress, Limit::Progress), (idle, Limit::Idle)];
        let (deadline, limit) = limits.into_iter().min().unwrap_or((settled, Limit::Total));
        // A server that always has data ready must not skip the timeouts.
        self.overdue = (now >= deadline).then_some(limit);
        match self.arrive_until(deadline).await {
            Some(Ok(true)) => {}
            Some(Ok(false)) => self.decoder.end_of_body(),
            Some(Err(error)) => {
                let message = mask::line(&http_error(error), &self.secrets);
                self.decoder.broken_off(FailureKind::StreamInterrupted, &message);
            }
            None => self.decoder.broken_off(FailureKind::Timeout, limit.message()),
        }
    }

    /// [`arrive`](Self::arrive), until a deadline. `None`: it is over. The deadline moves with each read, and the timer only
    /// when it fires too early: setting it for each read of a reply costs more than decoding the read.
    async fn arrive_until(&mut self, deadline: Instant) -> Option<Result<bool, reqwest::Error>> {
        let Self { body, pieces, timer, .. } = self;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        let arrived = poll_fn(|cx| {
            if let Poll::Ready(arrived) = body.poll_pieces(pieces, cx) {
                return Poll::Ready(Some(arrived));
            }
            while timer.as_mut().poll(cx).is_ready() {
                if timer.deadline() >= deadline {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(deadline);
            }
            Poll::Pending
        });
        let arrived = arrived.await;
        self.arrived = Instant::now();
        arrived
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
            if self.settled.is_none() && self.decoder.reply.is_ending() {
                self.settled = Some(self.arrived + self.timers.after_end);
            }
            let is_over = |limit: &Limit| *limit != Limit::Progress || !self.has_replied;
            if let Some(limit) = self.overdue.take().filter(is_over) {
                self.decoder.broken_off(FailureKind::Timeout, limit.message());
            }
        }
        true
    }
}

/// The first bytes of an error's body that arrive in time.
async fn head_of(mut response: Response, end: Instant) -> Vec<u8> {
    let mut head = Vec::new();
    while let Ok(Ok(Some(piece))) = timeout_at(end, response.chunk()).await {
        head.extend_from_slice(&piece);
        if head.len() >= MAX_ERROR_BODY {
            head.truncate(MAX_ERROR_BODY);
            break;
        }
    }
    head
}

/// How many pieces are passed on together.
const MAX_PIECES: usize = 256;
/// Maximum bytes of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Timeout for an error's body.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::task::ready;

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
        ) -> Poll<Result<bool, reqwest::Error>> {
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
        ) -> Poll<Result<bool, reqwest::Error>> {
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
        Call::new(body, decoder, timers, start + timers.total)
    }

    async fn read(call: &mut Call<BoxStream<'static, Bytes>>) {
        call.read().await;
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
        let mut last = None;
        while let Some(item) = call.next().await {
            last = Some(item);
        }
        let Some(Ok(ModelEvent::Finished(reply))) = last else { panic!("it was whole") };
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
