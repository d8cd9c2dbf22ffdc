//! Behaviours: how the server responds to a request, in which chunks, and how it fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loop_core::types::{FailureKind, Usage};
use loop_llm::codec::Api;
use loop_llm::{ModelReply, ModelRequest};

/// The events of a stream in the format of a protocol, each with its end.
pub type Frames = Vec<Vec<u8>>;

/// Rewrites the events of one stream, in order: it replaces the given frames by others.
pub type RewriteStream = Box<dyn FnMut(&mut Frames) + Send>;

/// Replaces the reply of the model.
#[derive(Clone)]
pub(super) struct ModelStatement(pub(super) Arc<SayFn>);

type SayFn = dyn Fn(&ModelRequest, ModelReply) -> ModelReply + Send + Sync;

/// Makes the rewriter of a stream for this protocol.
#[derive(Clone)]
pub(super) struct Rewrite(pub(super) Arc<dyn Fn(Api) -> RewriteStream + Send + Sync>);

impl fmt::Debug for ModelStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelStatement")
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewrite")
    }
}

/// How the server responds to one request. By default it responds correctly with the model's reply.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    pub(super) reply: Reply,
    pub(super) delivery: Delivery,
    /// Replaces the reply of the model.
    pub(super) say: Option<ModelStatement>,
    /// Rewrites the events of a stream.
    pub(super) rewrite: Option<Rewrite>,
    /// The failure that a stream reports after its first chunk of text.
    pub(super) fails: Option<FailureKind>,
    /// The reported usage in place of the true one.
    pub(super) report: Option<fn(Usage) -> Usage>,
    /// Whether a reply is sent as a whole even if a stream was requested.
    pub(super) is_whole: bool,
    /// Whether a named behaviour made it.
    pub(super) is_lie: bool,
}

impl Behaviour {
    /// Responds correctly, with the model's reply.
    pub fn model() -> Self {
        Self::default()
    }

    /// Responds with this status and a body of type `application/json`.
    pub fn status(code: u16, body: impl Into<Bytes>) -> Self {
        Self::of(Reply::Status { code, body: body.into() })
    }

    /// Responds with status 200 and these bytes as the complete event stream.
    pub fn body(bytes: impl Into<Bytes>) -> Self {
        Self::of(Reply::Body(bytes.into()))
    }

    /// Responds with status 200 and a JSON object that is cut in the middle. The `Content-Length` is that of the cut
    /// body.
    pub fn half_json() -> Self {
        const HALF: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"mess"#;
        Self::body(HALF).with_content_type("application/json").with_content_length(HALF.len() as u64)
    }

    /// Accepts the connection and closes it at once, before it reads anything. On a connection that is already open, it
    /// reads the request and closes the connection without a response.
    pub fn refuse() -> Self {
        Self::of(Reply::Refuse)
    }

    /// Sends bytes that are not HTTP in place of the head, and closes the connection.
    pub fn garbage_head() -> Self {
        Self::raw("HTTP/1.1 200 OK\r\nthis is not a header\0\r\n: neither is this\r\n\r\ndata: {}\n\n")
    }

    /// Sends these bytes in place of a response, including its head, and closes the connection.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::of(Reply::Raw(bytes.into()))
    }

    /// Reads the request, and sends nothing until the client hangs up.
    pub fn silence() -> Self {
        Self::of(Reply::Silence)
    }

    /// Responds with status 401 and an error that repeats the request's headers with credentials.
    pub fn echo() -> Self {
        Self::of(Reply::Echo)
    }

    /// Sends a valid stream whose visible text has this many bytes. They are generated while they are sent.
    pub fn flood(bytes: u64) -> Self {
        Self::of(Reply::Flood { bytes })
    }

    /// Sends an event stream whose first line has this many bytes.
    pub fn endless_line(bytes: u64) -> Self {
        Self::of(Reply::Line { bytes })
    }

    /// Sets how the body is divided into chunks.
    #[must_use]
    pub fn in_chunks(mut self, chunks: Chunks) -> Self {
        self.delivery.chunks = chunks;
        self
    }

    /// Sets the pause between two chunks of the body.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.delivery.pause = pause;
        self
    }

    /// Sends one byte of the body at a time, with this pause between two bytes.
    #[must_use]
    pub fn slow(self, pause: Duration) -> Self {
        self.in_chunks(Chunks::Bytes(1)).with_pause(pause)
    }

    /// Sends comments before the first event of a stream, each as a chunk. They count as bytes of the body.
    #[must_use]
    pub fn with_keep_alives(mut self, comments: u32) -> Self {
        self.delivery.keep_alives = comments;
        self
    }

    /// Stops sending after this many bytes of the body, until the client hangs up.
    #[must_use]
    pub fn stalls_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::Stall)
    }

    /// Closes the socket after this many bytes of the body, although the body is incomplete.
    #[must_use]
    pub fn cuts_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::Cut)
    }

    /// Ends the body after this many bytes as if it were complete, in valid HTTP. With a `Content-Length`, this is only
    /// possible by closing, as in [`cuts_after`](Self::cuts_after).
    #[must_use]
    pub fn ends_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::End)
    }

    /// Adds a header to the usual ones.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.delivery.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a wrong content type.
    #[must_use]
    pub fn with_content_type(mut self, content_type: &str) -> Self {
        self.delivery.content_type = Some(content_type.to_owned());
        self
    }

    /// Sets a `Content-Length` of this many bytes, whatever the body has. The connection is closed after the body.
    #[must_use]
    pub fn with_content_length(mut self, bytes: u64) -> Self {
        self.delivery.content_length = Some(bytes);
        self
    }

    /// Responds with HTTP/1.0 without a length: the body ends when the connection is closed.
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.delivery.until_closed = true;
        self
    }

    /// Sends these bytes after the body, and closes the connection.
    #[must_use]
    pub fn followed_by(mut self, bytes: impl Into<Bytes>) -> Self {
        self.delivery.after = bytes.into();
        self
    }

    /// Never ends the body: the connection stays open until the client hangs up.
    #[must_use]
    pub fn stays_open(mut self) -> Self {
        self.delivery.stays_open = true;
        self
    }

    /// Sends the model's reply as a whole even if a stream was requested.
    #[must_use]
    pub fn in_one_piece(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// Replaces the model's reply. The usage is that of the replacement. Only for a [`Lie`](super::Lie).
    #[must_use]
    pub fn saying(
        mut self,
        say: impl Fn(&ModelRequest, ModelReply) -> ModelReply + Send + Sync + 'static,
    ) -> Self {
        self.say = Some(ModelStatement(Arc::new(say)));
        self
    }

    /// Rewrites the events of a stream before they are sent. A reply without streaming stays unchanged.
    #[must_use]
    pub fn rewritten(mut self, rewrite: impl Fn(Api) -> RewriteStream + Send + Sync + 'static) -> Self {
        self.rewrite = Some(Rewrite(Arc::new(rewrite)));
        self
    }

    /// Ends a stream after its first chunk of text with an event that reports this failure.
    #[must_use]
    pub fn fails(mut self, kind: FailureKind) -> Self {
        self.fails = Some(kind);
        self
    }

    /// Reports this usage in place of the true one.
    #[must_use]
    pub fn reporting(mut self, report: fn(Usage) -> Usage) -> Self {
        self.report = Some(report);
        self
    }

    fn of(reply: Reply) -> Self {
        Self { reply, ..Self::default() }
    }

    fn breaks(mut self, after_bytes: u64, how: Break) -> Self {
        self.delivery.breaks = Some((after_bytes, how));
        self
    }
}

