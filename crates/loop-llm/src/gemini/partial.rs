//! Arguments that come value by value, each with the path to its place.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::codec::{Fields, List};

/// A call whose arguments are still coming.
#[derive(Debug)]
pub(super) struct Partial {
    /// Which call of the reply it is.
    pub(super) at: usize,
    /// The part that began it, without its arguments.
    pub(super) id: String,
    pub(super) name: String,
    /// As it is written.
    pub(super) signature: Option<String>,
    pub(super) args: Value,
}

impl Partial {
    /// Takes the values of one piece.
    pub(super) fn add(&mut self, values: &RawValue) {
        let values: List<Fields<'_>> = serde_json::from_str(values.get()).unwrap_or_default();
        for value in values.iter() {
            let Some(place) = place(&mut self.args, value.text("jsonPath").or_empty()) else { continue };
            match (value.get("stringValue"), value.get("numberValue"), value.get("boolValue")) {
                (Some(piece), _, _) => {
                    let piece = crate::codec::text(piece);
                    // A text may come in pieces.
                    match place {
                        Value::String(text) => text.push_str(piece.or_empty()),
                        _ => *place = piece.or_empty().into(),
                    }
                }
                (None, Some(scalar), _) | (None, None, Some(scalar)) => {
                    *place = serde_json::from_str(scalar.get()).unwrap_or_default();
                }
                (None, None, None) => *place = Value::Null,
            }
        }
    }

    /// The whole part, as if it had come at once.
    pub(super) fn part(&self) -> String {
        let mut call = Map::new();
        if !self.id.is_empty() {
            call.insert("id".to_owned(), self.id.as_str().into());
        }
        call.insert("name".to_owned(), self.name.as_str().into());
        call.insert("args".to_owned(), self.args.clone());
        let call = Value::Object(call);
        match &self.signature {
            Some(signature) => format!("{{\"functionCall\":{call},\"thoughtSignature\":{signature}}}"),
            None => format!("{{\"functionCall\":{call}}}"),
        }
    }
}

/// The place that a path like `$.a[0]['b']` leads to, which is made where there is none; `None` for what is no path.
fn place<'a>(root: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut rest = path.strip_prefix('$')?;
    let mut place = root;
    let mut steps = 0;
    while !rest.is_empty() {
        steps += 1;
        if steps > MOST_STEPS {
            return None;
        }
        let key;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (key, rest) = after.split_at_checked(end)?;
        } else {
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            (key, rest) = (inside, after);
            if let Ok(index) = inside.parse::<usize>() {
                if index > MOST_ITEMS {
                    return None;
                }
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let items = place.as_array_mut()?;
                if items.len() <= index {
                    items.resize(index + 1, Value::Null);
                }
                place = items.get_mut(index)?;
                continue;
            }
        }
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = place.as_object_mut()?.entry(key.trim_matches(['\'', '"'])).or_insert(Value::Null);
    }
    Some(place)
}

/// The longest path.
const MOST_STEPS: usize = 64;
/// The last index of a list.
const MOST_ITEMS: usize = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_to_their_places() {
        let mut partial =
            Partial { at: 0, id: String::new(), name: "f".into(), signature: None, args: json!({}) };
        let values = json!([
            {"jsonPath": "$.a.b", "stringValue": "x"}, {"jsonPath": "$.a.b", "stringValue": "y"},
            {"jsonPath": "$.list[1]", "numberValue": 2.5}, {"jsonPath": "$['k']", "boolValue": true},
            {"jsonPath": "$.n", "nullValue": "NULL_VALUE"}, {"jsonPath": "no path", "stringValue": "z"},
            {"jsonPath": "$.list[99999999]", "numberValue": 1}, 7,
        ]);
        partial.add(&serde_json::from_str::<Box<RawValue>>(&values.to_string()).unwrap());
        assert_eq!(partial.args, json!({"a": {"b": "xy"}, "list": [null, 2.5], "k": true, "n": null}));
        let part: Value = serde_json::from_str(&partial.part()).unwrap();
        assert_eq!(part["functionCall"]["args"], partial.args);
    }
}
