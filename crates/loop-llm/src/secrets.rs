//! Secrets in every spelling in which a provider may repeat them, and how they are masked in texts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr2, memchr3, memmem};
use secrecy::{ExposeSecret, SecretString};
use serde::de::IgnoredAny;

use crate::secret_filter::{self, Filter, Pattern, Suspicion};
use crate::spelling::{Reading, walk};

/// The credentials of a model: its API key, the values of its headers, and what its URL contains before the host, in its
/// path and in its query.
///
/// A secret is found verbatim, with invisible characters or terminal sequences in it, and as JSON, a URL or HTML escapes
/// it. One that looks like a key (at least 16 letters and digits, of both kinds) is also found in another case, and with
/// anything but letters and digits between its own: split over lines, spans or quotes. What is shorter than four bytes is
/// not a secret. What is shorter than eight is masked only in error messages, since replies use such words for other
/// things. Where a text was cut, which a `…` says, the beginning of a secret in front of it is masked if it has eight bytes
/// or is more than half of the secret.
#[derive(Clone, Default)]
pub struct Secrets {
    /// `None`: there are none.
    all: Option<Arc<Spellings>>,
}

/// How secrets are spelt. Each reply and each of its calls has them, so they are shared.
#[derive(Default)]
struct Spellings {
    /// Every spelling of every secret, the longest first.
    forms: Vec<SecretString>,
    /// The letters and digits of the secrets that look like keys, in lower case, the longest first.
    keys: Vec<SecretString>,
    /// What a text has that holds any of them. `None`: nothing can be ruled out.
    patterns: Option<Vec<Pattern>>,
    /// The quick check for those that are masked in replies. `None`: nothing can be ruled out.
    quick: Option<Filter>,
}

impl Secrets {
    /// All spellings of these secrets.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let (mut forms, mut keys) = (Vec::new(), Vec::new());
        for secret in secrets {
            forms.extend(long_forms_of(&secret));
            keys.extend(key_of(&secret));
        }
        let mut all = Self::default();
        all.add_spellings(forms, keys);
        all
    }

    /// Like [`new`](Self::new), from plain strings.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(texts.into_iter().map(SecretString::from))
    }

    /// Adds a secret. This makes all spellings again, so many secrets are read at once by [`new`](Self::new).
    pub fn add(&mut self, secret: &SecretString) {
        self.add_spellings(long_forms_of(secret), key_of(secret));
    }

    fn add_spellings(
        &mut self,
        forms: impl IntoIterator<Item = String>,
        keys: impl IntoIterator<Item = String>,
    ) {
        let (own_forms, own_keys) = (texts(self.forms()), texts(self.keys()));
        let forms = longest_first(own_forms.map(str::to_owned).chain(forms));
        let keys = longest_first(own_keys.map(str::to_owned).chain(keys));
        let is_any = !forms.is_empty() || !keys.is_empty();
        self.all = is_any.then(|| Arc::new(Spellings::new(forms, keys)));
    }

    fn forms(&self) -> &[SecretString] {
        self.all.as_ref().map_or(&[], |all| &all.forms)
    }

    fn keys(&self) -> &[SecretString] {
        self.all.as_ref().map_or(&[], |all| &all.keys)
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.forms().is_empty()
    }

    /// Adds all secrets of `others`.
    pub fn extend(&mut self, others: &Self) {
        let Some(both) = &others.all else { return };
        match &self.all {
            None => self.all = Some(Arc::clone(both)),
            Some(own) if Arc::ptr_eq(own, both) => {}
            Some(_) => {
                let own = |secrets: &[SecretString]| texts(secrets).map(str::to_owned).collect::<Vec<_>>();
                self.add_spellings(own(&both.forms), own(&both.keys));
            }
        }
    }

    /// A complete text with `[masked]` in place of every secret of at least eight bytes.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.find(text, LEAST_IN_REPLIES, /*is_over*/ true) {
            Some(found) if !found.is_nothing() => found.masked(text, MASKED, /*is_over*/ true).0.into(),
            Some(_) | None => text.into(),
        }
    }

    /// Like [`mask`](Self::mask) for a JSON text, which stays valid JSON: a secret that is spread across its structure is
    /// masked as a whole.
    pub fn mask_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        match self.mask(json) {
            Cow::Owned(masked) if serde_json::from_str::<IgnoredAny>(&masked).is_err() => {
                match serde_json::from_str::<IgnoredAny>(json) {
                    Ok(_) => Cow::Owned(format!("\"{MASKED}\"")),
                    Err(_) => Cow::Owned(masked),
                }
            }
            masked => masked,
        }
    }

    /// An error message with `mask` in place of every secret, including the short ones.
    pub fn mask_message(&self, message: &str, mask: &str) -> String {
        self.masked(message, mask, /*cut*/ false)
    }

    /// An error message with `mask` in place of every secret. One that was `cut` also loses a possible beginning of a
    /// secret at its end.
    pub(crate) fn masked(&self, message: &str, mask: &str, cut: bool) -> String {
        let Some(mut found) = self.find(message, LEAST, /*is_over*/ !cut) else { return message.to_owned() };
        if !cut {
            found.parts.clear();
        }
        found.masked(message, mask, !cut).0
    }

    /// The ranges of secrets of at least `least` bytes in a text, and what may be the beginning of one at its end. `None`:
    /// there is nothing of that.
    fn find(&self, text: &str, least: usize, is_over: bool) -> Option<Found> {
        let all = self.all.as_ref()?;
        match all.suspicion(text, least, is_over) {
            Suspicion::None => None,
            Suspicion::End => Some(all.search_end(text, is_over)),
            Suspicion::Any => Some(all.search(text, least, is_over)),
        }
    }
}

