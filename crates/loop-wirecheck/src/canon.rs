//! Requests in one canonical form: what means the same is written in the same way. And where two of them differ.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::judge::Difference;

/// What a request holds that the neutral form has no place for, by name.
pub(crate) type Unexpressed = BTreeSet<String>;

/// Removes members that say nothing: null.
pub(crate) fn drop_nulls(object: &mut Map<String, Value>) {
    object.retain(|_, value| !value.is_null());
}

/// Removes a member that has this value, which is what its absence means.
pub(crate) fn drop_default(object: &mut Map<String, Value>, key: &str, default: &Value) {
    if object.get(key) == Some(default) {
        object.remove(key);
    }
}

/// Gives a member another name, where there is none of that name.
pub(crate) fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.entry(to).or_insert(value);
    }
}

/// The text of a member, where it is one.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a member, where it is a list.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The elements of a member that can be changed.
pub(crate) fn list_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    value.get_mut(key).and_then(Value::as_array_mut)
}

/// Arguments as the JSON that they are; nothing is an empty object.
pub(crate) fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        Some(Value::Null) | None => Value::Object(Map::new()),
        Some(other) => other.clone(),
    }
}

/// A schema: the names of types are small letters, names of what is required are sorted, and an object without
/// properties is no schema. The order of properties is written out, since a provider writes a reply in it.
pub(crate) fn schema(value: Option<&Value>) -> Value {
    let mut value = value.cloned().unwrap_or_default();
    canonical_schema(&mut value);
    let is_nothing = value.as_object().is_none_or(|schema| {
        let has_properties =
            schema.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
        !has_properties && schema.keys().all(|key| NOTHING.contains(&key.as_str()))
    });
    if is_nothing { Value::Null } else { value }
}

/// Members of a schema that say nothing more of an object without properties.
const NOTHING: [&str; 7] =
    ["type", "properties", "required", "additionalProperties", "title", "strict", "$schema"];

fn canonical_schema(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.as_str(), value) {
                    ("type", Value::String(text)) => *text = text.to_ascii_lowercase(),
                    ("type", Value::Array(words)) => {
                        for word in words {
                            if let Value::String(text) = word {
                                *text = text.to_ascii_lowercase();
                            }
                        }
                    }
                    ("required", Value::Array(names)) => {
                        names.sort_by(|one, two| one.as_str().cmp(&two.as_str()));
                    }
                    // What stands under these is named by the user.
                    ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                        named.values_mut().for_each(canonical_schema);
                    }
                    // Values of the user's, and no schemas.
                    ("enum" | "const" | "default" | "example" | "examples", _) => {}
                    (_, other) => canonical_schema(other),
                }
            }
            let names = map.get("properties").and_then(Value::as_object).filter(|all| all.len() > 1);
            let names: Option<Vec<Value>> =
                names.map(|all| all.keys().map(|name| name.as_str().into()).collect());
            if let Some(names) = names {
                map.insert(ORDER.to_owned(), names.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(canonical_schema),
        _ => {}
    }
}

/// The member in which the order of properties is written out.
const ORDER: &str = "(order of properties)";

/// The same of the schema of a form.
pub(crate) fn schema_within(format: &mut Map<String, Value>) {
    if let Some(form) = format.get_mut("schema") {
        *form = schema(Some(form));
    }
}

/// Takes members of tools out that have no place here; those that say no more than their absence are not named.
pub(crate) fn take_members(tools: &mut [Value], names: &[&str], lacks: &mut Unexpressed) {
    for members in tools.iter_mut().filter_map(Value::as_object_mut) {
        for name in names {
            let value = members.shift_remove(*name).unwrap_or_default();
            if !value.is_null() && value != Value::Bool(false) && value != Value::Array(Vec::new()) {
                lacks.insert(format!("member of a tool: {name}"));
            }
        }
    }
}

/// A picture by what it is; of an address of the kind `data:` the payload alone.
pub(crate) fn picture(payload: &str) -> Value {
    let payload = payload.split_once("base64,").map_or(payload, |(_, payload)| payload);
    serde_json::json!({"picture": payload})
}

