//! JSON whose objects keep repeated members. A standard JSON parser silently keeps only the last of them.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::types::{pointer_step, steps};

/// The value of an object of plain members, each given once, as most arguments are. It is read without the detour of
/// [`SourceValue`]. Reading anything else is an error.
pub(crate) struct FlatObject(pub(crate) Value);

impl<'de> Deserialize<'de> for FlatObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AsFlat).map(Self)
    }
}

struct AsFlat;

impl<'de> Visitor<'de> for AsFlat {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of plain members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Value, A::Error> {
        // Room for one member. Most tools take one or two, and an empty map would begin with room for three, which a
        // journal in memory keeps for each call.
        let mut members = Map::with_capacity(1);
        while let Some((name, member)) = source.next_entry::<String, Value>()? {
            let is_plain = !member.is_object() && !member.is_array();
            if !is_plain || members.insert(name, member).is_some() {
                return Err(A::Error::custom("another value"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// A JSON value with all members of its source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SourceValue {
    /// A text, number, boolean or null.
    Plain(Value),
    /// A list.
    List(Vec<SourceValue>),
    /// An object's members, in order.
    Members(Vec<(String, SourceValue)>),
}

impl SourceValue {
    /// Parses a JSON text. `None`: it is not JSON.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// JSON pointers to repeated members, in order, each once.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find(&mut String::new(), &mut found);
        if found.len() > 1 {
            let mut known = BTreeSet::new();
            found.retain(|pointer| known.insert(pointer.clone()));
        }
        found
    }

    fn find(&self, at: &mut String, found: &mut Vec<String>) {
        let length = at.len();
        steps::count(1 + length);
        match self {
            Self::Plain(_) => {}
            Self::List(entries) => {
                for (n, entry) in entries.iter().enumerate() {
                    at.push_str(&format!("/{n}"));
                    entry.find(at, found);
                    at.truncate(length);
                }
            }
            Self::Members(members) => {
                let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                let mut twice: Vec<&str> = names
                    .windows(2)
                    .filter(|two| two.first() == two.last())
                    .filter_map(|two| two.first().copied())
                    .collect();
                twice.dedup();
                for (name, member) in members {
                    at.push('/');
                    at.push_str(&pointer_step(name));
                    if twice.binary_search(&name.as_str()).is_ok() {
                        found.push(at.clone());
                    }
                    member.find(at, found);
                    at.truncate(length);
                }
            }
        }
    }

    /// The member with this name; of repeated ones the last.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Members(members) => {
                members.iter().rev().find(|(known, _)| known == name).map(|(_, member)| member)
            }
            Self::Plain(_) | Self::List(_) => None,
        }
    }

    /// The entry at this index of a list.
    pub(crate) fn entry(&self, n: usize) -> Option<&Self> {
        match self {
            Self::List(entries) => entries.get(n),
            Self::Plain(_) | Self::Members(_) => None,
        }
    }

    /// The value as a standard parser reads it: of repeated members the last.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Plain(value) => value,
            Self::List(entries) => entries.into_iter().map(Self::into_value).collect(),
            Self::Members(members) => {
                let members = members.into_iter().map(|(name, member)| (name, member.into_value()));
                Value::Object(members.collect())
            }
        }
    }

    /// The JSON text, with every member.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("names are texts, and memory takes it")
    }
}

impl Serialize for SourceValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(value) => value.serialize(to),
            Self::List(entries) => to.collect_seq(entries),
            Self::Members(members) => to.collect_map(members.iter().map(|(name, member)| (name, member))),
        }
    }
}

impl<'de> Deserialize<'de> for SourceValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsWritten)
    }
}

struct AsWritten;

impl<'de> Visitor<'de> for AsWritten {
    type Value = SourceValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<SourceValue, E> {
        Ok(SourceValue::Plain(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SourceValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(SourceValue::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SourceValue, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(SourceValue::Members(members))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn repeated(text: &str) -> Vec<String> {
        SourceValue::read(text).map_or_else(Vec::new, |written| written.repeated())
    }

    #[test]
    fn members_that_are_given_twice_are_named_by_their_place() {
        let text = r#"{"a":1,"b":{"c":[{"d/e":1,"d/e":2}],"c~":0},"a":2,"a":3,"é":{"x":[],"x":[]}}"#;
        assert_eq!(repeated(text), ["/a", "/b/c/0/d~1e", "/é/x"]);
        assert_eq!(repeated(r#"[{"a":1},{"a":1}]"#), [""; 0]);
        assert_eq!(repeated(r#"{"a":1,"#), [""; 0], "no JSON");
        // Written with an escape it is the same member.
        assert_eq!(repeated(r#"{"a":1,"\u0061":2}"#), ["/a"]);
        // B9: many of them are reported at once.
        let many: Vec<String> = (0..30_000).map(|n| format!("\"k{}\":{n}", n / 2)).collect();
        assert_eq!(repeated(&format!("{{{}}}", many.join(","))).len(), 15_000);
    }

    #[test]
    fn what_was_written_is_written_again_with_every_member() {
        let text = r#"{"a":1,"b":[true,null,-1.5,"x\"y",18446744073709551615],"a":{"c":1,"c":2}}"#;
        let written = SourceValue::read(text).unwrap();
        assert_eq!(written.to_text(), text);
        assert_eq!(written.member("a").unwrap().to_text(), r#"{"c":1,"c":2}"#);
        assert_eq!(written.member("b").and_then(|b| b.entry(1)).unwrap().to_text(), "null");
        assert_eq!(written.member("z"), None);
    }
}
