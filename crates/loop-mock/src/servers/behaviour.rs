//! How a request is answered: by the model or by fixed bytes, in which pieces, and where it goes wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loop_core::types::{FailureKind, Usage};
use loop_llm::codec::Api;
use loop_llm::{ModelReply, ModelRequest};

/// The events of a stream as a protocol writes them, each with its end.
pub type Frames = Vec<Vec<u8>>;

/// What changes the events of one stream, in their order: the next ones are replaced by what is written in their place.
pub type RewriteStream = Box<dyn FnMut(&mut Frames) + Send>;

/// What the model says in the place of its reply.
#[derive(Clone)]
pub(super) struct ModelStatement(pub(super) Arc<SayFn>);

type SayFn = dyn Fn(&ModelRequest, ModelReply) -> ModelReply + Send + Sync;

/// What begins to change the events of a stream of this protocol.
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

/// How a server answers one request. The default: the model answers, correctly.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    pub(super) reply: Reply,
    pub(super) delivery: Delivery,
    /// What the model says in the place of its reply.
    pub(super) say: Option<ModelStatement>,
    /// What is done to the events of a stream.
    pub(super) rewrite: Option<Rewrite>,
    /// The failure that a stream reports after its first piece of text.
    pub(super) fails: Option<FailureKind>,
    /// The tokens that are reported in the place of the true ones.
    pub(super) report: Option<fn(Usage) -> Usage>,
    /// Whether a reply comes in one piece, also where a stream was asked for.
    pub(super) is_whole: bool,
    /// Whether it is the answer of a named behaviour.
    pub(super) is_lie: bool,
}

impl Behaviour {
    /// The model answers.
    pub fn model() -> Self {
        Self::default()
    }

    /// A status, and a body of type `application/json`.
    pub fn status(code: u16, body: impl Into<Bytes>) -> Self {
        Self::of(Reply::Status { code, body: body.into() })
    }

    /// Status 200 and these bytes as the whole event stream.
    pub fn body(bytes: impl Into<Bytes>) -> Self {
        Self::of(Reply::Body(bytes.into()))
    }

    /// Status 200 of type `application/json` with an object that ends in the middle; the length in the head is right.
    pub fn half_json() -> Self {
        const HALF: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"mess"#;
        Self::body(HALF).with_content_type("application/json").with_content_length(HALF.len() as u64)
    }

    /// The connection is accepted and closed at once, before anything is read. On a connection that was open already
    /// the request is read, and the connection is closed without an answer.
    pub fn refuse() -> Self {
        Self::of(Reply::Refuse)
    }

    /// What comes in place of the head is no HTTP; then the connection is closed.
    pub fn garbage_head() -> Self {
        Self::raw("HTTP/1.1 200 OK\r\nthis is no header\0\r\n: neither is this\r\n\r\ndata: {}\n\n")
    }

    /// These bytes come in the place of an answer, head and all; then the connection is closed.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::of(Reply::Raw(bytes.into()))
    }

    /// The request is read, and nothing comes until the client hangs up.
    pub fn silence() -> Self {
        Self::of(Reply::Silence)
    }

    /// Status 401 and an error that repeats the headers of the request that carry credentials.
    pub fn echo() -> Self {
        Self::of(Reply::Echo)
    }

    /// A well-formed stream whose visible text has this many bytes. They are made while they are written.
    pub fn flood(bytes: u64) -> Self {
        Self::of(Reply::Flood { bytes })
    }

    /// An event stream whose first line has this many bytes and no end before them.
    pub fn endless_line(bytes: u64) -> Self {
        Self::of(Reply::Line { bytes })
    }

    /// In which pieces the body is written.
    #[must_use]
    pub fn in_chunks(mut self, chunks: Chunks) -> Self {
        self.delivery.chunks = chunks;
        self
    }

    /// The time between two pieces of the body.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.delivery.pause = pause;
        self
    }

    /// One byte of the body at a time, with this time between two of them.
    #[must_use]
    pub fn slow(self, pause: Duration) -> Self {
        self.in_chunks(Chunks::Bytes(1)).with_pause(pause)
    }

    /// Comments before the first event of a stream, each a piece of its own. They count as bytes of the body.
    #[must_use]
    pub fn with_keep_alives(mut self, comments: u32) -> Self {
        self.delivery.keep_alives = comments;
        self
    }

    /// After this many bytes of the body it never continues, until the client hangs up.
    #[must_use]
    pub fn stalls_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::Stall)
    }

    /// After this many bytes of the body the socket is closed, although the body has not ended.
    #[must_use]
    pub fn cuts_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::Cut)
    }

    /// After this many bytes of the body it ends as if it were whole: cleanly, by the rules of HTTP. Where the head
    /// names a length, nothing but closing is left, as in [`cuts_after`](Self::cuts_after).
    #[must_use]
    pub fn ends_after(self, bytes: u64) -> Self {
        self.breaks(bytes, Break::End)
    }

    /// A header beside the usual ones.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.delivery.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another content type than the body has.
    #[must_use]
    pub fn with_content_type(mut self, content_type: &str) -> Self {
        self.delivery.content_type = Some(content_type.to_owned());
        self
    }

    /// A `Content-Length` of this many bytes, whatever the body has. The connection is closed after the body.
    #[must_use]
    pub fn with_content_length(mut self, bytes: u64) -> Self {
        self.delivery.content_length = Some(bytes);
        self
    }

    /// An HTTP/1.0 answer without a length: its body ends where the connection is closed.
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.delivery.until_closed = true;
        self
    }

    /// These bytes follow the body, and the connection is closed.
    #[must_use]
    pub fn followed_by(mut self, bytes: impl Into<Bytes>) -> Self {
        self.delivery.after = bytes.into();
        self
    }

    /// The body is written and never ended: the connection stays open until the client hangs up.
    #[must_use]
    pub fn stays_open(mut self) -> Self {
        self.delivery.stays_open = true;
        self
    }

    /// The model's reply comes in one piece, also where a stream was asked for.
    #[must_use]
    pub fn in_one_piece(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// The model says something else than its honest reply. Its tokens are those of what it says. Of a
    /// [`Lie`](super::Lie) alone.
    #[must_use]
    pub fn saying(
        mut self,
        say: impl Fn(&ModelRequest, ModelReply) -> ModelReply + Send + Sync + 'static,
    ) -> Self {
        self.say = Some(ModelStatement(Arc::new(say)));
        self
    }

    /// The events of a stream are changed before they are written. A reply that is not made of events stays as it is.
    #[must_use]
    pub fn rewritten(mut self, rewrite: impl Fn(Api) -> RewriteStream + Send + Sync + 'static) -> Self {
        self.rewrite = Some(Rewrite(Arc::new(rewrite)));
        self
    }

    /// A stream reports this failure as an event after its first piece of text, and ends.
    #[must_use]
    pub fn fails(mut self, kind: FailureKind) -> Self {
        self.fails = Some(kind);
        self
    }

    /// These tokens are reported in the place of the true ones.
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

/// What the answer is.
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

/// How the answer is put on the wire.
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

/// How an answer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    Stall,
    Cut,
    End,
}

/// Cuts bytes into pieces.
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

    /// The size of the next piece where `held` bytes are enough for one.
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
