//! Secrets in every spelling in which a model or a tool may repeat them, and how they are masked in texts.
//!
//! The driver masks each text where it enters. This module knows no run and no spec.

mod heads;
mod spelling;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde::de::IgnoredAny;
use serde_json::Value;

use self::heads::{Prefixes, letter};
use self::spelling::{is_escaped, walk};

/// The credentials that no text may show: API keys, values of headers, passwords.
///
/// A secret is found verbatim, with invisible characters or terminal sequences in it, and as JSON, a URL or HTML
/// escapes it. One that looks like a key (at least 16 letters and digits, of both kinds) is also found in another case,
/// and with anything but letters and digits between its own: split over lines, spans or quotes. A text of fewer than
/// four bytes is not a secret. A secret of fewer than eight bytes is masked only in error messages, because replies use
/// such words with other meanings. Where a `…` shows that a text was cut, the beginning of a secret before it is masked
/// if it has eight bytes or is more than half of the secret.
#[derive(Clone, Default)]
pub struct Secrets {
    /// `None`: there are none.
    all: Option<Arc<SecretSpellings>>,
    /// Whether short secrets are masked in all texts.
    masks_short: bool,
}

/// How secrets are spelt. Each reply and each of its calls has them, so they are shared.
struct SecretSpellings {
    secrets: BTreeSet<Box<str>>,
    /// Every spelling of every secret.
    forms: Patterns,
    /// The letters and digits of the secrets that look like keys, in lower case.
    keys: Patterns,
    /// How the spellings begin that are masked in all texts. `None`: no text can be ruled out.
    heads: Option<Prefixes>,
}

/// What the end of a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The text is whole. More than half of a secret there is masked: its writer may have cut the text.
    Whole,
    /// The message is whole. Words at its end are only words.
    Message,
    /// More text follows.
    Open,
}

impl Secrets {
    /// These texts as secrets, each in all its spellings.
    pub fn of(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let long = |text: &str| (text.len() >= LEAST).then(|| Box::from(text));
        Self::default().with(texts.into_iter().filter_map(|text| long(text.as_ref())).collect())
    }

    /// The same secrets, where short ones are masked in all texts, and not in messages alone.
    pub fn with_short(self) -> Self {
        Self { masks_short: true, ..self }
    }

    /// Adds a secret. This computes all spellings again, so use [`of`](Self::of) for many secrets.
    pub fn add(&mut self, secret: &str) {
        self.extend(&Self::of([secret]));
    }

    /// Adds all secrets of `others`.
    pub fn extend(&mut self, others: &Self) {
        let Some(more) = &others.all else { return };
        match &self.all {
            None => self.all = Some(Arc::clone(more)),
            Some(own) if more.secrets.is_subset(&own.secrets) => {}
            Some(own) => *self = self.with(own.secrets.union(&more.secrets).cloned().collect()),
        }
    }

