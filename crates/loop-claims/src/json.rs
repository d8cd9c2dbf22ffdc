//! JSON that is read without a copy of its texts: most of a piece of evidence is looked at once and then no more.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::known::Known;

/// A value of JSON. Its texts are parts of the text that it was read from, except those with escapes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Written),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Members<'a>),
}

impl<'a> Json<'a> {
    /// The value that a text is. `None`: it is not JSON, or has more levels than are read.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_object(&self) -> Option<&Members<'a>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    pub(super) fn is_object(&self) -> bool {
        self.as_object().is_some()
    }
}

/// A number as JSON writes it, without an allocation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    bytes: [u8; MAX_WRITTEN],
    length: u8,
}

/// The longest number has 24 characters: `-2.2250738585072014e-308`.
const MAX_WRITTEN: usize = 26;

impl Written {
    fn of(number: &Number) -> Self {
        let mut written = Self { bytes: [0; MAX_WRITTEN], length: 0 };
        if write!(written, "{number}").is_err() {
            written.length = 0;
        }
        written
    }

    /// The number. Empty: it is too long, which none is.
    pub(super) fn as_str(&self) -> &str {
        self.bytes
            .get(..usize::from(self.length))
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Write for Written {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let begin = usize::from(self.length);
        let end = begin + text.len();
        self.bytes.get_mut(begin..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

/// The members of an object, in the order of their names' first places. Each name is there once, with its last value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

/// In objects with more members a name is looked up in an index.
const MAX_COMPARED: usize = 12;

impl<'a> Members<'a> {
    pub(super) fn of(members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        let is_known = |at: usize, name: &str| {
            members.iter().take(at).any(|(known, _)| known.len() == name.len() && known == name)
        };
        let is_small = members.len() <= MAX_COMPARED;
        if is_small && !members.iter().enumerate().any(|(at, (name, _))| is_known(at, name)) {
            return Self(members);
        }
        let mut once: Vec<(Cow<'a, str>, Json<'a>)> = Vec::with_capacity(members.len());
        let mut places: BTreeMap<Cow<'a, str>, usize> = BTreeMap::new();
        for (name, value) in members {
            match places.entry(name) {
                Entry::Vacant(free) => {
                    once.push((free.key().clone(), value));
                    free.insert(once.len() - 1);
                }
                Entry::Occupied(known) => {
                    if let Some((_, first)) = once.get_mut(*known.get()) {
                        *first = value;
                    }
                }
            }
        }
        Self(once)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> + Clone {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// The member whose name is the first of these that the object has.
    pub(super) fn first_of(&self, names: &Known) -> Option<&Json<'a>> {
        let ranked =
            self.iter().map(|(name, value)| (names.bits(name), value)).filter(|(bits, _)| *bits != 0);
        ranked.min_by_key(|(bits, _)| *bits).map(|(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfAny)
    }
}

/// Reads any value.
struct OfAny;

impl<'de> Visitor<'de> for OfAny {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Written::of(&value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Written::of(&value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, |number| Json::Number(Written::of(&number))))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            all.push(element);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(Name(name)) = members.next_key()? {
            all.push((name, members.next_value()?));
        }
        Ok(Json::Object(Members::of(all)))
    }
}

/// The name of a member.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfName)
    }
}

struct OfName;

impl<'de> Visitor<'de> for OfName {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn value_of(json: &Json<'_>) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => json!(value),
            Json::Number(number) => serde_json::from_str(number.as_str()).unwrap_or_default(),
            Json::String(text) => json!(text),
            Json::Array(elements) => elements.iter().map(value_of).collect(),
            Json::Object(members) => Value::Object(
                members.iter().map(|(name, value)| (name.to_owned(), value_of(value))).collect(),
            ),
        }
    }

    /// The same as the tree that owns its texts. Written out, so that the order of members is compared too.
    fn check(text: &str) {
        let owned = serde_json::from_str::<Value>(text).ok().map(|it| it.to_string());
        assert_eq!(Json::read(text).map(|it| value_of(&it).to_string()), owned, "{text}");
    }

    #[test]
    fn a_text_is_read_as_the_tree_that_owns_its_texts() {
        for text in [
            "",
            "null",
            " [1, -2, 0.10, 1e3, -0, 18446744073709551616, true, \"a\\u00e9\\n\", \"é\"] ",
            r#"{"a": 1, "b": {"a": [], "c": {}}, "a": 2, "\u0061": 3}"#,
            "[1,]",
            "{\"a\": 1e999}",
            "{\"a\" 1}",
            "1 2",
        ] {
            check(text);
        }
        for depth in [127, 128, 129] {
            check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        }
        for many in [MAX_COMPARED, MAX_COMPARED + 1, 100] {
            let members = |n: usize| format!("\"k{}\": {n}", n % (many - 1));
            check(&format!("{{{}}}", (0..many).map(members).collect::<Vec<_>>().join(",")));
        }
    }

    #[test]
    fn the_first_of_some_names_is_found_wherever_it_is() {
        let json = Json::read(r#"{"uom": "kg", "x": 1, "unit": "g"}"#);
        let members = json.as_ref().and_then(Json::as_object);
        let first = |names: &[&'static str]| {
            members.and_then(|it| it.first_of(&Known::ranked(names))).and_then(Json::as_str)
        };
        assert_eq!(first(&["unit", "uom"]), Some("g"));
        assert_eq!(first(&["units", "uom"]), Some("kg"));
        assert_eq!(first(&["units"]), None);
    }

    #[test]
    fn a_number_is_written_as_json_writes_it() {
        for number in
            ["0.0", "-0.0", "0.1", "1.0", "-2.5e-308", "1.7976931348623157e308", "1e21", "123456.789"]
        {
            let number: Number = serde_json::from_str(number).unwrap();
            assert_eq!(Written::of(&number).as_str(), number.to_string());
        }
        for number in [Number::from(u64::MAX), Number::from(i64::MIN), Number::from(0)] {
            assert_eq!(Written::of(&number).as_str(), number.to_string());
        }
    }

    proptest! {
        #[test]
        fn any_text_of_the_characters_of_json_is_read_the_same(text in "[\\[\\]{}\",:0-9.eE+a \\\\u-]{0,40}") {
            check(&text);
        }

        #[test]
        fn any_members_are_read_the_same(names in prop::collection::vec("[ab]{1,2}", 0..20)) {
            let members: Vec<String> = names.iter().enumerate().map(|(n, name)| format!("\"{name}\":{n}")).collect();
            check(&format!("{{{}}}", members.join(",")));
        }
    }
}
