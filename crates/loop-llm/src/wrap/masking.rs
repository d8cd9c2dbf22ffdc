//! Masks secrets in recordings.
//!
//! Every string of the JSON tree is masked, whatever its type, so that new members of a request or reply are included.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::ModelEvent;
use crate::secrets::{Masker, Secrets};

/// A whole text without secrets. JSON within it is parsed, since its strings may be escaped.
pub(super) fn text(secrets: &Secrets, text: &str) -> String {
    let masked = secrets.mask(text);
    if !masked.contains('\\') {
        return masked.into_owned();
    }
    // The JSON of a provider's own turn follows a header line.
    let start = match masked.trim_start().starts_with(['{', '[']) {
        true => 0,
        false => masked.find('\n').map_or(masked.len(), |end| end + 1),
    };
    let (head, json) = masked.split_at(start);
    match json_without(secrets, json) {
        Some(without) => format!("{head}{without}"),
        None => masked.into_owned(),
    }
}

/// The JSON without secrets. `None` where it contains none or is not valid JSON.
fn json_without(secrets: &Secrets, json: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(json).ok()?;
    let mut without = value.clone();
    tree(secrets, &mut without, /*is_free*/ true);
    (without != value).then_some(without)
}

/// Masks a tree. In a part that `is_free`, which has no schema, numbers are masked too.
pub(super) fn tree(secrets: &Secrets, value: &mut Value, is_free: bool) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) if is_free => {
            let number = number.to_string();
            let masked = secrets.mask(&number);
            if *masked != number {
                *value = Value::String(masked.into_owned());
            }
        }
        Value::Number(_) => {}
        Value::String(string) => *string = text(secrets, string),
        Value::Array(items) => items.iter_mut().for_each(|item| tree(secrets, item, is_free)),
        Value::Object(members) => object(secrets, members, is_free),
    }
}

/// A call's arguments without secrets. They stay valid JSON.
fn arguments_text(secrets: &Secrets, arguments: &str) -> String {
    match json_without(secrets, arguments) {
        Some(without) => without.to_string(),
        // A secret may be spread across the structure.
        None => secrets.mask_json(arguments).into_owned(),
    }
}

fn object(secrets: &Secrets, members: &mut Map<String, Value>, is_free: bool) {
    *members = std::mem::take(members)
        .into_iter()
        .map(|(key, mut member)| {
            let is_free = is_free || matches!(key.as_str(), "arguments" | "extra" | "parameters" | "schema");
            match &mut member {
                // Masked arguments stay valid JSON.
                Value::String(arguments) if key == "arguments" => {
                    *arguments = arguments_text(secrets, arguments)
                }
                member => tree(secrets, member, is_free),
            }
            (text(secrets, &key), member)
        })
        .collect();
}

/// Streamed texts, each with all its deltas in order.
pub(super) fn texts(events: &mut [ModelEvent]) -> Vec<Vec<&mut Arc<str>>> {
    let mut texts: BTreeMap<(u8, u32), Vec<&mut Arc<str>>> = BTreeMap::new();
    for event in events {
        let (of, piece) = match event {
            ModelEvent::TextDelta { text } => ((0, 0), text),
            ModelEvent::ReasoningDelta { text } => ((1, 0), text),
            ModelEvent::ToolArgumentsDelta { nth, text } => ((2, *nth), text),
            _ => continue,
        };
        texts.entry(of).or_default().push(piece);
    }
    texts.into_values().collect()
}

/// Masks a text that is split into deltas. Deltas of a text without secrets stay the same.
pub(super) fn pieces(secrets: &Secrets, pieces: &mut [&mut Arc<str>]) {
    let whole: String = pieces.iter().map(|piece| &***piece).collect();
    let wanted = text(secrets, &whole);
    if wanted == whole {
        return;
    }
    let mut masker = Masker::new(secrets);
    let mut masked: Vec<String> = pieces.iter().map(|piece| masker.push(piece).into_owned()).collect();
    if let Some(last) = masked.last_mut() {
        last.push_str(&masker.finish());
    }
    if masked.concat() != wanted {
        masked.iter_mut().for_each(String::clear);
        masked.first_mut().into_iter().for_each(|first| first.clone_from(&wanted));
    }
    for (piece, masked) in pieces.iter_mut().zip(masked) {
        **piece = masked.into();
    }
}

