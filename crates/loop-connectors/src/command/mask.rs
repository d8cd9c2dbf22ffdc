//! Secrets that a program was given, taken out of what it says.

use std::cmp::Reverse;

use serde_json::Value;

/// What takes the place of a secret.
const MASK: &str = "[masked]";
/// What is shorter is not a secret.
const LEAST: usize = 4;

/// The values that must not be shown, the longest first.
#[derive(Clone, Default)]
pub(crate) struct Masks(Vec<String>);

impl Masks {
    /// The values that are long enough to be secrets.
    pub(crate) fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().map(|it| it.trim().to_owned()).collect();
        secrets.retain(|secret| secret.len() >= LEAST);
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        Self(secrets)
    }

    /// The text without them. Of a text that `is_cut` at its end, the beginning of one is taken out there as well.
    pub(crate) fn text(&self, text: &str, is_cut: bool) -> String {
        let mut text = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK));
        if is_cut {
            let begun = self.0.iter().filter_map(|secret| begun_at(&text, secret)).min();
            if let Some(at) = begun {
                text.truncate(at);
            }
        }
        text
    }

    /// Takes them out of every text in a value, and out of the names of its members.
    pub(crate) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text, false)),
            Value::Array(elements) => elements.into_iter().map(|element| self.value(element)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, member)| (self.text(&name, false), self.value(member)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// Where the text ends with a beginning of the secret, the longest one.
fn begun_at(text: &str, secret: &str) -> Option<usize> {
    let most = secret.len().saturating_sub(1).min(text.len());
    let lengths = (1..=most).rev().filter(|length| secret.is_char_boundary(*length));
    let mut ends = lengths.filter_map(|length| secret.get(..length));
    ends.find_map(|start| text.ends_with(start).then(|| text.len() - start.len()))
}