impl Spellings {
    fn new(forms: Vec<SecretString>, keys: Vec<SecretString>) -> Self {
        let patterns = Pattern::all(texts(&forms).chain(texts(&keys)));
        let long = |patterns: &Vec<Pattern>| {
            Filter::of(patterns.iter().filter(|pattern| pattern.longest >= LEAST_IN_REPLIES))
        };
        let quick = patterns.as_ref().map(long);
        Self { forms, keys, patterns, quick }
    }

    /// What is known of a text before it is searched.
    fn suspicion(&self, text: &str, least: usize, is_over: bool) -> Suspicion {
        let quick = self.quick.as_ref().filter(|_| least == LEAST_IN_REPLIES);
        match quick.map_or(Suspicion::Any, |quick| quick.suspicion(text, is_over)) {
            Suspicion::Any if !self.may_hold(text, least, is_over, quick) => Suspicion::None,
            known => known,
        }
    }

    /// Whether [`search`](Self::search) may find anything.
    fn may_hold(&self, text: &str, least: usize, is_over: bool, quick: Option<&Filter>) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        let long = patterns.iter().filter(|pattern| pattern.longest >= least);
        long.clone().next().is_some() && secret_filter::may_hold(text, is_over, long, quick)
    }

    /// As [`search`](Self::search), for a text that may only end with the beginning of a spelling that is masked in replies.
    fn search_end(&self, text: &str, is_over: bool) -> Found {
        let mut found = Found { end: text.len(), ..Found::default() };
        let mut add = |pattern: &str, end: usize, bytes: usize| {
            let is_max = bytes * 2 > pattern.len();
            found.parts.extend((is_max || !is_over).then_some((end, is_max)));
        };
        let text = text.as_bytes();
        for form in texts(&self.forms).filter(|form| form.len() >= LEAST_IN_REPLIES) {
            let first = form.bytes().next();
            let tail = text.len().saturating_sub(form.len() - 1);
            for end in tail..text.len() {
                let rest = text.get(end..).unwrap_or_default();
                if rest.first().copied() == first && form.as_bytes().starts_with(rest) {
                    add(form, end, rest.len());
                }
            }
        }
        for key in texts(&self.keys) {
            let first = key.bytes().next();
            let mut bytes = 0;
            for (end, byte) in text.iter().enumerate().rev() {
                let Some(letter) = secret_filter::own(byte) else { continue };
                bytes += 1;
                if bytes >= key.len() {
                    break;
                }
                let rest = text.get(end..).unwrap_or_default();
                if Some(letter) == first
                    && rest.iter().filter_map(secret_filter::own).eq(key.bytes().take(bytes))
                {
                    add(key, end, bytes);
                }
            }
        }
        found
    }

    /// As [`find`](Secrets::find), for a text that may hold something.
    fn search(&self, text: &str, least: usize, is_over: bool) -> Found {
        let mut found = Found { end: text.len(), ..Found::default() };
        let forms: Vec<&str> = texts(&self.forms).filter(|form| form.len() >= least).collect();
        let keys: Vec<&str> = texts(&self.keys).collect();
        let is_escaped = memchr3(b'%', b'\\', b'&', text.as_bytes()).is_some()
            || memchr2(b'<', 0x1b, text.as_bytes()).is_some();
        for (decodes, alone) in [(false, false), (false, true), (true, false), (true, true)] {
            let patterns = if alone { &keys } else { &forms };
            if (is_escaped || !decodes) && !patterns.is_empty() {
                found.read(text, Reading { decodes, alone }, patterns, is_over);
                found.read_cuts(text, Reading { decodes, alone }, patterns);
            }
        }
        found.matches.sort_by_key(|found| (found.start, Reverse(found.end)));
        found
    }
}

