//! Results without the parts that change by themselves, so that equal results have equal digests.

use std::sync::Arc;

use serde_json::Value;

use crate::spec::ToolRepeats;
use crate::types::{Digest, Observation, Status, digest, member_name, pointer_step};

/// The digest of a tool's data without its volatile parts, and the JSON pointers to the parts left out.
///
/// [`ToolRepeats::volatile`] lists the volatile parts. If it is empty, they are found by name: members that hold only
/// the time or the id of the answer, such as `request_id` or `generated_at`, at the top of an object or in its `meta`
/// or `headers`. If no other top-level member would be left, nothing is left out. Data that is not JSON is digested
/// unchanged.
pub fn stable_digest(data: &str, rules: &ToolRepeats) -> (Digest, Vec<Arc<str>>) {
    let Ok(mut value) = serde_json::from_str::<Value>(data) else {
        return (Digest::of("observation", data.as_bytes()), Vec::new());
    };
    let ignored = leave_out(&mut value, rules);
    (digest("observation", &value), ignored)
}

/// The digest of an observation, which the ledger compares, and the JSON pointers to the parts left out.
pub(crate) fn reported_by(observation: &Observation, rules: &ToolRepeats) -> (Digest, Vec<Arc<str>>) {
    let status = observation.status;
    if !status.is_citable() {
        // A failure has no data, so its text is compared.
        let text = format!("{}\n{}\n{}", status.name(), observation.summary, observation.digest);
        return (Digest::of("reported", text.as_bytes()), Vec::new());
    }
    // A plain text has no parts to leave out, and its digest is known.
    if observation.data.as_text().is_some() {
        return (reported(status, observation.digest), Vec::new());
    }
    let (result, ignored) = stable_digest(&observation.data, rules);
    (reported(status, result), ignored)
}

/// The digest of a status and a result: the same text as a success and as a failure differs.
pub(super) fn reported(status: Status, result: Digest) -> Digest {
    Digest::of_parts("reported", &[status.name().as_bytes(), b"\n", &result.0])
}

fn leave_out(value: &mut Value, rules: &ToolRepeats) -> Vec<Arc<str>> {
    let mut ignored = Vec::new();
    for pointer in &rules.volatile {
        let steps: Vec<String> = pointer.split('/').skip(1).map(member_name).collect();
        remove(value, &steps, &mut String::new(), &mut ignored);
    }
    if rules.volatile.is_empty() {
        by_name(value, &mut ignored);
    }
    ignored.sort();
    ignored
}

/// Removes the values at the path `steps`, in which `*` is every member or entry.
fn remove(value: &mut Value, steps: &[String], at: &mut String, ignored: &mut Vec<Arc<str>>) {
    let Some((step, rest)) = steps.split_first() else { return };
    let names: Vec<String> = match value {
        Value::Object(members) if step == "*" => members.keys().cloned().collect(),
        Value::Array(entries) if step == "*" => (0..entries.len()).map(|n| n.to_string()).collect(),
        _ => vec![step.clone()],
    };
    for name in names {
        let length = at.len();
        at.push('/');
        at.push_str(&pointer_step(&name));
        if !rest.is_empty() {
            let child = match value {
                Value::Object(members) => members.get_mut(&name),
                Value::Array(entries) => name.parse().ok().and_then(|n: usize| entries.get_mut(n)),
                _ => None,
            };
            if let Some(child) = child {
                remove(child, rest, at, ignored);
            }
        } else if blank(value, &name) {
            ignored.push(at.as_str().into());
        }
        at.truncate(length);
    }
}

/// Removes a member. An entry of a list becomes `null`, so that the entries after it keep their places.
fn blank(value: &mut Value, name: &str) -> bool {
    match value {
        Value::Object(members) => members.remove(name).is_some(),
        Value::Array(entries) => {
            let entry = name.parse().ok().and_then(|n: usize| entries.get_mut(n));
            entry.map(|entry| *entry = Value::Null).is_some()
        }
        _ => false,
    }
}

/// Removes the members on the default list.
fn by_name(value: &mut Value, ignored: &mut Vec<Arc<str>>) {
    let Value::Object(members) = value else { return };
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let mut found: Vec<Vec<String>> = Vec::new();
    for (name, member) in members.iter() {
        let known = plain(name);
        if has(ANSWERED, &known) && !member.is_object() && !member.is_array() {
            found.push(vec![name.clone()]);
        }
        let inner = match known.as_str() {
            "meta" | "metadata" | "_meta" => ANSWERED,
            "headers" | "response_headers" => HEADERS,
            _ => "",
        };
        for (below, _) in member.as_object().into_iter().flatten() {
            if has(inner, &plain(below)) {
                found.push(vec![name.clone(), below.clone()]);
            }
        }
    }
    let at_top = found.iter().filter(|steps| steps.len() == 1).count();
    // The time or id is then the result itself.
    if at_top == members.len() {
        return;
    }
    for steps in found {
        remove(value, &steps, &mut String::new(), ignored);
    }
}

/// Whether a name is among those of a list.
fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Members that hold only the time, the duration or the id of an answer.
const ANSWERED: &str = "timestamp generated_at fetched_at served_at retrieved_at queried_at response_time \
    response_time_ms server_time request_id requestid x_request_id trace_id traceid span_id \
    correlation_id elapsed_ms took_ms query_time_ms";

/// Headers that hold only the time, the duration or the id of an answer.
const HEADERS: &str = "date age expires x_request_id x_correlation_id x_trace_id x_amzn_requestid x_amzn_trace_id \
    x_runtime x_response_time server_timing cf_ray traceparent";
