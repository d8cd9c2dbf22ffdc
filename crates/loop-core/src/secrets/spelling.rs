//! Reads a text as secrets are searched for: without invisible characters, and with escapes decoded.

use std::ops::Range;

use crate::types::{is_invisible, is_joiner};

/// Passes each byte of the text as it is read, with its range in the text; `decodes` says whether escapes of URLs, JSON, HTML
/// and terminals are decoded. Returns the end: the beginning of an incomplete escape, unless the text `is_over`.
pub(super) fn walk(
    text: &str,
    decodes: bool,
    is_over: bool,
    mut read: impl FnMut(u8, Range<usize>),
) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        if matches!(byte, b' '..=b'~') && !(decodes && begins_escape(byte)) {
            read(byte, at..at + 1);
            at += 1;
            continue;
        }
        let rest = text.get(at..).unwrap_or_default();
        let Some(c) = rest.chars().next() else { break };
        let found = if decodes { escape(rest.as_bytes()) } else { Escape::None };
        let (c, length) = match found {
            Escape::Cut if !is_over => return at,
            Escape::None | Escape::Cut => (Some(c), c.len_utf8()),
            Escape::Char(c, length) => (Some(c), length),
            Escape::Nothing(length) => (None, length),
        };
        if let Some(c) = c.and_then(visible) {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| read(byte, at..at + length));
        }
        at += length;
    }
    text.len()
}

/// Whether a text may have escapes.
pub(super) fn is_escaped(text: &str) -> bool {
    // Without an early end, so that many bytes are compared at a time.
    text.bytes().fold(false, |is_escaped, byte| is_escaped | begins_escape(byte))
}

pub(super) fn begins_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&' | b'<' | 0x1b)
}

/// The visible form of a character. `None` for an invisible one.
fn visible(c: char) -> Option<char> {
    let is_hidden = is_invisible(c) || is_joiner(c) || c.is_control() && !c.is_whitespace();
    match c {
        _ if is_hidden => None,
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0),
        _ => Some(c),
    }
}

/// The escape at the beginning of a text.
enum Escape {
    None,
    /// The text ends within the escape.
    Cut,
    /// A character that is escaped in so many bytes.
    Char(char, usize),
    /// So many bytes without visible text.
    Nothing(usize),
}

/// The escape at the beginning of `rest`.
fn escape(rest: &[u8]) -> Escape {
    match rest.first() {
        Some(b'%') => percent(rest),
        Some(b'\\') => backslash(rest),
        Some(b'&') => entity(rest),
        Some(b'<') => tag(rest),
        Some(0x1b) => sequence(rest),
        _ => Escape::None,
    }
}

/// `%41`, and the doubly encoded `%2541`.
fn percent(rest: &[u8]) -> Escape {
    // Texts have more percent signs than escapes.
    if rest.get(1).is_some_and(|byte| !byte.is_ascii_hexdigit()) {
        return Escape::None;
    }
    let mut at = 1;
    while at < MAX_ENCODED {
        let after = rest.get(at..).unwrap_or_default();
        if !after.starts_with(b"25") {
            break;
        }
        match hex(after.get(2..).unwrap_or_default(), 2) {
            HexDigits::Is(_) => at += 2,
            HexDigits::Cut => return Escape::Cut,
            HexDigits::None => break,
        }
    }
    match hex(rest.get(at..).unwrap_or_default(), 2) {
        HexDigits::Is(byte) => Escape::Char(char::from_u32(byte).unwrap_or_default(), at + 2),
        HexDigits::Cut => Escape::Cut,
        HexDigits::None => Escape::None,
    }
}

