//! Whether a text may hold a secret: a quick check that rules most texts out.
//!
//! Nearly no text holds one, and each piece of a reply, each result and each message is asked for. So a rare byte of each
//! pattern is looked for, and only around it the text is compared. What is not ruled out is searched as a whole.

use memchr::{memchr_iter, memchr2, memchr2_iter, memchr3, memmem};

use crate::spelling::{Escape, escape, visible};

/// A pattern: a spelling of a secret, or the letters and digits of one that looks like a key.
#[derive(Clone, Copy)]
pub(crate) struct Pattern<'a> {
    bytes: &'a [u8],
    /// The place of its byte that texts have least.
    rare: usize,
}

impl<'a> Pattern<'a> {
    /// A pattern whose byte at `rare` is looked for.
    pub(crate) fn new(text: &'a str, rare: usize) -> Self {
        Self { bytes: text.as_bytes(), rare }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The place of the byte in `text` that other texts have least.
pub(crate) fn rare_place(text: &str) -> usize {
    let rank = |byte: u8| match byte.to_ascii_lowercase() {
        b'q' | b'x' | b'z' | b'j' => 0,
        b'3'..=b'9' => 1,
        b'0'..=b'2' | b'k' | b'v' | b'w' | b'y' | b'b' | b'g' | b'p' | b'f' => 2,
        b'a'..=b'z' => 4,
        _ => 3,
    };
    text.bytes().enumerate().min_by_key(|(_, byte)| rank(*byte)).map_or(0, |(at, _)| at)
}

/// Whether a text may hold one of the patterns, or end with the beginning of one. `spelt` patterns are found as they are,
/// `alone` ones by letters and digits only. Where it returns false, a search finds nothing.
pub(crate) fn may_hold<'a>(
    text: &str,
    is_over: bool,
    spelt: impl Iterator<Item = Pattern<'a>> + Clone,
    alone: impl Iterator<Item = Pattern<'a>> + Clone,
) -> bool {
    // A cut may leave less than half of a secret. Where there is one, the text is searched.
    if !text.is_ascii() && memmem::find(text.as_bytes(), "…".as_bytes()).is_some() {
        return true;
    }
    let holds = |text: &str| {
        if is_plain(text) {
            return has_any(text.as_bytes(), is_over, spelt.clone(), alone.clone());
        }
        let seen: String = text.chars().filter_map(visible).collect();
        has_any(seen.as_bytes(), is_over, spelt.clone(), alone.clone())
    };
    holds(text)
        || match decoded(text, is_over) {
            Decoded::Same => false,
            Decoded::Cut => true,
            Decoded::Other(decoded) => holds(&decoded),
        }
}

/// Whether each character is visible and as it is: ASCII without control characters other than white space.
fn is_plain(text: &str) -> bool {
    let is_odd = |byte: &u8| !matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r');
    // Without an early end, so that many bytes are looked at together.
    !text.as_bytes().chunks(64).any(|part| part.iter().fold(false, |odd, byte| odd | is_odd(byte)))
}

/// A text without its escapes.
enum Decoded {
    /// It has none.
    Same,
    /// It ends within one.
    Cut,
    Other(String),
}

fn decoded(text: &str, is_over: bool) -> Decoded {
    let bytes = text.as_bytes();
    let mut places = Places { bytes, one: None, two: None };
    let (mut decoded, mut done, mut at) = (None::<String>, 0, 0);
    while let Some(found) = places.next(at) {
        at = found + 1;
        let (c, length) = match escape(bytes.get(found..).unwrap_or_default()) {
            Escape::None => continue,
            Escape::Cut if is_over => continue,
            Escape::Cut => return Decoded::Cut,
            Escape::Char(c, length) => (Some(c), length),
            Escape::Nothing(length) => (None, length),
        };
        let decoded = decoded.get_or_insert_with(|| String::with_capacity(text.len()));
        decoded.push_str(text.get(done..found).unwrap_or_default());
        decoded.extend(c);
        done = found + length;
        at = done;
    }
    match decoded {
        None => Decoded::Same,
        Some(mut decoded) => {
            decoded.push_str(text.get(done..).unwrap_or_default());
            Decoded::Other(decoded)
        }
    }
}

/// The places of bytes that may begin an escape, in order.
struct Places<'a> {
    bytes: &'a [u8],
    /// From where on the next of the first three is, and of the other two; `None` where there are no more.
    one: Option<usize>,
    two: Option<usize>,
}

