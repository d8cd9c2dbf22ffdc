//! The fields of a tool call: from a JSON Schema, or from the parameters in a prompt.

use serde_json::{Map, Value, json};

use crate::offline::conversation::text_of;
use crate::offline::read::is_id;
use crate::offline::shape::Shape;

/// The most references that are followed in a row.
const DEEP: usize = 8;

/// One property of an object, or one parameter.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) required: bool,
    pub(super) form: Form<'a>,
    /// The permitted values. Empty: any.
    pub(super) choices: Vec<Value>,
    /// The formats of its pattern and examples. Empty for free text, and for a number that is not an id.
    pub(super) shapes: Vec<Shape>,
    /// The first example, as written.
    pub(super) example: Option<String>,
    pub(super) default: Option<&'a Value>,
}

/// The type of a value.
#[derive(Debug)]
pub(super) enum Form<'a> {
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Object(Vec<Field<'a>>),
}

impl<'a> Field<'a> {
    /// A field without a default. Its formats are those of the pattern, or those of the examples if the pattern is not
    /// understood.
    pub(super) fn new(
        name: &'a str,
        required: bool,
        form: Form<'a>,
        choices: Vec<Value>,
        pattern: Option<&str>,
        examples: &[Value],
    ) -> Self {
        let examples: Vec<String> =
            examples.iter().filter(|it| it.is_string() || it.is_number()).map(text_of).collect();
        let all: Vec<&str> = examples.iter().map(String::as_str).collect();
        // A number without a name that says so may mean anything.
        let is_any = matches!(form, Form::Integer | Form::Number) && !is_id(name);
        let shapes = match pattern.and_then(Shape::of_pattern) {
            _ if is_any => Vec::new(),
            Some(shape) => vec![shape],
            None => Shape::of_examples(&all),
        };
        let example = examples.into_iter().next();
        Self { name, required, form, choices, shapes, example, default: None }
    }

    /// A text as a value of the field's type. `None`: it is not one.
    pub(super) fn cast(&self, text: &str) -> Option<Value> {
        match self.form {
            Form::Text => Some(json!(text)),
            Form::Integer => text.trim_start_matches('#').parse::<i64>().ok().map(Value::from),
            Form::Number => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
            Form::Boolean => text.parse::<bool>().ok().map(Value::from),
            Form::List | Form::Object(_) => None,
        }
    }

    /// A value from a result, if it is valid for the field.
    pub(super) fn takes(&self, value: &Value) -> Option<Value> {
        let value = if value.is_object() || value.is_array() { None } else { self.cast(&text_of(value)) }?;
        (self.choices.is_empty() || self.choices.contains(&value)).then_some(value)
    }

    /// An empty value of the field's type.
    pub(super) fn empty(&self) -> Value {
        match (&self.form, self.choices.first()) {
            (_, Some(choice)) => choice.clone(),
            (Form::Text, None) => json!(""),
            (Form::Integer | Form::Number, None) => json!(0),
            (Form::Boolean, None) => json!(false),
            (Form::List, None) => json!([]),
            (Form::Object(fields), None) => {
                let required = fields.iter().filter(|field| field.required);
                let members: Map<_, _> =
                    required.map(|field| (field.name.to_owned(), field.empty())).collect();
                Value::Object(members)
            }
        }
    }
}

/// The properties of an object schema, in order.
pub(super) fn fields(schema: &Value) -> Vec<Field<'_>> {
    fields_of(schema, schema, DEEP)
}

fn fields_of<'a>(schema: &'a Value, root: &'a Value, deep: usize) -> Vec<Field<'a>> {
    let schema = resolved(schema, root, deep);
    let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .map(|(name, schema)| {
            let default = schema.get("default").filter(|default| !default.is_null());
            let schema = resolved(schema, root, deep);
            let examples: Vec<Value> = list(schema, "examples").cloned().collect();
            let pattern = schema.get("pattern").and_then(Value::as_str);
            let (is_required, form) = (required.contains(&&**name), form(schema, root, deep));
            Field { default, ..Field::new(name, is_required, form, choices(schema), pattern, &examples) }
        })
        .collect()
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn form<'a>(schema: &'a Value, root: &'a Value, deep: usize) -> Form<'a> {
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default()
        }
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    };
    match kind {
        "integer" => Form::Integer,
        "number" => Form::Number,
        "boolean" => Form::Boolean,
        "array" => Form::List,
        "object" => Form::Object(fields_of(schema, root, deep.saturating_sub(1))),
        _ => Form::Text,
    }
}

/// The target of a reference, or the alternative that is not `null`.
pub(super) fn resolved<'a>(schema: &'a Value, root: &'a Value, deep: usize) -> &'a Value {
    if deep == 0 {
        return &Value::Null;
    }
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    if let Some(pointer) = reference {
        return root.pointer(pointer).map_or(&Value::Null, |schema| resolved(schema, root, deep - 1));
    }
    let mut parts = ["anyOf", "oneOf", "allOf"].into_iter().flat_map(|joined| list(schema, joined));
    let part = parts.find(|part| part.get("type").and_then(Value::as_str) != Some("null"));
    match part.filter(|part| part.get("const").is_none()) {
        Some(part) => resolved(part, root, deep - 1),
        None => schema,
    }
}

fn choices(schema: &Value) -> Vec<Value> {
    let parts = ["oneOf", "anyOf"].into_iter().flat_map(|joined| list(schema, joined));
    let consts = parts.filter_map(|part| part.get("const")).chain(schema.get("const"));
    list(schema, "enum").chain(consts).filter(|value| !value.is_null()).cloned().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn references_and_what_may_be_null_are_followed() {
        let schema = json!({
            "type": "object",
            "required": ["stage", "name"],
            "properties": {
                "name": {"type": "string"},
                "stage": {"$ref": "#/$defs/Stage"},
                "score": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "tags": {"type": ["array", "null"], "items": {"type": "string"}},
                "self": {"$ref": "#"},
            },
            "$defs": {"Stage": {"oneOf": [{"const": "new"}, {"const": "won"}]}},
        });
        let fields = fields(&schema);
        let names: Vec<_> = fields.iter().map(|field| (field.name, field.required)).collect();
        let expected = [("name", true), ("stage", true), ("score", false), ("tags", false), ("self", false)];
        assert_eq!(names, expected);
        let of = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!((of("stage").choices.len(), of("stage").empty()), (2, json!("new")));
        assert!(matches!(of("score").form, Form::Number) && matches!(of("tags").form, Form::List));
    }
}
