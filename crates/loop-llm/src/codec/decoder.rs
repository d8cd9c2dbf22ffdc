//! Events out of the bytes of a reply, a stream or one JSON object, in any pieces.

use std::fmt;
use std::sync::Arc;

use super::assembly::{Assembly, interrupted};
use super::names::Aliases;
use loop_core::ToolCall;

use crate::call::ReplyEnd;
use crate::cap::OutputCap;
use crate::error::{LlmError, LlmErrorKind, RetryAdvice};
use crate::model::ModelEvent;
use crate::secrets::Secrets;
use crate::sse::{Frame, Framer, TooLong};

/// How one wire protocol is read.
pub(crate) trait Protocol: fmt::Debug + Send {
    /// One event of a stream; `data` is trimmed and not empty.
    ///
    /// # Errors
    /// It is the provider's word for a failure, or cannot be read. That ends the reply.
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError>;

    /// The stream says that all has come, though no reason for the end was given. Where what came is complete, that is an
    /// end.
    fn close(&mut self, reply: &mut Assembly) {
        _ = reply;
    }

    /// A reply that came as one JSON value; `body` is trimmed.
    ///
    /// # Errors
    /// As of an event.
    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError>;

    /// What has to go back in place of the turn's text and calls, as JSON: the values that stand in the history of a
    /// request. `calls` are those of the reply that are meant. `None` where text and calls say it all, or where it cannot
    /// go back.
    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String>;
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) stop: ReplyEnd,
    /// Whether its calls stay: otherwise they must not go back, since nobody will answer them.
    pub(crate) keeps_calls: bool,
    /// Whether ids of calls are others than the provider wrote, so that its own turn would not fit the results.
    pub(crate) has_new_ids: bool,
    /// Whether calls that name no tool were left out: nobody will answer them, so the provider's own turn cannot go back.
    pub(crate) has_nameless: bool,
}

/// Decodes one reply.
///
/// After any number of [`Decoder::push`], [`Decoder::finish`] or [`Decoder::interrupt`] says that the bytes are over.
/// Exactly one [`ModelEvent::Finished`] or error comes out, as the last item, and nothing after it. How the bytes are
/// cut makes no difference to what comes out.
///
/// A line or a JSON object may have 8 MiB: beyond that it is an error. The first 128 calls of a reply are read, and the
/// rest is counted. What a reply says beyond the [`OutputCap`] of its request, or in the arguments of a call beyond 1 MiB,
/// is cut off, and it ends as [`ReplyEnd::Capped`]; so does a stream whose bytes go far beyond it. One that has said nothing at
/// all by then is an error.
///
/// In text, reasoning, refusals and calls `[masked]` stands in place of a secret; as much of a piece as may be the
/// beginning of one is held back until the next piece.
#[derive(Debug)]
pub struct Decoder {
    protocol: Box<dyn Protocol>,
    origin: Arc<str>,
    body: Kind,
    reply: Assembly,
    /// The most bytes of it that are read.
    max: usize,
    received: usize,
    /// Whether the body ended within the event that is being read.
    is_unclosed: bool,
    is_done: bool,
}

/// What kind of body it is: that shows in its first byte that is no space.
#[derive(Debug)]
enum Kind {
    /// `seen` bytes of it are a byte order mark and blanks.
    Unknown {
        head: Vec<u8>,
        seen: usize,
    },
    Json(Vec<u8>),
    Stream(Framer),
}

impl Kind {
    fn unknown() -> Self {
        Self::Unknown { head: Vec::new(), seen: 0 }
    }
}

impl Decoder {
    /// A decoder of the reply to one request of `origin`: its aliases are undone, and secrets are masked wherever they
    /// stand.
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

    /// Whether the last item has come.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the word for the end has come: only usage and the mark of the end may still follow.
    pub(crate) fn is_ending(&self) -> bool {
        self.reply.is_ending()
    }

    /// A number that grows with everything that the reply says, be it shown yet or not.
    pub(crate) fn received(&self) -> usize {
        self.reply.received()
    }