impl fmt::Debug for Secrets {
    /// Shows only how many spellings there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("forms", &self.forms().len()).finish()
    }
}

/// The secrets found in a text.
#[derive(Default)]
struct Found {
    /// The ranges of whole secrets, in order.
    matches: Vec<Range<usize>>,
    /// Where a secret may begin that the end of the text cuts off, and whether more than half of it is there.
    parts: Vec<(usize, bool)>,
    /// Where an escape begins that the end of the text cuts off; otherwise the end of the text.
    end: usize,
    /// The ranges of escapes, which are not split.
    escapes: Vec<Range<usize>>,
}

impl Found {
    fn is_nothing(&self) -> bool {
        self.matches.is_empty() && self.parts.is_empty()
    }

    fn read(&mut self, text: &str, reading: Reading, patterns: &[&str], is_over: bool) {
        let mut read: Vec<u8> = Vec::with_capacity(text.len());
        let end = walk(text, reading, is_over, |byte, _| read.push(byte));
        self.end = self.end.min(end);
        let mut matches: Vec<Range<usize>> = Vec::new();
        let mut parts: Vec<(usize, bool)> = Vec::new();
        for pattern in patterns.iter().map(|pattern| pattern.as_bytes()) {
            matches.extend(memmem::find_iter(&read, pattern).map(|at| at..at + pattern.len()));
            let begun = (1..pattern.len().min(read.len() + 1)).filter_map(|bytes| {
                let at = read.len() - bytes;
                let is_begun = read.get(at..) == pattern.get(..bytes);
                is_begun.then_some((at, bytes * 2 > pattern.len()))
            });
            parts.extend(begun.filter(|(_, is_max)| *is_max || !is_over));
        }
        if matches.is_empty() && parts.is_empty() && (is_over || !reading.decodes) {
            return;
        }
        let mut places: Vec<Range<usize>> = Vec::with_capacity(read.len());
        walk(text, reading, is_over, |_, place| places.push(place));
        let start = |at: usize| places.get(at).map_or(text.len(), |place| place.start);
        let last = |end: usize| end.checked_sub(1).and_then(|at| places.get(at)).map_or(0, |it| it.end);
        self.matches.extend(matches.iter().map(|found| start(found.start)..last(found.end)));
        self.parts.extend(parts.iter().map(|(at, is_max)| (start(*at), *is_max)));
        if reading.decodes {
            let begins = |place: &Range<usize>| text.as_bytes().get(place.start).copied();
            let is_escape = |place: &Range<usize>| matches!(begins(place), Some(b'%' | b'\\' | b'&'));
            self.escapes.extend(places.into_iter().filter(|place| place.len() > 1 && is_escape(place)));
        }
    }

    /// Finds what a cut has left of a secret: its beginning in front of a `…`. A few letters of it tell nothing.
    fn read_cuts(&mut self, text: &str, reading: Reading, patterns: &[&str]) {
        let longest = patterns.first().map_or(0, |pattern| pattern.len()).max(MAX_HELD);
        for (at, _) in text.match_indices(CUT) {
            let from = text.floor_char_boundary(at.saturating_sub(longest));
            let (mut read, mut places) = (Vec::new(), Vec::new());
            walk(text.get(from..at).unwrap_or_default(), reading, /*is_over*/ true, |byte, place| {
                read.push(byte);
                places.push(place);
            });
            let begun = patterns.iter().filter_map(|pattern| {
                let pattern = pattern.as_bytes();
                let least = LEAST_IN_REPLIES.min(pattern.len() / 2 + 1);
                let mut lengths = (least..pattern.len().min(read.len() + 1)).rev();
                lengths.find(|bytes| read.ends_with(pattern.get(..*bytes).unwrap_or(pattern)))
            });
            let start = begun.max().and_then(|bytes| places.get(read.len() - bytes));
            self.matches.extend(start.map(|place| from + place.start..at));
        }
    }

