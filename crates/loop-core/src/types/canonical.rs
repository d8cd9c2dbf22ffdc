//! Canonical JSON: equal values give equal bytes, so that they can be compared and hashed.
//!
//! Keys are sorted at every depth, integers stay exact up to 64 bits (RFC 8785 would merge neighbours
//! above 2⁵³ and with them two different ids), strings are left as they are.

use serde_json::{Map, Value};

use crate::types::ids::Digest;
use crate::types::json_text::push_json_text;

/// The canonical text of `value`. `1` and `1.0` differ, and so do composed and decomposed letters.
pub fn canonical(value: &Value) -> String {
    // Most values are short, so this capacity avoids growing step by step.
    let mut out = Vec::with_capacity(SHORT_BYTES);
    write(value, &mut out);
    String::from_utf8(out).expect("JSON is written in UTF-8")
}

/// The canonical text of a JSON string.
pub(crate) fn canonical_text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(text, &mut out);
    String::from_utf8(out).expect("JSON is written in UTF-8")
}

/// The digest of `value` under a domain `tag`, over its canonical text.
pub fn digest(tag: &str, value: &Value) -> Digest {
    Digest::of(tag, canonical(value).as_bytes())
}

/// The digest of a JSON text: of its canonical form, or of its bytes if it does not parse.
pub fn digest_text(tag: &str, text: &str) -> Digest {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => digest(tag, &value),
        Err(_) => Digest::of(tag, text.as_bytes()),
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            serde_json::to_writer(out, value).expect("a scalar is always JSON, and memory takes it");
        }
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            // A map keeps the order of its source.
            if map.keys().is_sorted() {
                return members(map.iter(), out);
            }
            members(sorted(map).into_iter(), out);
        }
    }
}

/// The members of an object, sorted by name. Decisions, digests and lines for people use this order, so that the order
/// in which a model or a tool writes members does not matter.
pub(crate) fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = map.iter().collect();
    members.sort_by(|a, b| a.0.cmp(b.0));
    members
}

fn members<'a>(sorted: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (n, (key, item)) in sorted.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        string(key, out);
        out.push(b':');
        write(item, out);
    }
    out.push(b'}');
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_json_text(out, text);
    out.push(b'"');
}

/// The initial capacity of a canonical text, in bytes.
const SHORT_BYTES: usize = 128;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn key_order_and_spacing_do_not_matter() {
        // S0-d5, C24, S3-39: sorted at every depth.
        let a: Value =
            serde_json::from_str(r#"{"b": {"y": 1, "x": [1, {"q": 2, "p": 3}]}, "a": "t"}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":"t","b":{"x":[1,{"p":3,"q":2}],"y":1}}"#).unwrap();
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(canonical(&a), r#"{"a":"t","b":{"x":[1,{"p":3,"q":2}],"y":1}}"#);
    }

    // X1, C24: the wire keeps the order of members, digests do not see it.
    #[test]
    fn a_digest_is_the_same_whatever_order_the_members_are_written_in() {
        let written = [
            r#"{"reasoning":1,"answer":{"z":[{"d":1,"c":2}],"y":null}}"#,
            r#"{"answer":{"y":null,"z":[{"c":2,"d":1}]},"reasoning":1}"#,
        ];
        let [one, other] = written.map(|text| serde_json::from_str::<Value>(text).unwrap());
        // Maps keep the order of writing in every build of this crate: otherwise this test would prove nothing.
        assert_eq!(written.map(|text| serde_json::from_str::<Value>(text).unwrap().to_string()), written);
        assert_eq!(digest("t", &one), digest("t", &other));
        // Pinned: no feature of another crate changes a digest.
        let pinned = "65aed8ca89788f1087047f872c38b65e74fffb09693e5d2752f7e2a89fb57ebf";
        assert_eq!(digest("t", &one).to_string(), pinned);
        assert_eq!(digest_text("t", written[1]).to_string(), pinned);
    }

    #[test]
    fn neighbouring_large_integers_stay_apart() {
        assert_ne!(
            canonical(&json!(9_007_199_254_740_992_u64)),
            canonical(&json!(9_007_199_254_740_993_u64))
        );
        assert_ne!(digest("t", &json!(1)), digest("t", &json!(1.0)));
    }

    proptest! {
        #[test]
        fn canonical_text_reads_back_to_itself(keys in prop::collection::vec("[a-z\"\\\\é ]{0,4}", 0..6), n in any::<i64>()) {
            let value = Value::Object(keys.iter().map(|k| (k.clone(), json!([n, k]))).collect());
            let text = canonical(&value);
            let back: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(canonical(&back), text);
        }
    }
}
