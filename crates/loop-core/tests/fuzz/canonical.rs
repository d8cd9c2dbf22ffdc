//! The canonical form of arguments: one text for one value. S0-118.

use loop_core::types::{canonical, digest, digest_text};
use serde_json::{Map, Value};

/// The bytes are JSON.
pub(crate) fn target(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let text = canonical(&value);
    let back: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(canonical(&back), text, "canonical is idempotent");
    assert_eq!(digest("t", &value), digest_text("t", &text), "a digest is of the canonical text");
    assert_eq!(canonical(&reversed(&value)), text, "the order of members does not matter");
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(canonical(&serde_json::from_str(&pretty).unwrap()), text, "blanks do not matter");
    assert!(!text.contains(['\n', '\r']), "one line: {text:?}");
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().rev().map(|(name, value)| (name.clone(), reversed(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(reversed).collect()),
        other => other.clone(),
    }
}
