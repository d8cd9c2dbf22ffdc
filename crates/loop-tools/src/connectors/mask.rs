//! The secrets of a call, and how they are kept out of what it returns. The run masks them again, in all that it reads.

use std::fmt;

use serde_json::{Map, Value};

/// What is in place of a secret.
const MASKED: &str = "[masked]";
/// What stands where a text was cut.
const CUT: char = '…';
/// How many bytes of the beginning of a secret are masked where a text was cut, unless fewer are more than half of it.
const LEAST_BEGUN: usize = 8;
/// Bytes of the shortest secret that is masked in a message.
const LEAST: usize = 4;

/// The secrets that a call uses. Nothing that it returns may hold one.
#[derive(Clone)]
pub(crate) struct Mask {
    /// The longest first.
    secrets: Vec<String>,
    /// Bytes of the shortest secret that is masked in a result.
    least_in_results: usize,
}

impl Mask {
    /// A mask of no secret so far, which masks those of `least_in_results` bytes and more in results. In messages it masks
    /// those of 4 bytes and more.
    pub(crate) fn new(least_in_results: usize) -> Self {
        Self { secrets: Vec::new(), least_in_results }
    }

    /// A mask of these secrets, also of short ones in results: who prints them was given them by the operator.
    #[cfg(feature = "command")]
    pub(crate) fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut mask = Self::new(LEAST);
        secrets.into_iter().for_each(|secret| mask.add(secret.trim()));
        mask
    }

    /// Adds a secret.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= LEAST && !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_owned());
            self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// Adds a secret, as it is and as URLs, forms and JSON escape it, JSON within JSON as well. A token that was fetched is
    /// known to nothing else that masks.
    #[cfg(feature = "http")]
    pub(crate) fn add_with_escapes(&mut self, secret: &str) {
        let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let url = form.replace('+', "%20");
        // What JavaScript leaves as it is, of what a form escapes.
        let component = [("%7E", "~"), ("%21", "!"), ("%27", "'"), ("%28", "("), ("%29", ")")];
        let component = component.iter().fold(url.clone(), |url, (escape, plain)| url.replace(escape, plain));
        let strict = url.replace('*', "%2A").replace("%7E", "~");
        for escaped in [form, url, component, strict] {
            self.add(&escaped);
            self.add(&with_small_escapes(&escaped));
        }
        let json = inside_json(secret);
        for escaped in [json.replace('/', "\\/"), json] {
            self.add(&escaped);
            self.add(&inside_json(&escaped));
        }
        self.add(secret);
    }

    /// A message without secrets.
    pub(crate) fn message(&self, text: &str) -> String {
        self.masked(text, LEAST)
    }

    /// A message whose end is cut off: without secrets, and without the beginning of one at its end.
    #[cfg(feature = "command")]
    pub(crate) fn cut_message(&self, text: &str) -> String {
        let mut text = self.message(text);
        if let Some(at) = self.secrets.iter().filter_map(|secret| begun_at(&text, secret)).min() {
            text.truncate(at);
        }
        text
    }

    /// A result without secrets.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let masked = members.into_iter().map(|(name, value)| (self.text(&name), self.value(value)));
                Value::Object(masked.collect::<Map<_, _>>())
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.text(&text) == text { Value::Number(number) } else { MASKED.into() }
            }
            plain @ (Value::Null | Value::Bool(_)) => plain,
        }
    }

    fn text(&self, text: &str) -> String {
        self.masked(text, self.least_in_results)
    }

    fn masked(&self, text: &str, least: usize) -> String {
        let secrets = || self.secrets.iter().filter(|secret| secret.len() >= least);
        // A cut may have left the beginning of a secret in front of its mark. A few letters of it tell nothing.
        let begun = |part: &str| {
            let begun = secrets().filter_map(|secret| Some((begun_at(part, secret)?, secret)));
            let telling =
                begun.filter(|(at, secret)| part.len() - at >= LEAST_BEGUN.min(secret.len() / 2 + 1));
            telling.map(|(at, _)| at).min()
        };
        let mut parts = text.split(CUT).peekable();
        let mut whole = String::with_capacity(text.len());
        while let Some(part) = parts.next() {
            let is_cut = parts.peek().is_some();
            match is_cut.then(|| begun(part)).flatten() {
                Some(at) => whole.extend([part.get(..at).unwrap_or_default(), MASKED]),
                None => whole.push_str(part),
            }
            whole.extend(is_cut.then_some(CUT));
        }
        secrets().fold(whole, |text, secret| text.replace(secret, MASKED))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("forms", &self.secrets.len()).finish()
    }
}

