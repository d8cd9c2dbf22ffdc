//! Rewrites a schema, and each schema within it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use super::names::{Names, is_legal};
use super::{FitRules, has_kind};

/// A schema that is being fitted.
#[derive(Debug)]
pub(super) struct SchemaFit<'a> {
    pub(super) rules: &'static FitRules,
    pub(super) whole: &'a Value,
    pub(super) names: Names,
    /// The references that are followed, and the name of the definition that each becomes.
    definitions: BTreeMap<&'a str, String>,
    /// The definitions that are not written yet.
    waiting: VecDeque<(String, &'a Value)>,
    /// How much more may be written. References and alternatives repeat what they name.
    left: usize,
    changes: BTreeSet<String>,
}

/// Why a tool is left out.
pub(super) type Omitted = &'static str;

impl<'a> SchemaFit<'a> {
    pub(super) fn new(rules: &'static FitRules, whole: &'a Value) -> Self {
        let mut all = BTreeSet::new();
        collect(whole, MAX_DEEP, &mut all);
        Self {
            rules,
            whole,
            names: rules.names.map(|rule| Names::of(&all, rule)).unwrap_or_default(),
            definitions: BTreeMap::new(),
            waiting: VecDeque::new(),
            left: MAX_SIZE,
            changes: BTreeSet::new(),
        }
    }

    pub(super) fn finish(self) -> (Names, Vec<String>) {
        (self.names, self.changes.into_iter().collect())
    }

