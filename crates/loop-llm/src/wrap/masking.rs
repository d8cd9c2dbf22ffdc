//! Masks secrets in recordings.
//!
//! Every string of the JSON tree is masked, whatever its type, so that new members of a request or reply are included.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::secrets::{Masker, Secrets};
use serde_json::Value;

use crate::model::ModelEvent;

/// Masks a tree. In its parts that have no schema, numbers are masked too.
pub(super) fn tree(secrets: &Secrets, value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(string) => {
            if let Cow::Owned(masked) = secrets.mask(string) {
                *string = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| tree(secrets, item)),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(key, mut member)| {
                    match (key.as_str(), &mut member) {
                        ("arguments", Value::String(arguments)) => mask_arguments(secrets, arguments),
                        ("arguments" | "extra" | "parameters" | "schema", free) => {
                            *free = secrets.mask_value(free.take());
                        }
                        (_, member) => tree(secrets, member),
                    }
                    (secrets.mask(&key).into_owned(), member)
                })
                .collect();
        }
    }
}

/// Masks a call's arguments, which stay valid JSON. A secret may be spread across their structure.
fn mask_arguments(secrets: &Secrets, arguments: &mut String) {
    let value: Option<Value> = serde_json::from_str(arguments).ok();
    match value.map(|value| (secrets.mask_value(value.clone()), value)) {
        Some((masked, value)) if masked != value => *arguments = masked.to_string(),
        _ => *arguments = secrets.mask_json(arguments).into_owned(),
    }
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
    let wanted = secrets.mask(&whole);
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
        masked.first_mut().into_iter().for_each(|first| first.push_str(&wanted));
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

    use serde_json::json;

    use super::{pieces, replace, tree};
    use loop_core::secrets::Secrets;

    fn secrets() -> Secrets {
        Secrets::of(["sk-abc/def+1\"x", "4111111111111111"])
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
            let masked = secrets().mask(whole).into_owned();
            assert!(masked.contains("[masked]") && !masked.contains("def+1"), "{masked}");
            assert_eq!(secrets().mask(&masked), masked);
        }
        assert!(secrets().mask(&raw).starts_with("openai-chat/p/m\n{"));
    }

    #[test]
    fn numbers_and_names_of_members_are_looked_at_too() {
        let mut value = json!({
            "usage": {"input": 4_111_111_111_111_111_u64},
            "calls": [{"arguments": "{ \"card\": 4111111111111111 }"}, {"arguments": {"card": 4_111_111_111_111_111_u64}}],
            "4111111111111111": 1,
        });
        tree(&secrets(), &mut value);
        let masked = json!({
            "usage": {"input": 4_111_111_111_111_111_u64},
            "calls": [{"arguments": "{\"card\":\"[masked]\"}"}, {"arguments": {"card": "[masked]"}}],
            "[masked]": 1,
        });
        assert_eq!(value, masked);
        let mut value = json!({"arguments": r#"{ "k":"sk-abc\/def+1\"x" }"#});
        tree(&secrets(), &mut value);
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
