//! What a result says, as records: members of JSON, rows of a table, `name: value` lines.

use serde_json::{Map, Number, Value};

use super::user_request::holds_words;
use crate::offline::read::fenced;
use crate::offline::words::{parts, stem};
use crate::offline::write::rows;

/// Words by which a short text says that there is nothing.
const NOTHING: [&str; 8] =
    ["not found", "no result", "no match", "nothing", "no such", "none found", "no record", "does not exist"];

/// One thing that a result tells of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) fields: Vec<(String, Value)>,
}

impl Record {
    /// The member of this name, or of one with the same words.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let wanted = parts(name);
        let exact = self.fields.iter().find(|(key, _)| parts(key) == wanted);
        exact.map(|(_, value)| value)
    }

    /// The member whose name shares the stem of a word.
    pub(super) fn about(&self, wanted: &str) -> Option<(&str, &Value)> {
        let is_about = |key: &str| parts(key).iter().any(|part| stem(part).as_deref() == Some(wanted));
        self.fields.iter().find(|(key, _)| is_about(key)).map(|(key, value)| (key.as_str(), value))
    }

    /// What tells it from others: its `id`, or the only member whose name ends so.
    pub(super) fn id(&self) -> Option<&Value> {
        let is_id = |key: &str| {
            parts(key).last().is_some_and(|last| ["id", "uuid", "identifier"].contains(&last.as_str()))
        };
        let mut ids = self.fields.iter().filter(|(key, _)| is_id(key)).map(|(_, value)| value);
        self.get("id").or_else(|| ids.next().filter(|_| ids.next().is_none()))
    }

    /// What it is called.
    pub(super) fn title(&self) -> Option<&str> {
        let named =
            ["name", "full_name", "title", "username", "first_name"].iter().find_map(|name| self.get(name));
        named.and_then(Value::as_str)
    }

    /// How well it fits a name: 2 where a member is the name, 1 where one holds it.
    pub(super) fn fits(&self, name: &str) -> u8 {
        let texts = || self.fields.iter().filter_map(|(_, value)| value.as_str());
        if texts().any(|text| text.eq_ignore_ascii_case(name)) {
            2
        } else {
            u8::from(texts().any(|text| holds_words(text, name)))
        }
    }
}

/// What a result says.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) records: Vec<Record>,
    /// How many things there are, which may be more than are told.
    pub(super) total: usize,
    /// Whether it says that there is nothing.
    pub(super) is_empty: bool,
}

/// The records of a result's text.
pub(super) fn read(text: &str) -> Reported {
    let body = fenced(text).unwrap_or(text).trim();
    let mut records = match serde_json::from_str::<Value>(body) {
        Ok(value) => {
            let mut records = Vec::new();
            json(&value, &mut records, 2);
            let total = total(&value).unwrap_or_default().max(records.len());
            let is_empty = is_nothing(&value) || (records.is_empty() && has_empty_list(&value));
            return Reported { records, total, is_empty };
        }
        Err(_) => table(body),
    };
    let is_table = body.lines().any(|line| line.starts_with("|-") || line.starts_with("| -"));
    if records.is_empty() && !is_table {
        records = lines(body);
    }
    if records.is_empty() && !is_table {
        records = body.lines().filter_map(loose).collect();
    }
    let lower = body.to_lowercase();
    let says_nothing = body.chars().count() <= 300 && NOTHING.iter().any(|word| lower.contains(word));
    let none = lower.starts_with("no ") || ["none", "none."].contains(&lower.as_str());
    let is_empty = records.is_empty() && (body.is_empty() || is_table || says_nothing || none);
    let total = records.len();
    Reported { records, total, is_empty }
}

