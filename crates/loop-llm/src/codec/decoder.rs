//! Decodes the bytes of a reply, in chunks of any size, into events: an event stream or one JSON object.

use std::fmt;
use std::sync::Arc;

use super::assembly::Assembly;
use super::names::Aliases;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, ToolCall};

use crate::call::ReplyEnd;
use crate::cap::OutputCap;
use crate::error::{LlmError, RetryAdvice};
use crate::model::ModelEvent;
use crate::sse::{Frame, Framer, TooLong};

/// The decoder of one wire protocol.
pub(crate) trait Protocol: fmt::Debug + Send {
    /// One event of a stream. `data` is trimmed and not empty.
    ///
    /// # Errors
    /// The event reports a failure, or cannot be parsed. This ends the reply.
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError>;

    /// The stream ended with `[DONE]` before a stop reason. If the reply is complete, the protocol sets a stop reason.
    fn close(&mut self, reply: &mut Assembly) {
        _ = reply;
    }

    /// A reply that is one JSON value instead of a stream. `body` is trimmed.
    ///
    /// # Errors
    /// Like [`event`](Self::event).
    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError>;

    /// The provider's own form of the turn, as JSON values for the history of later requests. `calls` are those that are
    /// kept. `None` where text and calls are enough, or where the provider would refuse it.
    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) stop: ReplyEnd,
    /// Whether its tool calls are kept. Otherwise they must not be sent back, as no results follow.
    pub(crate) keeps_calls: bool,
    /// Whether ids of calls were replaced: the results refer to the new ids, so the provider's own turn cannot be sent
    /// back.
    pub(crate) has_new_ids: bool,
    /// Whether calls without a tool name were dropped: they get no results, so the provider's own turn cannot be sent
    /// back.
    pub(crate) has_nameless: bool,
}

/// Decodes one reply.
///
/// Call [`Decoder::push`] with each chunk of bytes, then [`Decoder::finish`] or [`Decoder::interrupt`] once. The last
/// item is the only [`ModelEvent::Finished`] or error. The size of the chunks does not change the items.
///
/// A line of a stream or a JSON object longer than 8 MiB is an error. The first 128 tool calls are parsed, the rest is
/// counted. Output beyond the [`OutputCap`] of the request and arguments of a call beyond 1 MiB are cut off, and the
/// reply ends as [`ReplyEnd::Capped`]. So does a stream with far more bytes than the cap allows; without any content by
/// then, it is an error.
///
/// In text, reasoning, refusals and calls a secret is replaced by `[masked]`. The end of a delta that may be the
/// beginning of a secret is held back until the next delta.
#[derive(Debug)]
pub struct Decoder {
    protocol: Box<dyn Protocol>,
    origin: Arc<str>,
    body: Kind,
    pub(crate) reply: Assembly,
    /// The maximum number of bytes that are parsed.
    max: usize,
    received: usize,
    /// Whether the body ended within the event that is being parsed.
    is_unclosed: bool,
    is_done: bool,
}

/// The kind of body, known from its first byte that is not whitespace.
#[derive(Debug)]
enum Kind {
    /// `seen` bytes of `head` are a byte order mark and whitespace.
    Unknown {
        head: Vec<u8>,
        seen: usize,
    },
    Json(Vec<u8>),
    /// `None` while it passes on a frame.
    Stream(Option<Box<Framer>>),
}

impl Kind {
    fn unknown() -> Self {
        Self::Unknown { head: Vec::new(), seen: 0 }
    }
}

impl Decoder {
    /// A decoder of the reply to one request of `origin`. It undoes the aliases of tools and masks secrets.
    pub(crate) fn new(
        protocol: Box<dyn Protocol>,
        origin: Arc<str>,
        aliases: Aliases,
        secrets: Secrets,
        cap: OutputCap,
    ) -> Self {
        Self {
            protocol,
            origin,
            body: Kind::unknown(),
            reply: Assembly::new(aliases, secrets, cap),
            max: cap.wire(),
            received: 0,
            is_unclosed: false,
            is_done: false,
        }
    }

