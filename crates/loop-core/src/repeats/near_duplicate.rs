//! Near-duplicates: calls that request nearly the same, such as a search with its words in another order, or another
//! page.
//!
//! Two calls count as the same only if both are reads and returned the same result twice with no change between.
//! Another page that returns something, or another search that finds something, is progress.
//!
//! White space, case, quotes, dashes and symbols may be what a repair changes, so they distinguish calls everywhere.
//! The exceptions are the capital letter and the punctuation at the start and end of a sentence.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::repeats::fingerprint::CallFacts;
use crate::types::{Digest, canonical, sorted};

/// The fingerprint that a read shares with its near-duplicates: the tool and the arguments, without page numbers, and
/// with a search text as the set of its words. `None` for a call that may change something.
pub(super) fn fingerprint(call: &CallFacts<'_>, search: &[Arc<str>]) -> Option<Digest> {
    if !call.is_read {
        return None;
    }
    // Most calls fit, so this capacity avoids growing step by step.
    let mut out = Vec::with_capacity(SHORT_BYTES);
    out.extend_from_slice(call.tool.as_bytes());
    out.push(b'\n');
    match call.arguments {
        Value::Object(named) => {
            let mut push = |name: &str, member: &Value| {
                if is_page(name, member, named) {
                    return;
                }
                push_text(name, &mut out);
                let words = member.as_str().filter(|_| is_query(name, search)).and_then(words);
                match words {
                    Some(words) => push_words(&words, &mut out),
                    None => push_value(member, &mut out),
                }
            };
            // Most models write members in this order already.
            if named.keys().is_sorted() {
                named.iter().for_each(|(name, member)| push(name, member));
            } else {
                sorted(named).into_iter().for_each(|(name, member)| push(name, member));
            }
        }
        other => push_value(other, &mut out),
    }
    Some(Digest::of("call-near_duplicate", &out))
}

/// The fingerprint that searches of one tool share: the tool and the arguments without the search text. `None` for a call
/// that is not a read with a search text.
pub(super) fn searches(call: &CallFacts<'_>, search: &[Arc<str>]) -> Option<Digest> {
    let named = call.arguments.as_object().filter(|_| call.is_read)?;
    let is_text = |name: &str, member: &Value| {
        let is_declared = call.rules.query.as_deref() == Some(name);
        member.is_string() && (is_declared || is_query(name, search))
    };
    // Most calls are not searches.
    if !named.iter().any(|(name, member)| is_text(name, member)) {
        return None;
    }
    let mut members = sorted(named);
    // By name, so that the order of the members does not matter.
    let text = members.iter().position(|(name, member)| is_text(name, member))?;
    members.remove(text);
    let mut out = Vec::with_capacity(SHORT_BYTES);
    out.extend_from_slice(call.tool.as_bytes());
    out.push(b'\n');
    for (name, member) in members {
        push_text(name, &mut out);
        push_value(member, &mut out);
    }
    Some(Digest::of("call-search", &out))
}

/// Appends a text with its length before it, so that adjacent texts cannot be confused.
fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{}:{text}", text.len()).as_bytes());
}

/// Appends the canonical text of a value.
fn push_value(value: &Value, out: &mut Vec<u8>) {
    push_text(&canonical(value), out);
}

fn push_words(words: &BTreeSet<String>, out: &mut Vec<u8>) {
    out.push(b'(');
    words.iter().for_each(|word| push_text(word, out));
    out.push(b')');
}

/// The set of significant words of a search text. `None` if the text may be more than words: a symbol, a quote, a dash,
/// a line or a single word may be what is searched for.
fn words(text: &str) -> Option<BTreeSet<String>> {
    let sentence = text.strip_suffix(['.', '?', '!']).unwrap_or(text);
    let mut all = Vec::new();
    for (at, word) in sentence.split(' ').enumerate() {
        let word = word.strip_suffix(',').unwrap_or(word);
        let is_plain = !word.is_empty() && word.chars().all(char::is_alphanumeric);
        if !is_plain {
            return None;
        }
        all.push(if at == 0 { uncapitalised(word) } else { word.to_owned() });
    }
    if all.len() < 2 {
        return None;
    }
    let stated: BTreeSet<String> = all
        .iter()
        .filter(|word| !FILLERS.contains(&word.as_str()))
        .map(|word| singular(word).to_owned())
        .collect();
    (!stated.is_empty()).then_some(stated)
}

/// The first word of a sentence without its capital; `VPN` and `McCoy` stay as they are.
fn uncapitalised(word: &str) -> String {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) if first.is_uppercase() && chars.clone().all(char::is_lowercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        Some(_) | None => word.to_owned(),
    }
}

/// Longer words without a final `s`.
fn singular(word: &str) -> &str {
    let is_plural = word.chars().count() > 3 && !word.ends_with("ss");
    word.strip_suffix('s').filter(|_| is_plural).unwrap_or(word)
}

fn is_query(name: &str, search: &[Arc<str>]) -> bool {
    name == "keywords" || search.iter().any(|known| **known == *name)
}

/// Whether a member is a page number, an offset or a cursor.
fn is_page(name: &str, member: &Value, beside: &Map<String, Value>) -> bool {
    match name {
        "page" | "page_number" | "offset" | "skip" => member.is_u64(),
        // Without a page length it may be an hour, a line or a year.
        "start" => member.is_u64() && LENGTHS.iter().any(|length| beside.contains_key(*length)),
        "cursor" | "page_token" | "next_token" => member.is_u64() || member.is_string(),
        _ => false,
    }
}

/// The initial capacity of a fingerprint's text, in bytes.
const SHORT_BYTES: usize = 128;

/// Members that give the length of a page.
const LENGTHS: &[&str] = &["count", "limit", "max_results", "page_size", "per_page", "rows", "size"];

/// Stop words: they do not say what is searched for.
const FILLERS: &[&str] = &[
    "a", "about", "an", "and", "are", "at", "can", "could", "do", "does", "find", "for", "from", "get",
    "give", "how", "I", "i", "in", "is", "it", "me", "my", "of", "on", "or", "our", "please", "show", "tell",
    "that", "the", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who",
    "with", "would", "you", "your",
];
