//! Argument specs: the part of JSON Schema by which arguments are validated and rebuilt.
//!
//! The tool's own schema checks all other keywords before the tool starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::types::decimal::digits_of;
use crate::types::pointer_step;

/// The schema of a value. Written and read as JSON Schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArgSpec {
    /// The JSON type. `None`: any type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ArgType>,
    /// What the value means, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Values that show the expected form, for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// The declared members of an object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<Arc<str>, ArgSpec>,
    /// The names of the declared members, in order of declaration. Empty if that is the alphabetical order. Models
    /// answer in the order of a schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub property_order: Vec<Arc<str>>,
    /// The required members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Arc<str>>,
    /// Whether undeclared members are kept. They are dropped unless this is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<bool>,
    /// The schema of each element of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<ArgSpec>>,
    /// The permitted values. `None`: any.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// The only permitted value, which may be `null`. `None`: any.
    #[serde(rename = "const", deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub only: Option<Value>,
    /// The minimum of a whole number. `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The maximum of a whole number. `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// The minimum length of a string, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u32>,
    /// The maximum length of a string, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// A regular expression of JSON Schema that a string matches, for the model. The tool's own schema is what demands
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Arc<str>>,
    /// The default of a missing member, which may be `null`. It is filled in before repeats are compared, unless it does not
    /// fit its own schema. `None`: a missing member stays missing.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgType {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `null`
    Null,
}

/// A schema violation: a JSON pointer to the value, and the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct SchemaViolation {
    /// JSON pointer to the invalid part. Empty: the whole value.
    pub pointer: String,
    /// What was expected.
    pub message: String,
}

impl ArgSpec {
    /// Reads a JSON Schema. Keywords that this type does not have are left out.
    pub fn from_schema(schema: &Value) -> Self {
        let Value::Object(map) = schema else { return Self::default() };
        let known = |key: &str| map.get(key).cloned();
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(Arc::from);
        let list = |key: &str| map.get(key).and_then(Value::as_array);
        let length = |key: &str| map.get(key).and_then(Value::as_u64).and_then(|n| n.try_into().ok());
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(Arc::from).collect();
        let none = Map::new();
        let declared = map.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let mut order = declared.keys().map(String::as_str).filter(|_| !declared.keys().is_sorted());
        let members = declared.iter().map(|(name, spec)| (Arc::from(name.as_str()), Self::from_schema(spec)));
        Self {
            kind: known("type").and_then(|kind| serde_json::from_value(kind).ok()),
            description: text("description"),
            examples: list("examples").cloned().unwrap_or_default(),
            property_order: names(&mut order),
            properties: members.collect(),
            required: names(&mut list("required").into_iter().flatten().filter_map(Value::as_str)),
            additional_properties: keeps_others(map),
            items: map.get("items").map(|items| Box::new(Self::from_schema(items))),
            one_of: list("enum").cloned(),
            only: known("const"),
            minimum: map.get("minimum").and_then(Value::as_i64),
            maximum: map.get("maximum").and_then(Value::as_i64),
            min_length: length("minLength"),
            max_length: length("maxLength"),
            pattern: text("pattern"),
            default: known("default"),
        }
    }

    /// The declared members, in order of declaration.
    pub fn ordered(&self) -> impl Iterator<Item = (&Arc<str>, &Self)> {
        let named = self.property_order.iter().filter_map(|name| self.properties.get_key_value(name));
        let is_other = |name: &Arc<str>| !self.property_order.contains(name);
        named.chain(self.properties.iter().filter(move |(name, _)| is_other(name)))
    }

    /// Rebuilds the value from declared members only, with defaults filled in.
    ///
    /// # Errors
    /// The first schema violation.
    pub fn rebuild(&self, value: &Value) -> Result<Value, SchemaViolation> {
        self.rebuild_at(value, &mut String::new())
    }

    /// Checks that no required text of which the schema wants a character (`minLength`) is blank.
    ///
    /// # Errors
    /// The first blank text.
    pub fn filled(&self, value: &Value) -> Result<(), SchemaViolation> {
        self.filled_at(value, &mut String::new())
    }

    /// Whether [`rebuild`](Self::rebuild) returns an equal value. False also where that is not seen at a glance: it is
    /// for objects of plain members, as most arguments are.
    pub(crate) fn keeps(&self, value: &Value) -> bool {
        let Value::Object(members) = value else { return false };
        let declared = |(name, member): (&String, &Value)| {
            self.properties.get(name.as_str()).is_some_and(|spec| spec.keeps_plain(member))
        };
        let is_there = |name: &Arc<str>| members.contains_key(name.as_ref());
        let has_defaults =
            || self.properties.iter().all(|(name, spec)| spec.default.is_none() || is_there(name));
        matches!(self.kind, None | Some(ArgType::Object))
            && self.one_of.is_none()
            && self.only.is_none()
            && members.iter().all(declared)
            // Where as many are there as are declared, none is missing.
            && (members.len() == self.properties.len() || self.required.iter().all(is_there) && has_defaults())
    }