    /// Whether the last item was returned.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The items that are complete with these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<ModelEvent, LlmError>> {
        self.feed(bytes);
        self.reply.take_items()
    }

    /// The last items of a body that ended normally.
    pub fn finish(&mut self) -> Vec<Result<ModelEvent, LlmError>> {
        self.end_of_body();
        self.reply.take_items()
    }

    /// The last items of a body that was interrupted: an error of this kind, unless the reply was complete by then.
    pub fn interrupt(&mut self, kind: FailureKind, message: &str) -> Vec<Result<ModelEvent, LlmError>> {
        self.broken_off(kind, message);
        self.reply.take_items()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        // The limit applies to bytes, so that the size of the chunks does not change the result.
        let room = self.max - self.received;
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.received += taken.len();
        self.take(taken);
        if taken.len() < bytes.len() {
            self.cut();
        }
    }

    /// The body ended normally.
    pub(crate) fn end_of_body(&mut self) {
        if self.is_done {
            return;
        }
        match std::mem::replace(&mut self.body, Kind::unknown()) {
            Kind::Unknown { .. } => self.fail(again("an empty body in place of a reply")),
            Kind::Json(body) => self.whole(&body),
            Kind::Stream(framer) => {
                self.is_unclosed = true;
                let mut framer = framer.unwrap_or_else(|| Box::new(Framer::new(MAX_LINE)));
                let result = framer.finish(&mut |frame| self.frame(frame));
                self.framed(result);
                if !self.is_done && !framer.has_field() {
                    self.fail(again("bytes that are not an event stream in place of a reply"));
                }
            }
        }
        self.end(FailureKind::StreamInterrupted, "the reply ended without its end");
    }

    /// The connection was interrupted.
    pub(crate) fn broken_off(&mut self, kind: FailureKind, message: &str) {
        if self.reply.is_ending() {
            self.reply.warn("broken_off_after_its_end");
        }
        self.end(kind, message);
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        if let Kind::Unknown { head, seen } = &mut self.body {
            head.extend_from_slice(bytes);
            if *seen == 0 && head.starts_with(MARK) {
                *seen = MARK.len();
            }
            if *seen == 0 && MARK.starts_with(head) {
                return;
            }
            let blank = |head: &[u8], seen: usize| head.get(seen).is_some_and(u8::is_ascii_whitespace);
            while blank(head, *seen) {
                *seen += 1;
            }
            if *seen > MAX_JSON {
                return self.fail(LlmError::unreadable(TOO_LARGE));
            }
            let Some(first) = head.get(*seen).copied() else { return };
            let head = std::mem::take(head);
            self.body = if matches!(first, b'{' | b'[' | b'<' | b'n' | b'"') {
                Kind::Json(Vec::new())
            } else {
                Kind::Stream(Some(Box::new(Framer::new(MAX_LINE))))
            };
            return self.take(&head);
        }
        match &mut self.body {
            Kind::Unknown { .. } => {}
            Kind::Json(body) if body.len() + bytes.len() > MAX_JSON => {
                self.fail(LlmError::unreadable(TOO_LARGE));
            }
            Kind::Json(body) => body.extend_from_slice(bytes),
            Kind::Stream(framer) => {
                let Some(mut framer) = framer.take() else { return };
                let result = framer.push(bytes, &mut |frame| self.frame(frame));
                self.body = Kind::Stream(Some(framer));
                self.framed(result);
            }
        }
    }

    fn frame(&mut self, frame: Frame<'_>) {
        if self.is_done {
            return;
        }
        match frame {
            Frame::Comment => self.reply.keep_alive(),
            Frame::Error { message } => self.fail(self.reply.failure(message)),
            Frame::Data { event, data, is_damaged } => {
                // Most data begins and ends with a bracket.
                let is_trim = data.starts_with('{') && data.ends_with('}');
                self.data(event, if is_trim { data } else { data.trim() }, is_damaged);
            }
        }
    }

    fn framed(&mut self, result: Result<(), TooLong>) {
        if result == Err(TooLong) && !self.is_done {
            self.fail(LlmError::unreadable("a line of the reply is longer than 8 MiB"));
        }
    }

    fn data(&mut self, event: Option<&str>, data: &str, is_damaged: bool) {
        if data == "[DONE]" {
            self.protocol.close(&mut self.reply);
            return self.end(FailureKind::StreamInterrupted, "the reply ended without a reason");
        }
        if data.is_empty() {
            return;
        }
        self.reply.is_damaged = is_damaged;
        let result = self.protocol.event(event, data, &mut self.reply);
        self.reply.is_damaged = false;
        match result {
            // An incomplete event at the end of the body: the stream was interrupted there.
            Err(error) if self.is_unclosed && error.kind == FailureKind::BadResponse => {
                let message = "the reply ended in the middle of an event";
                self.end(FailureKind::StreamInterrupted, message);
            }
            Err(error) => self.fail(error),
            Ok(()) if self.reply.is_beyond_cap() => self.cut(),
            Ok(()) if self.reply.is_over => {
                self.end(FailureKind::StreamInterrupted, "the reply ended without a reason");
            }
            Ok(()) => {}
        }
    }

    /// A reply that is one JSON value.
    fn whole(&mut self, body: &[u8]) {
        let body = body.strip_prefix(MARK).unwrap_or(body).trim_ascii();
        if body.first() == Some(&b'<') {
            return self.fail(again("an HTML page in place of a reply"));
        }
        self.reply.closes();
        let result = match std::str::from_utf8(body) {
            Ok(body) => self.protocol.whole(body, &mut self.reply),
            Err(_) => Err(again("a body that is not UTF-8 in place of a reply")),
        };
        match result {
            Err(error) => self.fail(error),
            Ok(()) if self.reply.is_beyond_cap() => self.reply.cap(),
            Ok(()) => {}
        }
    }

    /// Ends the reply: normally if a stop reason was received, otherwise with this error.
    fn end(&mut self, kind: FailureKind, message: &str) {
        if self.is_done {
            return;
        }
        if !self.reply.is_ending() {
            return self.fail(LlmError::in_stream(kind, message));
        }
        self.is_done = true;
        self.reply.settle();
        let reply = self.reply.finish(&self.origin, &mut *self.protocol);
        self.reply.give(Ok(ModelEvent::Finished(Box::new(reply))));
    }

    fn cut(&mut self) {
        if self.is_done {
            return;
        }
        if !matches!(self.body, Kind::Stream(_)) {
            return self.fail(LlmError::unreadable(TOO_LARGE));
        }
        // Reported output tokens were generated, even if no content arrived: such a reply is capped rather than an error.
        if !self.reply.is_ending() && self.reply.is_silent() && !self.reply.reports_beyond_cap() {
            let message = format!("{} bytes of a reply came, and none of them says anything", self.received);
            return self.fail(LlmError::unreadable(message));
        }
        self.reply.cap();
        self.end(FailureKind::BadResponse, "");
    }

    fn fail(&mut self, mut error: LlmError) {
        self.is_done = true;
        self.reply.settle();
        error.partial = Some(self.reply.partial());
        // A stream that began and then violated the protocol may be billed.
        let is_stream = matches!(self.body, Kind::Stream(_));
        if is_stream && error.kind == FailureKind::BadResponse && self.reply.has_begun {
            error.detail.get_or_insert_default().may_have_begun = true;
        }
        self.reply.give(Err(error));
    }
}

/// An error for a body that is not a reply. A retry may succeed.
pub(crate) fn again(message: &str) -> LlmError {
    LlmError { retry: RetryAdvice::Backoff, ..LlmError::unreadable(message) }
}

/// The UTF-8 byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// The maximum number of bytes of a line.
const MAX_LINE: usize = 8 << 20;
/// The maximum number of bytes of a reply that is one JSON object, and of whitespace before any reply.
const MAX_JSON: usize = 8 << 20;
const TOO_LARGE: &str = "a reply without a stream is larger than 8 MiB";