/// How the body of a response is divided into writes. In a chunked body, each write is one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunks {
    /// One write for each event of a stream, and one for a fixed body.
    #[default]
    Whole,
    /// Writes of this many bytes, from 1, across the ends of events. A write waits until it is full or the body ends.
    Bytes(usize),
    /// Writes of 1 to 64 bytes, by a sequence that follows from the seed.
    Random {
        /// The seed. Equal seeds give equal writes.
        seed: u64,
    },
}

/// The content of the response.
#[derive(Clone, Debug, Default)]
pub(super) enum Reply {
    #[default]
    Model,
    Status {
        code: u16,
        body: Bytes,
    },
    Body(Bytes),
    Refuse,
    Raw(Bytes),
    Silence,
    Echo,
    Flood {
        bytes: u64,
    },
    Line {
        bytes: u64,
    },
}

/// How the response is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    pub(super) chunks: Chunks,
    pub(super) pause: Duration,
    pub(super) keep_alives: u32,
    /// After how many bytes of the body it breaks, and how.
    pub(super) breaks: Option<(u64, Break)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: Option<String>,
    pub(super) content_length: Option<u64>,
    /// Whether it is HTTP/1.0 without a length.
    pub(super) until_closed: bool,
    /// Bytes behind the body.
    pub(super) after: Bytes,
    /// Whether the body is never ended.
    pub(super) stays_open: bool,
}

/// How a response breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    Stall,
    Cut,
    End,
}

/// Divides bytes into chunks.
#[derive(Debug)]
pub(super) struct Pieces {
    size: PieceSize,
}

#[derive(Debug)]
enum PieceSize {
    Any,
    Fixed(usize),
    Drawn { next: usize, state: u64 },
}

impl Pieces {
    pub(super) fn new(chunks: Chunks) -> Self {
        let size = match chunks {
            Chunks::Whole => PieceSize::Any,
            Chunks::Bytes(bytes) => PieceSize::Fixed(bytes.max(1)),
            Chunks::Random { seed } => {
                let mut state = seed;
                PieceSize::Drawn { next: draw(&mut state), state }
            }
        };
        Self { size }
    }

    /// The size of the next chunk. `None`: `held` bytes are not enough for one.
    pub(super) fn next(&mut self, held: usize) -> Option<usize> {
        match &mut self.size {
            PieceSize::Any => (held > 0).then_some(held),
            PieceSize::Fixed(size) => (held >= *size).then_some(*size),
            PieceSize::Drawn { next, state } if held >= *next => Some(std::mem::replace(next, draw(state))),
            PieceSize::Drawn { .. } => None,
        }
    }
}

/// 1 to 64, by SplitMix64.
fn draw(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize % 64 + 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sizes(chunks: Chunks, mut held: usize) -> Vec<usize> {
        let mut pieces = Pieces::new(chunks);
        let mut sizes = Vec::new();
        while let Some(size) = pieces.next(held) {
            held -= size;
            sizes.push(size);
        }
        sizes
    }

    #[test]
    fn pieces_are_as_large_as_was_said() {
        assert_eq!(sizes(Chunks::Whole, 10), [10]);
        assert_eq!(sizes(Chunks::Bytes(3), 10), [3, 3, 3]);
        assert_eq!(sizes(Chunks::Bytes(0), 2), [1, 1]);
    }

    #[test]
    fn random_pieces_follow_from_the_seed_alone() {
        let first = sizes(Chunks::Random { seed: 7 }, 10_000);
        assert_eq!(first, sizes(Chunks::Random { seed: 7 }, 10_000));
        assert_ne!(first, sizes(Chunks::Random { seed: 8 }, 10_000));
        assert!(first.iter().all(|size| (1..=64).contains(size)));
        assert!(first.contains(&1) && first.contains(&64));
    }
}
