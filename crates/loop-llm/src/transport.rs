//! Bytes between the client and a decoder, within time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Url};
use tokio::time::{Instant, timeout_at};

use crate::codec::request_id;
use crate::codec::{Body, Decoder, Sending};
use crate::error::{ErrorPhase, LlmError, LlmErrorKind};
use crate::http::http_error;
use crate::mask;
use crate::model::{EventStream, ModelEvent};
use crate::secrets::Secrets;

/// How long a call may take, by part. A connection may take ten seconds besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// From sending to the first byte of the reply.
    pub first_byte: Duration,
    /// Between two bytes.
    pub idle: Duration,
    /// Between two events that say something: comments and pings do not.
    pub progress: Duration,
    /// After the word for the end, until usage and the mark of the end have come; then the reply ends without them.
    pub after_end: Duration,
    /// The whole call.
    pub total: Duration,
}

impl Default for Timers {
    /// Two minutes, one minute, two minutes, two seconds, ten minutes.
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

/// How a status other than 2xx becomes an error.
pub(crate) type Classify = fn(u16, &HeaderMap, &[u8], SystemTime, &Secrets) -> LlmError;

/// A call, ready to be sent.
pub(crate) struct Post {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) secrets: Secrets,
    pub(crate) timers: Timers,
    pub(crate) classify: Classify,
}

/// Sends a call and waits for the first byte of its reply. Dropping the future or the stream closes the connection.
pub(crate) async fn send(
    post: Post,
    decoder: Decoder,
    warnings: Vec<Arc<str>>,
) -> Result<EventStream, LlmError> {
    let start = Instant::now();
    let end = start + post.timers.total;
    let first = (start + post.timers.first_byte).min(end);
    let secrets = &post.secrets;
    let late = || {
        let message = format!("no answer within {} s", (first - start).as_secs_f32());
        LlmError::new(LlmErrorKind::Timeout, ErrorPhase::Headers, message)
    };
    let request = post
        .client
        .post(post.url)
        .headers(post.headers)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream, application/json")
        .header(ACCEPT_ENCODING, "identity")
        .body(reqwest::Body::wrap(Sending::from(post.body)))
        .send();
    let response = timeout_at(first, request).await.map_err(|_| late())?;
    let response = response.map_err(|error| {
        let phase = if error.is_connect() { ErrorPhase::Connect } else { ErrorPhase::Headers };
        LlmError::new(LlmErrorKind::Connection, phase, mask::line(&http_error(error), secrets))
    })?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = response.bytes_stream().boxed();
    if !(200..300).contains(&status) {
        let text = head_of(&mut body, first.min(Instant::now() + ERROR_BODY_TIME)).await;
        let mut error = (post.classify)(status, &headers, &text, SystemTime::now(), secrets);
        if (300..400).contains(&status) {
            error.message =
                format!("the server answered with a redirect ({status}), which is not followed").into();
        }
        return Err(error);
    }
    let mut call = Call {
        decoder,
        warnings,
        ready: VecDeque::new(),
        timers: post.timers,
        end,
        progress: Instant::now() + post.timers.progress,
        settled: None,
        request: request_id(&headers, &post.secrets),
        secrets: post.secrets,
        body: body.boxed(),
    };
    match timeout_at(first, call.body.next()).await {
        Err(_) => return Err(late()),
        Ok(Some(Err(error))) => {
            let message = mask::line(&http_error(error), &call.secrets);
            return Err(LlmError::new(LlmErrorKind::Connection, ErrorPhase::Headers, message));
        }
        Ok(Some(Ok(bytes))) => call.take(&bytes),
        Ok(None) => call.finish(),
    }
    // In a box: the state moves with every item.
    Ok(futures::stream::unfold(Box::new(call), |mut call| async move {
        let item = call.next().await?;
        Some((item, call))
    })
    .boxed())
}