    fn with(&self, secrets: BTreeSet<Box<str>>) -> Self {
        let all = (!secrets.is_empty()).then(|| Arc::new(SecretSpellings::new(secrets)));
        Self { all, masks_short: self.masks_short }
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// A complete text with `[masked]` in place of every secret of at least eight bytes.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.find(text, self.least(), End::Whole) {
            Some(found) => found.masked(text, MASKED).0.into(),
            None => text.into(),
        }
    }

    /// Like [`mask`](Self::mask) for a JSON text, which stays valid JSON: a secret that is spread across its structure is
    /// masked as a whole.
    pub fn mask_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        match self.mask(json) {
            Cow::Owned(masked) if !is_json(&masked) && is_json(json) => format!("\"{MASKED}\"").into(),
            masked => masked,
        }
    }

    /// Like [`mask`](Self::mask) for each text, name and number of a JSON value.
    pub fn mask_value(&self, value: Value) -> Value {
        let owned = |text: String| match self.mask(&text) {
            Cow::Owned(masked) => masked,
            Cow::Borrowed(_) => text,
        };
        match value {
            Value::String(text) => Value::String(owned(text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (owned(name), self.mask_value(value))).collect()
            }
            Value::Number(number) => match self.mask(&number.to_string()) {
                Cow::Owned(_) => MASKED.into(),
                Cow::Borrowed(_) => Value::Number(number),
            },
            plain @ (Value::Null | Value::Bool(_)) => plain,
        }
    }

    /// An error message with `[masked]` in place of every secret, including the short ones.
    pub fn mask_message(&self, message: &str) -> String {
        self.mask_message_by(message, MASKED, /*is_cut*/ false)
    }

    /// Like [`mask_message`](Self::mask_message), with `mask` in place of secrets. Where the message `is_cut` off, a possible
    /// beginning of a secret at its end is left out.
    pub fn mask_message_by(&self, message: &str, mask: &str, is_cut: bool) -> String {
        let found = self.find(message, LEAST, if is_cut { End::Open } else { End::Message });
        found.map_or_else(|| message.to_owned(), |found| found.masked(message, mask).0)
    }

    /// Bytes of the shortest secret that is masked in all texts.
    fn least(&self) -> usize {
        if self.masks_short { LEAST } else { LEAST_IN_TEXTS }
    }

    /// The secrets of at least `least` bytes in a text. `None`: there are none.
    fn find(&self, text: &str, least: usize, end: End) -> Option<SecretMatches> {
        let all = self.all.as_ref()?;
        let may_hold = || all.heads.as_ref().is_none_or(|heads| heads.may_be_in(text, end != End::Open));
        (least < LEAST_IN_TEXTS || may_hold())
            .then(|| all.search(text, least, end))
            .filter(|found| !found.is_nothing())
    }
}

impl SecretSpellings {
    fn new(secrets: BTreeSet<Box<str>>) -> Self {
        let forms: BTreeSet<String> = secrets.iter().flat_map(|secret| forms_of(secret)).collect();
        let keys: BTreeSet<String> = secrets.iter().filter_map(|secret| key_of(secret)).collect();
        let (forms, keys) = (Patterns::new(forms), Patterns::new(keys));
        let long = forms.texts.iter().filter(|form| form.len() >= LEAST_IN_TEXTS);
        let heads = Prefixes::new(long.chain(&keys.texts).map(|text| (text.as_str(), most_cut(text.len()))));
        Self { secrets, forms, keys, heads }
    }

    /// As [`Secrets::find`], for a text that may hold something.
    fn search(&self, text: &str, least: usize, end: End) -> SecretMatches {
        let mut found = SecretMatches::default();
        for decodes in [false, true].into_iter().take(1 + usize::from(is_escaped(text))) {
            let (mut read, mut places) =
                (Vec::with_capacity(text.len()), Vec::<Range<usize>>::with_capacity(text.len()));
            let until = walk(text, decodes, end != End::Open, |byte, place| {
                read.push(byte);
                places.push(place);
            });
            found.add(text, &read, &places, &self.forms, least, end);
            if !self.keys.texts.is_empty() {
                let own =
                    read.iter().zip(&places).filter_map(|(byte, at)| Some((letter(*byte)?, at.clone())));
                let (letters, at): (Vec<u8>, Vec<_>) = own.unzip();
                found.add(text, &letters, &at, &self.keys, least, end);
            }
            found.stops.extend((until < text.len()).then_some(until));
            found.escapes.extend(places.into_iter().filter(|place| decodes && place.len() > 1));
        }
        found.matches.sort_by_key(|found| (found.start, Reverse(found.end)));
        found
    }
}

/// Texts that are searched for all at once.
struct Patterns {
    texts: Vec<String>,
    /// Made for the first text that may hold one of them: most runs have no such text.
    finder: OnceLock<AhoCorasick>,
}

impl Patterns {
    fn new(texts: BTreeSet<String>) -> Self {
        Self { texts: texts.into_iter().collect(), finder: OnceLock::new() }
    }

    fn finder(&self) -> &AhoCorasick {
        self.finder.get_or_init(|| {
            // The kind that is made fastest: few texts are searched.
            let kind = Some(AhoCorasickKind::NoncontiguousNFA);
            let finder = AhoCorasick::builder().kind(kind).build(&self.texts);
            finder.expect("an automaton of secrets fits in memory")
        })
    }

