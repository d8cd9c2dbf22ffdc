//! Whether a text may hold a secret: a quick check that rules most texts out.
//!
//! Nearly no text holds one, and each piece of a reply, each result and each message is asked for. So of each spelling only
//! the letters and digits are compared, around a rare one of them. What is not ruled out is searched as a whole.
//!
//! A short text, such as a piece of a reply, is looked at once, byte by byte: [`Filter`] has the class of each byte.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use memchr::{memchr, memchr_iter, memchr2, memchr2_iter, memchr3, memmem};
use secrecy::{ExposeSecret, SecretString};

use crate::spelling::{Escape, escape, visible};

/// What is quickly known of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It holds nothing.
    None,
    /// It may end with the beginning of a spelling, and it holds nothing else. All its characters are printable ASCII, and
    /// none begins an escape.
    End,
    /// It may hold anything.
    Any,
}

/// The quick check of short texts for all patterns at once.
pub(crate) struct Filter {
    /// What each byte can be a part of.
    classes: [u8; 256],
    /// For two letters or digits that follow each other in a pattern, its last one excepted: one bit of 1,024.
    pairs: [u64; 16],
    /// The fewest letters that are at the end of a text that is over and ends with more than half of a spelling.
    half: usize,
}

impl Filter {
    /// The filter of these patterns.
    pub(crate) fn of<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Self {
        let mut filter = Self { classes: [0; 256], pairs: [0; 16], half: usize::MAX };
        let unusual = (0..=u8::MAX).filter(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r'));
        unusual.for_each(|byte| filter.add(byte, UNUSUAL));
        [b'%', b'\\', b'&', b'<', 0x1b, 0xe2, 0xef].into_iter().for_each(|byte| filter.add(byte, DOUBTFUL));
        for pattern in patterns {
            let letters = pattern.letters.expose_secret().as_bytes();
            let rare = letters.get(pattern.rare).copied();
            rare.into_iter().for_each(|byte| filter.add_letter(byte, DOUBTFUL));
            letters.first().into_iter().for_each(|byte| filter.add_letter(*byte, FIRST));
            pattern.first.into_iter().for_each(|byte| filter.add(byte, DOUBTFUL));
            let before_last = letters.split_last().map_or(letters, |(_, before)| before);
            for (one, next) in before_last.iter().zip(before_last.iter().skip(1)) {
                let (word, bit) = pair(*one, *next);
                filter.pairs.get_mut(word).into_iter().for_each(|word| *word |= bit);
            }
            filter.half = filter.half.min(pattern.half.max(1));
        }
        filter
    }

    fn add(&mut self, byte: u8, class: u8) {
        self.classes.get_mut(usize::from(byte)).into_iter().for_each(|classes| *classes |= class);
    }

    fn add_letter(&mut self, byte: u8, class: u8) {
        self.add(byte, class);
        self.add(byte.to_ascii_uppercase(), class);
    }

    fn class(&self, byte: u8) -> u8 {
        self.classes.get(usize::from(byte)).copied().unwrap_or(DOUBTFUL)
    }

    /// What is known of a text. A long one is not looked at: it may hold anything.
    pub(crate) fn suspicion(&self, text: &str, is_over: bool) -> Suspicion {
        let bytes = text.as_bytes();
        if bytes.len() > MAX_SHORT {
            return Suspicion::Any;
        }
        let seen = bytes.iter().fold(0, |seen, byte| seen | self.class(*byte));
        if seen & DOUBTFUL != 0 {
            return Suspicion::Any;
        }
        match self.may_end(bytes, is_over) {
            false => Suspicion::None,
            true if seen & UNUSUAL == 0 => Suspicion::End,
            true => Suspicion::Any,
        }
    }

    /// Whether a text, whose characters are as they are seen, may end with the beginning of a spelling: its last two
    /// letters tell it of most.
    pub(crate) fn may_end(&self, text: &[u8], is_over: bool) -> bool {
        if is_over && text.len() < self.half {
            return false;
        }
        let mut end = text.iter().rev().filter_map(own);
        let Some(last) = end.next() else { return false };
        self.class(last) & FIRST != 0
            || end.next().is_some_and(|before| {
                let (word, bit) = pair(before, last);
                self.pairs.get(word).is_none_or(|word| word & bit != 0)
            })
    }
}

/// The bit of two letters or digits that follow each other. Other pairs may have the same.
fn pair(one: u8, next: u8) -> (usize, u64) {
    (usize::from(one & 15), 1 << (next & 31 | (one & 16) << 1))
}

/// What a text has that holds one of several spellings.
#[derive(Clone)]
pub(crate) struct Pattern {
    /// The letters and digits of the spellings, in lower case. Not empty.
    letters: SecretString,
    /// The place of the one that texts have least.
    rare: usize,
    /// Where a text is over, so many of them are at its end if more than half of a spelling is.
    half: usize,
    /// What a text holds that ends with the beginning of a spelling that begins with neither a letter nor a digit.
    first: Option<u8>,
    /// The bytes of the longest spelling.
    pub(crate) longest: usize,
}

impl Pattern {
    /// The patterns of these spellings. `None` if one has neither letters nor digits: then nothing can be ruled out.
    pub(crate) fn all<'a>(spellings: impl Iterator<Item = &'a str>) -> Option<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        // Places in `all`, by a hash of the letters: a second copy of a secret's letters would stay in memory.
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        let hasher = RandomState::new();
        for spelling in spellings {
            let bytes = spelling.as_bytes();
            let letters: String = bytes.iter().filter_map(own).map(char::from).collect();
            let first = bytes.first().copied().filter(|byte| !byte.is_ascii_alphanumeric());
            let half = bytes.iter().take(bytes.len() / 2 + 1).filter_map(own).count();
            let is_same = |other: &Self| {
                *other.letters.expose_secret() == letters && (other.first == first || first.is_none())
            };
            let places = places.entry(hasher.hash_one(&letters)).or_default();
            match places.iter().copied().find(|at| all.get(*at).is_some_and(is_same)) {
                Some(at) => {
                    if let Some(other) = all.get_mut(at) {
                        other.half = other.half.min(half);
                        other.longest = other.longest.max(bytes.len());
                    }
                }
                None => {
                    let rare = rare_place(letters.as_bytes())?;
                    places.push(all.len());
                    all.push(Self { letters: letters.into(), rare, half, first, longest: bytes.len() });
                }
            }
        }
        Some(all)
    }

    /// Whether `text`, whose characters are as they are seen, may hold a spelling, or end with the beginning of one if it
    /// `may_end` with that.
    fn may_be_in(&self, text: &[u8], is_over: bool, may_end: bool) -> bool {
        let letters = self.letters.expose_secret().as_bytes();
        let Some((before, [rare, after @ ..])) = letters.split_at_checked(self.rare) else { return true };
        let is_here = |at: usize| {
            let (head, tail) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            let mut head = head.iter().rev().filter_map(own);
            let mut tail = tail.iter().filter_map(own);
            after.iter().all(|byte| tail.next() == Some(*byte))
                && before.iter().rev().all(|byte| head.next() == Some(*byte))
        };
        self.first.is_some_and(|first| memchr(first, text).is_some())
            || memchr2_iter(*rare, rare.to_ascii_uppercase(), text).any(is_here)
            || may_end && self.may_begin_at_the_end_of(text, is_over)
    }

    fn may_begin_at_the_end_of(&self, text: &[u8], is_over: bool) -> bool {
        let letters = self.letters.expose_secret().as_bytes();
        let Some(first) = letters.first() else { return true };
        // Most pieces of a reply do not have its first letter, and short texts not half of it.
        let least = if is_over { self.half.max(1) } else { 1 };
        if text.len() < least || memchr2(*first, first.to_ascii_uppercase(), text).is_none() {
            return false;
        }
        let mut end = Vec::with_capacity(letters.len());
        end.extend(text.iter().rev().filter_map(own).take(letters.len() - 1));
        end.reverse();
        let until = (end.len() + 1).saturating_sub(least);
        let starts = end.get(..until).unwrap_or_default();
        memchr_iter(*first, starts).any(|at| end.get(at..).is_some_and(|rest| letters.starts_with(rest)))
    }
}