    pub(super) fn change(&mut self, what: impl Into<String>) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.insert(what.into());
        }
    }

    /// Counts what is written.
    pub(super) fn spend(&mut self, size: usize) -> Result<(), Omitted> {
        self.left =
            self.left.checked_sub(size).ok_or("its parameters are too large once references are followed")?;
        Ok(())
    }

    /// What a reference names. `None` where it leads nowhere.
    pub(super) fn target(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        let decoded = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
        self.whole.pointer(&decoded).filter(|found| found.is_object())
    }

    /// The definitions that are referred to.
    pub(super) fn definitions(&mut self) -> Result<Map<String, Value>, Omitted> {
        let mut definitions = Map::new();
        while let Some((name, schema)) = self.waiting.pop_front() {
            let schema = self.schema(schema, 1)?;
            definitions.insert(name, schema);
        }
        Ok(definitions)
    }

    /// A schema that is not the root.
    pub(super) fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, Omitted> {
        self.spend(1)?;
        let Some(members) = schema.as_object() else { return Ok(json!({})) };
        let fitted = if depth > self.rules.deepest {
            self.change(format!("what is nested deeper than {} levels is left open", self.rules.deepest));
            let kept = ["type", "description"];
            let kept = members.iter().filter(|(key, _)| kept.contains(&key.as_str()));
            self.members(kept, depth)?
        } else {
            self.members(members, depth)?
        };
        Ok(self.completed(fitted).into())
    }

    /// The members of a schema.
    pub(super) fn members(
        &mut self,
        members: impl IntoIterator<Item = (&'a String, &'a Value)>,
        depth: usize,
    ) -> Result<Map<String, Value>, Omitted> {
        let mut fitted = Map::new();
        for (key, value) in members {
            if value.is_null() && !matches!(key.as_str(), "const" | "default") {
                continue;
            }
            let value = match Keyword::of(key) {
                Keyword::Reference => self.reference(value.as_str().unwrap_or_default()),
                Keyword::Definitions => None,
                Keyword::Properties => {
                    let properties = self.properties(value, depth)?;
                    // Each property said of itself there that it is required.
                    let all = value.as_object().into_iter().flatten();
                    let required =
                        all.filter(|(_, schema)| schema.get("required") == Some(&Value::Bool(true)));
                    require(required.map(|(name, _)| self.names.alias(name)), &mut fitted);
                    Some(properties)
                }
                Keyword::ByName => self.properties(value, depth).map(Some)?,
                Keyword::Map => self.map(value, depth, |_, name| name.to_owned()).map(Some)?,
                Keyword::Schema if value.is_boolean() && key != "items" => Some(value.clone()),
                // Each of the first items had a schema of its own there.
                Keyword::Schema if key == "items" && value.is_array() => {
                    let first = self.list(value, depth)?;
                    fitted.insert("prefixItems".to_owned(), first);
                    None
                }
                Keyword::Schema => Some(self.schema(value, depth + 1)?),
                Keyword::Rest if value.is_object() => {
                    let rest = self.schema(value, depth + 1)?;
                    fitted.insert("items".to_owned(), rest);
                    None
                }
                Keyword::Rest => None,
                Keyword::Schemas => Some(self.list(value, depth)?).filter(|list| *list != json!([])),
                Keyword::Required => {
                    let listed = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                    require(listed.map(|name| self.names.alias(name)), &mut fitted);
                    None
                }
                Keyword::RequiredBy => {
                    self.spend(size(value))?;
                    Some(self.names.in_names(value))
                }
                Keyword::Kind => self.kind(value),
                Keyword::Enum => {
                    self.spend(size(value))?;
                    value.as_array().filter(|all| !all.is_empty()).map(|_| self.names.in_data(value))
                }
                Keyword::Data => {
                    self.spend(size(value))?;
                    Some(self.names.in_data(value))
                }
                Keyword::Text => value.as_str().map(Value::from),
                Keyword::Other => {
                    self.spend(size(value))?;
                    Some(value.clone())
                }
            };
            if let Some(value) = value {
                fitted.insert(key.clone(), value);
            }
        }
        Ok(fitted)
    }

    fn properties(&mut self, properties: &'a Value, depth: usize) -> Result<Value, Omitted> {
        self.map(properties, depth, |names, name| names.alias(name).to_owned())
    }

    fn map(
        &mut self,
        schemas: &'a Value,
        depth: usize,
        named: impl Fn(&Names, &str) -> String,
    ) -> Result<Value, Omitted> {
        let mut fitted = Map::new();
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            let sent = named(&self.names, name);
            let mut schema = self.schema(schema, depth + 1)?;
            if sent != *name {
                self.change(format!("`{name}` is called `{sent}`"));
                if let Value::Object(mut members) = schema {
                    describe(&mut members, name);
                    schema = self.completed(members).into();
                }
            }
            fitted.insert(sent, schema);
        }
        Ok(fitted.into())
    }

    fn list(&mut self, schemas: &'a Value, depth: usize) -> Result<Value, Omitted> {
        let schemas = schemas.as_array().into_iter().flatten();
        schemas.map(|schema| self.schema(schema, depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::from)
    }

    /// A reference to a definition of the root. `None` where it leads nowhere.
    fn reference(&mut self, reference: &'a str) -> Option<Value> {
        let Some(found) = self.target(reference) else {
            self.change(format!("`$ref` {reference:?} leads nowhere and is left out"));
            return None;
        };
        if let Some(name) = self.definitions.get(reference) {
            return Some(format!("#/$defs/{name}").into());
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let kept = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let head: String = last.chars().take(48).map(kept).collect();
        let head = if head.is_empty() || head == "_" { "root".to_owned() } else { head };
        let is_taken = self.definitions.values().any(|name| *name == head);
        let name = if is_taken { format!("{head}_{}", self.definitions.len()) } else { head };
        self.definitions.insert(reference, name.clone());
        self.waiting.push_back((name.clone(), found));
        Some(format!("#/$defs/{name}").into())
    }

    /// A `type` with the words of JSON Schema. `None` where no word is one.
    fn kind(&mut self, kind: &Value) -> Option<Value> {
        let known: Vec<&'static str> = match kind {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).filter_map(word).collect(),
            kind => kind.as_str().and_then(word).into_iter().collect(),
        };
        let mut distinct: Vec<&'static str> = Vec::new();
        for word in known {
            if !distinct.contains(&word) {
                distinct.push(word);
            }
        }
        match distinct.as_slice() {
            [] => {
                self.change(format!(
                    "a type that is none of JSON Schema is left out: {}",
                    short(&kind.to_string())
                ));
                None
            }
            [one] => Some((*one).into()),
            _ => Some(distinct.into()),
        }
    }

    /// The schema with what the provider demands of each.
    pub(super) fn completed(&mut self, mut schema: Map<String, Value>) -> Map<String, Value> {
        if self.rules.lone_references && schema.len() > 1 && schema.contains_key("$ref") {
            self.change("a `$ref` that has other keywords beside it is put into `anyOf`");
            if let Some(reference) = schema.shift_remove("$ref") {
                // What else was said of the value is checked when the call comes.
                for other in ["anyOf", "type", "properties", "required", "items"] {
                    schema.shift_remove(other);
                }
                schema.insert("anyOf".to_owned(), json!([{"$ref": reference}]));
            }
        }
        // These were `true` or `false` there.
        for (key, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if let Some(is_exclusive) = schema.get(key).and_then(Value::as_bool) {
                schema.shift_remove(key);
                if let Some(value) = schema.shift_remove(bound).filter(|_| is_exclusive) {
                    schema.insert(key.to_owned(), value);
                }
            }
        }
        let has = |kind: &str| schema.get("type").is_some_and(|kinds| has_kind(kinds, kind));
        let (is_object, is_list) = (has("object"), has("array"));
        if self.rules.is_complete && is_object && !schema.contains_key("properties") {
            schema.insert("properties".to_owned(), json!({}));
        }
        if self.rules.is_complete && is_list && !schema.contains_key("items") {
            schema.insert("items".to_owned(), json!({}));
        }
        if self.rules.required_exists
            && let Some(Value::Array(mut required)) = schema.shift_remove("required")
        {
            let properties = schema.get("properties");
            required.retain(|name| {
                name.as_str().is_some_and(|name| properties.is_some_and(|it| it.get(name).is_some()))
            });
            if !required.is_empty() {
                schema.insert("required".to_owned(), required.into());
            }
        }
        schema
    }
}

/// What a keyword holds.
#[derive(Clone, Copy)]
enum Keyword {
    Reference,
    Definitions,
    Properties,
    /// Schemas by the name of a property.
    ByName,
    /// Schemas by a pattern.
    Map,
    Schema,
    Schemas,
    /// What follows the items that a list names one by one.
    Rest,
    Required,
    RequiredBy,
    Kind,
    Enum,
    Data,
    Text,
    Other,
}