    /// The places of patterns of at least `least` bytes.
    fn places(&self, read: &[u8], least: usize) -> impl Iterator<Item = Range<usize>> {
        // Most pieces of a reply are shorter than any secret.
        let is_room = self.texts.iter().any(|text| text.len() <= read.len());
        let all = is_room.then(|| self.finder().find_overlapping_iter(read).map(|found| found.range()));
        all.into_iter().flatten().filter(move |place| place.len() >= least)
    }

    /// Where the end of `read` is the beginning of a pattern of at least `least` bytes: of that many of its bytes.
    fn begun(
        &self,
        read: &[u8],
        least: usize,
        bytes: impl Fn(usize) -> usize,
    ) -> impl Iterator<Item = usize> {
        let long = self.texts.iter().map(String::as_bytes).filter(move |pattern| pattern.len() >= least);
        long.flat_map(move |pattern| {
            let lengths = bytes(pattern.len())..pattern.len().min(read.len() + 1);
            let is_begun = move |length: &usize| pattern.get(..*length).is_some_and(|it| read.ends_with(it));
            lengths.filter(is_begun).map(|length| read.len() - length)
        })
    }
}

/// The secrets found in a text.
#[derive(Default)]
struct SecretMatches {
    /// The ranges of secrets, in order.
    matches: Vec<Range<usize>>,
    /// Where a secret or an escape may begin that the end of an open text cuts off.
    stops: Vec<usize>,
    /// The ranges of escapes, which are not split.
    escapes: Vec<Range<usize>>,
}

impl SecretMatches {
    fn is_nothing(&self) -> bool {
        self.matches.is_empty() && self.stops.is_empty()
    }

    /// Adds what `patterns` are in a text that was read so: its bytes, and the place of each.
    fn add(
        &mut self,
        text: &str,
        read: &[u8],
        places: &[Range<usize>],
        patterns: &Patterns,
        least: usize,
        end: End,
    ) {
        let start = |at: usize| places.get(at).map_or(text.len(), |place| place.start);
        let until = |end: usize| end.checked_sub(1).and_then(|at| places.get(at)).map_or(0, |it| it.end);
        let whole = patterns.places(read, least).map(|found| start(found.start)..until(found.end));
        self.matches.extend(whole);
        match end {
            End::Message => {}
            End::Open => self.stops.extend(patterns.begun(read, least, |_| 1).map(start)),
            End::Whole => {
                let half = patterns.begun(read, least, |bytes| bytes / 2 + 1).min();
                self.matches.extend(half.map(|at| start(at)..text.len()));
            }
        }
        for (cut, _) in text.match_indices(CUT) {
            let before = read.get(..places.partition_point(|place| place.start < cut)).unwrap_or_default();
            let begun = patterns.begun(before, least, most_cut).min();
            self.matches.extend(begun.map(|at| start(at)..cut));
        }
    }

    /// The text with `mask` in place of what was found, and how many of its bytes are final: the rest may be the
    /// beginning of a secret.
    fn masked(&self, text: &str, mask: &str) -> (String, usize) {
        let stop = |at: usize| self.stops.iter().copied().filter(|stop| *stop >= at).min();
        let (mut masked, mut at) = (String::with_capacity(text.len()), 0);
        for found in &self.matches {
            if found.start < at {
                continue;
            }
            if stop(at).is_some_and(|stop| stop <= found.start) {
                break;
            }
            masked.push_str(text.get(at..found.start).unwrap_or_default());
            masked.push_str(mask);
            at = found.end;
        }
        let end = stop(at).map_or(text.len(), |stop| self.outside(stop).max(at));
        masked.push_str(text.get(at..end).unwrap_or_default());
        (masked, end)
    }

    /// The place, or the beginning of the escape that contains it.
    fn outside(&self, at: usize) -> usize {
        let within = self.escapes.iter().find(|escape| escape.start < at && at < escape.end);
        within.map_or(at, |escape| escape.start)
    }
}