    /// What these bytes tell.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<ModelEvent, LlmError>> {
        self.feed(bytes);
        self.reply.take_items()
    }

    /// What is left when the body has ended as it should.
    pub fn finish(&mut self) -> Vec<Result<ModelEvent, LlmError>> {
        self.end_of_body();
        self.reply.take_items()
    }

    /// What is left when the body broke off: an error of this kind, unless the reply was complete by then.
    pub fn interrupt(&mut self, kind: LlmErrorKind, message: &str) -> Vec<Result<ModelEvent, LlmError>> {
        self.broken_off(kind, message);
        self.reply.take_items()
    }

    /// The next of what was told and not taken yet; after the last of a reply it [is done](Self::is_done).
    pub(crate) fn next_item(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        self.reply.next_item()
    }

    /// Reads these bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        // What is beyond the guard is not looked at, wherever the pieces were cut.
        let room = self.max - self.received;
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.received += taken.len();
        self.take(taken);
        if taken.len() < bytes.len() {
            self.cut();
        }
    }

    /// The body has ended as it should.
    pub(crate) fn end_of_body(&mut self) {
        if self.is_done {
            return;
        }
        match std::mem::replace(&mut self.body, Kind::unknown()) {
            Kind::Unknown { .. } => self.fail(again("an empty body in place of a reply")),
            Kind::Json(body) => self.whole(&body),
            Kind::Stream(mut framer) => {
                self.is_unclosed = true;
                let result = framer.finish(&mut |frame| self.frame(frame));
                self.framed(result);
                if !self.is_done && !framer.has_field() {
                    self.fail(again("bytes that are no event stream in place of a reply"));
                }
            }
        }
        self.end(LlmErrorKind::StreamInterrupted, "the reply ended without its end");
    }

    /// The body broke off.
    pub(crate) fn broken_off(&mut self, kind: LlmErrorKind, message: &str) {
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
                Kind::Stream(Framer::new(MAX_LINE))
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
                let mut framer = std::mem::replace(framer, Framer::new(MAX_LINE));
                let result = framer.push(bytes, &mut |frame| self.frame(frame));
                self.body = Kind::Stream(framer);
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
            Frame::Data { event, data, is_damaged } => self.data(event, data.trim(), is_damaged),
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
            return self.end(LlmErrorKind::StreamInterrupted, "the reply ended without a reason");
        }
        if data.is_empty() {
            return;
        }
        self.reply.is_damaged = is_damaged;
        let result = self.protocol.event(event, data, &mut self.reply);
        self.reply.is_damaged = false;
        match result {
            // An event that cannot be read since its end is missing: the reply was cut there.
            Err(error) if self.is_unclosed && error.kind == LlmErrorKind::BadResponse => {
                let message = "the reply ended in the middle of an event";
                self.end(LlmErrorKind::StreamInterrupted, message);
            }
            Err(error) => self.fail(error),
            Ok(()) if self.reply.is_beyond_cap() => self.cut(),
            Ok(()) if self.reply.is_over() => {
                self.end(LlmErrorKind::StreamInterrupted, "the reply ended without a reason");
            }
            Ok(()) => {}
        }
    }

    /// A reply that came as one JSON value.
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

    /// The end of the reply, if it was said that there is one.
    fn end(&mut self, kind: LlmErrorKind, message: &str) {
        if self.is_done {
            return;
        }
        if !self.reply.is_ending() {
            return self.fail(interrupted(kind, message));
        }
        self.is_done = true;
        self.reply.settle();
        let (stop, keeps_calls) = (self.reply.ending(), self.reply.keeps_calls());
        let protocol = &mut self.protocol;
        let raw = |has_new_ids, has_nameless, calls: &[ToolCall]| {
            let end = End { stop, keeps_calls, has_new_ids, has_nameless };
            protocol.raw(&end, calls)
        };
        let reply = self.reply.finish(&self.origin, raw);
        self.reply.give(Ok(ModelEvent::Finished(Box::new(reply))));
    }

    fn cut(&mut self) {
        if self.is_done {
            return;
        }
        if !matches!(self.body, Kind::Stream(_)) {
            return self.fail(LlmError::unreadable(TOO_LARGE));
        }
        // Tokens that were reported were generated, whatever of them was shown.
        if !self.reply.is_ending() && self.reply.is_silent() && !self.reply.reports_beyond_cap() {
            let message = format!("{} bytes of a reply came, and none of them says anything", self.received);
            return self.fail(LlmError::unreadable(message));
        }
        self.reply.cap();
        self.end(LlmErrorKind::BadResponse, "");
    }

    fn fail(&mut self, mut error: LlmError) {
        self.is_done = true;
        self.reply.settle();
        error.partial = Some(self.reply.partial());
        // A reply that had begun by the protocol and then broke it may be billed: a model was at work.
        let is_stream = matches!(self.body, Kind::Stream(_));
        if is_stream && error.kind == LlmErrorKind::BadResponse && self.reply.has_begun() {
            error.detail.get_or_insert_default().may_have_begun = true;
        }
        self.reply.give(Err(error));
    }
}

/// A part of a reply that is no JSON.
pub(crate) fn unreadable(error: &serde_json::Error) -> LlmError {
    LlmError::unreadable(format!("a part of the reply cannot be read as JSON: {error}"))
}

/// Something in place of a reply that may be one the next time.
pub(crate) fn again(message: &str) -> LlmError {
    LlmError { retry: RetryAdvice::Backoff, ..LlmError::unreadable(message) }
}

/// The byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// The most bytes of a line.
const MAX_LINE: usize = 8 << 20;
/// The most bytes of a reply that is one JSON object, and of the blanks before any reply.
const MAX_JSON: usize = 8 << 20;
const TOO_LARGE: &str = "a reply without a stream is larger than 8 MiB";