/// Texts that stand side by side become one; those that are empty go.
pub(crate) fn join_texts(parts: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for part in parts {
        let is_text =
            |part: &Value| part.as_object().is_some_and(|it| it.len() == 1 && it.contains_key("text"));
        if is_text(&part) {
            let piece = text(&part, "text");
            if piece.is_empty() {
                continue;
            }
            if let Some(Value::String(last)) =
                joined.last_mut().filter(|it| is_text(it)).and_then(|it| it.get_mut("text"))
            {
                last.push_str(piece);
                continue;
            }
        }
        joined.push(part);
    }
    joined
}

/// Removes a member wherever it stands; says whether there was one. What stands in `inside` is not looked into.
pub(crate) fn remove_everywhere(value: &mut Value, key: &str, but_inside: &[&str]) -> bool {
    match value {
        Value::Object(map) => {
            let mut found = map.remove(key).is_some_and(|value| !value.is_null());
            for (name, value) in map {
                if !but_inside.contains(&name.as_str()) {
                    found |= remove_everywhere(value, key, but_inside);
                }
            }
            found
        }
        Value::Array(list) => {
            list.iter_mut()
                .filter_map(|value| remove_everywhere(value, key, but_inside).then_some(()))
                .count()
                > 0
        }
        _ => false,
    }
}

/// Puts texts before pictures; says whether that changed anything.
pub(crate) fn texts_first(parts: &mut [Value]) -> bool {
    let is_text = |part: &Value| part.get("text").is_some_and(Value::is_string);
    let sorted = parts.is_sorted_by_key(|part| !is_text(part));
    parts.sort_by_key(|part| !is_text(part));
    !sorted
}

/// Keeps the elements of a list that `name` gives no name; the names are noted.
pub(crate) fn keep(list: &mut Vec<Value>, lacks: &mut Unexpressed, name: impl Fn(&Value) -> Option<String>) {
    list.retain(|element| match name(element) {
        Some(name) => {
            lacks.insert(name);
            false
        }
        None => true,
    });
}

/// Whether a recording has `<elided base64 len=N …>` in place of a long text in Base64 of that length, with or without
/// what fills it up.
pub(crate) fn is_elided(recorded: &str, ours: &str) -> bool {
    elided(recorded).is_some_and(|length| ours.len() <= length && ours.len() + 2 >= length)
}

/// A text in Base64, or one of the same length where the recording left it out.
pub(crate) fn base64(recorded: &str) -> Arc<str> {
    match elided(recorded) {
        Some(length) => "A".repeat(length.min(MAX_ELIDED)).into(),
        None => recorded.into(),
    }
}

fn elided(recorded: &str) -> Option<usize> {
    recorded.strip_prefix("<elided base64 len=")?.split([' ', '>']).next()?.parse().ok()
}

/// Bytes of the longest text that is made up again.
const MAX_ELIDED: usize = 64 << 20;

/// Makes the tool of this name one whose schema does not bind.
pub(crate) fn take_strict(body: &mut Value, name: &str) {
    for tool in list_mut(body, "tools").into_iter().flatten().filter_map(Value::as_object_mut) {
        if tool.get("name").is_some_and(|tool| tool == name) {
            tool.remove("strict");
        }
    }
}

