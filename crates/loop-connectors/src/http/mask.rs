//! The secrets of a call, and how they are kept out of what it returns.

use std::fmt;

use serde_json::{Map, Value};

/// What is in place of a secret.
const MASKED: &str = "[masked]";
/// Bytes of the shortest secret that is masked in a message.
const LEAST: usize = 4;
/// Bytes of the shortest secret that is masked in what a server returned, which uses shorter words for other things.
const LEAST_IN_RESULTS: usize = 8;

/// The secrets that a call sends. A server may repeat them, and nothing that it returns may hold one.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// The longest first.
    secrets: Vec<String>,
}

impl Mask {
    /// Adds a secret, as it is and as a URL writes it.
    pub(crate) fn add(&mut self, secret: &str) {
        let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for form in [secret.to_owned(), encoded.replace('+', "%20"), encoded] {
            if form.len() >= LEAST && !self.secrets.contains(&form) {
                self.secrets.push(form);
            }
        }
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// A message without secrets.
    pub(crate) fn message(&self, text: &str) -> String {
        self.masked(text, LEAST)
    }

    /// What a server returned, without secrets.
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
        self.masked(text, LEAST_IN_RESULTS)
    }

    fn masked(&self, text: &str, least: usize) -> String {
        let secrets = self.secrets.iter().filter(|secret| secret.len() >= least);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, MASKED))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("forms", &self.secrets.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Mask;

    #[test]
    fn a_secret_is_masked_in_texts_names_and_numbers() {
        // K13
        let mut mask = Mask::default();
        for secret in ["p/ss w|rd", "p/ss w|rd-and-more", "12345678", "open", "abc"] {
            mask.add(secret);
        }
        assert_eq!(
            mask.message("p/ss w|rd-and-more p%2Fss%20w%7Crd p%2Fss+w%7Crd open abc"),
            "[masked] [masked] [masked] [masked] abc"
        );
        assert_eq!(mask.value(json!("open")), json!("open"), "a word is a word in a result");
        let masked = mask.value(json!({ "a p/ss w|rd": ["x12345678y", 912_345_678, 1.5, null, true] }));
        assert_eq!(masked, json!({ "a [masked]": ["x[masked]y", "[masked]", 1.5, null, true] }));
        assert!(!format!("{mask:?}").contains("p/ss"));
    }
}
