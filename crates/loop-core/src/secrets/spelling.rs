//! Reads a text as secrets are searched for: without invisible characters, and with escapes decoded.

use std::ops::Range;

use crate::types::{is_invisible, is_joiner, numbered_entity};

/// Passes each visible character of the text, with its range in the text; `decodes` says whether escapes of URLs, JSON, HTML
/// and terminals are decoded. Returns the end: the beginning of an incomplete escape, unless the text `is_over`.
pub(super) fn read(
    text: &str,
    decodes: bool,
    is_over: bool,
    mut pass: impl FnMut(char, Range<usize>),
) -> usize {
    let mut at = 0;
    while let Some((c, rest)) = text.get(at..).and_then(|rest| Some((rest.chars().next()?, rest))) {
        let (c, length) = match if decodes { escape(rest.as_bytes()) } else { Escape::None } {
            Escape::Cut if !is_over => return at,
            Escape::None | Escape::Cut => (Some(c), c.len_utf8()),
            Escape::Char(c, length) => (char::from_u32(c), length),
            Escape::Nothing(length) => (None, length),
        };
        if let Some(c) = c.and_then(visible) {
            pass(c, at..at + length);
        }
        at += length;
    }
    text.len()
}

/// Whether a text may have escapes.
pub(super) fn is_escaped(text: &str) -> bool {
    text.contains(['%', '\\', '&', '<', '\u{1b}'])
}

/// The visible form of a character. `None` for an invisible one.
fn visible(c: char) -> Option<char> {
    match c {
        ' '..='~' => Some(c),
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0),
        _ if is_invisible(c) || is_joiner(c) || c.is_control() && !c.is_whitespace() => None,
        _ => Some(c),
    }
}

/// The escape at the beginning of a text.
enum Escape {
    None,
    /// The text ends within the escape.
    Cut,
    /// A character, by its number, that is escaped in so many bytes.
    Char(u32, usize),
    /// So many bytes without visible text.
    Nothing(usize),
}

/// The escape at the beginning of `rest`.
fn escape(rest: &[u8]) -> Escape {
    match rest {
        [b'%', ..] => percent(rest),
        [b'\\', ..] => backslash(rest),
        [b'&', ..] => entity(rest),
        [b'<' | 0x1b] => Escape::Cut,
        // Tags such as `<b>` and `</span>`.
        [b'<', b'/' | b'a'..=b'z' | b'A'..=b'Z', ..] => {
            until(rest, |byte| !matches!(byte, b'<' | b'>'), |end| end == b'>')
        }
        // Terminal sequences such as `ESC [ 1 m`.
        [0x1b, b'[', ..] => until(rest, |byte| matches!(byte, 0x20..=0x3f), |end| matches!(end, 0x40..=0x7e)),
        _ => Escape::None,
    }
}

/// What begins with two bytes and goes on with bytes that are `inner`, up to an `end`.
fn until(rest: &[u8], inner: fn(u8) -> bool, is_end: fn(u8) -> bool) -> Escape {
    match rest.iter().take(MAX_TAG).skip(2).position(|byte| !inner(*byte)) {
        Some(at) if rest.get(at + 2).is_some_and(|byte| is_end(*byte)) => Escape::Nothing(at + 3),
        None if rest.len() < MAX_TAG => Escape::Cut,
        Some(_) | None => Escape::None,
    }
}

/// `%41`, and the doubly encoded `%2541`.
fn percent(rest: &[u8]) -> Escape {
    let mut found = hex(rest, 1, 2);
    for at in (3..MAX_ENCODED).step_by(2) {
        match hex(rest, at, 2) {
            next @ (Escape::Char(..) | Escape::Cut) if rest.get(at - 2..at) == Some(b"25") => found = next,
            _ => break,
        }
    }
    found
}

/// `\u0041`, `\x41`, `\n` and similar, also in JSON within JSON.
fn backslash(rest: &[u8]) -> Escape {
    let run = rest.iter().take(MAX_BACKSLASHES).take_while(|byte| **byte == b'\\').count();
    let digits = match rest.get(run) {
        None => return Escape::Cut,
        Some(b'u') => 4,
        Some(b'x') => 2,
        Some(b'n' | b'r' | b't' | b'b' | b'f') => return Escape::Nothing(run + 1),
        Some(_) => return Escape::Nothing(run),
    };
    match hex(rest, run + 1, digits) {
        Escape::None => Escape::Nothing(run),
        found => found,
    }
}

fn entity(rest: &[u8]) -> Escape {
    let Some(end) = rest.iter().take(MAX_ENTITY).position(|byte| *byte == b';') else {
        let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
        let is_cut = rest.len() < MAX_ENTITY && rest.iter().skip(1).all(is_one);
        return if is_cut { Escape::Cut } else { Escape::None };
    };
    let name = rest.get(1..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    let mut names = NAMED.split(' ').skip_while(|word| *word != name);
    let named = || names.nth(1).and_then(|c| c.chars().next()).map(u32::from);
    numbered_entity(name).or_else(named).map_or(Escape::None, |c| Escape::Char(c, end + 1))
}

/// The character of so many hexadecimal digits from a place on.
fn hex(rest: &[u8], from: usize, digits: usize) -> Escape {
    let found = rest.get(from..rest.len().min(from + digits)).unwrap_or_default();
    if !found.iter().all(u8::is_ascii_hexdigit) {
        return Escape::None;
    }
    let number = std::str::from_utf8(found).ok().and_then(|found| u32::from_str_radix(found, 16).ok());
    match number {
        Some(number) if found.len() == digits => Escape::Char(number, from + digits),
        _ => Escape::Cut,
    }
}

/// The entities with a name that secrets are written with, and those that are drawn as nothing, each before its character.
const NAMED: &str = "amp & lt < gt > quot \" apos ' shy \u{ad} nbsp \u{ad} zwj \u{200d} zwnj \u{200c}";
/// Maximum bytes of an encoded percent sign.
const MAX_ENCODED: usize = 17;
/// Maximum backslashes before one escape.
const MAX_BACKSLASHES: usize = 16;
/// Maximum bytes of an HTML entity.
const MAX_ENTITY: usize = 10;
/// Maximum bytes of a tag or terminal sequence.
const MAX_TAG: usize = 64;
