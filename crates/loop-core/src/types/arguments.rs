//! The arguments of a call: the text as the model wrote it, parsed once.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::types::canonical::canonical;
use crate::types::decimal::with_digits;
use crate::types::members::{FlatObject, SourceValue};

/// The arguments of a call: a text, to which they deref, and its parsed value.
///
/// The text is parsed when its value is first requested. All clones share the result. Equal texts are equal arguments.
/// They are stored as the text. JSON input may have the object instead.
#[derive(Clone)]
pub struct Arguments {
    text: Arc<str>,
    read: Arc<OnceLock<Parsed>>,
}

/// The parsed form of a text.
struct Parsed {
    /// The value, or the error for the model.
    value: Result<Value, Arc<str>>,
    /// JSON pointers to repeated members.
    repeated: Vec<String>,
}

impl Arguments {
    /// Arguments from a value: its canonical text, which need not be parsed again.
    pub fn of(value: Value) -> Self {
        let text = canonical(&value).into();
        Self { text, read: Arc::new(Parsed { value: Ok(value), repeated: Vec::new() }.into()) }
    }

    /// The same arguments as canonical JSON. Unchanged if they are not JSON.
    pub fn canonical(&self) -> Self {
        self.value().map_or_else(|_| self.clone(), |value| Self::of(value.clone()))
    }

    /// Whether the text is the canonical one of its value.
    pub(crate) fn is_canonical(&self) -> bool {
        self.value().is_ok_and(|value| canonical(value) == *self.text)
    }

    /// Arguments from a value that was rebuilt from these. They share text and value if the canonical text is the same.
    pub(crate) fn rebuilt(&self, value: Value) -> Self {
        let text = canonical(&value);
        if *text == *self.text {
            return self.clone();
        }
        Self { text: text.into(), read: Arc::new(Parsed { value: Ok(value), repeated: Vec::new() }.into()) }
    }

    /// The text as the model wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The JSON value. Of repeated members the last counts. Blank text is an empty object.
    ///
    /// # Errors
    /// The parser's message, for the model.
    pub fn value(&self) -> Result<&Value, &Arc<str>> {
        self.read().value.as_ref()
    }

    /// The JSON object, the only form that a tool accepts.
    ///
    /// # Errors
    /// The message for the model, if the text is not JSON or not an object.
    pub fn object(&self) -> Result<&Map<String, Value>, &Arc<str>> {
        static NOT_AN_OBJECT: LazyLock<Arc<str>> =
            LazyLock::new(|| "the arguments are not a JSON object".into());
        self.value()?.as_object().ok_or(&NOT_AN_OBJECT)
    }

    /// JSON pointers to repeated members, in order, each once. Empty if the text is not JSON.
    pub fn repeated(&self) -> &[String] {
        &self.read().repeated
    }

    fn read(&self) -> &Parsed {
        self.read.get_or_init(|| {
            if self.text.trim().is_empty() {
                return Parsed { value: Ok(Value::Object(Map::new())), repeated: Vec::new() };
            }
            let text = with_digits(&self.text);
            if let Ok(FlatObject(value)) = serde_json::from_str(&text) {
                return Parsed { value: Ok(value), repeated: Vec::new() };
            }
            match serde_json::from_str::<SourceValue>(&text) {
                Ok(written) => {
                    let repeated = written.repeated();
                    Parsed { value: Ok(written.into_value()), repeated }
                }
                Err(error) => {
                    let error = format!("the arguments are not JSON: {error}").into();
                    Parsed { value: Err(error), repeated: Vec::new() }
                }
            }
        })
    }
}

impl From<Arc<str>> for Arguments {
    fn from(text: Arc<str>) -> Self {
        Self { text, read: Arc::default() }
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<Cow<'_, str>> for Arguments {
    fn from(text: Cow<'_, str>) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl Deref for Arguments {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Arguments {}

impl Hash for Arguments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(text.into()),
            object @ Value::Object(_) => Ok(Self::of(object)),
            _ => Err(D::Error::custom("arguments are a text that holds a JSON object, or the object")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_once_for_all_its_clones() {
        let written = Arguments::from(r#"{"a": 1}"#);
        let clone = written.clone();
        let value: *const Value = clone.value().unwrap();
        assert!(std::ptr::eq(value, written.value().unwrap()));
        let built = Arguments::of(json!({"b": 1, "a": [2]}));
        assert_eq!(&*built, r#"{"a":[2],"b":1}"#);
        assert!(built.read.get().is_some(), "what is built of a value is not read");
    }

    // Issue 43, K2
    #[test]
    fn a_large_whole_number_is_read_exactly_however_it_is_written() {
        for text in ["{\"n\":9007199254740993.0}", "{\"n\":9.007199254740993e15, \"a\":{\"n\":[1]}}"] {
            assert_eq!(
                Arguments::from(text).value().unwrap()["n"],
                json!(9_007_199_254_740_993_i64),
                "{text}"
            );
        }
    }

    // S1-d2
    #[test]
    fn blank_text_is_an_empty_object_and_other_text_says_what_is_wrong() {
        for blank in ["", " \n\t"] {
            assert_eq!(Arguments::from(blank).object(), Ok(&Map::new()));
        }
        let list = Arguments::from("[1]");
        assert_eq!(list.value(), Ok(&json!([1])));
        assert_eq!(&**list.object().unwrap_err(), "the arguments are not a JSON object");
        let cut = Arguments::from(r#"{"a": "#);
        let wrong = cut.object().unwrap_err();
        assert!(wrong.starts_with("the arguments are not JSON: "), "{wrong}");
        assert_eq!(cut.repeated(), [""; 0]);
    }

    #[test]
    fn members_that_are_given_more_than_once_are_named_and_the_last_counts() {
        let flat = Arguments::from(r#"{"to":"a","by":1,"to":"b"}"#);
        assert_eq!(
            (flat.repeated(), flat.value()),
            (&["/to".to_owned()][..], Ok(&json!({"to": "b", "by": 1})))
        );
        let twice = Arguments::from(r#"{"to":"a","b":{"c":1,"c":2},"to":"b"}"#);
        assert_eq!(twice.repeated(), ["/to", "/b/c"]);
        assert_eq!(twice.value(), Ok(&json!({"to": "b", "b": {"c": 2}})));
    }

    #[test]
    fn an_object_that_is_written_by_hand_is_taken_and_nothing_else() {
        let read = |json: &str| serde_json::from_str::<Arguments>(json).map(|read| read.to_string());
        assert_eq!(read(r#"{"b": 1, "a": {}}"#).unwrap(), r#"{"a":{},"b":1}"#);
        assert_eq!(read(r#""{ }""#).unwrap(), "{ }");
        for other in ["[]", "null", "1"] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_a_plain_reader_reads(text in r#"[{}\[\]",:a0-9.e\- \\u]{0,24}"#) {
            let plain: Option<Value> = serde_json::from_str(&text).ok();
            prop_assume!(!text.trim().is_empty());
            let arguments = Arguments::from(&*text);
            prop_assert_eq!(arguments.value().ok(), plain.as_ref());
        }

        #[test]
        fn stored_arguments_are_their_text(text in any::<String>()) {
            let stored = serde_json::to_string(&Arguments::from(&*text)).unwrap();
            prop_assert_eq!(&stored, &serde_json::to_string(&text).unwrap());
            let again: Arguments = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(&*again, &*text);
        }
    }
}