/// Replaces every `from` in a text that is split into deltas. `to` goes into the delta in which `from` begins.
pub(super) fn replace(pieces: &mut [&mut Arc<str>], from: &str, to: &str) {
    let whole: String = pieces.iter().map(|piece| &***piece).collect();
    let mut found = whole.match_indices(from).map(|(at, _)| at).peekable();
    if found.peek().is_none() {
        return;
    }
    let (mut start, mut done) = (0, 0);
    for piece in pieces {
        let end = start + piece.len();
        let mut replaced = String::with_capacity(piece.len());
        while let Some(at) = found.next_if(|at| *at < end) {
            replaced.push_str(whole.get(done..at).unwrap_or_default());
            replaced.push_str(to);
            done = at + from.len();
        }
        if done < end {
            replaced.push_str(whole.get(done..end).unwrap_or_default());
            done = end;
        }
        **piece = replaced.into();
        start = end;
    }
}

/// Every string in a tree, except names of members.
pub(super) fn strings(value: &mut Value, change: &impl Fn(&mut String)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(string) => change(string),
        Value::Array(items) => items.iter_mut().for_each(|item| strings(item, change)),
        Value::Object(members) => members.values_mut().for_each(|member| strings(member, change)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use secrecy::SecretString;
    use serde_json::json;

    use super::{pieces, replace, text, tree};
    use crate::secrets::Secrets;

    fn secrets() -> Secrets {
        Secrets::new(["sk-abc/def+1\"x", "4111111111111111"].map(SecretString::from))
    }

    fn cut(text: &str, at: &[usize]) -> Vec<Arc<str>> {
        let ends = at.iter().copied().chain([text.len()]);
        let starts = [0].into_iter().chain(at.iter().copied());
        starts.zip(ends).map(|(start, end)| text.get(start..end).unwrap().into()).collect()
    }

    fn each(pieces: &mut [Arc<str>]) -> Vec<&mut Arc<str>> {
        pieces.iter_mut().collect()
    }

    #[test]
    fn secrets_are_found_in_json_within_json() {
        let inner = json!({"key": "sk-abc/def+1\"x"}).to_string();
        let outer = json!({"arguments": inner}).to_string();
        let raw = format!("openai-chat/p/m\n{outer}");
        for whole in [&inner, &outer, &raw, &outer.replace('/', "\\/"), &outer.replace("sk", "\\u0073k")] {
            let masked = text(&secrets(), whole);
            assert!(masked.contains("[masked]") && !masked.contains("def+1"), "{masked}");
            assert_eq!(text(&secrets(), &masked), masked);
        }
        assert!(text(&secrets(), &raw).starts_with("openai-chat/p/m\n{"));
    }

    #[test]
    fn numbers_and_names_of_members_are_looked_at_too() {
        let mut value = json!({
            "usage": {"input": 4_111_111_111_111_111_u64},
            "calls": [{"arguments": "{ \"card\": 4111111111111111 }"}, {"arguments": {"card": 4_111_111_111_111_111_u64}}],
            "4111111111111111": 1,
        });
        tree(&secrets(), &mut value, false);
        let masked = json!({
            "usage": {"input": 4_111_111_111_111_111_u64},
            "calls": [{"arguments": "{\"card\":\"[masked]\"}"}, {"arguments": {"card": "[masked]"}}],
            "[masked]": 1,
        });
        assert_eq!(value, masked);
        let mut value = json!({"arguments": r#"{ "k":"sk-abc\/def+1\"x" }"#});
        tree(&secrets(), &mut value, false);
        assert_eq!(value, json!({"arguments": r#"{"k":"[masked]"}"#}));
    }

    #[test]
    fn pieces_stay_as_they_are_where_there_is_no_secret() {
        let mut clean = cut("this is sk-ab no", &[3, 9, 12]);
        let before = clean.clone();
        pieces(&secrets(), &mut each(&mut clean));
        assert_eq!(clean, before);
        for at in 1..27 {
            let mut cut = cut("a key: sk-abc/def+1\"x, told", &[at]);
            pieces(&secrets(), &mut each(&mut cut));
            assert_eq!(cut.concat(), "a key: [masked], told", "{at}");
            assert_eq!(cut.len(), 2);
        }
        let mut escaped = cut(r#"{"k": "\u0073k-abc/def+1\"x"}"#, &[9, 14]);
        pieces(&secrets(), &mut each(&mut escaped));
        assert_eq!(escaped.concat(), r#"{"k": "[masked]"}"#);
    }

    #[test]
    fn a_word_is_replaced_wherever_it_is_cut() {
        for first in 0..=14 {
            for second in first..=14 {
                let mut cut = cut("x nonce nonce!", &[first, second]);
                replace(&mut each(&mut cut), "nonce", "{{n}}_");
                assert_eq!(cut.concat(), "x {{n}}_ {{n}}_!", "{first} {second}");
                assert!(cut.iter().all(|piece| piece.matches("{{n").count() == piece.matches("}}_").count()));
            }
        }
    }
}
