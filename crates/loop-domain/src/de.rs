//! Deserialises the configuration tree into typed configuration, with the place of every error.

use std::fmt::Display;

use loop_core::spec::AS_WRITTEN;
use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;

use crate::similar::hint;
use crate::tree::{Entry, Fault, Node, NodeValue};

impl std::error::Error for Fault {}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self { origin: None, message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = plain(expected);
        let cure = match found {
            Unexpected::Map if expected == "a list" => "write the head of each element as [[NAME]]",
            _ => "correct the value",
        };
        Self::custom(format!("{} stands where {expected} is expected; {cure}", shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match found {
            Unexpected::Signed(number @ 1..) if expected.to_string() == "u32" => Self::custom(format!(
                "{number} is too large: {} is the most here; correct the value",
                u32::MAX
            )),
            found => Self::invalid_type(found, expected),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = hint(variant, expected.iter().copied(), "use one of");
        Self::custom(format!("`{variant}` is unknown here; {hint}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = hint(field, expected.iter().copied(), "the keys here are");
        Self::custom(format!("unknown key `{field}`; {hint}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("the key `{field}` is missing; add it"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::custom(format!("the key `{field}` is there twice; keep one"))
    }
}

/// The value that was found, in an operator's words.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Bool(flag) => flag.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Str(text) => format!("the text {text:?}"),
        other => other.to_string(),
    }
}

/// The expected value, in an operator's words.
fn plain(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "u32" | "u64" | "usize" => "a whole number of 0 or more".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" | "string" | "str" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.starts_with("enum ") => "one of a few names in quotes".to_owned(),
        _ => expected,
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let read = match &self.value {
            NodeValue::Text(text) => visitor.visit_borrowed_str(text),
            NodeValue::Integer(whole) => match (i64::try_from(*whole), u64::try_from(*whole)) {
                (Ok(whole), _) => visitor.visit_i64(whole),
                (_, Ok(whole)) => visitor.visit_u64(whole),
                _ => visitor.visit_i128(*whole),
            },
            NodeValue::Float(text) => match text.parse() {
                Ok(real) => visitor.visit_f64(real),
                Err(_) => Err(Fault::custom(format!("{text} is not a number; correct the value"))),
            },
            NodeValue::Boolean(flag) => visitor.visit_bool(*flag),
            NodeValue::List(elements) => visitor.visit_seq(Elements(elements.iter())),
            NodeValue::Table(entries) => visitor.visit_map(NodeMap { entries: entries.iter(), value: None }),
        };
        read.map_err(|fault| fault.at(&self.origin))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let read = match &self.value {
            NodeValue::Integer(whole) if name == AS_WRITTEN => visitor.visit_string(whole.to_string()),
            NodeValue::Float(text) if name == AS_WRITTEN => visitor.visit_str(text),
            _ if name == AS_WRITTEN => return self.deserialize_any(visitor),
            _ => visitor.visit_newtype_struct(self),
        };
        read.map_err(|fault| fault.at(&self.origin))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.value {
            NodeValue::Text(text) => visitor
                .visit_enum(text.as_str().into_deserializer())
                .map_err(|fault: Fault| fault.at(&self.origin)),
            // A name with a value, as in `{ escalate_after = 2 }`.
            NodeValue::Table(entries) if entries.len() == 1 => {
                let members = NodeMap { entries: entries.iter(), value: None };
                let named = serde::de::value::MapAccessDeserializer::new(members);
                visitor.visit_enum(named).map_err(|fault: Fault| fault.at(&self.origin))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Elements<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct NodeMap<'de> {
    entries: std::slice::Iter<'de, Entry>,
    value: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for NodeMap<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(entry);
        let key = seed.deserialize(entry.key.as_str().into_deserializer());
        key.map(Some).map_err(|fault: Fault| fault.at(&entry.origin))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(entry) = self.value.take() else {
            return Err(Fault::custom("a value was asked for before its key"));
        };
        // What is wrong with a whole table is shown at its name.
        let is_table = matches!(entry.node.value, NodeValue::Table(_));
        let place = if is_table { &entry.origin } else { &entry.node.origin };
        let placed = PlacedNode { node: &entry.node, place };
        // Also what a type refuses after it was read, such as an amount of dollars.
        seed.deserialize(placed).map_err(|fault| fault.at(place))
    }
}

/// A node whose own errors point at another place.
struct PlacedNode<'de> {
    node: &'de Node,
    place: &'de crate::tree::Origin,
}

impl<'de> Deserializer<'de> for PlacedNode<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            NodeValue::Table(entries) => {
                let read = visitor.visit_map(NodeMap { entries: entries.iter(), value: None });
                read.map_err(|fault| fault.at(self.place))
            }
            _ => self.node.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.node.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.node.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.value {
            NodeValue::List(_) => Err(Fault::custom(
                "a list stands where a table is expected; write its head with one bracket, as [NAME]",
            )),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}
