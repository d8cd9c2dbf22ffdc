//! JSON schemas for Anthropic's strict mode.

use serde_json::{Map, Value};

/// How many strict tools, optional parameters and union types a request may still have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Quota {
    /// The limits of a request.
    pub(super) fn whole() -> Self {
        Self { tools: 20, optional: 24, unions: 16 }
    }

    /// The schema of a tool for strict mode. `None` where it cannot be expressed or a limit is reached.
    pub(super) fn tool(&mut self, schema: &Value) -> Option<Value> {
        let mut left = Self { tools: self.tools.checked_sub(1)?, ..*self };
        let bound = left.bind(schema)?;
        *self = left;
        Some(bound)
    }

    /// The schema for strict mode. `None` where it cannot be expressed. Objects get no additional properties, and
    /// unsupported bounds move to the description.
    pub(super) fn bind(&mut self, schema: &Value) -> Option<Value> {
        if schema.get("type").and_then(Value::as_str) != Some("object")
            || Paths::default().go_round(schema, schema)
        {
            return None;
        }
        self.convert(schema)
    }

    fn convert(&mut self, schema: &Value) -> Option<Value> {
        let schema = schema.as_object()?;
        let (mut bound, mut bounds) = (Map::new(), Vec::new());
        for (key, value) in schema {
            let value = match key.as_str() {
                key if FORBIDDEN.contains(&key) => return None,
                "$ref" if !value.as_str().is_some_and(|to| to.starts_with("#/")) => return None,
                "additionalProperties" if *value != Value::Bool(false) => return None,
                "minItems" if matches!(value.as_u64(), Some(0 | 1)) => value.clone(),
                key if BOUNDS.contains(&key) => {
                    bounds.push(format!("{key}: {value}"));
                    continue;
                }
                "items" => self.convert(value)?,
                "anyOf" | "allOf" => {
                    self.unions = self.unions.checked_sub(usize::from(key == "anyOf"))?;
                    value.as_array()?.iter().map(|one| self.convert(one)).collect::<Option<Vec<_>>>()?.into()
                }
                "properties" | "$defs" | "definitions" => self.each(value)?,
                "type" if value.is_array() => {
                    self.unions = self.unions.checked_sub(1)?;
                    value.clone()
                }
                _ => value.clone(),
            };
            bound.insert(key.clone(), value);
        }
        if !bounds.is_empty() {
            let stated = bound.get("description").and_then(Value::as_str).unwrap_or_default();
            let space = if stated.is_empty() { "" } else { " " };
            let stated = format!("{stated}{space}({})", bounds.join(", "));
            bound.insert("description".to_owned(), stated.into());
        }
        let is_object = |kind: &Value| {
            kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
        };
        if schema.get("type").is_some_and(is_object) || schema.contains_key("properties") {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
            let optional =
                properties.into_iter().flat_map(Map::keys).filter(|name| !is_required(name)).count();
            self.optional = self.optional.checked_sub(optional)?;
            bound.insert("additionalProperties".to_owned(), false.into());
        }
        Some(Value::Object(bound))
    }

    fn each(&mut self, schemas: &Value) -> Option<Value> {
        let schemas = schemas.as_object()?.iter();
        let each = schemas.map(|(name, schema)| Some((name.clone(), self.convert(schema)?)));
        Some(Value::Object(each.collect::<Option<_>>()?))
    }
}

/// Finds references that are recursive or lead nowhere.
#[derive(Default)]
struct Paths<'a> {
    /// References that are being followed.
    open: Vec<&'a str>,
    /// References that are known to be valid.
    good: Vec<&'a str>,
}

impl<'a> Paths<'a> {
    /// Whether a reference below `part` is recursive or leads nowhere.
    fn go_round(&mut self, root: &'a Value, part: &'a Value) -> bool {
        match part {
            Value::Object(members) => members.iter().any(|(key, value)| match value.as_str() {
                Some(to) if key == "$ref" => self.follow(root, to),
                _ => key != "$defs" && key != "definitions" && self.go_round(root, value),
            }),
            Value::Array(parts) => parts.iter().any(|part| self.go_round(root, part)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    fn follow(&mut self, root: &'a Value, to: &'a str) -> bool {
        if self.good.contains(&to) {
            return false;
        }
        let Some(found) = to.strip_prefix('#').and_then(|to| root.pointer(to)) else { return true };
        if self.open.contains(&to) || self.open.len() == MAX_DEEP {
            return true;
        }
        self.open.push(to);
        let is_round = self.go_round(root, found);
        self.open.pop();
        self.good.push(to);
        is_round
    }
}

/// Maximum length of a chain of references.
const MAX_DEEP: usize = 16;

/// Keywords that strict mode refuses.
const FORBIDDEN: [&str; 10] = [
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "prefixItems",
];
/// Bounds that strict mode refuses.
const BOUNDS: [&str; 13] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];