/// Whether a text may hold a spelling of one of the patterns, or end with the beginning of one. Where this returns false, a
/// search finds nothing. `quick` is the filter of the same patterns, where one was made.
pub(crate) fn may_hold<'a>(
    text: &str,
    is_over: bool,
    patterns: impl Iterator<Item = &'a Pattern> + Clone,
    quick: Option<&Filter>,
) -> bool {
    // The first bytes of `…` and of full-width letters, among others.
    if memchr2(0xe2, 0xef, text.as_bytes()).is_some() {
        // Of a cut secret less than half may be left.
        if memmem::find(text.as_bytes(), "…".as_bytes()).is_some() {
            return true;
        }
        let seen: String = text.chars().filter_map(visible).collect();
        return is_in(&seen, is_over, patterns.clone(), true) || is_in_decoded(text, is_over, patterns);
    }
    // Other characters that are not seen are neither letters nor digits, and are passed over.
    let may_end = quick.is_none_or(|quick| quick.may_end(text.as_bytes(), is_over));
    is_in(text, is_over, patterns.clone(), may_end)
        || may_be_escaped(text.as_bytes()) && is_in_decoded(text, is_over, patterns)
}

fn is_in<'a>(
    text: &str,
    is_over: bool,
    mut patterns: impl Iterator<Item = &'a Pattern>,
    may_end: bool,
) -> bool {
    patterns.any(|pattern| pattern.may_be_in(text.as_bytes(), is_over, may_end))
}