/// A call whose reply is coming.
struct Call {
    body: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    decoder: Decoder,
    warnings: Vec<Arc<str>>,
    ready: VecDeque<Result<ModelEvent, LlmError>>,
    timers: Timers,
    end: Instant,
    progress: Instant,
    /// When it ends with what is there, once the word for the end has come.
    settled: Option<Instant>,
    secrets: Secrets,
    /// The provider's id of the exchange.
    request: Option<Arc<str>>,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        while self.ready.is_empty() && !self.decoder.is_done() {
            self.read().await;
        }
        let mut item = self.ready.pop_front()?;
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
        Some(item)
    }

    async fn read(&mut self) {
        let idle = Instant::now() + self.timers.idle;
        let settled = self.settled.unwrap_or(self.end).min(self.end);
        let deadline = idle.min(settled).min(self.progress);
        match timeout_at(deadline, self.body.next()).await {
            // A server that always has something ready must not outrun the clock.
            Ok(Some(Ok(bytes))) if Instant::now() < self.end => {
                self.take(&bytes);
                if Instant::now() >= self.progress.min(settled) {
                    self.interrupt(LlmErrorKind::Timeout, NO_PROGRESS);
                }
            }
            Ok(None) => self.finish(),
            Ok(Some(Err(error))) => {
                let message = mask::line(&http_error(error), &self.secrets);
                self.interrupt(LlmErrorKind::StreamInterrupted, &message);
            }
            Err(_) if deadline < settled && deadline < self.progress => {
                self.interrupt(
                    LlmErrorKind::Timeout,
                    "no byte of the reply came for longer than that may take",
                );
            }
            Err(_) if deadline < settled => self.interrupt(LlmErrorKind::Timeout, NO_PROGRESS),
            Err(_) | Ok(Some(Ok(_))) => {
                self.interrupt(LlmErrorKind::Timeout, "the reply took longer than a call may");
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let heard = self.decoder.heard();
        let items = self.decoder.push(bytes);
        // Fragments of calls and of refusals are no events, and say something all the same.
        let is_said = items.iter().any(|item| !matches!(item, Ok(ModelEvent::KeepAlive)));
        if is_said || self.decoder.heard() > heard {
            self.progress = Instant::now() + self.timers.progress;
        }
        if self.decoder.is_ending() && self.settled.is_none() {
            self.settled = Some(Instant::now() + self.timers.after_end);
        }
        self.ready.extend(items);
    }

    fn interrupt(&mut self, kind: LlmErrorKind, message: &str) {
        let items = self.decoder.interrupt(kind, message);
        self.ready.extend(items);
    }

    fn finish(&mut self) {
        let items = self.decoder.finish();
        self.ready.extend(items);
    }
}

/// The first bytes of an error's body, as far as they come in time.
async fn head_of(
    body: &mut (impl Stream<Item = Result<Bytes, reqwest::Error>> + Unpin),
    end: Instant,
) -> Vec<u8> {
    let mut head = Vec::new();
    while let Ok(Some(Ok(bytes))) = timeout_at(end, body.next()).await {
        head.extend_from_slice(&bytes);
        if head.len() >= MOST_ERROR_BODY {
            head.truncate(MOST_ERROR_BODY);
            break;
        }
    }
    head
}

const NO_PROGRESS: &str = "the reply said nothing for longer than it may";
/// How much of an error's body is read.
const MOST_ERROR_BODY: usize = 64 << 10;
/// How long an error's body is waited for.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::codec::{Aliases, Codec};
    use crate::error::Partial;
    use crate::profile::Profile;
    use crate::request::ModelRequest;

    /// What comes of pieces, each after so many seconds, of a body that never ends; and when, in seconds.
    async fn end(pieces: &[(u64, &str)], timers: Timers) -> (Result<ModelEvent, LlmError>, u64) {
        let pieces: Vec<_> =
            pieces.iter().map(|(wait, text)| (*wait, Bytes::from(format!("{text}\n\n")))).collect();
        let pieces = futures::stream::iter(pieces).then(|(wait, bytes)| async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            Ok(bytes)
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

    fn call(body: BoxStream<'static, Result<Bytes, reqwest::Error>>, timers: Timers) -> Call {
        let start = Instant::now();
        Call {
            body,
            decoder: Codec::new(Profile::named("compatible").unwrap()).decoder(
                &ModelRequest::default(),
                Aliases::default(),
                Secrets::default(),
            ),
            warnings: Vec::new(),
            ready: VecDeque::new(),
            timers,
            end: start + timers.total,
            progress: start + timers.progress,
            settled: None,
            secrets: Secrets::default(),
            request: None,
        }
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
        let body = futures::stream::iter(pieces.map(|piece| Ok(Bytes::from(format!("{piece}\n\n")))));
        let mut call = call(body.boxed(), Timers::default());
        call.read().await;
        call.read().await;
        tokio::time::advance(Duration::from_secs(3)).await;
        call.read().await;
        assert!(call.decoder.is_done());
        let Some(Ok(ModelEvent::Finished(reply))) = call.ready.pop_back() else { panic!("it was whole") };
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
        assert_eq!((error.kind, error.partial), (LlmErrorKind::Timeout, Some(Box::<Partial>::default())));
        // The first of them begins the reply.
        assert_eq!(seconds, 170);
    }
}
