//! The raw result of a tool, as JSON. A plain text is stored once, however often a run holds it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::types::canonical::{canonical, digest_text};
use crate::types::ids::Digest;
use crate::types::json_text::push_json_text;

/// The raw result of a tool: a JSON text, to which it derefs, opaque to the core.
///
/// If the JSON is one string, the string is stored instead, so that it can be shared with the observation's Markdown.
/// The JSON is then written on first use. Equal JSON texts are equal data.
#[derive(Clone)]
pub struct Data(Kind);

#[derive(Clone)]
enum Kind {
    Json(Arc<str>),
    Text { text: Arc<str>, json: OnceLock<Arc<str>> },
}

impl Data {
    /// Data that is one plain text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self(Kind::Text { text: text.into(), json: OnceLock::new() })
    }

    /// The text, if the data is one plain text.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match &self.0 {
            Kind::Json(_) => None,
            Kind::Text { text, .. } => Some(text),
        }
    }

    /// Whether the JSON text has more than `max` bytes. A plain text that is certainly shorter is not written as JSON.
    pub fn is_longer_than(&self, max: usize) -> bool {
        match &self.0 {
            Kind::Text { text, .. } if text.len() < max / MAX_ESCAPED => false,
            Kind::Json(_) | Kind::Text { .. } => self.len() > max,
        }
    }

    /// The digest of the data: of a plain text over its bytes, of any other JSON over its canonical form.
    pub fn digest(&self) -> Digest {
        match &self.0 {
            Kind::Json(json) => digest_text("observation", json),
            Kind::Text { text, .. } => Digest::of("observation-text", text.as_bytes()),
        }
    }

    fn json(&self) -> &Arc<str> {
        match &self.0 {
            Kind::Json(json) => json,
            Kind::Text { text, json } => json.get_or_init(|| written(text).into()),
        }
    }
}

impl From<Arc<str>> for Data {
    fn from(json: Arc<str>) -> Self {
        // A string with other escapes than ours stays as JSON, so that its bytes do not change.
        let text = json.starts_with('"').then(|| serde_json::from_str::<String>(&json).ok()).flatten();
        match text.filter(|text| *written(text) == *json) {
            Some(text) => Self::text(text),
            None => Self(Kind::Json(json)),
        }
    }
}

impl From<&str> for Data {
    fn from(json: &str) -> Self {
        Arc::<str>::from(json).into()
    }
}

impl From<String> for Data {
    fn from(json: String) -> Self {
        Arc::<str>::from(json).into()
    }
}

impl From<Value> for Data {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            other => Self(Kind::Json(canonical(&other).into())),
        }
    }
}

impl Deref for Data {
    type Target = str;

    fn deref(&self) -> &str {
        self.json()
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Json(one), Kind::Json(other)) => one == other,
            (Kind::Text { text: one, .. }, Kind::Text { text: other, .. }) => one == other,
            // Every string with our escapes is stored as a text, so these two differ.
            (Kind::Json(_), Kind::Text { .. }) | (Kind::Text { .. }, Kind::Json(_)) => false,
        }
    }
}

impl Eq for Data {}

impl Hash for Data {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Kind::Json(json) => (0_u8, json).hash(state),
            Kind::Text { text, .. } => (1_u8, text).hash(state),
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            // Serialising it does not cache the JSON.
            Kind::Text { text, json } if json.get().is_none() => serializer.serialize_str(&written(text)),
            Kind::Json(_) | Kind::Text { .. } => serializer.serialize_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Arc::<str>::deserialize(deserializer).map(Self::from)
    }
}

/// Bytes of JSON for each byte of a text, at most: six for an escape such as `\u001f`, and two for the quotation marks.
const MAX_ESCAPED: usize = 6 + 2;

/// A text as JSON: the same bytes as `Value::from(text).to_string()`, without a copy of the text.
fn written(text: &str) -> String {
    // Most texts have few characters to escape, one a line.
    let mut json = Vec::with_capacity(text.len() + text.len() / 16 + 16);
    json.push(b'"');
    push_json_text(&mut json, text);
    json.push(b'"');
    String::from_utf8(json).expect("JSON is written in UTF-8")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn hash(data: &Data) -> u64 {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn a_text_reads_as_its_json_and_is_kept_once() {
        let text: Arc<str> = "a \"b\"\n".into();
        let data = Data::text(Arc::clone(&text));
        assert_eq!(&*data, r#""a \"b\"\n""#);
        assert!(Arc::ptr_eq(data.as_text().unwrap(), &text));
        assert!(Data::from("[1]").as_text().is_none());
    }

    #[test]
    fn only_json_that_is_one_string_is_a_text() {
        for json in ["null", "no json", r#""open"#, r#""a" "b""#, r#""\u0061""#, r#" "a""#, ""] {
            let data = Data::from(json);
            assert_eq!((&*data, data.as_text()), (json, None));
        }
    }

    #[test]
    fn equal_data_has_an_equal_digest_and_other_data_another() {
        assert_eq!(Data::from(r#"{"b":1,"a":[2]}"#).digest(), Data::from(r#"{ "a": [2], "b": 1 }"#).digest());
        assert_eq!(Data::from(r#""x""#).digest(), Data::text("x").digest());
        // A text that looks like JSON is not what it looks like.
        assert_ne!(Data::text("[1]").digest(), Data::from("[1]").digest());
        assert_ne!(Data::text("x").digest(), Data::text("y").digest());
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_the_json(text in "[a\\x01\"é]{0,40}", max in 0_usize..300) {
            for data in [Data::text(text.as_str()), Data::from(json!([text]))] {
                prop_assert_eq!(data.is_longer_than(max), data.len() > max);
            }
        }

        #[test]
        fn however_it_is_made_the_same_json_is_the_same_data(text in any::<String>(), n in any::<i64>()) {
            for value in [json!(text), json!([text, n]), json!(n)] {
                let json = value.to_string();
                let made = [Data::from(value), Data::from(&*json), Data::from(json.clone())];
                for data in &made {
                    prop_assert_eq!(&**data, &*json);
                    prop_assert_eq!(data, &made[0]);
                    prop_assert_eq!(hash(data), hash(&made[0]));
                    prop_assert_eq!(data.digest(), made[0].digest());
                    let stored = serde_json::to_string(data).unwrap();
                    prop_assert_eq!(&stored, &serde_json::to_string(&json).unwrap());
                    prop_assert_eq!(&serde_json::from_str::<Data>(&stored).unwrap(), data);
                }
            }
        }
    }
}
