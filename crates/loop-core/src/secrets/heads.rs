//! Rules out most texts before they are searched for secrets: of each spelling only the first letters and digits are looked
//! for, around a rare one of them.

use std::collections::BTreeSet;

use memchr::{memchr, memchr2_iter, memchr3_iter};

use super::spelling::{begins_escape, is_escaped, walk};

/// How spellings begin.
pub(super) struct Prefixes {
    /// The first letters and digits of each, in lower case, and the place of the one that texts have least.
    heads: Vec<(Vec<u8>, usize)>,
    /// The first bytes of those that begin with neither a letter nor a digit.
    marks: BTreeSet<u8>,
}

impl Prefixes {
    /// The beginnings of these spellings, of so many bytes each. `None` if one has neither letters nor digits.
    pub(super) fn new<'a>(spellings: impl Iterator<Item = (&'a str, usize)>) -> Option<Self> {
        let (mut heads, mut marks) = (BTreeSet::new(), BTreeSet::new());
        for (spelling, bytes) in spellings {
            let head = spelling.as_bytes().get(..bytes).unwrap_or_default();
            heads.insert(head.iter().copied().filter_map(letter).collect::<Vec<u8>>());
            marks.extend(head.first().filter(|byte| letter(**byte).is_none()));
        }
        let with_rare = |head: Vec<u8>| {
            let (rare, _) = head.iter().enumerate().min_by_key(|(_, byte)| rank(**byte))?;
            Some((head, rare))
        };
        Some(Self { heads: heads.into_iter().map(with_rare).collect::<Option<_>>()?, marks })
    }

    /// Whether a text may hold a spelling, or end with the beginning of one. Where this is false, a search finds nothing.
    pub(super) fn may_be_in(&self, text: &str, is_over: bool) -> bool {
        [false, true].into_iter().take(1 + usize::from(is_escaped(text))).any(|decodes| {
            if !decodes && text.is_ascii() {
                return self.may_be_read(text.as_bytes(), is_over);
            }
            if decodes && is_over && text.is_ascii() && !self.may_be_decoded(text.as_bytes()) {
                return false;
            }
            let mut read = Vec::with_capacity(text.len());
            let until = walk(text, decodes, is_over, |byte, _| read.push(byte));
            until < text.len() || self.may_be_read(&read, is_over)
        })
    }

    /// Whether an ASCII text may hold a head once its escapes are decoded: one of them may be a letter, or behind a rare letter
    /// the head goes on up to its end or to an escape.
    fn may_be_decoded(&self, text: &[u8]) -> bool {
        makes_letters(text)
            || self.heads.iter().any(|(head, rare)| {
                let Some((_, [rare, after @ ..])) = head.split_at_checked(*rare) else { return true };
                memchr2_iter(*rare, rare.to_ascii_uppercase(), text)
                    .any(|at| goes_on(after, text.get(at + 1..).unwrap_or_default()))
            })
    }

    fn may_be_read(&self, read: &[u8], is_over: bool) -> bool {
        self.heads.iter().any(|(head, rare)| is_in(head, *rare, read)) || !is_over && self.may_end(read)
    }

    /// Whether a text may end with the beginning of a spelling that is shorter than its head.
    fn may_end(&self, read: &[u8]) -> bool {
        let mut last = [0; super::LEAST_IN_TEXTS];
        let letters = read.iter().rev().copied().filter_map(letter);
        let count = last.iter_mut().rev().zip(letters).map(|(place, byte)| *place = byte).count();
        let last = last.get(last.len() - count..).unwrap_or_default();
        let is_begun =
            |head: &[u8]| (0..last.len()).any(|at| last.get(at..).is_some_and(|it| head.starts_with(it)));
        self.heads.iter().any(|(head, _)| is_begun(head))
            || self.marks.iter().any(|mark| memchr(*mark, read).is_some())
    }
}

/// Whether the letters and digits of a text have those of `head` in a row.
fn is_in(head: &[u8], rare: usize, read: &[u8]) -> bool {
    let Some((before, [rare, after @ ..])) = head.split_at_checked(rare) else { return true };
    memchr2_iter(*rare, rare.to_ascii_uppercase(), read).any(|at| {
        let (start, end) = (read.get(..at).unwrap_or_default(), read.get(at + 1..).unwrap_or_default());
        let mut start = start.iter().rev().copied().filter_map(letter);
        let mut end = end.iter().copied().filter_map(letter);
        after.iter().all(|byte| end.next() == Some(*byte))
            && before.iter().rev().all(|byte| start.next() == Some(*byte))
    })
}

/// Whether the letters and digits of a text begin with `letters`, as far as it has no escape.
fn goes_on(letters: &[u8], text: &[u8]) -> bool {
    let mut letters = letters.iter();
    for byte in text {
        if begins_escape(*byte) {
            return true;
        }
        let Some(own) = letter(*byte) else { continue };
        match letters.next() {
            Some(next) if *next == own => {}
            next => return next.is_none(),
        }
    }
    true
}

/// Whether an escape of a text may encode a letter or a digit: `%41`, `\u0041`, `\x41`, `&#65;`.
fn makes_letters(text: &[u8]) -> bool {
    memchr3_iter(b'%', b'\\', b'&', text).any(|at| match (text.get(at), text.get(at + 1)) {
        (Some(b'%'), Some(next)) => next.is_ascii_hexdigit(),
        (Some(b'\\'), Some(next)) => matches!(next, b'u' | b'x'),
        (_, Some(next)) => *next == b'#',
        (_, None) => true,
    })
}

/// An ASCII letter, in lower case, or a digit.
pub(super) fn letter(byte: u8) -> Option<u8> {
    byte.is_ascii_alphanumeric().then(|| byte.to_ascii_lowercase())
}

/// Lower for letters and digits that texts have less.
fn rank(byte: u8) -> u8 {
    match byte {
        b'q' | b'x' | b'z' | b'j' => 0,
        b'3'..=b'9' => 1,
        b'0'..=b'2' => 2,
        b'k' | b'v' | b'w' | b'y' | b'b' | b'g' | b'p' | b'f' => 3,
        _ => 4,
    }
}
