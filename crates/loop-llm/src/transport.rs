//! Bytes between the client and a decoder, within time.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use crate::error::{ErrorPhase, LlmError, LlmErrorKind};
use crate::mask;
use crate::model::{EventStream, ModelEvent};
use crate::openai_chat::Decoder;

/// How long a call may take, by part. A connection may take ten seconds besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// From sending to the first byte of the reply.
    pub first_byte: Duration,
    /// Between two bytes.
    pub idle: Duration,
    /// Between two events that say something: comments and pings do not.
    pub progress: Duration,
    /// The whole call.
    pub total: Duration,
}

impl Default for Timers {
    /// Two minutes, one minute, two minutes, ten minutes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { first_byte: seconds(120), idle: seconds(60), progress: seconds(120), total: seconds(600) }
    }
}

/// How a status other than 2xx becomes an error.
pub(crate) type Classify = fn(u16, &HeaderMap, &[u8], SystemTime, Option<&str>) -> LlmError;

/// A call, ready to be sent.
pub(crate) struct Post {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) secret: Option<SecretString>,
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
    let secret = post.secret.as_ref().map(ExposeSecret::expose_secret);
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
        .body(post.body)
        .send();
    let response = timeout_at(first, request).await.map_err(|_| late())?;
    let response = response.map_err(|error| {
        let phase = if error.is_connect() { ErrorPhase::Connect } else { ErrorPhase::Headers };
        LlmError::new(LlmErrorKind::Connection, phase, told(error, secret))
    })?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = response.bytes_stream().boxed();
    if !(200..300).contains(&status) {
        let text = head_of(&mut body, first.min(Instant::now() + ERROR_BODY_TIME)).await;
        let mut error = (post.classify)(status, &headers, &text, SystemTime::now(), secret);
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
        secret: post.secret,
        body: body.boxed(),
    };
    match timeout_at(first, call.body.next()).await {
        Err(_) => return Err(late()),
        Ok(Some(Err(error))) => {
            let message = told(error, call.secret.as_ref().map(ExposeSecret::expose_secret));
            return Err(LlmError::new(LlmErrorKind::Connection, ErrorPhase::Headers, message));
        }
        Ok(Some(Ok(bytes))) => call.take(&bytes),
        Ok(None) => call.finish(),
    }
    Ok(futures::stream::unfold(call, |mut call| async move {
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
    secret: Option<SecretString>,
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
        }
        Some(item)
    }

    async fn read(&mut self) {
        let idle = Instant::now() + self.timers.idle;
        let deadline = idle.min(self.end).min(self.progress);
        match timeout_at(deadline, self.body.next()).await {
            // A server that always has something ready must not outrun the clock.
            Ok(Some(Ok(bytes))) if Instant::now() < self.end => {
                self.take(&bytes);
                if Instant::now() >= self.progress {
                    self.interrupt(LlmErrorKind::Timeout, NO_PROGRESS);
                }
            }
            Ok(None) => self.finish(),
            Ok(Some(Err(error))) => {
                let message = told(error, self.secret.as_ref().map(ExposeSecret::expose_secret));
                self.interrupt(LlmErrorKind::StreamInterrupted, &message);
            }
            Err(_) if deadline < self.end && deadline < self.progress => {
                self.interrupt(
                    LlmErrorKind::Timeout,
                    "no byte of the reply came for longer than that may take",
                );
            }
            Err(_) if deadline < self.end => self.interrupt(LlmErrorKind::Timeout, NO_PROGRESS),
            Err(_) | Ok(Some(Ok(_))) => {
                self.interrupt(LlmErrorKind::Timeout, "the reply took longer than a call may");
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let items = self.decoder.push(bytes);
        if items.iter().any(|item| !matches!(item, Ok(ModelEvent::KeepAlive))) {
            self.progress = Instant::now() + self.timers.progress;
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

/// What a client's error says, with its causes, without the URL.
fn told(error: reqwest::Error, secret: Option<&str>) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    mask::line(&text, secret)
}

const NO_PROGRESS: &str = "the reply said nothing for longer than it may";
/// How much of an error's body is read.
const MOST_ERROR_BODY: usize = 64 << 10;
/// How long an error's body is waited for.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