impl Keyword {
    fn of(key: &str) -> Self {
        match key {
            "$ref" => Self::Reference,
            "$defs" | "definitions" | "$schema" | "$id" | "id" | "$anchor" => Self::Definitions,
            "properties" => Self::Properties,
            "dependentSchemas" => Self::ByName,
            "patternProperties" => Self::Map,
            "items"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems" => Self::Schema,
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => Self::Schemas,
            "additionalItems" => Self::Rest,
            "required" => Self::Required,
            "dependentRequired" => Self::RequiredBy,
            "type" => Self::Kind,
            "enum" => Self::Enum,
            "const" | "default" | "examples" | "example" => Self::Data,
            "title" | "description" | "format" | "pattern" | "$comment" => Self::Text,
            _ => Self::Other,
        }
    }
}

/// Whether a schema can be sent as it is, of those whose every keyword is a usual one.
pub(super) fn is_plain(schema: &Value, rules: &FitRules) -> bool {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    is_object && schema.get("properties").is_some() && is_plain_below(schema, rules, 1)
}

fn is_plain_below(schema: &Value, rules: &FitRules, depth: usize) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let mut is_list_of_any = false;
    let each = members.iter().all(|(key, value)| match key.as_str() {
        "type" => {
            is_list_of_any = value == "array" && !members.contains_key("items");
            let needs = rules.is_complete && value == "object" && !members.contains_key("properties");
            !needs && value.as_str().is_some_and(|kind| word(kind) == Some(kind))
        }
        "properties" => value.as_object().is_some_and(|properties| {
            properties.iter().all(|(name, schema)| {
                rules.names.is_none_or(|rule| is_legal(name, rule))
                    && is_plain_below(schema, rules, depth + 1)
            })
        }),
        "items" => is_plain_below(value, rules, depth + 1),
        "required" => value.as_array().is_some_and(|names| {
            let properties = members.get("properties");
            names
                .iter()
                .filter_map(Value::as_str)
                .all(|name| properties.is_some_and(|it| it.get(name).is_some()))
        }),
        "enum" => value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string)),
        "description" | "title" | "format" | "pattern" => value.is_string(),
        "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_number(),
        "additionalProperties" => value.is_boolean(),
        _ => false,
    });
    each && depth <= rules.deepest && !(rules.is_complete && is_list_of_any)
}

/// All names of properties.
fn collect<'a>(schema: &'a Value, deep: usize, names: &mut BTreeSet<&'a str>) {
    let Some(deep) = deep.checked_sub(1) else { return };
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                if let (Keyword::Properties | Keyword::ByName | Keyword::RequiredBy, Some(all)) =
                    (Keyword::of(key), value.as_object())
                {
                    names.extend(all.keys().map(String::as_str));
                }
                if let (Keyword::Required, Some(all)) = (Keyword::of(key), value.as_array()) {
                    names.extend(all.iter().filter_map(Value::as_str));
                }
                collect(value, deep, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, deep, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds names to those that are required, each once.
pub(super) fn require<'n>(names: impl Iterator<Item = &'n str>, schema: &mut Map<String, Value>) {
    let known = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut seen: BTreeSet<String> = known.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    let mut all = known;
    all.extend(names.filter(|name| seen.insert((*name).to_owned())).map(Value::from));
    if !all.is_empty() {
        schema.insert("required".to_owned(), all.into());
    }
}

/// Says in its description how a property is called, as messages about it do.
fn describe(members: &mut Map<String, Value>, name: &str) {
    let stated = members.get("description").and_then(Value::as_str).unwrap_or_default();
    let space = if stated.is_empty() { "" } else { " " };
    let described = format!("{stated}{space}(its own name: {})", short(name));
    members.insert("description".to_owned(), described.into());
}

/// The kind of JSON Schema that a word names.
fn word(kind: &str) -> Option<&'static str> {
    let is = |(word, _): &&(&str, &str)| kind.eq_ignore_ascii_case(word);
    KINDS.iter().find(is).map(|(_, kind)| *kind)
}

/// The beginning of a text.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// About how much a value is.
pub(super) fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / 32,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() / 32 + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The kinds of JSON Schema, and other words for them.
const KINDS: [(&str, &str); 19] = [
    ("object", "object"),
    ("array", "array"),
    ("string", "string"),
    ("number", "number"),
    ("integer", "integer"),
    ("boolean", "boolean"),
    ("null", "null"),
    ("dict", "object"),
    ("map", "object"),
    ("list", "array"),
    ("str", "string"),
    ("text", "string"),
    ("float", "number"),
    ("double", "number"),
    ("int", "integer"),
    ("long", "integer"),
    ("bool", "boolean"),
    ("date", "string"),
    ("file", "string"),
];
/// How much a fitted schema may be.
const MAX_SIZE: usize = 100_000;
/// Levels of JSON in which names are looked for.
const MAX_DEEP: usize = 256;
/// How many changes of a tool are named.
const MAX_CHANGES: usize = 8;