    fn keeps_plain(&self, value: &Value) -> bool {
        let is_plain = match value {
            Value::String(_) => self.min_length.is_none() && self.max_length.is_none(),
            Value::Number(_) => {
                self.minimum.is_none() && self.maximum.is_none() && self.whole(value).is_none()
            }
            Value::Null | Value::Bool(_) => true,
            Value::Array(_) | Value::Object(_) => false,
        };
        is_plain
            && self.kind.is_none_or(|kind| kind.holds(value))
            && self.one_of.is_none()
            && self.only.is_none()
    }

    fn filled_at(&self, value: &Value, pointer: &mut String) -> Result<(), SchemaViolation> {
        match value {
            Value::Object(members) => {
                for (name, spec) in &self.properties {
                    let Some(member) = members.get(name.as_ref()) else { continue };
                    let is_blank = member.as_str().is_some_and(|text| text.trim().is_empty());
                    if !is_blank && !member.is_object() && !member.is_array() {
                        continue;
                    }
                    at(pointer, name, |pointer| {
                        match self.required.contains(name) && is_blank && spec.wants_text(member) {
                            true => Err(SchemaViolation {
                                pointer: pointer.clone(),
                                message: "is blank".to_owned(),
                            }),
                            false => spec.filled_at(member, pointer),
                        }
                    })?;
                }
                Ok(())
            }
            Value::Array(elements) => {
                let Some(items) = &self.items else { return Ok(()) };
                let mut all = elements.iter().enumerate();
                all.try_for_each(|(n, element)| {
                    at(pointer, &n.to_string(), |pointer| items.filled_at(element, pointer))
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// Whether the schema wants a character, and does not list this blank text as a value.
    fn wants_text(&self, blank: &Value) -> bool {
        let is_listed = self.one_of.as_ref().is_some_and(|values| values.contains(blank));
        self.min_length.is_some_and(|least| least > 0) && !is_listed && self.only.as_ref() != Some(blank)
    }

    /// A whole number that was written with a fraction of zero (`5.0`, `1e3`), as the whole number that it is: JSON Schema
    /// knows no difference, and programs do. `None` where there is none, and where any number is wanted.
    fn whole(&self, value: &Value) -> Option<Value> {
        match self.kind {
            // What else the schema permits is in its other keywords.
            None | Some(ArgType::Integer) => whole(value).map(Value::from),
            Some(
                ArgType::Object
                | ArgType::Array
                | ArgType::String
                | ArgType::Number
                | ArgType::Boolean
                | ArgType::Null,
            ) => None,
        }
    }

    fn rebuild_at(&self, value: &Value, pointer: &mut String) -> Result<Value, SchemaViolation> {
        let rewritten = self.whole(value);
        let value = rewritten.as_ref().unwrap_or(value);
        let violation = |message: String| SchemaViolation { pointer: pointer.clone(), message };
        if let Some(kind) = self.kind
            && !kind.holds(value)
        {
            return Err(violation(format!("expected {}, found {}", kind.name(), name_of(value))));
        }
        if let Some(allowed) = &self.one_of
            && !allowed.iter().any(|one| is_same_value(one, value))
        {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            return Err(violation(format!("expected one of {}", allowed.join(", "))));
        }
        if let Some(only) = &self.only
            && !is_same_value(only, value)
        {
            return Err(violation(format!("expected {only}")));
        }
        match value {
            Value::Object(members) => self.rebuild_object(members, pointer),
            Value::Array(elements) => {
                let Some(items) = &self.items else { return Ok(value.clone()) };
                let rebuilt: Result<Vec<Value>, SchemaViolation> = elements
                    .iter()
                    .enumerate()
                    .map(|(n, element)| {
                        at(pointer, &n.to_string(), |pointer| items.rebuild_at(element, pointer))
                    })
                    .collect();
                rebuilt.map(Value::Array)
            }
            Value::String(text) => {
                let (length, characters) = (text.chars().count() as i128, " characters");
                let bounds = [self.min_length, self.max_length].map(|bound| bound.map(i128::from));
                within(length, bounds, characters).map_err(violation)?;
                Ok(value.clone())
            }
            Value::Number(number) => {
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                let bounds = [self.minimum, self.maximum].map(|bound| bound.map(i128::from));
                whole.map_or(Ok(()), |whole| within(whole, bounds, "")).map_err(violation)?;
                Ok(value.clone())
            }
            Value::Null | Value::Bool(_) => Ok(value.clone()),
        }
    }

    fn rebuild_object(
        &self,
        members: &Map<String, Value>,
        pointer: &mut String,
    ) -> Result<Value, SchemaViolation> {
        let mut rebuilt = Map::with_capacity(members.len().min(self.properties.len()));
        for (name, spec) in &self.properties {
            let value = match (members.get(name.as_ref()), &spec.default) {
                (Some(value), _) => at(pointer, name, |pointer| spec.rebuild_at(value, pointer))?,
                // The model cannot correct a default that does not fit.
                (None, Some(default)) => match spec.rebuild(default) {
                    Ok(value) => value,
                    Err(_) => continue,
                },
                (None, None) => continue,
            };
            rebuilt.insert(name.to_string(), value);
        }
        for name in &self.required {
            if !rebuilt.contains_key(name.as_ref()) && !members.contains_key(name.as_ref()) {
                return Err(SchemaViolation {
                    pointer: format!("{pointer}/{name}"),
                    message: "is required".to_owned(),
                });
            }
        }
        let keeps_all =
            self.additional_properties == Some(true) || self.properties.is_empty() && self.kind.is_none();
        if keeps_all {
            for (name, value) in members {
                rebuilt.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Ok(Value::Object(rebuilt))
    }
}

/// A value that is there, so that `null` is a value as well.
fn given<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(source).map(Some)
}

/// The whole number that a floating-point number is exactly. From 2⁵³ on the digits that were written are lost.
fn whole(value: &Value) -> Option<i64> {
    if !value.is_number() || value.is_i64() || value.is_u64() {
        return None;
    }
    let digits = digits_of(&value.to_string())?;
    digits.parse().ok().filter(|whole: &i64| whole.unsigned_abs() < 1 << 53)
}

/// Whether two values are the same to JSON Schema, which has one kind of number: `1`, `1.0` and `1e0` are one, at every depth.
pub fn is_same_value(one: &Value, other: &Value) -> bool {
    if let (Value::Array(one), Value::Array(other)) = (one, other) {
        return one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| is_same_value(one, other));
    }
    if let (Value::Object(one), Value::Object(other)) = (one, other) {
        let is_in = |(name, one)| other.get(name).is_some_and(|other| is_same_value(one, other));
        return one.len() == other.len() && one.iter().all(is_in);
    }
    one == other
        || whole(one).or(one.as_i64()).is_some_and(|one| whole(other).or(other.as_i64()) == Some(one))
}

/// Says what is expected of a number that is not within these bounds.
fn within(number: i128, [least, most]: [Option<i128>; 2], unit: &str) -> Result<(), String> {
    match (least.filter(|least| number < *least), most.filter(|most| number > *most)) {
        (Some(least), _) => Err(format!("expected at least {least}{unit}")),
        (None, Some(most)) => Err(format!("expected at most {most}{unit}")),
        (None, None) => Ok(()),
    }
}

/// Whether undeclared members are kept: the schema permits them, has a schema for them, or declares no members. The
/// tool's own schema validates them.
fn keeps_others(schema: &Map<String, Value>) -> Option<bool> {
    match schema.get("additionalProperties") {
        Some(Value::Bool(keeps)) => Some(*keeps),
        Some(_) => Some(true),
        None if schema.contains_key("patternProperties") => Some(true),
        None => {
            let elsewhere =
                ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|keyword| schema.contains_key(*keyword));
            elsewhere.then_some(true)
        }
    }
}

impl ArgType {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Null => value.is_null(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Null => "null",
        }
    }
}

fn name_of(value: &Value) -> &'static str {
    let kind = match value {
        Value::Null => ArgType::Null,
        Value::Bool(_) => ArgType::Boolean,
        Value::Number(_) => ArgType::Number,
        Value::String(_) => ArgType::String,
        Value::Array(_) => ArgType::Array,
        Value::Object(_) => ArgType::Object,
    };
    kind.name()
}

/// Runs `visit` with `pointer` one step deeper, and restores the pointer.
fn at<T>(pointer: &mut String, step: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&pointer_step(step));
    let result = visit(pointer);
    pointer.truncate(length);
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    // X1
    #[test]
    fn members_keep_the_order_of_their_declaration_also_in_a_journal() {
        let names = |spec: &ArgSpec| spec.ordered().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        let declared = json!({"properties": {"target": {}, "limit": {}, "kinds": {}}});
        let spec = ArgSpec::from_schema(&declared);
        assert_eq!(names(&spec), ["target", "limit", "kinds"]);
        // The journal writes members in the order of the alphabet.
        let written = crate::types::canonical(&serde_json::to_value(&spec).unwrap());
        let read: ArgSpec = serde_json::from_str(&written).unwrap();
        assert_eq!((names(&read), &read), (names(&spec), &spec));
        let sorted = ArgSpec::from_schema(&json!({"properties": {"a": {}, "b": {}}}));
        assert_eq!((names(&sorted), sorted.property_order.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
    }

    fn spec() -> ArgSpec {
        ArgSpec::from_schema(&json!({
            "type": "object",
            "properties": {
                "target": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^x"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
            },
            "required": ["target"],
            "format": "left out",
        }))
    }

    #[track_caller]
    fn check(value: Value, expected: Result<Value, (&str, &str)>) {
        let rebuilt = spec()
            .rebuild(&value)
            .map_err(|schema_violation| (schema_violation.pointer, schema_violation.message));
        assert_eq!(rebuilt, expected.map_err(|(pointer, message)| (pointer.to_owned(), message.to_owned())));
    }

    #[test]
    fn arguments_are_rebuilt_from_declared_fields() {
        // S4-81: extra fields are dropped; C24: defaults count before repeats are compared.
        check(json!({"target": "x", "extra": 1}), Ok(json!({"target": "x", "limit": 3})));
        check(
            json!({"target": "x", "limit": 9, "kinds": ["a"]}),
            Ok(json!({"target": "x", "limit": 9, "kinds": ["a"]})),
        );
    }

    #[test]
    fn a_schema_violation_names_its_place() {
        // S4-80
        check(json!([]), Err(("", "expected an object, found an array")));
        check(json!({}), Err(("/target", "is required")));
        check(json!({"target": ""}), Err(("/target", "expected at least 1 characters")));
        check(json!({"target": "123456789"}), Err(("/target", "expected at most 8 characters")));
        check(json!({"target": 1}), Err(("/target", "expected a string, found a number")));
        check(json!({"target": "x", "limit": 10}), Err(("/limit", "expected at most 9")));
        check(
            json!({"target": "x", "limit": 1.5}),
            Err(("/limit", "expected a whole number, found a number")),
        );
        check(json!({"target": "x", "kinds": ["a", "c"]}), Err(("/kinds/1", "expected one of \"a\", \"b\"")));
    }

    #[test]
    fn what_is_kept_is_what_would_be_rebuilt() {
        let specs = [
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
            json!({"properties": {"a": {}, "b": {"default": 1}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 2}, "b": {"minimum": 2}}}),
            json!({"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"const": 2}}}),
            json!({"type": "object", "properties": {}, "additionalProperties": true}),
            json!({"type": "object", "enum": [{"a": "x"}]}),
            json!({"type": "string"}),
            json!({}),
        ];
        let values = [
            json!({}),
            json!({"a": "x"}),
            json!({"a": "xyz", "b": 2}),
            json!({"b": 1, "a": "x"}),
            json!({"a": 1}),
            json!({"a": "x", "c": null}),
            json!({"a": ["x"], "b": {"c": 1}}),
            json!("x"),
            json!(null),
        ];
        let mut kept = 0;
        for spec in &specs {
            let spec = ArgSpec::from_schema(spec);
            for value in &values {
                if spec.keeps(value) {
                    assert_eq!(spec.rebuild(value).as_ref(), Ok(value), "{spec:?}");
                    kept += 1;
                }
            }
        }
        assert_eq!(kept, 9);
    }

    #[test]
    fn a_map_keeps_its_members() {
        let spec =
            ArgSpec::from_schema(&json!({"type": "object", "additionalProperties": {"type": "string"}}));
        let value = json!({"any": "x", "name": "y"});
        assert_eq!(spec.rebuild(&value), Ok(value.clone()));
        let nothing = ArgSpec::from_schema(&json!({"type": "object", "properties": {}}));
        assert_eq!(nothing.rebuild(&value), Ok(json!({})), "a tool without parameters takes none");
    }

    #[test]
    fn a_spec_is_written_as_json_schema_and_read_back() {
        let text = serde_json::to_string(&spec()).unwrap();
        assert_eq!(serde_json::from_str::<ArgSpec>(&text).unwrap(), spec());
    }

    // Issue 43, K2
    #[test]
    fn a_whole_number_with_a_fraction_of_zero_is_a_whole_number() {
        let spec = ArgSpec::from_schema(&json!({
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 9},
                "any": {"type": ["integer", "null"]},
                "all": {"type": "array", "items": {"type": "integer"}},
                "in": {"properties": {"n": {"type": "integer"}}},
                "one": {"type": "integer", "enum": [1, 2.0]},
                "real": {"type": "number", "enum": [1, 2.5]},
                "only": {"const": 3},
                "share": {"type": "number"},
                "set": {"type": "integer", "default": 4.0},
            },
        }));
        let given = json!({
            "n": 5.0, "any": 1e3, "all": [-0.0, 2, 7.0], "in": {"n": 3.0}, "one": 2, "real": 1.0, "only": 3.0, "share": 5.0,
        });
        assert!(!spec.keeps(&given));
        let read = spec.rebuild(&given).unwrap();
        assert_eq!(
            read,
            json!({
                "n": 5, "any": 1000, "all": [0, 2, 7], "in": {"n": 3}, "one": 2, "real": 1.0, "only": 3, "share": 5.0, "set": 4,
            })
        );
        assert!(spec.keeps(&json!({"share": 5.0, "set": 4})) && !spec.keeps(&json!({"any": 5.0, "set": 4})));
        for (given, expected) in [
            (json!({"n": 10.0}), "/n: expected at most 9"),
            (json!({"n": 5.5}), "/n: expected a whole number, found a number"),
            (json!({"all": [1e20]}), "/all/0: expected a whole number, found a number"),
            (json!({"one": 3.0}), "/one: expected one of 1, 2.0"),
        ] {
            assert_eq!(spec.rebuild(&given).unwrap_err().to_string(), expected);
        }
    }

    // Issue 40, R1: pydantic writes `"default": null` for every `X | None = None`.
    #[test]
    fn null_is_a_default_and_a_permitted_value() {
        let schema = json!({"properties": {
            "page": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
            "none": {"const": null},
            "text": {"type": "string", "default": null},
        }});
        let spec = ArgSpec::from_schema(&schema);
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<ArgSpec>(&text).unwrap(), spec, "{text}");
        assert!(
            spec.properties.get("page").and_then(|page| page.default.clone()) == Some(Value::Null),
            "{spec:?}"
        );
        assert_eq!(
            spec.rebuild(&json!({})),
            Ok(json!({"page": null})),
            "a default that does not fit is none"
        );
        assert!(spec.rebuild(&json!({"none": 1})).is_err());
        assert!(spec.rebuild(&json!({"text": null})).is_err());
    }

    /// Any JSON value, small.
    fn values() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(|n| serde_json::from_str(&format!("{n}.25e-3")).unwrap_or_default()),
            "\\PC{0,3}".prop_map(Value::from),
        ];
        plain.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[a-c]", inner), 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// JSON Schemas: the keywords that this type knows and others, with values of their own type or any other.
    fn schemas() -> impl Strategy<Value = Value> {
        let keyword = prop_oneof![
            Just("type"),
            Just("description"),
            Just("examples"),
            Just("required"),
            Just("additionalProperties"),
            Just("enum"),
            Just("const"),
            Just("minimum"),
            Just("maximum"),
            Just("minLength"),
            Just("maxLength"),
            Just("pattern"),
            Just("default"),
            Just("title"),
            Just("properties"),
        ];
        let types =
            prop_oneof![Just("object"), Just("array"), Just("string"), Just("null")].prop_map(Value::from);
        let keywords = prop::collection::vec((keyword, prop_oneof![3 => values(), 1 => types]), 0..6)
            .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        let plain = keywords.prop_map(Value::Object);
        plain.prop_recursive(3, 24, 4, |inner| {
            (inner.clone(), prop::collection::vec(("[a-d]{1,2}", inner.clone()), 0..4), inner).prop_map(
                |(mut schema, members, items)| {
                    let properties: Map<String, Value> = members.into_iter().collect();
                    if let Some(schema) = schema.as_object_mut() {
                        schema.insert("properties".to_owned(), Value::Object(properties));
                        schema.insert("items".to_owned(), items);
                    }
                    schema
                },
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        // Issue 40, R1: from the schema into the journal and back.
        #[test]
        fn whatever_the_schema_its_spec_is_read_back_as_it_was_written(schema in schemas()) {
            let spec = ArgSpec::from_schema(&schema);
            let stored = crate::types::canonical(&serde_json::to_value(&spec).unwrap());
            let read: ArgSpec = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(&read, &spec, "{}", stored);
            prop_assert_eq!(crate::types::canonical(&serde_json::to_value(&read).unwrap()), stored);
        }
    }
}
