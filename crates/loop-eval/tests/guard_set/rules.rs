//! The rules of labelling a second time, from `docs/guard.md` alone: plain and slow.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::canonical;
use loop_eval::guard::Effects;
use serde_json::Value;

const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "about", "can", "do", "does", "for", "find", "get", "how", "i", "in", "is",
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
    /// What it is the same as, where it only reads or failed. Each loosening by itself.
    loose: [String; 3],
    reads: bool,
    failed: bool,
    told: String,
    changed: bool,
    set_aside: bool,
    passes: bool,
}

/// The first call that is in a loop, by rules 1 to 3.
pub(crate) fn first_in_loop(steps: &[Value], effects: &BTreeMap<String, String>) -> Option<usize> {
    let known = Effects::new(effects.clone()).unwrap();
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

fn read(step: &Value, said: &BTreeMap<String, String>, effects: &Effects, before: &[Call]) -> Call {
    let tool = step["tool"].as_str().unwrap();
    let failed = step["is_error"].as_bool().unwrap();
    let text = step["result"].as_str().unwrap();
    let exact = format!("{tool} {}", canonical(&step["arguments"]));
    let told = format!("{failed} {}", without_volatile(text));
    let reads = effects.is_read(tool, &step["arguments"]);
    // A shell is the only tool of the set whose effect is not said.
    let runs = tool == "bash" || said.get(tool).is_some_and(|effect| effect == "exec");
    let told_before = before.iter().any(|call| call.exact == exact && call.told == told);
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
        || step["arguments"]["command"].as_str().is_some_and(|command| command.contains("sleep "));
    let waits = !failed && (waits || sleeps);
    let lower = text.to_lowercase();
    let passes = failed && MAY_PASS.iter().any(|words| lower.contains(words));
    Call {
        loose: [spelled, worded, paged].map(|loosen| format!("{tool} {}", loosen(&step["arguments"]))),
        exact,
        reads,
        failed,
        told,
        changed: !reads && (!failed || runs) && !told_before,
        set_aside: waits || passes,
        passes,
    }
}

fn same(one: &Call, other: &Call) -> bool {
    let loosely = one.loose.iter().zip(&other.loose).any(|(one, other)| one == other);
    one.exact == other.exact || loosely && (one.reads || one.failed && other.failed)
}

/// Rule 1.
fn third(before: &[Call], call: &Call) -> bool {
    let times: Vec<usize> = (0..before.len()).filter(|at| same(&before[*at], call)).collect();
    let [.., one, other] = times[..] else { return false };
    !before[one].set_aside
        && before[one].told == before[other].told
        && before[one + 1..].iter().all(|between| !between.changed)
}

/// Rule 2.
fn round(before: &[Call], call: &Call) -> bool {
    (1..=5).any(|length| {
        let Some(from) = before.len().checked_sub(2 * length) else { return false };
        let (one, other) = before[from..].split_at(length);
        same(&one[0], call)
            && one
                .iter()
                .zip(other)
                .all(|(one, other)| same(one, other) && one.told == other.told && !one.set_aside)
    })
}

/// Rule 3.
fn does_not_pass(before: &[Call], call: &Call) -> bool {
    let Some(from) = before.len().checked_sub(3) else { return false };
    let told = &before[from].told;
    before[from..].iter().all(|failed| failed.passes && same(failed, call) && failed.told == *told)
}

fn spelled(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => plain(text),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => items.iter().map(spelled).collect::<Vec<_>>().join("|"),
        Value::Object(map) => {
            let members: BTreeMap<_, _> = map.iter().collect();
            let members = members.iter().map(|(key, value)| format!("{key}={}", spelled(value)));
            members.collect::<Vec<_>>().join("&")
        }
        other => other.to_string(),
    }
}

fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn worded(arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    for key in SEARCH {
        if let Some(Value::String(text)) = arguments.get_mut(*key) {
            let words: BTreeSet<String> = plain(text)
                .split(' ')
                .filter(|word| !STOP_WORDS.contains(word))
                .map(|word| if word.len() > 3 { word.trim_end_matches('s') } else { word }.to_owned())
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
