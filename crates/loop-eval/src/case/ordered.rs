//! A JSON object that keeps the order of its members.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Members by name, in the order of the file. If a name occurs twice, the last one counts.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedMembers<T>(Vec<(String, T)>);

impl<T> OrderedMembers<T> {
    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the members whose names fit.
    pub fn retain(&mut self, fits: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| fits(name));
    }

    /// Replaces the member of this name, or adds one at the end.
    pub fn insert(&mut self, name: String, value: T) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }
}

impl<T> Default for OrderedMembers<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<(String, T)> for OrderedMembers<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(members: I) -> Self {
        let mut ordered = Self::default();
        members.into_iter().for_each(|(name, value)| ordered.insert(name, value));
        ordered
    }
}

impl<T: Serialize> Serialize for OrderedMembers<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMembers<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = OrderedMembers<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OrderedMembers<T>, A::Error> {
        let mut ordered = OrderedMembers::default();
        while let Some((name, value)) = members.next_entry()? {
            ordered.insert(name, value);
        }
        Ok(ordered)
    }
}

impl<T: JsonSchema> JsonSchema for OrderedMembers<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OrderedOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }

    fn inline_schema() -> bool {
        true
    }
}
