//! JSON pointers in which `*` matches every entry of a list or an object.

use serde_json::Value;

use crate::types::{member_name, pointer_step};

/// A value and the plain pointer to it.
pub(crate) type PointedValue<'a> = (String, &'a Value);

/// Every value at `pointer` in `value`, in order. A missing member finds nothing. A value of another type than the
/// pointer needs, such as a text instead of an object, is itself found.
pub(crate) fn find<'a>(value: &'a Value, pointer: &str) -> Vec<PointedValue<'a>> {
    let mut found = vec![(String::new(), value)];
    for step in pointer.split('/').skip(1) {
        found = found.into_iter().flat_map(|(path, value)| below(path, value, step)).collect();
    }
    found
}

/// The values at `pointer` whose whole way there exists. A value of another type on the way is not one of them.
pub(crate) fn within<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in pointer.split('/').skip(1) {
        let key = member_name(step);
        let below = |value: &'a Value| -> Vec<&'a Value> {
            match value {
                Value::Object(members) if step == "*" => members.values().collect(),
                Value::Array(elements) if step == "*" => elements.iter().collect(),
                Value::Object(members) => members.get(&key).into_iter().collect(),
                Value::Array(elements) => {
                    key.parse().ok().and_then(|n: usize| elements.get(n)).into_iter().collect()
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            }
        };
        found = found.into_iter().flat_map(below).collect();
    }
    found
}

/// The entries of a value at one step of a pointer.
fn below<'a>(path: String, value: &'a Value, step: &str) -> Vec<PointedValue<'a>> {
    let is_any = step == "*";
    let key = member_name(step);
    let is_number = key.parse::<usize>().is_ok();
    match value {
        Value::Object(members) if is_any || members.contains_key(&key) || !is_number => {
            let meant = members.iter().filter(|(name, _)| is_any || **name == key);
            meant.map(|(name, value)| (format!("{path}/{}", pointer_step(name)), value)).collect()
        }
        Value::Array(elements) if is_any || is_number => {
            let meant = elements.iter().enumerate().filter(|(n, _)| is_any || n.to_string() == key);
            meant.map(|(n, value)| (format!("{path}/{n}"), value)).collect()
        }
        Value::Null => Vec::new(),
        Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            vec![(path, value)]
        }
    }
}
