//! What must never be shown, in every form in which it may come back, and how it is taken out of texts.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use memchr::memchr_iter;
use secrecy::{ExposeSecret, SecretString};

/// The credentials of a model: its key, the values of its headers, what its URL holds before the host and in its query.
///
/// Each is known as it is, as JSON escapes it, and percent-encoded. What is shorter than four bytes is no secret; what
/// is shorter than eight is masked in messages alone, since replies use such words on their own account.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The longest first, so that a part of one never leaves the rest of another.
    forms: Arc<[SecretString]>,
}

impl Secrets {
    /// These secrets.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut secrets_all = Self::default();
        for secret in secrets {
            secrets_all.add(&secret);
        }
        secrets_all
    }

    /// One more.
    pub fn add(&mut self, secret: &SecretString) {
        let mut forms: Vec<String> = self.forms().map(str::to_owned).collect();
        for form in forms_of(secret.expose_secret()) {
            if form.len() >= LEAST && !forms.contains(&form) {
                forms.push(form);
            }
        }
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        self.forms = forms.into_iter().map(SecretString::from).collect();
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// All of `others` as well.
    pub fn extend(&mut self, others: &Self) {
        let mut forms: Vec<&str> = self.forms().chain(others.forms()).collect();
        forms.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        forms.dedup();
        self.forms = forms.into_iter().map(SecretString::from).collect();
    }

    /// Every form of every secret, the longest first.
    fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().map(ExposeSecret::expose_secret)
    }

    /// The forms that are looked for in replies.
    fn long_forms(&self) -> impl Iterator<Item = &str> {
        self.forms().filter(|form| form.len() >= LEAST_IN_REPLIES)
    }

    /// A message with `mask` in place of every secret. A message that was `cut` also loses what may be the beginning
    /// of one at its end.
    pub(crate) fn masked(&self, message: &str, mask: &str, cut: bool) -> String {
        let mut text = message.to_owned();
        if cut {
            let held = self.forms().map(|form| begun(&text, form)).max().unwrap_or(0);
            text.truncate(text.len() - held);
        }
        for form in self.forms() {
            if text.contains(form) {
                text = text.replace(form, mask);
            }
        }
        text
    }

    /// A text of a reply, whole.
    pub(crate) fn reply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.are_not_in(text) {
            return text.into();
        }
        let mut masker = Masker::new(self);
        let mut masked = masker.push(text).into_owned();
        masked.push_str(&masker.finish());
        masked.into()
    }

    /// Whether none of those that are looked for in replies stands in a text, or begins at its end.
    fn are_not_in(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.long_forms().map(str::as_bytes).all(|form| {
            let is_it = |here: &[u8]| here.starts_with(form) || form.starts_with(here);
            let first = form.first().copied().unwrap_or_default();
            memchr_iter(first, text).filter_map(|at| text.get(at..)).all(|here| !is_it(here))
        })
    }
}

impl fmt::Debug for Secrets {
    /// How many forms there are, and nothing of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("forms", &self.forms.len()).finish()
    }
}

/// Takes secrets out of a text that comes in pieces. However it is cut, the same comes out.
pub(crate) struct Masker {
    secrets: Secrets,
    /// What may be the beginning of a secret.
    held: String,
}

impl Masker {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), held: String::new() }
    }

    /// What can be told after this piece.
    pub(crate) fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if self.held.is_empty() && self.secrets.are_not_in(piece) {
            return piece.into();
        }
        self.held.push_str(piece);
        self.told(/*is_over*/ false).into()
    }

    /// What was held back. More than half of a secret is masked like a whole one.
    pub(crate) fn finish(&mut self) -> String {
        if self.held.is_empty() {
            return String::new();
        }
        self.told(/*is_over*/ true)
    }

    fn told(&mut self, is_over: bool) -> String {
        let held = std::mem::take(&mut self.held);
        let forms: Vec<&str> = self.secrets.long_forms().collect();
        let mut told = String::with_capacity(held.len());
        let mut rest = held.as_str();
        while let Some(at) = rest.find(|c| forms.iter().any(|form| form.starts_with(c))) {
            let (before, here) = rest.split_at(at);
            told.push_str(before);
            let is_begun = |form: &&&str| form.len() > here.len() && form.starts_with(here);
            let part = forms.iter().find(is_begun);
            if part.is_some() && !is_over {
                self.held = here.to_owned();
                return told;
            }
            if let Some(form) = forms.iter().find(|form| here.starts_with(**form)) {
                told.push_str(MASKED);
                rest = here.get(form.len()..).unwrap_or_default();
            } else if part.is_some_and(|form| here.len() * 2 > form.len()) {
                told.push_str(MASKED);
                rest = "";
            } else {
                let next = here.chars().next().map_or(0, char::len_utf8);
                told.push_str(here.get(..next).unwrap_or_default());
                rest = here.get(next..).unwrap_or_default();
            }
        }
        told.push_str(rest);
        told
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

/// How many bytes at the end of `text` are a beginning of `form`, and not the whole of it.
pub(crate) fn begun(text: &str, form: &str) -> usize {
    let is_begun = |bytes: &usize| {
        let end = text.len().checked_sub(*bytes).and_then(|start| text.get(start..));
        end.is_some_and(|end| form.starts_with(end))
    };
    (1..form.len()).rev().find(is_begun).unwrap_or(0)
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

/// What stands in a reply in place of a secret.
const MASKED: &str = "[masked]";
/// Bytes of the shortest secret.
const LEAST: usize = 4;
/// Bytes of the shortest secret that is looked for in replies.
const LEAST_IN_REPLIES: usize = 8;

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::{Masker, Secrets};

    fn secrets() -> Secrets {
        Secrets::new(["sk-abc/def+1", "sk-abc/def", "short"].map(SecretString::from))
    }

    fn pieces(text: &str, cuts: &[usize]) -> String {
        let mut masker = Masker::new(&secrets());
        let (mut told, mut rest) = (String::new(), text);
        for cut in cuts {
            let (piece, tail) = rest.split_at(rest.floor_char_boundary(*cut));
            told.push_str(&masker.push(piece));
            rest = tail;
        }
        told.push_str(&masker.push(rest));
        told.push_str(&masker.finish());
        told
    }

    #[test]
    fn secrets_are_masked_in_every_form_wherever_the_text_is_cut() {
        let check = |text: &str, wanted: &str| {
            assert_eq!(pieces(text, &[]), wanted);
            for first in 0..=text.len() {
                for second in [0, 1, 2, 5, 9] {
                    assert_eq!(pieces(text, &[first, second]), wanted, "{first} {second}");
                }
            }
        };
        check("é sk-abc/def+1 sk-abc/def+2 é", "é [masked] [masked]+2 é");
        check("sk-sk-abc\\/def, sk-abc%2Fdef%2B1 sk-abc%2fdef.", "sk-[masked], [masked] [masked].");
        check("a short word, and sk-a", "a short word, and sk-a");
        check("cut in the middle: sk-abc/d", "cut in the middle: [masked]");
    }

    #[test]
    fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
        let mut masker = Masker::new(&secrets());
        assert_eq!(masker.push("task: sk-ab"), "task: ");
        assert_eq!(masker.push("x s"), "sk-abx ");
        assert_eq!(masker.push("un"), "sun");
        assert!(format!("{masker:?} {:?}", secrets()).find("sk-").is_none());
    }
}
