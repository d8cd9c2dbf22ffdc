//! The JSON Schema of a domain's work items, and how JSON is restored from a recorded item.

use loop_core::WorkItem;
use loop_core::types::is_blank;
use loop_tools::schema::SchemaCheck;
use serde_json::{Map, Value};

use crate::config::ItemConfig;
use crate::error::{DomainError, ItemError};
use crate::file::File;
use crate::{item, protocol};

/// The schema that JSON items of a domain must fit.
#[derive(Debug)]
pub struct ItemSchema {
    value: Value,
    check: SchemaCheck,
}

impl ItemSchema {
    /// The schema that the domain file names. `None`: it names none.
    pub(crate) fn of(file: &File) -> Result<Option<Self>, DomainError> {
        let Some(config) = &file.config.item.schema else { return Ok(None) };
        let path = ["item", "schema"];
        let value = protocol::schema(file, &path, config)?;
        if value.get("type").and_then(Value::as_str) != Some("object") {
            let message = "an item is an object; write `type = \"object\"` at the top of the schema";
            return Err(file.error(&path, message));
        }
        let check = SchemaCheck::new(&value)
            .map_err(|error| file.error(&path, format!("it is not a JSON Schema: {error}; correct it")))?;
        Ok(Some(Self { value, check }))
    }

    /// The top-level properties, in the order of the schema, with references resolved.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.value.get("properties").and_then(Value::as_object).into_iter().flatten();
        properties.map(|(name, schema)| (name.as_str(), self.resolved(schema)))
    }

    /// Whether this property is required.
    pub fn requires(&self, name: &str) -> bool {
        let required = self.value.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|it| it == name))
    }

    /// The violations of an item, as [`SchemaCheck::each_violation`] reports them.
    pub fn each_violation(&self, item: &Value) -> Vec<(String, String)> {
        self.check.each_violation(item)
    }

    /// Fails if the text is JSON that does not fit the schema.
    pub(crate) fn check(&self, text: &str, origin: &str) -> Result<(), ItemError> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let json: Option<Value> =
            Some(text).filter(|text| text.starts_with('{')).map(serde_json::from_str).and_then(Result::ok);
        match json.and_then(|json| self.check.violations(&json)) {
            None => Ok(()),
            Some(violations) => Err(ItemError::Unfit { origin: origin.to_owned(), violations }),
        }
    }

    fn resolved<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(found) = reference.and_then(|it| self.value.pointer(it.strip_prefix('#')?)) else {
                break;
            };
            schema = found;
        }
        schema
    }
}

/// The most references that are followed in a row.
const MAX_REFERENCES: usize = 16;

/// JSON from which an item equal to a recorded one is read. `None`: the item is a text, or no such JSON is found.
///
/// The journal has the item as rendered text. The members are parsed from that text by the schema, and the result
/// counts only if it renders to the recorded item again.
pub(crate) fn json_of(
    config: &ItemConfig,
    schema: Option<&ItemSchema>,
    recorded: &WorkItem,
) -> Option<Value> {
    let reader = Reader { schema };
    let json = Value::Object(reader.top(&recorded.full)?);
    let text = serde_json::to_string(&json).ok()?;
    let read = item::read(config, &text, &format!("{}.json", recorded.id)).ok()?;
    (read.digest() == recorded.digest()).then_some(json)
}

/// Parses the text that [`Json::render`](crate::json::Json::render) writes.
struct Reader<'a> {
    schema: Option<&'a ItemSchema>,
}

/// A member of an object.
struct Member<'t> {
    key: &'t str,
    /// What follows on the line of the key.
    first: &'t str,
    below: Vec<&'t str>,
}

/// Adds a line, which begins a member or belongs to the last one. `None`: there is no member before it.
fn add<'t>(members: &mut Vec<Member<'t>>, begins: Option<(&'t str, &'t str)>, line: &'t str) -> Option<()> {
    match begins {
        Some((key, first)) => members.push(Member { key, first, below: Vec::new() }),
        None => members.last_mut()?.below.push(line),
    }
    Some(())
}

