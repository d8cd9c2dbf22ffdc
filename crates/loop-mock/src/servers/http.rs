//! A minimal HTTP/1.1 server: parses requests within limits, and writes responses chunk by chunk.

use std::future::Future;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use loop_core::types::Usage;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::behaviour::{Break, Delivery, Pieces};
use super::server::{ConnectionEnd, ReceivedRequest};

/// Why a request cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The client closed the connection or timed out.
    Closed,
    /// The request is invalid or too large.
    Refused { code: u16, message: &'static str },
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Reader {
    half: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self { half, buffer: BytesMut::new() }
    }

    /// Reads the next request with its complete body, and returns whether the connection may serve another one. The
    /// head has a time limit.
    pub(super) async fn request(
        &mut self,
        writer: &mut OwnedWriteHalf,
    ) -> Result<(ReceivedRequest, bool), Unreadable> {
        let head = tokio::time::timeout(HEAD_TIME, self.head()).await;
        let mut request = head.map_err(|_| Unreadable::Closed)??;
        let length = length(&request)?;
        if has(&request, "expect", "100-continue") {
            let go_on = writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            go_on.map_err(|_| Unreadable::Closed)?;
        }
        let body = match length {
            Length::Known(bytes) => {
                self.fill(bytes).await?;
                self.buffer.split_to(bytes).to_vec()
            }
            Length::Chunked => self.chunks().await?,
        };
        request.bytes_in = body.len() as u64;
        request.body = match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => Value::String(String::from_utf8_lossy(&body).into_owned()),
        };
        let keeps = !has(&request, "connection", "close");
        Ok((request, keeps))
    }

    async fn head(&mut self) -> Result<ReceivedRequest, Unreadable> {
        loop {
            let parsed = parse(&self.buffer)?;
            // One read may bring all of a head that is too large.
            if parsed.as_ref().map_or(self.buffer.len(), |(used, _)| *used) > MAX_HEAD {
                return Err(Unreadable::Refused { code: 431, message: "the head is too large" });
            }
            match parsed {
                Some((used, head)) => {
                    self.buffer.advance(used);
                    return Ok(head);
                }
                None => self.more().await?,
            }
        }
    }

    /// Completes when the client has closed its side. Bytes that it sends before are kept for the next request, within
    /// limits. A client that only closes its sending side counts as gone.
    pub(super) async fn hung_up(&mut self) {
        loop {
            if self.buffer.len() > MAX_HEAD {
                return std::future::pending().await;
            }
            if self.more().await.is_err() {
                return;
            }
        }
    }

    /// Reads the rest of a refused request for a short time, since closing early would discard the response.
    pub(super) async fn drain(&mut self) {
        let rest = async {
            while self.more().await.is_ok() {
                self.buffer.clear();
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), rest).await;
    }

    async fn more(&mut self) -> Result<(), Unreadable> {
        self.buffer.reserve(8 * 1_024);
        match self.half.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(Unreadable::Closed),
            Ok(_) => Ok(()),
        }
    }

    async fn fill(&mut self, bytes: usize) -> Result<(), Unreadable> {
        while self.buffer.len() < bytes {
            self.more().await?;
        }
        Ok(())
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, Unreadable> {
        let mut body = Vec::new();
        loop {
            let size = self.chunk_size().await?;
            if size == 0 {
                // Trailers, up to an empty line.
                while self.line().await? > 0 {}
                return Ok(body);
            }
            if size > MAX_BODY - body.len() {
                return Err(TOO_LARGE);
            }
            self.fill(size + 2).await?;
            body.extend_from_slice(&self.buffer.split_to(size));
            if !self.buffer.starts_with(b"\r\n") {
                return Err(Unreadable::Refused { code: 400, message: "a chunk is longer than it says" });
            }
            self.buffer.advance(2);
        }
    }

    async fn chunk_size(&mut self) -> Result<usize, Unreadable> {
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((used, size))) => {
                    self.buffer.advance(used);
                    return usize::try_from(size).map_err(|_| TOO_LARGE);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() <= MAX_LINE => self.more().await?,
                Ok(httparse::Status::Partial) | Err(_) => {
                    return Err(Unreadable::Refused {
                        code: 400,
                        message: "the size of a chunk is not a number",
                    });
                }
            }
        }
    }

    /// Reads a line, and returns its length without its end.
    async fn line(&mut self) -> Result<usize, Unreadable> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                self.buffer.advance(at + 2);
                return Ok(at);
            }
            if self.buffer.len() > MAX_LINE {
                return Err(Unreadable::Refused { code: 431, message: "a trailer is too large" });
            }
            self.more().await?;
        }
    }
}