/// Whether a text has escapes, or ends within one. Texts have more percent signs than escapes: one that no digit follows
/// is none.
fn may_be_escaped(text: &[u8]) -> bool {
    memchr2(b'\\', b'&', text).is_some()
        || memchr2(b'<', 0x1b, text).is_some()
        || memchr_iter(b'%', text).any(|at| text.get(at + 1).is_none_or(u8::is_ascii_hexdigit))
}

/// The same without the escapes of the text. False where it has none.
fn is_in_decoded<'a>(text: &str, is_over: bool, patterns: impl Iterator<Item = &'a Pattern>) -> bool {
    let bytes = text.as_bytes();
    let mut places = Places { bytes, one: None, two: None };
    let (mut decoded, mut done, mut at) = (None::<String>, 0, 0);
    while let Some(found) = places.next(at) {
        at = found + 1;
        let (c, length) = match escape(bytes.get(found..).unwrap_or_default()) {
            Escape::None => continue,
            Escape::Cut if is_over => continue,
            Escape::Cut => return true,
            Escape::Char(c, length) => (visible(c), length),
            Escape::Nothing(length) => (None, length),
        };
        let decoded = decoded.get_or_insert_with(|| String::with_capacity(text.len()));
        let before = text.get(done..found).unwrap_or_default();
        if before.is_ascii() {
            decoded.push_str(before);
        } else {
            decoded.extend(before.chars().filter_map(visible));
        }
        decoded.extend(c);
        done = found + length;
        at = done;
    }
    let Some(mut decoded) = decoded else { return false };
    decoded.extend(text.get(done..).unwrap_or_default().chars().filter_map(visible));
    is_in(&decoded, is_over, patterns, true)
}

/// The places of bytes that may begin an escape, in order.
struct Places<'a> {
    bytes: &'a [u8],
    /// Where the next of the first three is, and of the other two; `None` where there are no more.
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

/// Maximum bytes of a text that is looked at byte by byte. Of a longer one many bytes are compared at a time.
const MAX_SHORT: usize = 128;
/// A byte of a character that is not seen as it is, or not ASCII.
const UNUSUAL: u8 = 1;
/// A byte with which a text is not ruled out: it is a rare letter of a pattern, or begins an escape, a character that is
/// seen as another, or a spelling.
const DOUBTFUL: u8 = 2;
/// The first letter of a pattern.
const FIRST: u8 = 4;

/// A letter or digit, in lower case.
pub(crate) fn own(byte: &u8) -> Option<u8> {
    byte.is_ascii_alphanumeric().then(|| byte.to_ascii_lowercase())
}

/// The place of the letter or digit that texts have least.
fn rare_place(letters: &[u8]) -> Option<usize> {
    let rank = |byte: u8| match byte {
        b'q' | b'x' | b'z' | b'j' => 0,
        b'3'..=b'9' => 1,
        b'0'..=b'2' => 2,
        b'k' | b'v' | b'w' | b'y' | b'b' | b'g' | b'p' | b'f' => 3,
        _ => 4,
    };
    letters.iter().enumerate().min_by_key(|(_, byte)| rank(**byte)).map(|(at, _)| at)
}
