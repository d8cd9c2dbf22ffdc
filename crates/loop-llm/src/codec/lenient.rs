//! Lenient JSON types for providers' replies: a field of an unexpected kind counts as missing.
//!
//! Parsed values borrow from the text where possible. Each kind of field has a visitor of its own: reading a field as
//! `&RawValue` first, and again by its first byte, took 1.24 to 1.57 times as long for each event of a stream.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::decoder::again;
use crate::error::LlmError;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A type that is read from one kind of JSON value. Of any other kind it is [`other`](Self::other).
trait Lenient<'de>: Sized + Default {
    /// A value of another kind than the one that is read. `null` counts as missing.
    fn other() -> Self {
        Self::default()
    }

    /// A string, which is `borrowed` from the text where it has no escapes.
    fn of_text(_: &str, borrowed: Option<&'de str>) -> Self {
        _ = borrowed;
        Self::other()
    }

    /// A number that is not a whole one from 0 on.
    fn of_number(_: f64) -> Self {
        Self::other()
    }

    fn of_count(count: u64) -> Self {
        Self::of_number(count as f64)
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::other())
    }

    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::other())
    }

    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyKind(PhantomData))
    }
}

struct AnyKind<T>(PhantomData<T>);

impl<'de, T: Lenient<'de>> Visitor<'de> for AnyKind<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::other())
    }

    fn visit_u64<E>(self, count: u64) -> Result<T, E> {
        Ok(T::of_count(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(T::of_number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::of_number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::of_text(text, None))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::of_text(text, Some(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::of_object(object)
    }
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
    /// The later of two reports. A zero at the end does not replace what was counted.
    pub(crate) fn then(self, later: Self) -> Self {
        match (self, later) {
            (known, Self::Missing) => known,
            (Self::Is(1..), Self::Is(0)) => self,
            (_, later) => later,
        }
    }

    /// This count, or else `other` where it is missing.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Missing { other } else { self }
    }

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
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Object<T> {
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
pub(crate) struct RawMembers<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawMembers<'a> {
    /// Parses an object.
    ///
    /// # Errors
    /// The name of a member contains half of a surrogate pair, or there are too many members.
    pub(crate) fn of(raw: &'a RawValue) -> Result<Self, LlmError> {
        parsed(raw.get())
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
pub(crate) struct RawList<'a>(pub(crate) Vec<&'a RawValue>);

/// Parses a part of a reply.
///
/// # Errors
/// It is not JSON, a text that must be exact contains half of a surrogate pair, or there are too many values.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, LlmError> {
    serde_json::from_str(json)
        .map_err(|error| LlmError::unreadable(format!("a part of the reply cannot be read as JSON: {error}")))
}

/// The object of a body that is a whole reply.
///
/// # Errors
/// The body is no JSON object. A retry may succeed.
pub(crate) fn whole<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, LlmError> {
    let object = serde_json::from_str::<Object<T>>(body).ok().and_then(|body| body.0);
    object.ok_or_else(|| again("a body that is not a JSON object in place of a reply"))
}

/// Parses a string. Half of a surrogate pair becomes U+FFFD.
pub(crate) fn text(raw: &RawValue) -> Text<'_> {
    if !raw.get().starts_with('"') {
        return Text::default();
    }
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let lossy = serde_json::from_str::<LossyString>(raw.get()).map(|text| text.0).unwrap_or_default();
        Text(Some(Cow::Owned(lossy)))
    })
}

/// Parses a string that must be exact, such as a tool's arguments.
///
/// # Errors
/// The string contains half of a surrogate pair.
pub(crate) fn exact(raw: &RawValue) -> Result<Text<'_>, LlmError> {
    if raw.get().starts_with('"') { parsed(raw.get()) } else { Ok(Text::default()) }
}

/// A string that may contain half of a surrogate pair.
struct LossyString(String);

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                // Each of the three bytes of half a pair became one replacement character.
                let text = String::from_utf8_lossy(bytes);
                Ok(LossyString(text.replace("\u{fffd}\u{fffd}\u{fffd}", "\u{fffd}")))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Lenient<'de> for Text<'a> {
    fn of_text(text: &str, borrowed: Option<&'de str>) -> Self {
        Self(Some(borrowed.map_or_else(|| Cow::Owned(text.to_owned()), Cow::Borrowed)))
    }
}

impl Lenient<'_> for Count {
    fn other() -> Self {
        Self::Odd
    }

    fn of_count(count: u64) -> Self {
        if count <= MAX { Self::Is(count) } else { Self::Odd }
    }

    /// Some servers write whole numbers as `10.0`, or as a text.
    fn of_number(number: f64) -> Self {
        if number >= 0.0 && number.fract() == 0.0 && number <= MAX as f64 {
            Self::Is(number as u64)
        } else {
            Self::Odd
        }
    }

    fn of_text(text: &str, _: Option<&str>) -> Self {
        text.parse().map_or(Self::Odd, Self::of_count)
    }
}

impl Lenient<'_> for Number {
    fn of_number(number: f64) -> Self {
        Self(Some(number))
    }
}

impl<'de, T: Deserialize<'de>> Lenient<'de> for Object<T> {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|value| Self(Some(value)))
    }
}

impl<'de, T: Deserialize<'de>> Lenient<'de> for List<T> {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Object<T>>()? {
            if let Some(value) = value.0 {
                push(&mut values, value)?;
            }
        }
        Ok(Self(values))
    }
}

impl<'de: 'a, 'a> Lenient<'de> for RawList<'a> {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<&'de RawValue>()? {
            push(&mut values, value)?;
        }
        Ok(Self(values))
    }
}

impl<'de: 'a, 'a> Lenient<'de> for RawMembers<'a> {
    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = object.next_entry::<Key<'de>, &'de RawValue>()? {
            push::<(Cow<'a, str>, _), _>(&mut fields, (key.0, value))?;
        }
        Ok(Self(fields))
    }
}

/// Adds a value, up to the maximum.
fn push<T, E: serde::de::Error>(values: &mut Vec<T>, value: T) -> Result<(), E> {
    if values.len() == MAX_VALUES {
        return Err(E::custom("it has too many values"));
    }
    values.push(value);
    Ok(())
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
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
        inner: Object<Box<Event<'a>>>,
        list: List<Event<'a>>,
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
