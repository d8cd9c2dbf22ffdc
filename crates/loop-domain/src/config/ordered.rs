//! A table whose keys are names, in the order of the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Names and their values, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct OrderedTable<V>(Vec<(String, V)>);

impl<V> OrderedTable<V> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> + Clone {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().map(|(name, _)| name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl<V> Default for OrderedTable<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct InOrder<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
    type Value = OrderedTable<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut ordered = Vec::new();
        while let Some(entry) = members.next_entry()? {
            ordered.push(entry);
        }
        Ok(OrderedTable(ordered))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for OrderedTable<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

impl<V: JsonSchema> JsonSchema for OrderedTable<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, V>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, V>::json_schema(generator)
    }
}
