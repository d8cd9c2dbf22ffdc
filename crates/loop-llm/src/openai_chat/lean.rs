//! JSON of a server, of which only the members that are read here take up memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A chunk or a whole reply: of its choices at most one, ours, and of everything else what is read.
///
/// # Errors
/// It is no JSON, or has more values that are kept than any reply has.
pub(super) fn read(text: &str) -> Result<Value, serde_json::Error> {
    let room = Cell::new(MOST_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Lean { shape: &REPLY, room: &room }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// What is kept of a value. Texts, numbers and the like always are; what is not kept of an object or a list is read
/// over, so that an empty one is left.
enum Shape {
    /// Everything.
    All,
    /// Of an object these members, and of a list all values in the second shape.
    Of(&'static [(&'static str, Shape)], Option<&'static Shape>),
    /// Of a list the first value whose `index` is 0 or missing, in this shape.
    Ours(&'static Shape),
}

impl Shape {
    fn member(&self, name: &str) -> Option<&Shape> {
        match self {
            Self::All => Some(self),
            Self::Of(members, _) => members.iter().find(|(known, _)| *known == name).map(|(_, shape)| shape),
            Self::Ours(_) => None,
        }
    }

    fn value(&self) -> Option<&Shape> {
        match self {
            Self::All => Some(self),
            Self::Of(_, value) => *value,
            Self::Ours(value) => Some(value),
        }
    }
}

const PLAIN: Shape = Shape::Of(&[], None);

const REPLY: Shape = Shape::Of(
    &[
        ("id", PLAIN),
        ("model", PLAIN),
        ("object", PLAIN),
        ("choices", Shape::Ours(&CHOICE)),
        ("usage", USAGE),
        ("x_groq", Shape::Of(&[("usage", USAGE)], None)),
        // Errors, nested or flat.
        ("error", Shape::All),
        ("message", Shape::All),
        ("detail", Shape::All),
        ("metadata", Shape::All),
        ("innererror", Shape::All),
        ("availability", Shape::All),
        ("code", PLAIN),
        ("type", PLAIN),
        ("status", PLAIN),
        ("param", PLAIN),
        ("n_prompt_tokens", PLAIN),
        ("n_ctx", PLAIN),
    ],
    None,
);

const CHOICE: Shape =
    Shape::Of(&[("index", PLAIN), ("finish_reason", PLAIN), ("delta", MESSAGE), ("message", MESSAGE)], None);

const MESSAGE: Shape = Shape::Of(
    &[
        ("content", Shape::Of(&[], Some(&PART))),
        ("reasoning_content", PLAIN),
        ("reasoning", PLAIN),
        ("refusal", PLAIN),
        ("tool_calls", Shape::Of(&[], Some(&CALL))),
    ],
    None,
);

const PART: Shape = Shape::Of(
    &[("text", PLAIN), ("thinking", Shape::Of(&[], Some(&Shape::Of(&[("text", PLAIN)], None))))],
    None,
);

const CALL: Shape = Shape::Of(
    &[
        ("index", PLAIN),
        ("id", PLAIN),
        ("function", Shape::Of(&[("name", PLAIN), ("arguments", Shape::All)], None)),
    ],
    None,
);

const USAGE: Shape = Shape::Of(
    &[
        ("prompt_tokens", PLAIN),
        ("completion_tokens", PLAIN),
        ("total_tokens", PLAIN),
        ("prompt_cache_hit_tokens", PLAIN),
        ("num_cached_tokens", PLAIN),
        ("cost", PLAIN),
        (
            "prompt_tokens_details",
            Shape::Of(&[("cached_tokens", PLAIN), ("cache_write_tokens", PLAIN)], None),
        ),
        ("completion_tokens_details", Shape::Of(&[("reasoning_tokens", PLAIN)], None)),
    ],
    None,
);

/// Reads one value in a shape, as long as there is room.
#[derive(Clone, Copy)]
struct Lean<'a> {
    shape: &'a Shape,
    room: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Lean<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.room.get().checked_sub(1);
        self.room.set(left.ok_or_else(|| D::Error::custom("it has too many values"))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Lean<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        if let Some(shape) = self.shape.value() {
            let is_ours = matches!(self.shape, Shape::Ours(_));
            let room = self.room.get();
            while let Some(value) = list.next_element_seed(Lean { shape, room: self.room })? {
                if !is_ours {
                    kept.push(value);
                } else if value.get("index").and_then(Value::as_u64).unwrap_or(0) == 0 {
                    kept.push(value);
                    break;
                } else {
                    // It is dropped here, and takes up no room.
                    self.room.set(room);
                }
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            match self.shape.member(&name) {
                Some(shape) => {
                    kept.insert(name, object.next_value_seed(Lean { shape, room: self.room })?);
                }
                None => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(kept.into())
    }
}

/// The most values that are kept.
const MOST_VALUES: usize = 20_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::{MOST_VALUES, read};

    #[test]
    fn one_choice_and_what_is_read_of_it_are_kept() {
        let other = json!({"index": 1, "message": {"content": "other"}});
        let ours = json!({"index": 0, "delta": {"content": "é\n", "junk": {"a": [1]}, "refusal": null}, "logprobs": [{}]});
        let text =
            json!({"choices": [other, ours, 3], "junk": [[{}]], "usage": {"cost": 0.5, "junk": 1}, "id": []});
        let kept = json!({"choices": [{"index": 0, "delta": {"content": "é\n", "refusal": null}}],
            "usage": {"cost": 0.5}, "id": []});
        assert_eq!(read(&text.to_string()).unwrap(), kept);
        assert!(read("{} {}").is_err() && read("{").is_err());
    }

    #[test]
    fn errors_and_arguments_are_kept_whole() {
        let error = json!({"error": {"any": [{"thing": [1, -1, 1.5, true, null, "x"]}]}});
        assert_eq!(read(&error.to_string()).unwrap(), error);
        let call =
            json!({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": {"a": [{"b": 1}]}}}]}}]});
        assert_eq!(read(&call.to_string()).unwrap(), call);
    }

    #[test]
    fn junk_takes_no_room_and_what_is_kept_has_a_limit() {
        let zeros = "0,".repeat(MOST_VALUES);
        for junk in
            [r#"{"junk":[~0]}"#, r#"{"choices":[~0]}"#, r#"{"choices":[{"delta":{"content":{"a":[~0]}}}]}"#]
        {
            assert!(read(&junk.replace('~', &zeros)).unwrap().to_string().len() < 50);
        }
        let others = "{\"index\":1,\"message\":{}},".repeat(MOST_VALUES);
        let text = format!("{{\"choices\":[{others}{{\"index\":0,\"finish_reason\":\"stop\"}}]}}");
        assert_eq!(read(&text).unwrap(), json!({"choices": [{"index": 0, "finish_reason": "stop"}]}));
        for kept in [r#"{"error":[~0]}"#, r#"{"choices":[{"delta":{"content":[~0]}}]}"#] {
            assert!(read(&kept.replace('~', &zeros)).unwrap_err().to_string().contains("too many"));
        }
    }
}