impl Places<'_> {
    /// The next one at `from` or behind it. Each byte is looked at once for each kind.
    fn next(&mut self, from: usize) -> Option<usize> {
        let rest = self.bytes.get(from..)?;
        if from == 0 || self.one.is_some_and(|at| at < from) {
            self.one = memchr3(b'%', b'\\', b'&', rest).map(|at| from + at);
        }
        if from == 0 || self.two.is_some_and(|at| at < from) {
            self.two = memchr2(b'<', 0x1b, rest).map(|at| from + at);
        }
        match (self.one, self.two) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        }
    }
}

fn has_any<'a>(
    text: &[u8],
    is_over: bool,
    mut spelt: impl Iterator<Item = Pattern<'a>>,
    mut alone: impl Iterator<Item = Pattern<'a>>,
) -> bool {
    spelt.any(|pattern| has_spelt(text, pattern, is_over))
        || alone.any(|pattern| has_alone(text, pattern, is_over))
}

/// Whether the end of a text, from some place on, is the beginning of a pattern. Of a text that is over, less than half of
/// it does not count.
fn ends_with_beginning(end: &[u8], pattern: &[u8], is_over: bool) -> bool {
    let Some((first, _)) = pattern.split_first() else { return false };
    let from = end.len().saturating_sub(pattern.len() - 1);
    let end = end.get(from..).unwrap_or_default();
    let until = if is_over { end.len().saturating_sub(pattern.len() / 2) } else { end.len() };
    memchr_iter(*first, end.get(..until).unwrap_or_default())
        .any(|at| end.get(at..).is_some_and(|rest| pattern.starts_with(rest)))
}

fn has_spelt(text: &[u8], Pattern { bytes, rare }: Pattern<'_>, is_over: bool) -> bool {
    let Some(byte) = bytes.get(rare) else { return true };
    let is_here = |at: usize| {
        at.checked_sub(rare).and_then(|start| text.get(start..)).is_some_and(|rest| rest.starts_with(bytes))
    };
    memchr_iter(*byte, text).any(is_here) || ends_with_beginning(text, bytes, is_over)
}

/// The letters and digits of a text, in lower case.
fn own(byte: &u8) -> Option<u8> {
    byte.is_ascii_alphanumeric().then(|| byte.to_ascii_lowercase())
}

fn has_alone(text: &[u8], Pattern { bytes, rare }: Pattern<'_>, is_over: bool) -> bool {
    let Some((before, [byte, after @ ..])) = bytes.split_at_checked(rare) else { return true };
    let is_here = |at: usize| {
        let (head, tail) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        let mut head = head.iter().rev().filter_map(own);
        let mut tail = tail.iter().filter_map(own);
        after.iter().all(|byte| tail.next() == Some(*byte))
            && before.iter().rev().all(|byte| head.next() == Some(*byte))
    };
    if memchr2_iter(*byte, byte.to_ascii_uppercase(), text).any(is_here) {
        return true;
    }
    let Some(first) = bytes.first() else { return true };
    // Most pieces of a reply do not have its first letter, and short texts not half of it.
    let is_short = is_over && text.len() <= bytes.len() / 2;
    if is_short || memchr2(*first, first.to_ascii_uppercase(), text).is_none() {
        return false;
    }
    let mut end: Vec<u8> = text.iter().rev().filter_map(own).take(bytes.len() - 1).collect();
    end.reverse();
    ends_with_beginning(&end, bytes, is_over)
}
