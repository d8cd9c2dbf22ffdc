//! A request body in pieces, most of which are shared with earlier requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

/// The bytes of a request, in pieces that are shared with earlier requests.
#[derive(Clone, Default)]
pub struct Body {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Body {
    pub(crate) fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// A copy of all bytes in one piece.
    pub fn to_bytes(&self) -> Bytes {
        match self.pieces.as_slice() {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

/// The body while it is being sent.
#[derive(Debug)]
pub(crate) struct SendingBody {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl From<Body> for SendingBody {
    fn from(body: Body) -> Self {
        Self { left: body.bytes as u64, pieces: body.pieces.into() }
    }
}

impl http_body::Body for SendingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.pop_front();
        this.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}
