//! Arguments that are streamed value by value, each with its JSON path.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::codec::{Fields, List};

/// A call whose arguments are still streaming.
#[derive(Debug)]
pub(super) struct Partial {
    /// The index of the call in the reply. `None` above the maximum number of calls.
    pub(super) at: Option<usize>,
    /// Id and name of the part that began the call.
    id: String,
    name: String,
    /// The raw JSON of its thought signature.
    pub(super) signature: Option<String>,
    args: Value,
    /// How many more values may be created.
    room: usize,
    /// Whether a value had no valid path: without it the call must not run.
    is_broken: bool,
}

impl Partial {
    /// A call without arguments.
    pub(super) fn new(at: Option<usize>, id: &str, name: &str) -> Self {
        Self {
            at,
            id: id.to_owned(),
            name: name.to_owned(),
            signature: None,
            args: Value::Object(Map::new()),
            room: MAX_VALUES,
            is_broken: false,
        }
    }

    /// Adds the values of a fragment.
    pub(super) fn add(&mut self, values: &RawValue) {
        let Ok(values) = serde_json::from_str::<List<Fields<'_>>>(values.get()) else {
            self.is_broken = true;
            return;
        };
        for value in values.iter() {
            let path =
                value.get("jsonPath").map(crate::codec::exact).transpose().ok().flatten().unwrap_or_default();
            let Some(place) = place(&mut self.args, path.or_empty(), &mut self.room) else {
                self.is_broken = true;
                continue;
            };
            match (value.get("stringValue"), value.get("numberValue"), value.get("boolValue")) {
                (Some(piece), _, _) => {
                    let piece = crate::codec::exact(piece).unwrap_or_default();
                    self.is_broken |= !piece.is_text();
                    // A string may be split over several fragments.
                    match place {
                        Value::String(text) => text.push_str(piece.or_empty()),
                        _ => *place = piece.or_empty().into(),
                    }
                }
                (None, Some(scalar), _) | (None, None, Some(scalar)) => match scalar_of(scalar) {
                    Some(scalar) => *place = scalar,
                    None => self.is_broken = true,
                },
                (None, None, None) => *place = Value::Null,
            }
        }
    }

    /// Adds arguments that are not streamed value by value. They must be all there are.
    pub(super) fn add_whole(&mut self, args: &RawValue) {
        let args: Value = serde_json::from_str(args.get()).unwrap_or_default();
        self.is_broken |= !args.is_object() || self.args.as_object().is_none_or(|before| !before.is_empty());
        self.args = args;
    }

    /// The arguments as JSON. Incomplete ones are not an object, so that the call is not run.
    pub(super) fn arguments(&self, is_over: bool) -> String {
        let mut args = self.args.to_string();
        if (!is_over || self.is_broken) && args.ends_with('}') {
            args.pop();
        }
        args
    }

    /// The whole part, as if it had not been streamed.
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

/// A number, a boolean or a string.
fn scalar_of(written: &RawValue) -> Option<Value> {
    if written.get().starts_with(['[', '{']) { None } else { serde_json::from_str(written.get()).ok() }
}

/// The place of a path like `$.a[0]['b']`, which is created if needed while `room` is left. `None` for an invalid path.
fn place<'a>(root: &'a mut Value, path: &str, room: &mut usize) -> Option<&'a mut Value> {
    let mut rest = path.strip_prefix('$')?;
    let mut place = root;
    let mut steps = 0;
    while !rest.is_empty() {
        steps += 1;
        if steps > MAX_STEPS {
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
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let items = place.as_array_mut()?;
                if items.len() <= index {
                    // `room` is never given back, so that values cannot be created repeatedly.
                    *room = room.checked_sub(index - items.len())?.checked_sub(1)?;
                    items.resize(index + 1, Value::Null);
                }
                place = items.get_mut(index)?;
                continue;
            }
        }
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let members = place.as_object_mut()?;
        let key = key.trim_matches(['\'', '"']);
        if !members.contains_key(key) {
            *room = room.checked_sub(1)?;
        }
        place = members.entry(key).or_insert(Value::Null);
    }
    Some(place)
}

