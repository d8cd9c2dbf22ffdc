//! What a tool has to be given: the fields of its schema, and what each is for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::offline::shape::Shape;
use crate::offline::words::{parts, stem, stems};

/// How deep references in a schema are followed.
const DEEP: usize = 8;

/// One property of an object.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    /// The words of its name, in small letters.
    pub(super) words: Vec<String>,
    pub(super) required: bool,
    pub(super) form: Form<'a>,
    pub(super) role: Role,
    /// The values that it may have, where they are listed.
    pub(super) choices: Vec<&'a Value>,
    /// Shapes of its pattern and examples.
    pub(super) shapes: Vec<Shape>,
    /// Stems of its name and description.
    pub(super) stems: BTreeSet<String>,
    pub(super) default: Option<&'a Value>,
}

/// The form of a value.
#[derive(Debug)]
pub(super) enum Form<'a> {
    Text,
    Integer,
    Number,
    Boolean,
    /// A list of values like this one.
    List(Box<Field<'a>>),
    Object(Vec<Field<'a>>),
}

/// What a field is for, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Which one of something.
    Id,
    Name,
    Mail,
    Company,
    Place,
    Date,
    /// Words to search for.
    Query,
    /// Free text.
    Prose,
    Money,
    Other,
}

/// Roles by the words of a name. The first that fits counts.
const ROLES: [(Role, &str); 9] = [
    (Role::Id, "id uuid identifier"),
    (Role::Mail, "mail email"),
    (Role::Company, "company organisation organization employer firm business vendor"),
    (Role::Place, "city town place location country region"),
    (Role::Date, "date day deadline due"),
    (Role::Query, "query q term terms keyword keywords search question pattern"),
    (
        Role::Prose,
        "summary description note notes text message body content comment reason need needs request details subject \
         topic project purpose interest",
    ),
    (Role::Money, "budget price amount cost costs salary revenue usd eur gbp chf sum money"),
    (Role::Name, "name username fullname person user customer contact lead client owner author recipient"),
];

/// The properties of an object's schema: required ones in their order, then the others.
pub(super) fn fields(schema: &Value) -> Vec<Field<'_>> {
    fields_of(schema, schema, DEEP)
}

fn fields_of<'a>(schema: &'a Value, root: &'a Value, deep: usize) -> Vec<Field<'a>> {
    let schema = resolved(schema, root, deep);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut fields: Vec<Field<'_>> = properties
        .iter()
        .map(|(name, schema)| field(name, required.contains(&name.as_str()), schema, root, deep))
        .collect();
    let place =
        |field: &Field<'_>| required.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
    fields.sort_by_key(place);
    fields
}

fn field<'a>(name: &'a str, required: bool, schema: &'a Value, root: &'a Value, deep: usize) -> Field<'a> {
    let describe = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let default = schema.get("default").filter(|default| !default.is_null());
    let schema = resolved(schema, root, deep);
    let words = parts(name);
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let form = form(name, schema, root, deep);
    let role = match format {
        "email" => Role::Mail,
        "date" | "date-time" => Role::Date,
        _ => role(&words),
    };
    let listed = schema.get("examples").and_then(Value::as_array).into_iter().flatten();
    let examples: Vec<String> = listed
        .chain(schema.get("example"))
        // A number without a name that says so may mean anything.
        .filter(|example| example.is_string() || example.is_number() && role == Role::Id)
        .map(|example| example.as_str().map_or_else(|| example.to_string(), str::to_owned))
        .collect();
    let examples: Vec<&str> = examples.iter().map(String::as_str).collect();
    let pattern = schema.get("pattern").and_then(Value::as_str).and_then(Shape::of_pattern);
    let mut stems = stems(describe);
    stems.extend(words.iter().filter_map(|word| stem(word)));
    Field {
        name,
        required,
        role,
        choices: choices(schema),
        shapes: pattern.map_or_else(|| Shape::of_examples(&examples), |shape| vec![shape]),
        stems,
        default,
        form,
        words,
    }
}

fn form<'a>(name: &'a str, schema: &'a Value, root: &'a Value, deep: usize) -> Form<'a> {
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
        "array" => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            Form::List(Box::new(field(name, false, items, root, deep.saturating_sub(1))))
        }
        "object" => Form::Object(fields_of(schema, root, deep.saturating_sub(1))),
        _ => Form::Text,
    }
}

/// The schema that a reference leads to, or the part that is not `null`.
fn resolved<'a>(schema: &'a Value, root: &'a Value, deep: usize) -> &'a Value {
    if deep == 0 {
        return &Value::Null;
    }
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'))
    {
        return root.pointer(pointer).map_or(&Value::Null, |schema| resolved(schema, root, deep - 1));
    }
    for joined in ["anyOf", "oneOf", "allOf"] {
        let mut parts = schema.get(joined).and_then(Value::as_array).into_iter().flatten();
        let part = parts.find(|part| part.get("type").and_then(Value::as_str) != Some("null"));
        if let Some(part) = part.filter(|part| part.get("const").is_none()) {
            return resolved(part, root, deep - 1);
        }
    }
    schema
}

fn choices(schema: &Value) -> Vec<&Value> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let parts = ["oneOf", "anyOf"].into_iter().filter_map(|joined| schema.get(joined)?.as_array()).flatten();
    let consts = parts.filter_map(|part| part.get("const"));
    listed.chain(consts).chain(schema.get("const")).filter(|value| !value.is_null()).collect()
}

fn role(words: &[String]) -> Role {
    let is_of = |names: &str| words.iter().any(|word| names.split_whitespace().any(|name| name == word));
    ROLES.iter().find(|(_, names)| is_of(names)).map_or(Role::Other, |(role, _)| *role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_and_what_may_be_null_are_followed() {
        let schema = json!({
            "type": "object",
            "required": ["stage", "name"],
            "properties": {
                "name": {"type": "string"},
                "stage": {"$ref": "#/$defs/Stage"},
                "score": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "tags": {"type": ["array", "null"], "items": {"type": "string", "enum": ["a", "b"]}},
                "self": {"$ref": "#"},
            },
            "$defs": {"Stage": {"oneOf": [{"const": "new"}, {"const": "won"}]}},
        });
        let fields = fields(&schema);
        let names: Vec<_> = fields.iter().map(|field| (field.name, field.required)).collect();
        let expected = [("stage", true), ("name", true), ("score", false), ("tags", false), ("self", false)];
        assert_eq!(names, expected);
        let of = |name: &str| fields.iter().find(|field| field.name == name);
        assert_eq!(of("stage").map(|stage| stage.choices.len()), Some(2));
        assert!(matches!(of("score"), Some(Field { form: Form::Number, .. })));
        assert!(matches!(of("tags"), Some(Field { form: Form::List(item), .. }) if item.choices.len() == 2));
    }
}