    /// The text with `mask` in place of what was found, and how many of its bytes are final: the rest may be the
    /// beginning of a secret, unless the text is over.
    fn masked(&self, text: &str, mask: &str, is_over: bool) -> (String, usize) {
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        let mut matches = self.matches.iter().peekable();
        loop {
            while matches.next_if(|found| found.start < at).is_some() {}
            let parts = self.parts.iter().map(|(part, _)| *part).filter(|part| *part >= at);
            let part = parts.chain((self.end >= at && !is_over).then_some(self.end)).min();
            let next = matches.peek();
            if let Some(part) = part.filter(|part| next.is_none_or(|next| *part <= next.start)) {
                let is_whole = is_over && next.is_some_and(|next| next.start == part);
                if !is_whole {
                    let part = if is_over { part } else { self.outside(part).max(at) };
                    masked.push_str(text.get(at..part).unwrap_or_default());
                    if is_over {
                        masked.push_str(mask);
                        return (masked, text.len());
                    }
                    return (masked, part);
                }
            }
            let Some(next) = matches.next() else { break };
            masked.push_str(text.get(at..next.start).unwrap_or_default());
            masked.push_str(mask);
            at = next.end;
        }
        masked.push_str(text.get(at..).unwrap_or_default());
        (masked, text.len())
    }

    /// The place, or the end of the escape that contains it.
    fn outside(&self, at: usize) -> usize {
        let within = self.escapes.iter().find(|escape| escape.start < at && at < escape.end);
        within.map_or(at, |escape| escape.start)
    }
}

/// Masks secrets in a streamed text. The size of the pieces does not change the result, unless a secret is spread over
/// more than a kilobyte.
pub struct Masker {
    secrets: Secrets,
    /// The possible beginning of a secret.
    held: String,
}

impl Masker {
    /// A masker for a new text.
    pub fn new(secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), held: String::new() }
    }

    /// The text that is certain after this piece.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if self.held.is_empty() {
            let Some(found) = self.secrets.find(piece, LEAST_IN_REPLIES, /*is_over*/ false) else {
                return piece.into();
            };
            if found.is_nothing() && found.end == piece.len() {
                return piece.into();
            }
            return self.tell(piece, &found).into();
        }
        let mut held = std::mem::take(&mut self.held);
        held.push_str(piece);
        match self.secrets.find(&held, LEAST_IN_REPLIES, /*is_over*/ false) {
            Some(found) => self.tell(&held, &found).into(),
            None => held.into(),
        }
    }

    /// The text that was held back. More than half of a secret is masked like a whole one.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.secrets.mask(&held).into_owned()
    }

    /// The maximum number of bytes that are held back. Each character may be escaped.
    fn max(&self) -> usize {
        let longest = self.secrets.forms().first().map_or(0, |form| form.expose_secret().len());
        MAX_HELD.max(longest * 8)
    }

    fn tell(&mut self, text: &str, found: &Found) -> String {
        let (mut reported, end) = found.masked(text, MASKED, /*is_over*/ false);
        let rest = text.get(end..).unwrap_or_default();
        if rest.len() > self.max() {
            reported.push_str(&self.secrets.mask(rest));
        } else {
            self.held.push_str(rest);
        }
        reported
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

/// How many bytes at the end of `text` are a proper prefix of `form`.
pub(crate) fn begun(text: &str, form: &str) -> usize {
    let is_begun = |bytes: &usize| {
        let end = text.len().checked_sub(*bytes).and_then(|start| text.get(start..));
        end.is_some_and(|end| form.starts_with(end))
    };
    (1..form.len()).rev().find(is_begun).unwrap_or(0)
}

/// Whether letters and digits look like those of a key rather than of words.
fn is_key(text: &str) -> bool {
    text.len() >= LEAST_OF_KEY
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn texts(secrets: &[SecretString]) -> impl Iterator<Item = &str> {
    secrets.iter().map(ExposeSecret::expose_secret)
}

fn longest_first(texts: impl Iterator<Item = String>) -> Vec<SecretString> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    texts.dedup();
    texts.into_iter().map(SecretString::from).collect()
}

/// The spellings of a secret that are searched for.
fn long_forms_of(secret: &SecretString) -> impl Iterator<Item = String> + use<> {
    forms_of(secret.expose_secret()).into_iter().filter(|form| form.len() >= LEAST)
}

/// The letters and digits of a secret that looks like a key, in lower case.
fn key_of(secret: &SecretString) -> Option<String> {
    let key: String = secret.expose_secret().chars().filter(char::is_ascii_alphanumeric).collect();
    is_key(&key).then(|| key.to_ascii_lowercase())
}

fn forms_of(secret: &str) -> [String; 5] {
    let json = serde_json::Value::from(secret).to_string();
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json);
    let percent = |hex: fn(u8) -> String| {
        let byte = |byte: u8| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => hex(byte),
        };
        secret.bytes().map(byte).collect()
    };
    [
        secret.to_owned(),
        json.to_owned(),
        json.replace('/', "\\/"),
        percent(|byte| format!("%{byte:02X}")),
        percent(|byte| format!("%{byte:02x}")),
    ]
}