/// Masks secrets in a streamed text. The size of the pieces does not change the result, unless a secret is spread over
/// more than a kilobyte.
#[derive(Default)]
pub struct Masker {
    secrets: Secrets,
    /// The possible beginning of a secret.
    held: String,
    /// Whether more was held back than is possible, so that a secret may have been passed on in parts.
    gave_up: bool,
}

impl Masker {
    /// A masker for a new text.
    pub fn new(secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), held: String::new(), gave_up: false }
    }

    /// The text that is certain after this piece.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let text: Cow<'a, str> = match self.held.is_empty() {
            true => piece.into(),
            false => (std::mem::take(&mut self.held) + piece).into(),
        };
        let Some(found) = self.secrets.find(&text, self.secrets.least(), End::Open) else { return text };
        let (mut certain, end) = found.masked(&text, MASKED);
        let rest = text.get(end..).unwrap_or_default();
        if rest.len() > self.max() {
            self.gave_up = true;
            certain.push_str(&self.secrets.mask(rest));
        } else {
            self.held.push_str(rest);
        }
        certain.into()
    }

    /// The text that was held back. More than half of a secret is masked like a whole one.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.secrets.mask(&held).into_owned()
    }

    /// The whole text that was passed on. A secret that was spread too far for its pieces is masked in it.
    pub fn whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.gave_up { self.secrets.mask(text) } else { text.into() }
    }

    /// The maximum number of bytes that are held back. Each character may be escaped.
    fn max(&self) -> usize {
        let forms = self.secrets.all.iter().flat_map(|all| &all.forms.texts);
        MAX_HELD.max(forms.map(|form| form.len() * 8).max().unwrap_or(0))
    }
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        let secrets = self.all.as_ref().map(|all| &all.secrets);
        self.masks_short == other.masks_short && secrets == other.all.as_ref().map(|all| &all.secrets)
    }
}

impl fmt::Debug for Secrets {
    /// Shows only how many secrets there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.all.as_ref().map_or(0, |all| all.secrets.len());
        f.debug_struct("Secrets").field("count", &count).finish_non_exhaustive()
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

/// The spellings of a secret that are searched for in both readings of a text: as it is, in JSON, in a form, and each as
/// it is read when its own escapes are decoded.
fn forms_of(secret: &str) -> impl Iterator<Item = String> {
    let json = Value::from(secret).to_string();
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json);
    let plain = [secret.to_owned(), json.to_owned(), secret.replace(' ', "+")];
    let decoded = plain.clone().map(|form| {
        let mut read = Vec::new();
        walk(&form, /*decodes*/ true, /*is_over*/ true, |byte, _| read.push(byte));
        String::from_utf8_lossy(&read).into_owned()
    });
    plain.into_iter().chain(decoded).filter(|form| form.len() >= LEAST)
}

/// The letters and digits of a secret that looks like a key rather than like words, in lower case.
fn key_of(secret: &str) -> Option<String> {
    let key: String = secret.bytes().filter_map(letter).map(char::from).collect();
    let digits = key.bytes().filter(u8::is_ascii_digit).count();
    (key.len() >= LEAST_OF_KEY && digits > 0 && digits < key.len()).then_some(key)
}

/// How many bytes of the beginning of a spelling are masked where a text was cut. Fewer tell nothing.
fn most_cut(bytes: usize) -> usize {
    LEAST_IN_TEXTS.min(bytes / 2 + 1)
}

/// What is in a text where it was cut.
const CUT: char = '…';
/// The text in place of a secret.
const MASKED: &str = "[masked]";
/// Minimum bytes of a secret.
const LEAST: usize = 4;
/// Minimum bytes of a secret that is masked in all texts.
const LEAST_IN_TEXTS: usize = 8;
/// Minimum letters and digits of a secret that may be a key.
const LEAST_OF_KEY: usize = 16;
/// Maximum bytes that are held back, unless a secret is longer.
const MAX_HELD: usize = 1 << 10;

#[cfg(test)]
#[path = "tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