/// Maximum steps of a path.
const MAX_STEPS: usize = 64;
/// Maximum values of a call's arguments, including lists and objects.
const MAX_VALUES: usize = 20_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;
    use loop_core::Arguments;

    #[test]
    fn values_come_to_their_places() {
        let partial = after(&json!([
            {"jsonPath": "$.a.b", "stringValue": "x"}, {"jsonPath": "$.a.b", "stringValue": "y"},
            {"jsonPath": "$.list[1]", "numberValue": 2.5}, {"jsonPath": "$['k']", "boolValue": true},
            {"jsonPath": "$.n", "nullValue": "NULL_VALUE"}, 7,
        ]));
        assert_eq!(partial.args, json!({"a": {"b": "xy"}, "list": [null, 2.5], "k": true, "n": null}));
        let part: Value = serde_json::from_str(&partial.part()).unwrap();
        assert_eq!(part["functionCall"]["args"], partial.args);
        assert_eq!(
            serde_json::from_str::<Value>(&partial.arguments(/*is_over*/ true)).unwrap(),
            partial.args
        );
        let unfinished = partial.arguments(/*is_over*/ false);
        assert!(Arguments::from(unfinished).object().is_err());
    }

    #[test]
    fn a_value_without_a_place_breaks_the_arguments() {
        let deep = format!("${}", ".a".repeat(65));
        let many: Vec<Value> = (0..20_001).map(|_| json!({"jsonPath": "$.a", "boolValue": true})).collect();
        for values in [
            json!([{"jsonPath": "no path", "stringValue": "z"}]),
            json!([{"jsonPath": "$.list[99999999]", "numberValue": 1}]),
            json!([{"jsonPath": "$.list[18446744073709551615]", "numberValue": 1}]),
            json!([{"jsonPath": "$.a", "numberValue": [1]}]),
            json!([{"jsonPath": "$.a", "stringValue": 1}]),
            json!([{"jsonPath": "$", "nullValue": "NULL_VALUE"}, {"jsonPath": "x"}]),
            json!([{"jsonPath": "$", "numberValue": 7}, {"jsonPath": "x"}]),
            json!([{"jsonPath": deep, "numberValue": 1}]),
            many.into(),
        ] {
            let partial = after(&values);
            let arguments = Arguments::from(partial.arguments(/*is_over*/ true));
            assert!(arguments.object().is_err(), "{values:.80}");
        }
    }

    #[test]
    fn values_are_made_within_one_budget() {
        // A path of some hundred bytes that asks for 600,000 values, repeatedly.
        let far =
            |key: usize| json!({"jsonPath": format!("$.a{key}{}", "[9999]".repeat(60)), "numberValue": 1});
        let over = json!({"jsonPath": "$.b[9000]", "numberValue": 1});
        let anew = json!({"jsonPath": "$.b", "numberValue": 1});
        for values in [
            (0..200).map(far).collect::<Vec<_>>(),
            [over, anew].iter().cycle().take(200).cloned().collect(),
            (0..20_000).map(|key| json!({"jsonPath": format!("$.k{key}.k"), "numberValue": 1})).collect(),
        ] {
            let partial = after(&values.into());
            assert!(partial.is_broken && partial.room < 10_000, "{}", partial.room);
            let count = count(&partial.args);
            assert!(count <= 1 + MAX_VALUES, "{count} values");
        }
        // Arguments of a usual size fit.
        let usual: Vec<Value> =
            (0..10_000).map(|n| json!({"jsonPath": format!("$.a[{n}]"), "numberValue": n})).collect();
        assert!(!after(&usual.into()).is_broken);
    }

    fn after(values: &Value) -> Partial {
        let mut partial = Partial::new(Some(0), "", "f");
        partial.add(&serde_json::from_str::<Box<RawValue>>(&values.to_string()).unwrap());
        partial
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum::<usize>(),
            Value::Object(members) => members.values().map(count).sum(),
            _ => 0,
        }
    }
}