/// The objects of a value: those of its lists, or itself.
fn json(value: &Value, records: &mut Vec<Record>, deep: usize) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| json(item, records, deep)),
        Value::Object(members) => {
            let lists = members
                .values()
                .filter(|value| value.as_array().is_some_and(|items| items.iter().any(Value::is_object)));
            let lists: Vec<&Value> =
                if record(members).id().is_some() { Vec::new() } else { lists.collect() };
            if deep == 0 || lists.is_empty() {
                let record = record(members);
                if !record.fields.is_empty() && !has_empty_list(value) {
                    records.push(record);
                }
            } else {
                lists.into_iter().for_each(|list| json(list, records, deep - 1));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The plain members of an object, those of objects in it as well.
fn record(members: &Map<String, Value>) -> Record {
    let mut fields: Vec<(String, Value)> = Vec::new();
    for (key, value) in members {
        match value {
            Value::Null | Value::Array(_) => {}
            Value::Object(inner) => {
                let plain = inner.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
                fields.extend(plain.map(|(inner, value)| (format!("{key}_{inner}"), value.clone())));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => fields.push((key.clone(), value.clone())),
        }
    }
    Record { fields }
}

fn total(value: &Value) -> Option<usize> {
    let total = ["total", "count", "total_count"].iter().find_map(|name| value.get(name)?.as_u64());
    total.and_then(|total| usize::try_from(total).ok())
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether an object is a list of nothing: a count perhaps, and an empty list.
fn has_empty_list(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        members.values().any(empty)
            && record(members).id().is_none()
            && members.values().all(|v| !v.is_string())
    })
}

fn table(body: &str) -> Vec<Record> {
    let rows = rows(body).into_iter().filter(|row| !row.is_empty());
    rows.map(|row| Record {
        fields: row.into_iter().map(|(column, value)| (column, plain(&value))).collect(),
    })
    .collect()
}

/// `- **Name**: value` lines; one whose name comes again begins the next record.
fn lines(body: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for (key, value) in body.lines().filter_map(pair) {
        match records.last_mut().filter(|record| record.get(key).is_none()) {
            Some(record) => record.fields.push((key.to_owned(), plain(value))),
            None => records.push(Record { fields: vec![(key.to_owned(), plain(value))] }),
        }
    }
    // One alone is a sentence with a colon, unless it tells an id.
    records.retain(|record| record.fields.len() > 1 || record.id().is_some());
    records
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim().trim_start_matches(['-', '*', ' ']).trim_end_matches('*').trim();
    let value = value.trim().trim_start_matches('*').trim();
    let is_key = !key.is_empty()
        && key.split_whitespace().count() <= 3
        && key.chars().all(|c| c.is_alphanumeric() || " _-".contains(c));
    // `Found: Bob (id: 42)` is a sentence that tells of somebody.
    (is_key && !value.is_empty() && !value.contains("(id")).then_some((key, value))
}

/// `Bob Brown (id 42)`, `id=42`: a record that says its id and perhaps its name.
fn loose(line: &str) -> Option<Record> {
    let lower = line.to_ascii_lowercase();
    let mut places = lower.match_indices("id").map(|(at, _)| at);
    let at = places.find(|at| {
        let before = lower.get(..*at).and_then(|before| before.chars().next_back());
        let after = lower.get(at + 2..).and_then(|after| after.chars().next());
        before.is_none_or(|c| !c.is_alphanumeric()) && after.is_some_and(|c| " :=#".contains(c))
    })?;
    let after = line.get(at + 2..)?.trim_start_matches([' ', ':', '=', '#']);
    let id: String = after.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
    if !id.chars().any(|c| c.is_ascii_digit()) {
        return None;
    }
    let mut fields = vec![("id".to_owned(), plain(&id))];
    let before = line.get(..at)?.trim_end_matches([' ', '(', '[', '#', ',']);
    let before = before.rsplit_once(':').map_or(before, |(_, name)| name);
    let is_name = |word: &&str| word.chars().next().is_some_and(char::is_uppercase);
    let mut words: Vec<&str> = before.split_whitespace().rev().take_while(is_name).collect();
    words.reverse();
    if !words.is_empty() {
        fields.push(("name".to_owned(), Value::String(words.join(" "))));
    }
    Some(Record { fields })
}

/// A number where it is written as one, and else the text.
fn plain(text: &str) -> Value {
    let text = text.trim_matches(['`', '"']);
    let number = serde_json::from_str::<Number>(text).ok().filter(|number| number.to_string() == text);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn ids(text: &str, expected: &[Value]) {
        let reported = read(text);
        let ids: Vec<Value> = reported.records.iter().filter_map(|record| record.id().cloned()).collect();
        assert_eq!(ids, expected, "{reported:?}");
    }

    #[test]
    fn records_come_from_every_usual_form() {
        ids(r#"[{"id": 1, "name": "A"}, {"id": 2, "tags": ["x"]}]"#, &[json!(1), json!(2)]);
        ids(r#"{"users": [{"user_id": "u-1"}], "total": 9}"#, &[json!("u-1")]);
        ids(r#"{"id": 7, "orders": [{"id": 8}]}"#, &[json!(7)]);
        ids("Two:\n\n| id | name |\n|---|---|\n| 1 | Bob |\n| 2 | Bo |", &[json!(1), json!(2)]);
        ids("- **ID**: 42\n- **Name**: Bob", &[json!(42)]);
        ids("Found: Bob Brown (id: 42)", &[json!(42)]);
        ids("<<<r n-1>>>\n{\"id\": 3}\n<<<end r n-1>>>", &[json!(3)]);
        let reported = read("Found: Bob Brown (id: 42)");
        assert_eq!(reported.records.first().and_then(Record::title), Some("Bob Brown"));
        assert_eq!(read(r#"{"users": [{"id": 1}], "total": 9}"#).total, 9);
    }

    #[test]
    fn nothing_is_told_from_something() {
        for text in [
            "[]",
            "null",
            "",
            r#"{"users": []}"#,
            r#"{"users": [], "total": 0}"#,
            "No user found.",
            "| id |\n|---|",
        ] {
            assert!(read(text).is_empty, "{text}");
        }
        for text in ["It is sunny.", "[1]", r#"{"id": 1, "tags": []}"#, "3"] {
            assert!(!read(text).is_empty, "{text}");
        }
    }
}
