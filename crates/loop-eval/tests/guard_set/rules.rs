//! The rules of labelling a second time, from `docs/reference/guard-scores.md` alone: plain and slow.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::canonical;
use loop_eval::guard::ToolEffects;
use serde_json::Value;

const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "about", "can", "do", "does", "for", "find", "get", "how", "I", "i", "in", "is",
    "it", "me", "my", "of", "on", "or", "our", "please", "show", "the", "to", "we", "what", "where", "which",
    "with", "you",
];
const SEARCH: &[&str] = &["query", "q", "search", "search_query", "question", "keywords"];
const PAGE: &[&str] = &["page", "offset", "start", "skip", "cursor"];
const VOLATILE: &[&str] = &[
    "timestamp",
    "generated_at",
    "fetched_at",
    "served_at",
    "request_id",
    "trace_id",
    "elapsed_ms",
    "took_ms",
];
const WAITS: &[&str] = &["pending", "queued", "running", "processing", "in_progress", "not_ready"];
const MAY_PASS: &[&str] = &[
    "timed out",
    "timeout",
    "time-out",
    "too many requests",
    "overloaded",
    "unavailable",
    "connection reset",
    "connection lost",
    "connection refused",
    "rate limit",
    "try again later",
    "429",
    "502",
    "503",
    "504",
];

/// One call as the rules see it.
struct Call {
    exact: String,
    /// What it is the same as, where it only reads. Each loosening by itself.
    loose: [String; 2],
    reads: bool,
    reported: String,
    changed: bool,
    set_aside: bool,
    passes: bool,
}

/// The first call that is in a loop, by rules 1 to 3.
pub(crate) fn first_in_loop(steps: &[Value], effects: &BTreeMap<String, String>) -> Option<usize> {
    let known = ToolEffects::new(effects.clone()).unwrap();
    let mut turn = None;
    let mut calls: Vec<Call> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if turn.replace(step["turn"].clone()) != Some(step["turn"].clone()) {
            calls.clear();
        }
        let call = read(step, effects, &known, &calls);
        if third(&calls, &call) || round(&calls, &call) || does_not_pass(&calls, &call) {
            return Some(at);
        }
        calls.push(call);
    }
    None
}

fn read(step: &Value, stated: &BTreeMap<String, String>, effects: &ToolEffects, before: &[Call]) -> Call {
    let tool = step["tool"].as_str().unwrap();
    let failed = step["is_error"].as_bool().unwrap();
    let text = step["result"].as_str().unwrap();
    // As providers write them: JSON in a text.
    let arguments = match &step["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        arguments => arguments.clone(),
    };
    let exact = format!("{tool} {}", canonical(&arguments));
    let reported = format!("{failed} {}", without_volatile(text));
    let reads = effects.is_read(tool, &arguments);
    // A shell is the only tool of the set whose effect is not said.
    let runs = tool == "bash" || stated.get(tool).is_some_and(|effect| effect == "exec");
    let reported_before = before.iter().any(|call| call.exact == exact && call.reported == reported);
    let waits = serde_json::from_str::<Value>(text).is_ok_and(|value| {
        let small = value
            .as_object()
            .is_some_and(|map| map.len() <= 6 && map.values().all(|m| !m.is_array() && !m.is_object()));
        small
            && ["status", "state"]
                .iter()
                .any(|key| value[*key].as_str().is_some_and(|word| WAITS.contains(&word)))
    });
    let sleeps = tool.split('_').any(|word| word == "wait" || word == "sleep")
        || arguments["command"].as_str().is_some_and(|command| command.contains("sleep "));
    let waits = !failed && (waits || sleeps);
    let lower = text.to_lowercase();
    let passes = failed && MAY_PASS.iter().any(|words| lower.contains(words));
    Call {
        loose: [worded, paged].map(|loosen| format!("{tool} {}", loosen(&arguments))),
        exact,
        reads,
        reported,
        changed: !reads && (!failed || runs) && !reported_before,
        set_aside: waits || passes,
        passes,
    }
}

fn same(one: &Call, other: &Call) -> bool {
    let loosely = one.loose.iter().zip(&other.loose).any(|(one, other)| one == other);
    one.exact == other.exact || loosely && one.reads && other.reads
}

/// Rule 1.
fn third(before: &[Call], call: &Call) -> bool {
    let times: Vec<usize> = (0..before.len()).filter(|at| same(&before[*at], call)).collect();
    let [.., one, other] = times[..] else { return false };
    !before[one].set_aside
        && before[one].reported == before[other].reported
        && before[one + 1..].iter().all(|between| !between.changed)
}

/// Rule 2.
fn round(before: &[Call], call: &Call) -> bool {
    (1..=5).any(|length| {
        let Some(from) = before.len().checked_sub(2 * length) else { return false };
        let (one, other) = before[from..].split_at(length);
        // A changed result is progress: of the call itself, and of any call where all of them only read.
        let reads_only = one.iter().all(|it| it.reads);
        let is_steady = one.iter().all(|a| {
            one.iter().all(|b| !same(a, b) || a.reported == b.reported || !reads_only && !same(a, call))
        });
        same(&one[0], call)
            && (length == 1 || one.iter().any(|it| !same(it, call)))
            && is_steady
            && one
                .iter()
                .zip(other)
                .all(|(one, other)| same(one, other) && one.reported == other.reported && !one.set_aside)
    })
}

/// Rule 3.
fn does_not_pass(before: &[Call], call: &Call) -> bool {
    let Some(from) = before.len().checked_sub(3) else { return false };
    let reported = &before[from].reported;
    before[from..].iter().all(|failed| failed.passes && same(failed, call) && failed.reported == *reported)
}

/// A text of plain words, without the capital of its first one and the marks of a sentence; nothing for any other text.
fn words_of(text: &str) -> Option<Vec<String>> {
    let text = text.trim_end_matches(['.', '?', '!']);
    let mut words: Vec<String> = text.split(' ').map(|word| word.trim_end_matches(',').to_owned()).collect();
    let first = words[0].chars().next()?.to_lowercase().to_string()
        + &words[0][words[0].chars().next()?.len_utf8()..];
    if first == words[0].to_lowercase() {
        words[0] = first;
    }
    let is_plain = |word: &String| !word.is_empty() && word.chars().all(char::is_alphanumeric);
    (words.len() > 1 && words.iter().all(is_plain)).then_some(words)
}

fn worded(arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    for key in SEARCH {
        if let Some(Value::String(text)) = arguments.get_mut(*key)
            && let Some(words) = words_of(text)
        {
            let words: BTreeSet<&str> = words
                .iter()
                .filter(|word| !STOP_WORDS.contains(&word.as_str()))
                .map(|word| if word.len() > 3 { word.trim_end_matches('s') } else { word })
                .collect();
            *text = words.into_iter().collect::<Vec<_>>().join(" ");
        }
    }
    canonical(&arguments)
}

fn paged(arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    for key in PAGE {
        if let Some(page) = arguments.get_mut(*key).filter(|page| *key == "cursor" || page.is_number()) {
            *page = Value::Null;
        }
    }
    canonical(&arguments)
}

fn without_volatile(text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let drop = |value: &mut Value| {
        if let Some(map) = value.as_object_mut() {
            map.retain(|key, _| !VOLATILE.contains(&key.as_str()));
        }
    };
    drop(&mut value);
    if let Some(meta) = value.get_mut("meta") {
        drop(meta);
    }
    if value.as_object().is_some_and(|map| map.is_empty()) { text.to_owned() } else { canonical(&value) }
}