/// What stands where a text was cut.
const CUT: char = '…';
/// The text in place of a secret.
const MASKED: &str = "[masked]";
/// Minimum bytes of a secret.
const LEAST: usize = 4;
/// Minimum bytes of a secret that is masked in replies.
const LEAST_IN_REPLIES: usize = 8;
/// Minimum letters and digits of a secret that may be a key.
const LEAST_OF_KEY: usize = 16;
/// Maximum bytes that are held back, unless a secret is longer.
const MAX_HELD: usize = 1 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use secrecy::SecretString;

    use super::{LEAST_IN_REPLIES, Masker, Secrets, Suspicion};

    const KEY: &str = "sk-Ant-api03_Zq8Lr4Xw9Tb2";

    fn secrets() -> Secrets {
        Secrets::new(["sk-abc/def+1", "sk-abc/def", "short"].map(SecretString::from))
    }

    fn suspicion(secrets: &Secrets, text: &str, is_over: bool) -> Suspicion {
        let all = secrets.all.as_ref().unwrap();
        all.suspicion(text, LEAST_IN_REPLIES, is_over)
    }

    fn pieces(secrets: &Secrets, text: &str, cuts: &[usize]) -> String {
        let mut masker = Masker::new(secrets);
        let (mut reported, mut rest) = (String::new(), text);
        for cut in cuts {
            let (piece, tail) = rest.split_at(rest.floor_char_boundary(*cut));
            reported.push_str(&masker.push(piece));
            rest = tail;
        }
        reported.push_str(&masker.push(rest));
        reported.push_str(&masker.finish());
        reported
    }

    fn check(secrets: &Secrets, text: &str, wanted: &str) {
        assert_eq!(secrets.mask(text), wanted);
        for first in 0..=text.len() {
            for second in [0, 1, 2, 5, 9] {
                assert_eq!(pieces(secrets, text, &[first, second]), wanted, "{text} {first} {second}");
            }
        }
    }

    #[test]
    fn a_secret_among_a_thousand_is_masked() {
        let keys: Vec<String> = (0..1_000).map(|n| format!("sk-{n:04}/Key+of{n:04}")).collect();
        let secrets = Secrets::of(keys.iter().map(String::as_str));
        for key in keys.iter().step_by(37) {
            assert_eq!(secrets.mask(&format!("it is {key}.")), "it is [masked].");
        }
        assert_eq!(secrets.mask("it is sk-1000/Key+of1000."), "it is sk-1000/Key+of1000.");
    }

    #[test]
    fn secrets_that_are_added_one_by_one_are_spelt_as_those_that_are_read_at_once() {
        let some = [KEY, "sk-abc/def+1", "+-/é9_long", "SK-ABC/DEF+1", "12345678", "a b", KEY]
            .map(SecretString::from);
        let mut added = Secrets::default();
        some.iter().for_each(|secret| added.add(secret));
        let whole = Secrets::new(some);
        let spelt = |secrets: &Secrets| {
            [secrets.forms(), secrets.keys()]
                .map(|of| super::texts(of).map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(spelt(&added), spelt(&whole));
    }

    #[test]
    fn secrets_are_masked_in_every_form_wherever_the_text_is_cut() {
        let check = |text: &str, wanted: &str| check(&secrets(), text, wanted);
        check("é sk-abc/def+1 sk-abc/def+2 é", "é [masked] [masked]+2 é");
        check("sk-sk-abc\\/def, sk-abc%2Fdef%2B1 sk-abc%2fdef.", "sk-[masked], [masked] [masked].");
        check("a short word, and sk-a", "a short word, and sk-a");
        check("cut in the middle: sk-abc/d", "cut in the middle: [masked]");
    }

    // B13, K13
    #[test]
    fn a_key_is_masked_however_it_is_spelt_and_wherever_the_text_is_cut() {
        let secrets = Secrets::new([SecretString::from(KEY)]);
        let invisible = KEY.replace('-', "-\u{200b}\u{2060}");
        let percent: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let json: String = KEY.bytes().map(|byte| format!("\\u{byte:04X}")).collect();
        let twice = json.replace('\\', "\\\\");
        let html: String = KEY.bytes().map(|byte| format!("&#{byte};")).collect();
        let wide: String = KEY.chars().filter_map(|c| char::from_u32(c as u32 + 0xfee0)).collect();
        let lines = KEY.replace("_", "_\n  ");
        let escaped_lines = KEY.replace("_", "_\\n  ");
        let spans = KEY.replace("_", "_</span><b>");
        let terminal = KEY.replace("_", "\u{1b}[1;31m_\u{1b}[0m");
        let quoted = KEY.replace("-", "-\" + \"");
        let spaced: String = KEY.chars().flat_map(|c| [c, ' ']).collect();
        for spelt in [
            KEY,
            &KEY.to_uppercase(),
            &invisible,
            &percent,
            &percent.replace('%', "%25"),
            &json,
            &twice,
            &html,
            &wide,
            &lines,
            &escaped_lines,
            &spans,
            &terminal,
            &quoted,
            spaced.trim_end(),
        ] {
            check(&secrets, &format!("before: {spelt}, after"), "before: [masked], after");
        }
    }

    // K13
    #[test]
    fn what_a_cut_left_of_a_secret_is_masked() {
        let mut secrets = secrets();
        secrets.extend(&Secrets::of([KEY]));
        let check = |text: &str, wanted: &str| check(&secrets, text, wanted);
        check("It is sk-Ant-api03…", "It is [masked]…");
        check(
            "It is SK ANT\u{200b}-api… [cut: 9 of 30 characters]",
            "It is [masked]… [cut: 9 of 30 characters]",
        );
        check("sk-Ant-a…, sk%2Dabc%2Fd…, sk-abc/def+1…", "[masked]…, [masked]…, [masked]…");
        check("an sk-Ant…, and so on…, sk-…", "an sk-Ant…, and so on…, sk-…");
        assert_eq!(secrets.mask_json(r#"{"a":"sk-Ant-api0…"}"#), r#"{"a":"[masked]…"}"#);
        assert_eq!(secrets.mask_message("It is sho…, sh…", "•••"), "It is •••…, sh…");
    }

    #[test]
    fn text_that_only_resembles_a_key_stays() {
        let secrets = Secrets::new([SecretString::from(KEY), SecretString::from("Research and development")]);
        for text in [
            "sk-Ant-api03 is the prefix of 100% of them; a < b && c > d, C:\\new\\table, 50%",
            "RESEARCH, AND DEVELOPMENT",
            "Zq8Lr4Xw9Tb2",
            "&amp; <b>bold</b> \\u0041",
        ] {
            check(&secrets, text, text);
        }
        check(&secrets, "Research and development", "[masked]");
    }

    #[test]
    fn json_stays_json_where_a_secret_is_taken_out_of_it() {
        let secrets = Secrets::new([SecretString::from(KEY), SecretString::from("12345678")]);
        let (one, two) = KEY.split_at(12);
        let check = |json: &str, wanted: &str| assert_eq!(secrets.mask_json(json), wanted);
        check(&format!(r#"{{"a":["{KEY}",1]}}"#), r#"{"a":["[masked]",1]}"#);
        check(&format!(r#"["{one}","{two}"]"#), r#"["[masked]"]"#);
        check(&format!(r#"{{"{one}":"{two}"}}"#), r#""[masked]""#);
        check(r#"{"n":9123456789}"#, r#""[masked]""#);
        check(r#"{"n":1}"#, r#"{"n":1}"#);
    }

    #[test]
    fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
        let mut masker = Masker::new(&secrets());
        assert_eq!(masker.push("task: sk-ab"), "task: ");
        assert_eq!(masker.push("x s"), "sk-abx ");
        assert_eq!(masker.push("un"), "sun");
        assert!(format!("{masker:?} {:?}", secrets()).find("sk-").is_none());
    }

    #[test]
    fn what_is_held_back_has_a_bound() {
        let secrets = Secrets::new([SecretString::from(KEY)]);
        let mut masker = Masker::new(&secrets);
        let mut reported = masker.push("sk").into_owned();
        for _ in 0..10_000 {
            reported.push_str(&masker.push("\u{200b}"));
        }
        assert!(masker.held.len() <= masker.max() + 3, "{}", masker.held.len());
        reported.push_str(&masker.finish());
        assert_eq!(reported, format!("sk{}", "\u{200b}".repeat(10_000)));
    }

    // B13, K13
    #[test]
    fn most_texts_are_ruled_out_without_a_search() {
        let secrets = Secrets::new([SecretString::from(KEY)]);
        for text in [
            "The pump P-7 runs at 82 % of its load.",
            "{\"id\": \"item-1\", \"where\": \"hall 3\\n\"}",
            "Ärger & Umlaute, <b>fett</b>, 日本語",
            " next",
        ] {
            for is_over in [false, true] {
                assert_eq!(suspicion(&secrets, text, is_over), Suspicion::None, "{text}");
            }
        }
    }

    /// Texts of pieces of a key in many spellings.
    fn spelt() -> impl Strategy<Value = String> {
        let part = (0..KEY.len(), 0..=KEY.len()).prop_map(|(from, bytes)| {
            let end = (from + bytes).min(KEY.len());
            KEY[from..end].to_owned()
        });
        let spelling = |(part, how): (String, usize)| match how {
            0 => part.to_uppercase(),
            1 => part.bytes().map(|byte| format!("%{byte:02x}")).collect(),
            2 => part.bytes().map(|byte| format!("\\u{byte:04X}")).collect(),
            3 => part.bytes().map(|byte| format!("&#{byte};")).collect(),
            4 => part.chars().filter_map(|c| char::from_u32(c as u32 + 0xfee0)).collect(),
            5 => part.replace('-', "-\u{200b}"),
            6 => part.replace('_', "_</b>\n"),
            7 => part.chars().flat_map(|c| [c, ' ']).collect(),
            _ => part,
        };
        let whole = Just(KEY.to_owned());
        let pieces = prop_oneof![
            3 => (part, 0..12_usize).prop_map(spelling),
            1 => (whole, 0..12_usize).prop_map(spelling),
            3 => "[a-zé …%&<\\\\;+/9\x1b\"\u{200b}-]{0,4}",
            1 => Just("\u{1b}[1m".to_owned()),
        ];
        proptest::collection::vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        // B13, K13: the quick check never hides what a search finds.
        #[test]
        fn what_is_ruled_out_holds_nothing(text in spelt(), is_over in any::<bool>()) {
            let secrets = Secrets::new([KEY, "sk-abc/def+1", "+-/é9_long", "12345678"].map(SecretString::from));
            let suspicion = suspicion(&secrets, &text, is_over);
            if suspicion != Suspicion::Any {
                let spellings = secrets.all.as_ref().unwrap();
                let mut found = spellings.search(&text, LEAST_IN_REPLIES, is_over);
                let mut end = spellings.search_end(&text, is_over);
                [&mut found, &mut end].into_iter().for_each(|found| found.parts.sort());
                prop_assert!(found.matches.is_empty() && found.end == text.len(), "{:?}", text);
                prop_assert!(found.parts.is_empty() || suspicion == Suspicion::End, "{:?}", text);
                prop_assert!(suspicion == Suspicion::None || found.parts == end.parts, "{:?}", text);
            }
        }
    }
}
