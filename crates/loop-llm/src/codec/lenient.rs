//! Lenient JSON types for providers' replies: a field of an unexpected kind counts as missing.
//!
//! Parsed values borrow from the text where possible.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::decoder::unreadable;
use crate::error::LlmError;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Visitor methods that skip a value of another kind and return `$value`.
macro_rules! otherwise {
    ($value:expr; $($kind:ident),*) => { $(otherwise!(@ $kind, $value);)* };
    (@ bool, $value:expr) => { fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok($value) } };
    (@ i64, $value:expr) => { fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok($value) } };
    (@ u64, $value:expr) => { fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok($value) } };
    (@ f64, $value:expr) => { fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok($value) } };
    (@ str, $value:expr) => { fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok($value) } };
    (@ unit, $value:expr) => { fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ seq, $value:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@ map, $value:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

/// A string; `None` for any other kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    /// The string, if it is not empty.
    pub(crate) fn some(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The string, or an empty one.
    pub(crate) fn or_empty(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether it is a string, including an empty one.
    pub(crate) fn is_text(&self) -> bool {
        self.0.is_some()
    }
}

/// A count of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    /// Missing or `null`.
    #[default]
    Missing,
    /// Not a number, negative, fractional or above the maximum.
    Odd,
    Is(u64),
}

impl Count {
    /// The count. Sets `is_odd` for [`Count::Odd`].
    pub(crate) fn get(self, is_odd: &mut bool) -> Option<u64> {
        match self {
            Self::Missing => None,
            Self::Odd => {
                *is_odd = true;
                None
            }
            Self::Is(count) => Some(count),
        }
    }
}

/// A number of any kind; `None` for any other kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Number(pub(crate) Option<f64>);

impl Number {
    /// The number as an index: a whole number from 0 to less than 10⁹.
    pub(crate) fn index(self) -> Option<u64> {
        self.0.filter(|number| *number >= 0.0 && number.fract() == 0.0 && *number < 1e9).map(|it| it as u64)
    }
}

/// An object; `None` for any other kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Maybe<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

/// The objects of a list. Values of other kinds are left out, and any other kind is an empty list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// The members of an object, in order, as raw JSON; empty for any other kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Parses an object.
    ///
    /// # Errors
    /// The name of a member contains half of a surrogate pair, or there are too many members.
    pub(crate) fn of(raw: &'a RawValue) -> Result<Self, LlmError> {
        serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))
    }

    /// The raw JSON of a member, unless it is `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    /// A member that is a string.
    pub(crate) fn text(&self, key: &str) -> Text<'a> {
        self.get(key).map(text).unwrap_or_default()
    }
}

/// The values of a list as raw JSON; empty for any other kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raws<'a>(pub(crate) Vec<&'a RawValue>);

/// Parses a string. Half of a surrogate pair becomes U+FFFD.
pub(crate) fn text(raw: &RawValue) -> Text<'_> {
    if !raw.get().starts_with('"') {
        return Text::default();
    }
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let lossy = serde_json::from_str::<Lossy>(raw.get()).map(|text| text.0).unwrap_or_default();
        Text(Some(Cow::Owned(lossy)))
    })
}

/// Parses a string that must be exact, such as a tool's arguments.
///
/// # Errors
/// The string contains half of a surrogate pair.
pub(crate) fn exact(raw: &RawValue) -> Result<Text<'_>, LlmError> {
    if raw.get().starts_with('"') {
        serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))
    } else {
        Ok(Text::default())
    }
}

/// A string that may contain half of a surrogate pair.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Lossy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Lossy, E> {
                // Each of the three bytes of half a pair became one replacement character.
                let text = String::from_utf8_lossy(bytes);
                Ok(Lossy(text.replace("\u{fffd}\u{fffd}\u{fffd}", "\u{fffd}")))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = object.next_entry::<Key<'de>, &'de RawValue>()? {
            if fields.len() == MAX_VALUES {
                return Err(serde::de::Error::custom("it has too many values"));
            }
            fields.push((key.0, value));
        }
        Ok(Fields(fields))
    }

    otherwise!(Fields::default(); bool, i64, u64, f64, str, unit, seq);
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

struct RawsVisitor;

impl<'de> Visitor<'de> for RawsVisitor {
    type Value = Raws<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raws<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<&'de RawValue>()? {
            if values.len() == MAX_VALUES {
                return Err(serde::de::Error::custom("it has too many values"));
            }
            values.push(value);
        }
        Ok(Raws(values))
    }

    otherwise!(Raws::default(); bool, i64, u64, f64, str, unit, map);
}

impl<'de: 'a, 'a> Deserialize<'de> for Raws<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawsVisitor)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct TextVisitor;
struct CountVisitor;
struct NumberVisitor;
struct MaybeVisitor<T>(PhantomData<T>);
struct ListVisitor<T>(PhantomData<T>);

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(text.to_owned()))))
    }

    otherwise!(Text::default(); bool, i64, u64, f64, unit, seq, map);
}

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
        Ok(if count <= MAX { Count::Is(count) } else { Count::Odd })
    }

    otherwise!(Count::Odd; bool, i64, f64, str, unit, seq, map);
}

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(Some(number as f64)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number(Some(number as f64)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number(Some(number)))
    }

    otherwise!(Number::default(); bool, str, unit, seq, map);
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for MaybeVisitor<T> {
    type Value = Maybe<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Maybe<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|value| Maybe(Some(value)))
    }

    otherwise!(Maybe(None); bool, i64, u64, f64, str, unit, seq);
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Maybe<T>>()? {
            if let Some(value) = value.0 {
                if values.len() == MAX_VALUES {
                    return Err(serde::de::Error::custom("it has too many values"));
                }
                values.push(value);
            }
        }
        Ok(List(values))
    }

    otherwise!(List(Vec::new()); bool, i64, u64, f64, str, unit, map);
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaybeVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// Above what any call can use.
const MAX: u64 = 1_000_000_000;
/// Maximum values of a list or members of an object.
const MAX_VALUES: usize = 20_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Event<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        count: Count,
        index: Number,
        #[serde(borrow)]
        inner: Maybe<Box<Event<'a>>>,
        #[serde(borrow)]
        list: List<Event<'a>>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }

    #[test]
    fn what_is_of_another_kind_is_missing() {
        for other in ["null", "true", "-1", "1.5", "[1,{\"a\":2}]", "{\"a\":[]}", "\"\""] {
            let text =
                format!(r#"{{"text":{other},"count":{other},"inner":{other},"x":{other},"list":{other}}}"#);
            let event: Event<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!((event.text.some(), event.index.index()), (None, None), "{other}");
            assert!(event.list.iter().all(|it| it.text.some().is_none()));
            assert_eq!(event.count == Count::Missing, other == "null");
        }
        let text =
            r#"{"inner":{"text":"a\n"},"list":[{"text":"b"},3],"count":7,"index":2,"raw":{"z":1.0, "a":2}}"#;
        let event: Event<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(event.inner.get().unwrap().text.some(), Some("a\n"));
        assert_eq!((event.list.len(), event.list[0].text.or_empty()), (1, "b"));
        assert_eq!((event.count, event.index.index()), (Count::Is(7), Some(2)));
        assert_eq!(event.raw.unwrap().get(), r#"{"z":1.0, "a":2}"#);
    }
}
