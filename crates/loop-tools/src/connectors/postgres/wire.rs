//! A stream from a server, checked before the client reads it: a message may not be longer than memory should hold, and a
//! server that is not PostgreSQL is recognised.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of one message of the server, which holds a whole row.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of a message's type and length.
const HEADER: usize = 5;
/// The type of the messages about logging in.
const AUTHENTICATION: u8 = b'R';
/// The request for a password as it is.
const CLEARTEXT: [u8; 4] = [0, 0, 0, 3];

/// Why the reading of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// What it sends is not a message of PostgreSQL.
    NotPostgres,
    /// The server asks for the password as it is, over a network without encryption.
    Exposed,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a row has more than 64 MiB; select a part of its values with left() or substr()",
            Self::NotPostgres => "the server does not answer as PostgreSQL does; check host and port",
            Self::Exposed => {
                "the server asks for the password in clear text over an unencrypted network; use TLS, or SCRAM on the server"
            }
        })
    }
}

impl std::error::Error for WireError {}

impl WireError {
    /// The one behind an error of the client.
    pub(crate) fn behind(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(known) = error.downcast_ref::<Self>() {
                return Some(*known);
            }
            // The source of an error of the system skips the one that it was made from.
            cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        None
    }
}

/// What a stream to a server does.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream whose messages are checked as they come.
pub(crate) struct CheckedStream {
    stream: Box<dyn Stream>,
    messages: Messages,
}

impl CheckedStream {
    /// The stream behind the negotiation of TLS. Is it `exposed`, no password goes over it as it is.
    pub(crate) fn new(stream: Box<dyn Stream>, exposed: bool) -> Self {
        Self { stream, messages: Messages { exposed, ..Messages::default() } }
    }
}

/// Where in the messages a stream is.
#[derive(Debug, Default)]
struct Messages {
    exposed: bool,
    has_begun: bool,
    /// The beginning of the message that is being read: its header, and four bytes more where it is about logging in.
    start: [u8; HEADER + 4],
    /// How many bytes of it are there.
    known: usize,
    /// How many bytes of the message are still to come behind them.
    left: usize,
}

impl Messages {
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), WireError> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            if let Some(slot) = self.start.get_mut(self.known) {
                *slot = *first;
            }
            self.known += 1;
            bytes = rest;
            if self.known == HEADER {
                self.header()?;
            } else if self.known > HEADER {
                self.authentication()?;
            }
        }
        Ok(())
    }

    fn header(&mut self) -> Result<(), WireError> {
        let [kind, length @ ..] = self.start;
        let [a, b, c, d, ..] = length;
        let length = u32::from_be_bytes([a, b, c, d]);
        // The length counts itself. What comes first is about logging in, an error or a notice.
        let body = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
        let body = body.ok_or(WireError::NotPostgres)?;
        let may_begin = matches!(kind, AUTHENTICATION | b'E' | b'N' | b'v') && body < 65_536;
        if !self.has_begun && !may_begin {
            return Err(WireError::NotPostgres);
        }
        self.has_begun = true;
        if body > MESSAGE_BYTES_MAX {
            return Err(WireError::TooLong);
        }
        if kind == AUTHENTICATION && body >= CLEARTEXT.len() {
            self.left = 0;
            // Its kind is read as well, and then the rest is skipped.
            self.known = HEADER;
        } else {
            self.left = body;
            self.known = 0;
        }
        Ok(())
    }

    fn authentication(&mut self) -> Result<(), WireError> {
        if self.known < self.start.len() {
            return Ok(());
        }
        let [_, a, b, c, d, kind @ ..] = self.start;
        if kind == CLEARTEXT && self.exposed {
            return Err(WireError::Exposed);
        }
        let body = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or_default();
        self.left = body.saturating_sub(4 + CLEARTEXT.len());
        self.known = 0;
        Ok(())
    }
}

impl AsyncRead for CheckedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        match Pin::new(&mut *this.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                let read = buffer.filled().get(before..).unwrap_or_default();
                Poll::Ready(this.messages.read(read).map_err(io::Error::other))
            }
            other => other,
        }
    }
}

impl AsyncWrite for CheckedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap_or_default();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn read(bytes: &[u8], piece: usize, exposed: bool) -> Result<(), WireError> {
        let mut messages = Messages { exposed, ..Messages::default() };
        bytes.chunks(piece).try_for_each(|piece| messages.read(piece))
    }

    #[test]
    fn messages_pass_in_pieces_of_any_size() {
        let login =
            [message(b'R', &[0, 0, 0, 10, 1, 2, 3]), message(b'R', &[0, 0, 0, 0]), message(b'Z', b"I")];
        let all =
            [login.concat(), message(b'D', &[7; 300]), message(b'n', b""), message(b'Z', b"I")].concat();
        for piece in 1..all.len() {
            assert_eq!(read(&all, piece, true), Ok(()), "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_server_that_is_not_postgresql_is_recognised_at_its_first_bytes() {
        for text in [
            "HTTP/1.1 400 Bad Request\r\n",
            "SSH-2.0-OpenSSH\r\n",
            "\0\0\0\0\0\0\0\0",
            "R\0\0\0\u{3}",
            "Z\0\0\0\u{5}I",
        ] {
            for piece in 1..6 {
                assert_eq!(read(text.as_bytes(), piece, false), Err(WireError::NotPostgres), "{text:?}");
            }
        }
    }

    #[test]
    fn a_message_is_refused_before_it_is_read_where_it_is_too_long() {
        let begin = message(b'R', &[0, 0, 0, 0]);
        let long = [begin.clone(), vec![b'D', 0x7F, 0xFF, 0xFF, 0xFF]].concat();
        assert_eq!(read(&long, 3, false), Err(WireError::TooLong));
        let long = [begin, vec![b'D', 4, 0, 0, 4, 0]].concat();
        assert_eq!(read(&long, 3, false), Ok(()), "64 MiB are allowed");
    }

    #[test]
    fn a_password_does_not_go_over_a_network_as_it_is() {
        // K13
        let cleartext = message(b'R', &CLEARTEXT);
        for piece in 1..10 {
            assert_eq!(read(&cleartext, piece, true), Err(WireError::Exposed));
            assert_eq!(read(&cleartext, piece, false), Ok(()));
            assert_eq!(read(&message(b'R', &[0, 0, 0, 5, 1, 1, 1, 1]), piece, true), Ok(()), "MD5");
        }
    }

    #[test]
    fn the_cause_is_found_behind_other_errors() {
        let error = io::Error::other(io::Error::other(WireError::TooLong));
        assert_eq!(WireError::behind(&error), Some(WireError::TooLong));
        assert_eq!(WireError::behind(&io::Error::other("x")), None);
    }
}
