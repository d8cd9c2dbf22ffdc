//! Detects HTTP that hyper tolerates and a server behind a proxy must not: a line that ends with LF alone, and a
//! duplicate `Content-Length`. The proxy may have read such a request differently (request smuggling).

/// Follows the bytes of a connection from head to head. It does not decide about framing: if it takes something for a
/// body wrongly, that part is not checked, or it is refused.
#[derive(Debug, Default)]
pub(super) struct HeadCheck {
    part: MessagePart,
}

#[derive(Debug)]
enum MessagePart {
    Head(Head),
    /// This many bytes of a body are left.
    Body(u64),
    /// A body without a length: the server answers and closes the connection.
    Unknown,
}

#[derive(Debug, Default)]
struct Head {
    /// The beginning of the current line, in lower case.
    line: Vec<u8>,
    lines: usize,
    has_cr: bool,
    length: Option<u64>,
    is_unknown: bool,
}

impl Default for MessagePart {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl HeadCheck {
    /// The position of the first byte to refuse. `None`: all bytes are accepted.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.part {
                MessagePart::Unknown => return None,
                MessagePart::Body(left) => {
                    let taken = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= taken as u64;
                    at += taken;
                    if *left == 0 {
                        self.part = MessagePart::default();
                    }
                }
                MessagePart::Head(head) => {
                    let byte = rest.first().copied().unwrap_or_default();
                    match head.take(byte) {
                        HeadLine::UnderWay => {}
                        HeadLine::Refused => return Some(at),
                        HeadLine::Last if head.is_unknown => self.part = MessagePart::Unknown,
                        HeadLine::Last => {
                            self.part = match head.length.unwrap_or_default() {
                                0 => MessagePart::default(),
                                length => MessagePart::Body(length),
                            };
                        }
                    }
                    at += 1;
                }
            }
        }
        None
    }
}

enum HeadLine {
    UnderWay,
    /// The head is complete.
    Last,
    Refused,
}

impl Head {
    fn take(&mut self, byte: u8) -> HeadLine {
        if byte != b'\n' {
            if self.line.len() < LONGEST {
                self.line.push(byte.to_ascii_lowercase());
            }
            self.has_cr = byte == b'\r';
            return HeadLine::UnderWay;
        }
        if !self.has_cr {
            return HeadLine::Refused;
        }
        self.has_cr = false;
        let line = std::mem::take(&mut self.line);
        if line == b"\r" {
            // Empty lines before a request are skipped.
            return if self.lines == 0 { HeadLine::UnderWay } else { HeadLine::Last };
        }
        self.lines += 1;
        if line.starts_with(b"transfer-encoding") {
            self.is_unknown = true;
        }
        let Some(length) = line.strip_prefix(b"content-length:") else { return HeadLine::UnderWay };
        let length = std::str::from_utf8(length).ok().and_then(|length| length.trim().parse().ok());
        match (length, self.length) {
            (Some(length), None) => {
                self.length = Some(length);
                HeadLine::UnderWay
            }
            _ => HeadLine::Refused,
        }
    }
}

/// The most bytes of a line that are looked at.
const LONGEST: usize = 64;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The place where a text is refused: in one piece, and byte by byte.
    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let expected = expected.map(|before| before.len());
        assert_eq!(HeadCheck::default().feed(text.as_bytes()), expected, "{text:?}");
        let mut check = HeadCheck::default();
        let one_by_one = text.bytes().position(|byte| check.feed(&[byte]).is_some());
        assert_eq!(one_by_one, expected, "{text:?}, byte by byte");
    }

    #[test]
    fn a_line_ends_with_cr_lf_and_a_length_is_there_once() {
        // K15
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None);
        check(
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\n",
            Some("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1"),
        );
        check("GET / HTTP/1.1\n\n", Some("GET / HTTP/1.1"));
        check("GET / HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n", Some("GET / HTTP/1.1\r\nA: 1"));
        check("GET / HTTP/1.1\r\nA: 1\r\n\n", Some("GET / HTTP/1.1\r\nA: 1\r\n"));
        let twice = "POST / HTTP/1.1\r\nContent-Length: 2\r\ncontent-length:2\r";
        check(&format!("{twice}\n\r\n{{}}"), Some(twice));
    }

    #[test]
    fn a_body_is_not_looked_at_and_the_next_head_is() {
        let post = "POST / HTTP/1.1\r\nContent-LENGTH:  3 \r\n\r\n";
        check(&format!("{post}\n\n\n"), None);
        check(&format!("{post}\n\n\nGET / HTTP/1.1\n"), Some(&format!("{post}\n\n\nGET / HTTP/1.1")));
        // It is answered, and the connection closed.
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n", None);
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(10_000));
        check(&format!("{long}GET /\n"), Some(&format!("{long}GET /")));
    }
}
