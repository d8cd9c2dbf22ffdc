//! Server-sent events out of bytes that arrive in any pieces.
//!
//! Each byte is looked at once, however the stream is cut.

/// What stands between two blank lines, or a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A line that says nothing.
    Comment,
    /// The data lines of one event, joined by line feeds.
    Data {
        /// The event's name.
        event: Option<String>,
        /// Its data.
        data: String,
        /// Whether bytes that are no UTF-8 were replaced.
        is_damaged: bool,
    },
}

/// A line or an event that is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts bytes into frames.
#[derive(Debug)]
pub(crate) struct Framer {
    line: Vec<u8>,
    after_return: bool,
    is_first_line: bool,
    event: Option<String>,
    data: Option<String>,
    is_damaged: bool,
    most: usize,
}

impl Framer {
    /// A framer that holds at most `most` bytes of a line, and of an event.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            event: None,
            data: None,
            is_damaged: false,
            most,
        }
    }

    /// The frames that `bytes` complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.extend(bytes);
            };
            let (head, tail) = bytes.split_at(end);
            self.extend(head)?;
            self.after_return = tail.first() == Some(&b'\r');
            bytes = tail.get(1..).unwrap_or_default();
            self.end_line(frames)?;
        }
        Ok(())
    }

    /// What is left when the bytes are over: an event need not be closed by a blank line.
    pub(crate) fn finish(&mut self, frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(frames)?;
        }
        self.dispatch(frames);
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.most {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        let mut line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            self.dispatch(frames);
        } else if bytes.first() == Some(&b':') {
            frames.push(Frame::Comment);
        } else {
            let (field, value) = match bytes.iter().position(|byte| *byte == b':') {
                Some(colon) => {
                    let (field, rest) = bytes.split_at(colon);
                    let value = rest.get(1..).unwrap_or_default();
                    (field, value.strip_prefix(b" ").unwrap_or(value))
                }
                None => (bytes, &b""[..]),
            };
            match field {
                b"data" => self.add_data(value)?,
                b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
                _ => {}
            }
        }
        line.clear();
        self.line = line;
        Ok(())
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), TooLong> {
        let text = String::from_utf8_lossy(value);
        self.is_damaged |= matches!(text, std::borrow::Cow::Owned(_));
        match &mut self.data {
            None => self.data = Some(text.into_owned()),
            Some(data) => {
                if data.len() + text.len() >= self.most {
                    return Err(TooLong);
                }
                data.push('\n');
                data.push_str(&text);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, frames: &mut Vec<Frame>) {
        let event = self.event.take();
        let is_damaged = std::mem::take(&mut self.is_damaged);
        if let Some(data) = self.data.take() {
            frames.push(Frame::Data { event, data, is_damaged });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::{Frame, Framer, TooLong};

    fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut framer = Framer::new(4 << 20);
        let mut frames = Vec::new();
        for piece in pieces {
            framer.push(piece, &mut frames).unwrap();
        }
        framer.finish(&mut frames).unwrap();
        frames
    }

    fn data(text: &str) -> Frame {
        Frame::Data { event: None, data: text.to_owned(), is_damaged: false }
    }

    // WX11
    #[test]
    fn line_ends_comments_byte_order_marks_and_cuts_make_no_difference() {
        let text =
            "\u{feff}data: é\r\ndata: è\r\n\r\n: hi\ndata:a\rdata: b\r\rid: 7\n\nretry\ndata\n\nevent: x\ndata:  last"
                .as_bytes();
        let last = Frame::Data { event: Some("x".into()), data: " last".into(), is_damaged: false };
        let wanted = vec![data("é\nè"), Frame::Comment, data("a\nb"), data(""), last];
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
        assert_eq!(framer.push(b"data: 12345", &mut Vec::new()), Err(TooLong));
        let mut framer = Framer::new(10);
        assert_eq!(framer.push(b"data:12345\ndata:12345\n", &mut Vec::new()), Err(TooLong));
    }
}
