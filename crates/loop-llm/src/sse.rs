//! Parses server-sent events from bytes in chunks of any size.
//!
//! Each byte is scanned once. An event of one line within one chunk is not copied, and other events allocate nothing once
//! the buffers have grown.

use memchr::memchr2;

/// An event or a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A comment line, which servers send as a keep-alive.
    Comment,
    /// A field that reports a failure.
    Error { message: &'a str },
    /// The data lines of one event, joined by line feeds.
    Data {
        event: Option<&'a str>,
        data: &'a str,
        /// Whether invalid UTF-8 was replaced.
        is_damaged: bool,
    },
}

/// A line or an event exceeds the maximum length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Splits bytes into frames.
#[derive(Debug)]
pub(crate) struct Framer {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    after_return: bool,
    is_first_line: bool,
    has_field: bool,
    event: Event,
    max: usize,
}

/// The event under construction.
#[derive(Debug, Default)]
struct Event {
    name: String,
    has_name: bool,
    data: String,
    has_data: bool,
    is_damaged: bool,
}

impl Framer {
    /// A framer for lines and events of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            has_field: false,
            event: Event::default(),
            max,
        }
    }

    /// Passes the frames that `bytes` complete to `sink`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Frame<'_>)) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else { return self.extend(bytes) };
            let (head, tail) = bytes.split_at(end);
            if self.line.is_empty()
                && let Some(rest) = tail.strip_prefix(b"\n\n")
                && self.whole_event(head, sink)
            {
                bytes = rest;
                continue;
            }
            self.after_return = tail.first() == Some(&b'\r');
            bytes = tail.get(1..).unwrap_or_default();
            if self.line.is_empty() {
                if head.len() > self.max {
                    return Err(TooLong);
                }
                self.end_line(head, sink)?;
            } else {
                self.extend(head)?;
                let mut line = std::mem::take(&mut self.line);
                let result = self.end_line(&line, sink);
                line.clear();
                self.line = line;
                result?;
            }
        }
        Ok(())
    }

    /// Passes an event whose only data is this line to `sink`, without a copy. Returns whether it is one.
    fn whole_event(&mut self, line: &[u8], sink: &mut impl FnMut(Frame<'_>)) -> bool {
        let value = line.strip_prefix(b"data:").filter(|_| !self.event.has_data && line.len() <= self.max);
        let Some(Ok(data)) = value.map(std::str::from_utf8) else { return false };
        (self.is_first_line, self.has_field) = (false, true);
        let event = self.event.has_name.then_some(self.event.name.as_str());
        sink(Frame::Data { event, data: data.strip_prefix(' ').unwrap_or(data), is_damaged: false });
        self.event.has_name = false;
        true
    }

    /// The last frame at the end of the body: an event may lack its blank line.
    pub(crate) fn finish(&mut self, sink: &mut impl FnMut(Frame<'_>)) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            // The name of a field may be cut off.
            self.has_field = self.has_field || FIELDS.iter().any(|field| field.starts_with(&line));
            self.end_line(&line, sink)?;
        }
        self.event.dispatch(sink);
        Ok(())
    }

    /// Whether a line was a field or a comment of an event stream.
    pub(crate) fn has_field(&self) -> bool {
        self.has_field
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.max {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], sink: &mut impl FnMut(Frame<'_>)) -> Result<(), TooLong> {
        let mut line = line;
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        self.has_field = self.has_field || is_field(line);
        if line.is_empty() {
            self.event.dispatch(sink);
        } else if let Some(value) = line.strip_prefix(b"data:") {
            return self.event.add_data(value.strip_prefix(b" ").unwrap_or(value), self.max);
        } else if let Some(value) = line.strip_prefix(b"event:") {
            self.event.set_name(value.strip_prefix(b" ").unwrap_or(value));
        } else if line == b"data" {
            return self.event.add_data(b"", self.max);
        } else if line == b"event" {
            self.event.set_name(b"");
        } else if let Some(value) = line.strip_prefix(b"error:") {
            // Not of the standard: llama.cpp reports a failure in a field of its own.
            self.event.dispatch(sink);
            sink(Frame::Error { message: String::from_utf8_lossy(value).trim() });
        } else if line.first() == Some(&b':') {
            sink(Frame::Comment);
        }
        Ok(())
    }
}

impl Event {
    fn set_name(&mut self, value: &[u8]) {
        self.has_name = true;
        self.name.clear();
        self.name.push_str(&String::from_utf8_lossy(value));
    }

    fn add_data(&mut self, value: &[u8], max: usize) -> Result<(), TooLong> {
        if self.data.len() + value.len() + usize::from(self.has_data) > max {
            return Err(TooLong);
        }
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push('\n');
        }
        match std::str::from_utf8(value) {
            Ok(text) => self.data.push_str(text),
            Err(_) => {
                self.is_damaged = true;
                self.data.push_str(&String::from_utf8_lossy(value));
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(Frame<'_>)) {
        let event = self.has_name.then_some(self.name.as_str());
        if self.has_data {
            sink(Frame::Data { event, data: &self.data, is_damaged: self.is_damaged });
        }
        (self.has_name, self.has_data, self.is_damaged) = (false, false, false);
        self.data.clear();
        // Frees the memory of a long event.
        self.data.shrink_to(MAX_HELD);
    }
}

fn is_field(line: &[u8]) -> bool {
    let is_it = |field: &&[u8]| {
        line.strip_prefix(*field).is_some_and(|rest| matches!(rest.first(), None | Some(b':')))
    };
    line.first() == Some(&b':') || FIELDS.iter().any(is_it)
}

/// The fields of an event.
const FIELDS: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b"error"];

/// Bytes that stay allocated between two events.
const MAX_HELD: usize = 64 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::{Frame, Framer, TooLong};

    /// A frame that owns its texts.
    #[derive(Debug, PartialEq, Eq)]
    enum Owned {
        Comment,
        Data(Option<String>, String, bool),
    }

    fn frames(pieces: &[&[u8]]) -> Vec<Owned> {
        let mut framer = Framer::new(4 << 20);
        let mut frames = Vec::new();
        let mut sink = |frame: Frame<'_>| {
            frames.push(match frame {
                Frame::Comment => Owned::Comment,
                Frame::Error { message } => Owned::Data(Some("error".to_owned()), message.to_owned(), false),
                Frame::Data { event, data, is_damaged } => {
                    Owned::Data(event.map(str::to_owned), data.to_owned(), is_damaged)
                }
            });
        };
        for piece in pieces {
            framer.push(piece, &mut sink).unwrap();
        }
        framer.finish(&mut sink).unwrap();
        frames
    }

    fn data(text: &str) -> Owned {
        Owned::Data(None, text.to_owned(), false)
    }

    // WX11
    #[test]
    fn line_ends_comments_byte_order_marks_and_cuts_make_no_difference() {
        let text =
            "\u{feff}data: é\r\ndata: è\r\n\r\n: hi\ndata:a\rdata: b\r\rid: 7\n\nretry\ndata\n\nevent: x\ndata:  last"
                .as_bytes();
        let last = Owned::Data(Some("x".into()), " last".into(), false);
        let wanted = vec![data("é\nè"), Owned::Comment, data("a\nb"), data(""), last];
        assert_eq!(frames(&[text]), wanted);
        assert_eq!(frames(&text.chunks(1).collect::<Vec<_>>()), wanted);
        for cut in 0..text.len() {
            assert_eq!(frames(&[&text[..cut], &text[cut..]]), wanted, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_of_a_mebibyte_arrives_byte_by_byte() {
        let text = format!("data: {}\n\n", "x".repeat(1 << 20));
        let pieces = text.as_bytes().chunks(1).collect::<Vec<_>>();
        assert_eq!(frames(&pieces), [data(&"x".repeat(1 << 20))]);
    }

    // WE28
    #[test]
    fn a_line_and_an_event_have_a_greatest_length() {
        let mut framer = Framer::new(10);
        assert_eq!(framer.push(b"data: 12345", &mut |_| {}), Err(TooLong));
        let mut framer = Framer::new(10);
        assert_eq!(framer.push(b"data:12345\ndata:12345\n", &mut |_| {}), Err(TooLong));
    }
}