impl Reader<'_> {
    fn top(&self, text: &str) -> Option<Map<String, Value>> {
        let mut members: Vec<Member<'_>> = Vec::new();
        let mut before = "";
        for line in text.lines() {
            let is_new = |key: &str| self.is_key(key) && !members.iter().any(|it| it.key == key);
            // A text of several lines ends with a blank one.
            let is_text = |it: &Member<'_>| it.first.is_empty() && it.below.first() == Some(&"");
            let may_begin = before.is_empty() || !members.last().is_some_and(is_text);
            let begins = member(line).filter(|(key, _)| may_begin && is_new(key));
            add(&mut members, begins, line)?;
            before = line;
        }
        members.into_iter().map(|it| self.value(it, self.schema.map(|schema| &schema.value))).collect()
    }

    fn is_key(&self, key: &str) -> bool {
        match self.schema {
            Some(schema) => schema.properties().any(|(name, _)| name == key),
            None => key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')),
        }
    }

    /// Parses a member of an object with this schema.
    fn value(&self, member: Member<'_>, object: Option<&Value>) -> Option<(String, Value)> {
        let Member { key, first, below } = member;
        let schema = object.and_then(|object| self.part(object.get("properties")?.get(key)?));
        let is_text = !first.is_empty() || below.first() == Some(&"");
        let value = if is_text { typed(&text(first, &below), schema) } else { self.bullets(&below, schema)? };
        Some((key.to_owned(), value))
    }

    fn part<'s>(&'s self, schema: &'s Value) -> Option<&'s Value> {
        Some(self.schema?.resolved(schema))
    }

    /// Parses a list or an object from bullets.
    fn bullets(&self, lines: &[&str], schema: Option<&Value>) -> Option<Value> {
        let mut entries: Vec<Vec<&str>> = Vec::new();
        for line in lines {
            match line.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
                Some(first) => entries.push(vec![first.trim_start()]),
                None if line.is_empty() => entries.last_mut()?.push(line),
                None => entries.last_mut()?.push(line.strip_prefix("  ")?),
            }
        }
        let is_of = |kind: &str| schema.and_then(|schema| schema.get("type")).is_some_and(|it| it == kind);
        let keyed = entries.iter().map(|entry| member(entry.first()?));
        let keyed: Option<Vec<(&str, &str)>> = keyed.collect();
        let is_unique = |all: &[(&str, &str)]| {
            all.iter().enumerate().all(|(at, (key, _))| !all.iter().take(at).any(|(it, _)| it == key))
        };
        if let Some(keyed) = keyed.filter(|all| is_of("object") || !is_of("array") && is_unique(all)) {
            let members = keyed.into_iter().zip(entries).map(|((key, first), entry)| {
                self.value(Member { key, first, below: entry.into_iter().skip(1).collect() }, schema)
            });
            return members.collect::<Option<Map<_, _>>>().map(Value::Object);
        }
        let of_each = schema.and_then(|schema| self.part(schema.get("items")?));
        entries.iter().map(|entry| self.element(entry, of_each)).collect::<Option<Vec<_>>>().map(Value::Array)
    }

    /// Parses an element of a list.
    fn element(&self, lines: &[&str], schema: Option<&Value>) -> Option<Value> {
        let (first, below) = lines.split_first()?;
        if first.is_empty() {
            return self.bullets(below, schema);
        }
        let is_text = schema.and_then(|schema| schema.get("type")).is_some_and(|kind| kind == "string");
        if is_text || member(first).is_none() {
            return Some(typed(&text(first, below), schema));
        }
        let mut members: Vec<Member<'_>> = Vec::new();
        for line in lines {
            let begins = member(line);
            let is_whole = begins.is_some() || line.is_empty();
            add(&mut members, begins, if is_whole { line } else { line.strip_prefix("  ")? })?;
        }
        let members = members.into_iter().map(|it| self.value(it, schema));
        members.collect::<Option<Map<_, _>>>().map(Value::Object)
    }
}

/// The key of a line that begins a member, and the rest of the line.
fn member(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !is_blank(key) && !key.starts_with([' ', '-']) && (rest.is_empty() || rest.starts_with(' '));
    is_key.then(|| (key, rest.trim_start()))
}

fn text(first: &str, below: &[&str]) -> String {
    std::iter::once(&first).chain(below).copied().collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// A text as the number or boolean that its schema requires.
fn typed(text: &str, schema: Option<&Value>) -> Value {
    let kinds = schema.and_then(|schema| schema.get("type")).map(|kind| match kind {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    });
    let of_text = |kind: &Value| matches!(kind.as_str(), Some("string" | "array" | "object"));
    let is_plain = kinds.is_some_and(|kinds| !kinds.iter().any(of_text));
    let plain = is_plain.then(|| serde_json::from_str(text).ok()).flatten();
    plain.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
#[path = "item_schema_tests.rs"]
mod tests;
