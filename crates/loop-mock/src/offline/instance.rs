//! Generates an example value for a JSON Schema, for structured output.

use serde_json::{Map, Value, json};

use super::schema::resolved;

/// An example that the schema accepts. The same schema always gives the same example.
pub(super) fn of(schema: &Value) -> Value {
    ExampleWriter { root: schema, left: MAX_PARTS }.of(schema, DEEP)
}

/// An example while it is generated.
struct ExampleWriter<'a> {
    root: &'a Value,
    /// How many more parts may be generated, since references can multiply.
    left: usize,
}

impl<'a> ExampleWriter<'a> {
    fn of(&mut self, schema: &'a Value, deep: usize) -> Value {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || deep == 0 {
            return Value::Null;
        }
        for given in ["const", "default"] {
            if let Some(value) = schema.get(given) {
                return value.clone();
            }
        }
        for listed in ["enum", "examples"] {
            if let Some(first) = schema.get(listed).and_then(|list| list.get(0)) {
                return first.clone();
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let mut all = Map::new();
            for part in parts {
                if let Value::Object(members) = self.of(part, deep - 1) {
                    all.extend(members);
                }
            }
            if let Value::Object(members) = self.object(schema, deep) {
                all.extend(members);
            }
            return all.into();
        }
        let found = resolved(schema, self.root, DEEP);
        if !std::ptr::eq(found, schema) {
            return self.of(found, deep - 1);
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.and_then(Value::as_str),
        };
        match kind.map(str::to_ascii_lowercase).as_deref() {
            Some("object") => self.object(schema, deep),
            None if schema.get("properties").is_some() => self.object(schema, deep),
            Some("array") => self.list(schema, deep),
            Some("integer" | "number") => number(schema),
            Some("boolean") => false.into(),
            Some("null") => Value::Null,
            Some(_) | None => text(schema).into(),
        }
    }

    fn object(&mut self, schema: &'a Value, deep: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        // Near the end of what is written only what has to be there is.
        let written = properties.filter(|(name, _)| is_required(name) || deep > DEEP / 2);
        written.map(|(name, part)| (name.clone(), self.of(part, deep - 1))).collect::<Map<_, _>>().into()
    }

    fn list(&mut self, schema: &'a Value, deep: usize) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).min(MAX_ITEMS);
        let item = schema.get("items");
        (0..least).map(|_| item.map_or(Value::Null, |item| self.of(item, deep - 1))).collect()
    }
}

fn number(schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let above = bound("exclusiveMinimum").map(|bound| bound.floor() + 1.0);
    let least = bound("minimum").map(f64::ceil).or(above);
    let most = bound("maximum").map(f64::floor);
    let number = least.or(most.map(|most| most.min(1.0))).unwrap_or(1.0);
    match bound("multipleOf").filter(|step| *step > 0.0) {
        Some(step) => json!((number / step).ceil() * step),
        None => json!(number as i64),
    }
}

fn text(schema: &Value) -> String {
    let written = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("time") => "00:00:00Z",
        Some("email") => "stub@example.org",
        Some("uri" | "url") => "https://example.org/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("ipv4") => "192.0.2.1",
        Some(_) | None => "offline stub",
    };
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64).map(|bound| bound.min(MAX_TEXT) as usize);
    let mut text = written.to_owned();
    text.extend(std::iter::repeat_n('x', bound("minLength").unwrap_or(0).saturating_sub(text.len())));
    text.truncate(bound("maxLength").unwrap_or(text.len()));
    text
}

/// The most levels of an example.
const DEEP: usize = 12;
const MAX_PARTS: usize = 2_000;
const MAX_ITEMS: u64 = 16;
const MAX_TEXT: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_what_its_schema_permits() {
        for (schema, example) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer", "minimum": 3}}}),
                json!({"a": "offline stub", "n": 3}),
            ),
            (
                json!({"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "BOOLEAN"}}}}),
                json!({"a": [false]}),
            ),
            (
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"k": {"enum": ["x", "y"]}}}}}),
                json!({"k": "x"}),
            ),
            (
                json!({"type": "object", "properties": {"d": {"type": ["string", "null"], "format": "date"}}}),
                json!({"d": "2026-01-01"}),
            ),
            (
                json!({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"type": "null"}}}]}),
                json!({"a": 1, "b": null}),
            ),
            (json!({"type": "string", "minLength": 14, "maxLength": 20}), json!("offline stubxx")),
            (json!({"type": "integer", "multipleOf": 5}), json!(5.0)),
        ] {
            assert_eq!(of(&schema), example, "{schema}");
        }
        // It ends, however often a schema names itself.
        let twice = json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(of(&twice).to_string().len() < 50_000);
    }
}