/// The time limit of a request's head.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 64 * 1_024;
/// The most bytes of a request's body.
const MAX_BODY: usize = 32 * 1_024 * 1_024;
/// The most bytes of a line between the chunks of a body.
const MAX_LINE: usize = 4 * 1_024;
const MAX_HEADERS: usize = 100;

const TOO_LARGE: Unreadable = Unreadable::Refused { code: 413, message: "the body is too large" };

enum Length {
    Known(usize),
    Chunked,
}

/// Parses the head at the beginning of `bytes`, and returns its length. `None`: it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(usize, ReceivedRequest)>, Unreadable> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Unreadable::Refused { code: 431, message: "there are too many headers" });
        }
        Err(_) => return Err(Unreadable::Refused { code: 400, message: "this is not an HTTP request" }),
    };
    if request.version != Some(1) {
        return Err(Unreadable::Refused { code: 505, message: "only HTTP/1.1 is spoken here" });
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let value = |header: &httparse::Header<'_>| String::from_utf8_lossy(header.value).into_owned();
    let head = ReceivedRequest {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: request.headers.iter().map(|it| (it.name.to_ascii_lowercase(), value(it))).collect(),
        ..ReceivedRequest::default()
    };
    Ok(Some((used, head)))
}

fn all<'a>(head: &'a ReceivedRequest, name: &'a str) -> impl Iterator<Item = &'a str> {
    head.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn has(head: &ReceivedRequest, name: &str, token: &str) -> bool {
    all(head, name).flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

fn length(head: &ReceivedRequest) -> Result<Length, Unreadable> {
    let mut lengths = all(head, "content-length");
    let length = lengths.next();
    let doubled = lengths.next().is_some();
    match (length, all(head, "transfer-encoding").next()) {
        (None, None) => Ok(Length::Known(0)),
        (None, Some(coding)) if coding.trim().eq_ignore_ascii_case("chunked") => Ok(Length::Chunked),
        (None, Some(_)) => {
            Err(Unreadable::Refused { code: 501, message: "of transfer encodings only chunked is known" })
        }
        (Some(length), None) if !doubled && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            match length.parse() {
                Ok(bytes) if bytes <= MAX_BODY => Ok(Length::Known(bytes)),
                Err(_) if length.is_empty() => Err(UNCLEAR_LENGTH),
                Ok(_) | Err(_) => Err(TOO_LARGE),
            }
        }
        (Some(_), _) => Err(UNCLEAR_LENGTH),
    }
}

const UNCLEAR_LENGTH: Unreadable =
    Unreadable::Refused { code: 400, message: "the length of the body is not clear" };

/// A response while it is written.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    reader: &'a mut Reader,
    writer: &'a mut OwnedWriteHalf,
    delivery: &'a Delivery,
    pieces: Pieces,
    /// Whether the connection can serve another request after this answer.
    pub(super) keeps: bool,
    /// The status. `None`: it was not written yet.
    pub(super) status: Option<u16>,
    /// How many bytes of the body were written, without chunk framing.
    pub(super) sent: u64,
    /// The true usage of the reply. `None`: there is no reply of a model.
    pub(super) usage: Option<Usage>,
    /// How many bytes of the body the response was given.
    taken: u64,
    chunked: bool,
    held: Vec<u8>,
    /// The header with the request id, and the id.
    name: Option<(&'static str, String)>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        reader: &'a mut Reader,
        writer: &'a mut OwnedWriteHalf,
        delivery: &'a Delivery,
        keeps: bool,
    ) -> Self {
        let closes = delivery.until_closed || !delivery.after.is_empty();
        let keeps = keeps && !closes && delivery.breaks.is_none() && delivery.content_length.is_none();
        let pieces = Pieces::new(delivery.chunks);
        Self {
            reader,
            writer,
            delivery,
            pieces,
            keeps,
            status: None,
            sent: 0,
            usage: None,
            taken: 0,
            chunked: false,
            held: Vec::new(),
            name: None,
        }
    }

    /// Sets the header with the request id.
    pub(super) fn names(&mut self, header: &'static str, id: String) {
        self.name = Some((header, id));
    }

    /// Awaits `future`, unless the client hangs up first.
    pub(super) async fn wait<T>(&mut self, future: impl Future<Output = T>) -> Result<T, ConnectionEnd> {
        tokio::select! {
            biased;
            value = future => Ok(value),
            () = self.reader.hung_up() => Err(ConnectionEnd::HungUp),
        }
    }

    /// Writes a complete response of type `application/json`.
    pub(super) async fn json(
        &mut self,
        code: u16,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<(), ConnectionEnd> {
        self.head(code, JSON, headers, Some(body.len() as u64)).await?;
        self.write(body).await?;
        self.finish().await
    }

    /// Writes the head of an event stream of unknown length, and its initial comments.
    pub(super) async fn events(&mut self) -> Result<(), ConnectionEnd> {
        self.head(200, EVENT_STREAM, &[], None).await?;
        for _ in 0..self.delivery.keep_alives {
            self.write(KEEP_ALIVE).await?;
        }
        Ok(())
    }

    /// Writes the head. The body is chunked if its length is unknown.
    pub(super) async fn head(
        &mut self,
        code: u16,
        content_type: &str,
        headers: &[(&str, String)],
        length: Option<u64>,
    ) -> Result<(), ConnectionEnd> {
        let delivery = self.delivery;
        let length = delivery.content_length.or(length);
        let content_type = delivery.content_type.as_deref().unwrap_or(content_type);
        let version = if delivery.until_closed { "HTTP/1.0" } else { "HTTP/1.1" };
        // A client reads the number alone, so there are no words behind it.
        let mut text = format!("{version} {code} \r\ncontent-type: {content_type}\r\n");
        let more = headers.iter().map(|(name, value)| (*name, value.as_str()));
        let extra = delivery.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let name = self.name.iter().map(|(name, id)| (*name, id.as_str()));
        for (name, value) in name.chain(more).chain(extra) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match length {
            _ if delivery.until_closed => {}
            Some(bytes) => text.push_str(&format!("content-length: {bytes}\r\n")),
            None => text.push_str("transfer-encoding: chunked\r\n"),
        }
        if !self.keeps {
            text.push_str("connection: close\r\n");
        }
        text.push_str("\r\n");
        self.chunked = length.is_none() && !delivery.until_closed;
        self.status = Some(code);
        self.raw(text.as_bytes()).await
    }

    /// Writes bytes of the body.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let room = self.delivery.breaks.map_or(u64::MAX, |(after, _)| after.saturating_sub(self.taken));
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.taken += taken.len() as u64;
        self.held.extend_from_slice(taken);
        while let Some(size) = self.pieces.next(self.held.len()) {
            self.piece(size).await?;
        }
        self.break_where_due().await
    }

    /// Ends the body.
    pub(super) async fn finish(&mut self) -> Result<(), ConnectionEnd> {
        self.break_where_due().await?;
        self.flush().await?;
        if self.delivery.stays_open {
            self.reader.hung_up().await;
            return Err(ConnectionEnd::HungUp);
        }
        self.end_of_chunks().await?;
        self.raw(&self.delivery.after).await
    }

    /// Sends nothing until the client hangs up.
    pub(super) async fn silence(&mut self) -> ConnectionEnd {
        self.reader.hung_up().await;
        ConnectionEnd::HungUp
    }

    /// Writes raw bytes outside of a body.
    pub(super) async fn raw(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        self.writer.write_all(bytes).await.map_err(|_| ConnectionEnd::HungUp)
    }

    /// Writes the buffered bytes as one chunk.
    pub(super) async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        self.piece(self.held.len()).await
    }

    async fn break_where_due(&mut self) -> Result<(), ConnectionEnd> {
        let Some((after, how)) = self.delivery.breaks else { return Ok(()) };
        if self.taken < after {
            return Ok(());
        }
        self.flush().await?;
        match how {
            Break::Stall => {
                self.reader.hung_up().await;
                Err(ConnectionEnd::HungUp)
            }
            Break::Cut => Err(ConnectionEnd::Cut),
            Break::End => {
                self.end_of_chunks().await?;
                Err(ConnectionEnd::Cut)
            }
        }
    }

    /// Writes the first `size` bytes of the buffer, after the pause if it is not the first chunk.
    async fn piece(&mut self, size: usize) -> Result<(), ConnectionEnd> {
        if size == 0 {
            return Ok(());
        }
        if self.sent > 0 && !self.delivery.pause.is_zero() {
            self.wait(tokio::time::sleep(self.delivery.pause)).await?;
        }
        let piece: Vec<u8> = self.held.drain(..size).collect();
        let framed =
            if self.chunked { [format!("{size:x}\r\n").as_bytes(), &piece, b"\r\n"].concat() } else { piece };
        self.raw(&framed).await?;
        self.sent += size as u64;
        Ok(())
    }

    async fn end_of_chunks(&mut self) -> Result<(), ConnectionEnd> {
        if self.chunked { self.raw(b"0\r\n\r\n").await } else { Ok(()) }
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// A comment of an event stream.
pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
