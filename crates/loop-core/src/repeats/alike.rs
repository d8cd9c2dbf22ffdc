//! Calls that ask for nearly the same: written otherwise, in other order, or for another page.
//!
//! They are taken for one another only where they told the same, twice, with nothing changed between, and only if they
//! look or fail: so another page that brings something, or another search that finds something, is progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::canonical::sorted;
use crate::ids::Digest;
use crate::repeats::sign::CallFacts;

/// Names what the call shares with all that ask for nearly the same: its tool, and its arguments without case, spaces
/// and punctuation, a search text as the set of its words, and no number of a page.
pub(super) fn sign(call: &CallFacts<'_>, search: &[Arc<str>]) -> Digest {
    let mut out = format!("{}\n", call.tool);
    match call.arguments {
        Value::Object(named) => {
            for (name, member) in sorted(named) {
                if is_page(name, member, named) {
                    continue;
                }
                push_text(name, &mut out);
                match member {
                    Value::String(text) if is_query(name, search) => push_words(text, &mut out),
                    Value::String(text) if CODE.contains(&name.as_str()) => {
                        push_text(&spaced(text), &mut out)
                    }
                    _ => loosen(member, &mut out),
                }
            }
        }
        other => loosen(other, &mut out),
    }
    Digest::of("call-alike", out.as_bytes())
}

fn loosen(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => push_text(&plain(text), out),
        // A number that is written as a text is the same number.
        Value::Null | Value::Bool(_) | Value::Number(_) => push_text(&value.to_string(), out),
        Value::Array(entries) => {
            out.push('[');
            entries.iter().for_each(|entry| loosen(entry, out));
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (name, member) in sorted(members) {
                push_text(name, out);
                loosen(member, out);
            }
            out.push('}');
        }
    }
}

/// With its length in front, so that neighbours cannot run into each other.
fn push_text(text: &str, out: &mut String) {
    out.push_str(&text.len().to_string());
    out.push(':');
    out.push_str(text);
}

/// Lower case, without spaces and the punctuation around words; a text in which every sign may count is left as it is.
/// What stands within a word stays, and so does what a number begins with: `1.5` is not `15`, `a_b` is not `ab`, and
/// `-1` is not `1`.
fn plain(text: &str) -> String {
    if text.contains(is_code) {
        return spaced(text);
    }
    let chars: Vec<char> = text.trim().chars().collect();
    let is_word =
        |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphanumeric() || *c == '@');
    let mut out = String::with_capacity(text.len());
    for (at, c) in chars.iter().enumerate() {
        let is_within = !c.is_whitespace() && is_word(at.checked_sub(1)) && is_word(Some(at + 1));
        let rest = chars.get(at..).unwrap_or_default();
        let begins_number = match rest {
            ['-' | '–', '.', digit, ..] | ['-' | '–' | '.', digit, ..] => digit.is_numeric(),
            _ => false,
        };
        if !is_soft(*c) || is_within || begins_number {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// With one space wherever there are some.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_soft(c: char) -> bool {
    c.is_whitespace() || ".,;:!?'\"`-_…‘’“”–—()".contains(c)
}

/// The signs of commands, patterns, expressions and paths.
fn is_code(c: char) -> bool {
    "/\\*|<>=+&^%$~{}[]".contains(c)
}

/// The words of a search text that say what is looked for, each once, in the order of the alphabet.
fn push_words(text: &str, out: &mut String) {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut words: BTreeSet<&str> = words.filter(|word| !FILLERS.contains(word)).map(singular).collect();
    // The signs of a number are a part of it: `1.5` is neither `5.1` nor `1 5`.
    let numbers: Vec<String> = lower.split_whitespace().filter(|word| is_signed(word)).map(plain).collect();
    words.extend(numbers.iter().map(String::as_str));
    if words.is_empty() {
        return push_text(&plain(text), out);
    }
    out.push('(');
    words.iter().for_each(|word| push_text(word, out));
    out.push(')');
}

/// Whether a word is a number with more than digits in it.
fn is_signed(word: &str) -> bool {
    let is_sign = |c: char| "-–.,:".contains(c);
    word.contains(char::is_numeric)
        && word.contains(is_sign)
        && word.chars().all(|c| c.is_numeric() || is_sign(c))
}

/// Longer words without a final `s`.
fn singular(word: &str) -> &str {
    let is_plural = word.chars().count() > 3 && !word.ends_with("ss");
    word.strip_suffix('s').filter(|_| is_plural).unwrap_or(word)
}

fn is_query(name: &str, search: &[Arc<str>]) -> bool {
    name == "keywords" || search.iter().any(|known| **known == *name)
}

/// Whether a member tells the number of a page or where one begins.
fn is_page(name: &str, member: &Value, beside: &Map<String, Value>) -> bool {
    let is_number = match member {
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    match name {
        "page" | "page_number" | "offset" | "skip" => is_number,
        // By itself it may be an hour, a line or a year.
        "start" => is_number && LENGTHS.iter().any(|length| beside.contains_key(*length)),
        "cursor" | "page_token" | "next_token" => is_number || member.is_string(),
        _ => false,
    }
}

/// Members that tell how long a page is.
const LENGTHS: &[&str] = &["count", "limit", "max_results", "page_size", "per_page", "rows", "size"];

/// Members whose texts are read by a machine, sign for sign.
const CODE: &[&str] =
    &["args", "cmd", "code", "command", "expression", "glob", "pattern", "regex", "script", "sql"];

/// Words that say nothing of what is looked for.
const FILLERS: &[&str] = &[
    "a", "about", "an", "and", "are", "at", "can", "could", "do", "does", "find", "for", "from", "get",
    "give", "how", "i", "in", "is", "it", "me", "my", "of", "on", "or", "our", "please", "show", "tell",
    "that", "the", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who",
    "with", "would", "you", "your",
];
