//! JSON strings: how they are escaped, and how they are parsed.
//!
//! Bytes that need no escape are scanned eight or more at a time and copied as a run.

pub(super) use loop_core::types::push_json_text as write;
pub(crate) use loop_core::types::unescaped_run as plain;

/// A JSON string, between its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Its offset, after the opening quote.
    pub(crate) start: usize,
    /// The string as it is escaped.
    pub(crate) raw: &'a str,
    /// The range in `scratch` of the unescaped string, if it has escapes.
    unescaped: Option<(usize, usize)>,
}

impl<'a> Token<'a> {
    /// Parses the string whose opening quote is before `start`. One with escapes is unescaped into `scratch`.
    ///
    /// `None` where it has no end, a control character, or half of a surrogate pair.
    pub(crate) fn read(json: &'a str, start: usize, scratch: &mut String) -> Option<Self> {
        let bytes = json.as_bytes();
        let mut at = start + plain(bytes.get(start..)?);
        if bytes.get(at) == Some(&b'"') {
            return Some(Self { start, raw: json.get(start..at)?, unescaped: None });
        }
        let from = scratch.len();
        scratch.push_str(json.get(start..at)?);
        while bytes.get(at)? == &b'\\' {
            at = escape(json, at + 1, scratch)?;
            let run = plain(bytes.get(at..)?);
            scratch.push_str(json.get(at..at + run)?);
            at += run;
        }
        let is_closed = bytes.get(at) == Some(&b'"');
        is_closed.then_some(())?;
        Some(Self { start, raw: json.get(start..at)?, unescaped: Some((from, scratch.len())) })
    }

    /// The offset of its closing quote.
    pub(crate) fn end(&self) -> usize {
        self.start + self.raw.len()
    }

    /// The unescaped string. `scratch` is the buffer that it was parsed with.
    pub(crate) fn text<'t>(&self, scratch: &'t str) -> &'t str
    where
        'a: 't,
    {
        match self.unescaped {
            None => self.raw,
            Some((from, to)) => scratch.get(from..to).unwrap_or_default(),
        }
    }
}

/// Whether the JSON has no string with half of a surrogate pair. It may be a part of a JSON text.
pub(crate) fn is_sound(json: &str) -> bool {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut rest = json;
    while let Some(escape) = rest.find('\\').and_then(|at| rest.get(at..)) {
        let length = match unit(escape) {
            Some(0xdc00..=0xdfff) => return false,
            Some(0xd800..=0xdbff) => match escape.get(6..).and_then(unit) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return false,
            },
            _ => 2,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    true
}

/// Parses the escape after a backslash, and returns its end.
fn escape(json: &str, at: usize, scratch: &mut String) -> Option<usize> {
    let character = match json.as_bytes().get(at)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (first, next) = (unit(json, at + 1)?, at + 5);
            if let Some(character) = char::from_u32(first) {
                scratch.push(character);
                return Some(next);
            }
            let is_pair = first < 0xDC00 && json.as_bytes().get(next..next + 2) == Some(b"\\u");
            let second = is_pair.then(|| unit(json, next + 2)).flatten()?;
            let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
            scratch.push(char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + low)?);
            return Some(next + 6);
        }
        _ => return None,
    };
    scratch.push(character);
    Some(at + 1)
}

/// Four hexadecimal digits.
fn unit(json: &str, at: usize) -> Option<u32> {
    let digits = json.get(at..at + 4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// Texts with many characters to escape.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            "[a-zé ]{0,20}",
            "[\"\\\\/\\x00-\\x24\\x5b-\\x5d\\x7f]{1,3}",
            "[\\x7e-\\u{a0}\\u{d7ff}\\u{e000}\\u{1f600}]{1,3}",
        ];
        proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn written(text: &str) -> String {
        let mut json = Vec::new();
        write(&mut json, text);
        format!("\"{}\"", String::from_utf8(json).unwrap())
    }

    /// The parsed string, and the JSON after it.
    fn read(json: &str) -> Option<(String, usize)> {
        let mut scratch = "before".to_owned();
        let token = Token::read(json, 1, &mut scratch)?;
        Some((token.text(&scratch).to_owned(), token.end()))
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        assert!(is_sound("{\"a\": \"\\ud83d\\ude00\", \"b\": 1}"));
        assert!(!is_sound("{\"a\": \"\\ud83d\"}"));
        assert!(!is_sound("{\"a\": \"\\uDE00\\uD83D\"}"));
        // An escaped backslash, and a part of a JSON text.
        assert!(is_sound("\"\\\\ud83d\", 1]") && is_sound("\"\\u00e9\\n\"") && is_sound(""));
    }

    proptest! {
        #[test]
        fn texts_are_read_as_serde_json_reads_them(
            text in texts(),
            odd in proptest::collection::vec(
                prop_oneof![
                    "\\\\u[dD][89a-fA-F][0-9a-f]{2}", "\\\\u[0-9a-fA-F]{4}", "\\\\u[+ 0-9g]{4}",
                    "\\\\[bfnrt/\"\\\\xé]", "[\\x00-\\x22]", "[a-zé]{0,9}",
                ],
                0..6,
            ),
            tail in "[a\"\\\\]{0,3}",
        ) {
            let whole = written(&text);
            prop_assert_eq!(read(&whole), Some((text, whole.len() - 1)));
            let json = format!("\"{}\"{tail}", odd.concat());
            let theirs = serde_json::Deserializer::from_str(&json).into_iter::<String>().next().unwrap().ok();
            prop_assert_eq!(read(&json).map(|(text, _)| text), theirs, "{}", json);
        }
    }
}