/// Where two values differ: the first places, deepest first found, each with both sides.
pub(crate) fn differences(place: &str, expected: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (expected, ours) {
        _ if expected == ours => {}
        // One difference of order, in both whole: place by place it says nothing.
        _ if place.ends_with(ORDER) => found.push(Difference::new(place, expected, ours)),
        (Value::Number(one), Value::Number(two)) if one.as_f64() == two.as_f64() => {}
        (Value::String(one), Value::String(two)) if is_elided(one, two) => {}
        (Value::Object(one), Value::Object(two)) => {
            let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for key in keys {
                let place = format!("{place}/{key}");
                match (one.get(key), two.get(key)) {
                    (Some(one), Some(two)) => differences(&place, one, two, found),
                    (Some(one), None) => found.push(Difference::new(place, one, "nothing")),
                    (None, Some(two)) => found.push(Difference::new(place, "nothing", two)),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(one), Value::Array(two)) => {
            for (nth, pair) in one.iter().zip(two).enumerate() {
                differences(&format!("{place}/{nth}"), pair.0, pair.1, found);
            }
            let shared = one.len().min(two.len());
            if let Some(more) = one.get(shared) {
                found.push(Difference::new(format!("{place}/{shared}"), more, "nothing"));
            }
            if let Some(more) = two.get(shared) {
                found.push(Difference::new(format!("{place}/{shared}"), "nothing", more));
            }
        }
        _ => found.push(Difference::new(place, expected, ours)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let mut found = Vec::new();
        let one = json!({"a": [1, 2, {"b": "x"}], "c": 1.0, "gone": true});
        let two = json!({"a": [1, 3, {"b": "y"}, 4], "c": 1, "new": null});
        differences("request", &one, &two, &mut found);
        let fields: Vec<&str> = found.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, ["request/a/1", "request/a/2/b", "request/a/3", "request/gone", "request/new"]);
        differences("request", &one, &one, &mut found);
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn what_a_recording_left_out_is_known_by_its_length() {
        assert!(
            is_elided("<elided base64 len=8 sha256=00>", "AAAAAAA")
                && is_elided("<elided base64 len=8>", "AAAAAAAA")
        );
        assert!(!is_elided("<elided base64 len=8 sha256=00>", "AAAAA") && !is_elided("AAAA", "AAAA"));
        assert!(!is_elided("<elided base64 len=8 sha256=00>", "AAAAAAAAA"));
        assert_eq!((&*base64("<elided base64 len=8 sha256=00>"), &*base64("AA==")), ("AAAAAAAA", "AA=="));
    }

    // X1, X10
    #[test]
    fn the_order_of_properties_is_compared_and_that_of_what_is_required_is_not() {
        let of = |text: &str| schema(Some(&serde_json::from_str(text).unwrap()));
        let inner = r#"{"type":"object","properties":{"b":{},"a":{}},"required":["b","a"]}"#;
        let one =
            of(&format!(r#"{{"type":"OBJECT","properties":{{"z":{inner},"y":{{}}}},"required":["z","y"]}}"#));
        let same =
            of(&format!(r#"{{"required":["y","z"],"properties":{{"z":{inner},"y":{{}}}},"type":"object"}}"#));
        let turned =
            of(&format!(r#"{{"type":"object","properties":{{"y":{{}},"z":{inner}}},"required":["z","y"]}}"#));
        let deep = of(
            r#"{"type":"object","properties":{"z":{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]},"y":{}},"required":["z","y"]}"#,
        );
        let differing = |other: &Value| {
            let mut found = Vec::new();
            differences("s", &one, other, &mut found);
            found.into_iter().map(|it| it.field).collect::<Vec<_>>()
        };
        assert!(differing(&same).is_empty());
        assert_eq!(differing(&turned), ["s/(order of properties)"]);
        assert_eq!(differing(&deep), ["s/properties/z/(order of properties)"]);
        // A property may be called like a keyword.
        let named = r#"{"type":"object","properties":{"type":{"enum":["A"]},"properties":{},"required":{}}}"#;
        assert_eq!(of(named)["properties"]["type"], json!({"enum": ["A"]}));
    }

    #[test]
    fn what_means_the_same_is_written_in_the_same_way() {
        let parts = vec![
            json!({"text": "a"}),
            json!({"text": ""}),
            json!({"text": "b"}),
            json!({"text": "c", "s": 1}),
        ];
        assert_eq!(join_texts(parts), [json!({"text": "ab"}), json!({"text": "c", "s": 1})]);
        assert_eq!(arguments(Some(&json!(" "))), json!({}));
        assert_eq!(arguments(Some(&json!("{\"a\": 1}"))), json!({"a": 1}));
        assert_eq!(arguments(Some(&json!("{"))), json!("{"));
        assert_eq!(schema(Some(&json!({"type": "OBJECT", "properties": {}}))), Value::Null);
        let typed = json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}});
        assert_eq!(schema(Some(&typed)), json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        assert_eq!(picture("data:image/png;base64,AA"), picture("AA"));
        let mut parts = vec![picture("A"), json!({"text": "a"})];
        assert!(texts_first(&mut parts) && !texts_first(&mut parts));
        let mut nested = json!({"a": [{"mark": 1}], "args": {"mark": 2}});
        assert!(remove_everywhere(&mut nested, "mark", &["args"]));
        assert_eq!(nested, json!({"a": [{}], "args": {"mark": 2}}));
    }
}