/// `\u0041`, `\x41`, `
/// ` and similar, also in JSON within JSON.
fn backslash(rest: &[u8]) -> Escape {
    let run = rest.iter().take(MAX_BACKSLASHES).take_while(|byte| **byte == b'\\').count();
    let after = rest.get(run + 1..).unwrap_or_default();
    let digits = match rest.get(run) {
        None => return Escape::Cut,
        Some(b'u') => 4,
        Some(b'x') => 2,
        Some(b'n' | b'r' | b't' | b'b' | b'f') => return Escape::Nothing(run + 1),
        Some(_) => return Escape::Nothing(run),
    };
    match hex(after, digits) {
        HexDigits::Is(code) => Escape::Char(char::from_u32(code).unwrap_or_default(), run + 1 + digits),
        HexDigits::Cut => Escape::Cut,
        HexDigits::None => Escape::Nothing(run),
    }
}

fn entity(rest: &[u8]) -> Escape {
    let Some(end) = rest.iter().take(MAX_ENTITY).position(|byte| *byte == b';') else {
        let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
        let is_cut = rest.len() < MAX_ENTITY && rest.iter().skip(1).all(is_one);
        return if is_cut { Escape::Cut } else { Escape::None };
    };
    let name = rest.get(1..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    let number = match name.strip_prefix('#').map(|number| (number, number.strip_prefix(['x', 'X']))) {
        Some((_, Some(hex))) => u32::from_str_radix(hex, 16).ok(),
        Some((number, None)) => number.parse().ok(),
        None => None,
    };
    let c = number.and_then(char::from_u32).or(match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    });
    match (c, name) {
        (Some(c), _) => Escape::Char(c, end + 1),
        (None, "shy" | "nbsp" | "zwj" | "zwnj") => Escape::Nothing(end + 1),
        (None, _) => Escape::None,
    }
}

/// HTML tags such as `<b>` and `</span>`.
fn tag(rest: &[u8]) -> Escape {
    match rest.get(1) {
        None => return Escape::Cut,
        Some(byte) if byte.is_ascii_alphabetic() || *byte == b'/' => {}
        Some(_) => return Escape::None,
    }
    match rest.iter().take(MAX_TAG).skip(1).position(|byte| matches!(byte, b'<' | b'>')) {
        Some(at) if rest.get(at + 1) == Some(&b'>') => Escape::Nothing(at + 2),
        None if rest.len() < MAX_TAG => Escape::Cut,
        Some(_) | None => Escape::None,
    }
}

/// Terminal sequences such as `ESC [ 1 m`.
fn sequence(rest: &[u8]) -> Escape {
    match rest.get(1) {
        None => return Escape::Cut,
        Some(b'[') => {}
        Some(_) => return Escape::None,
    }
    match rest.iter().take(MAX_TAG).skip(2).position(|byte| !(0x20..=0x3f).contains(byte)) {
        Some(at) if rest.get(at + 2).is_some_and(|byte| (0x40..=0x7e).contains(byte)) => {
            Escape::Nothing(at + 3)
        }
        None if rest.len() < MAX_TAG => Escape::Cut,
        Some(_) | None => Escape::None,
    }
}

/// A fixed number of hexadecimal digits.
enum HexDigits {
    Is(u32),
    /// The text ends within them.
    Cut,
    None,
}

fn hex(text: &[u8], digits: usize) -> HexDigits {
    let head = text.get(..digits.min(text.len())).unwrap_or_default();
    if !head.iter().all(u8::is_ascii_hexdigit) {
        return HexDigits::None;
    }
    if head.len() < digits {
        return HexDigits::Cut;
    }
    std::str::from_utf8(head)
        .ok()
        .and_then(|head| u32::from_str_radix(head, 16).ok())
        .map_or(HexDigits::None, HexDigits::Is)
}

/// Maximum bytes of an encoded percent sign.
const MAX_ENCODED: usize = 17;
/// Maximum backslashes before one escape.
const MAX_BACKSLASHES: usize = 16;
/// Maximum bytes of an HTML entity.
const MAX_ENTITY: usize = 10;
/// Maximum bytes of a tag or terminal sequence.
const MAX_TAG: usize = 64;