/// Where the text ends with a beginning of the secret, the longest one.
fn begun_at(text: &str, secret: &str) -> Option<usize> {
    let most = secret.len().saturating_sub(1).min(text.len());
    let lengths = (1..=most).rev().filter(|length| secret.is_char_boundary(*length));
    let mut ends = lengths.filter_map(|length| secret.get(..length));
    ends.find_map(|start| text.ends_with(start).then(|| text.len() - start.len()))
}

/// The same with the escapes of a URL in small letters.
#[cfg(feature = "http")]
fn with_small_escapes(url: &str) -> String {
    let mut parts = url.split('%');
    let mut small = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escape, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        small.extend(["%", &escape.to_ascii_lowercase(), rest]);
    }
    small
}

/// A text as it is between the quotes of a JSON string.
#[cfg(feature = "http")]
fn inside_json(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json).to_owned()
}

#[cfg(all(test, any(feature = "command", feature = "http")))]
mod tests {
    use serde_json::json;

    use super::Mask;

    #[cfg(feature = "command")]
    #[test]
    fn the_beginning_of_a_secret_at_a_cut_end_is_taken_out_with_it() {
        // K13
        let mask = Mask::of(["t0ken-1", " key4 ", "abc"]);
        assert_eq!(mask.cut_message("a t0ken-1 key4 abc t0ke"), "a [masked] [masked] abc ");
        assert_eq!(mask.message("t0ke"), "t0ke", "it is whole");
        assert_eq!(mask.value(json!(["key4", 1])), json!(["[masked]", 1]));
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_secret_is_masked_in_texts_names_and_numbers() {
        // K13
        let mut mask = Mask::new(8);
        for secret in ["p/ss w|rd", "p/ss w|rd-and-more", "12345678", "open", "abc"] {
            mask.add_with_escapes(secret);
        }
        assert_eq!(
            mask.message("p/ss w|rd-and-more p%2Fss%20w%7Crd p%2Fss+w%7Crd open abc"),
            "[masked] [masked] [masked] [masked] abc"
        );
        assert_eq!(mask.value(json!("open")), json!("open"), "a word is a word in a result");
        let masked = mask.value(json!({ "a p/ss w|rd": ["x12345678y", 912_345_678, 1.5, null, true] }));
        assert_eq!(masked, json!({ "a [masked]": ["x[masked]y", "[masked]", 1.5, null, true] }));
        assert!(!format!("{mask:?}").contains("p/ss"));
        mask.add_with_escapes("to~k!e/n*\"1+2");
        assert_eq!(
            mask.message("p/ss w|rd-an…, p%2Fss%20…, to…, ope…"),
            "[masked]…, [masked]…, to…, [masked]…"
        );
        for escaped in [
            "to%7Ek%21e%2Fn*%221%2B2",
            "to~k!e%2Fn*%221%2B2",
            "to~k%21e%2Fn%2A%221%2B2",
            "to~k!e%2fn*%221%2b2",
            r#"to~k!e/n*\"1+2"#,
            r#"to~k!e\/n*\"1+2"#,
            r#"to~k!e\\/n*\\\"1+2"#,
        ] {
            assert_eq!(mask.message(escaped), "[masked]", "{escaped}");
        }
    }
}
