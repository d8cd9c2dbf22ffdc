//! `loopgate show RUN E3`, `--evidence` and `--effects`: prints tool results and requested effects in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use loop_core::types::{CommandKey, Evidence, EvidenceId};
use loop_core::{EventKind, Run};
use loop_runtime::journal::Recorded;
use loop_runtime::tools::markdown_of;
use serde_json::{Value, json};

use crate::output::{Failure, escaped, time};

/// The work item `E0` and the result of each call, or only the one with this id.
pub(super) fn evidence(state: &Run, recorded: &Recorded, id: Option<&str>) -> Result<Vec<Value>, Failure> {
    let (started, is_untrusted) = (state.started(), state.spec().gate.item_untrusted);
    let (at, item) = (started.unix_ms, &started.item.full);
    let item = json!({ "id": "E0", "tool": "the work item", "unix_ms": at, "untrusted": is_untrusted, "text": item });
    let returned = recorded.entries.iter().filter_map(|entry| match &entry.event.kind {
        EventKind::ToolFinished { key, .. } => Some((*key, started.unix_ms_at(entry.event.at))),
        _ => None,
    });
    // A later try comes after an earlier one.
    let returned: BTreeMap<CommandKey, u64> = returned.collect();
    let is_named = |it: &str| id.is_none_or(|id| it == id.to_uppercase());
    let wanted = state.evidence().iter().filter(|evidence| is_named(&evidence.id.to_string()));
    let evidence = wanted.map(|evidence| {
        let Evidence { id, key: of, pass, tool, parameters, observation, .. } = evidence;
        let data = serde_json::from_str::<Value>(&observation.data);
        json!({
            "id": id.to_string(), "tool": tool, "pass": pass, "parameters": parameters.value().ok(),
            "unix_ms": returned.get(of),
            "untrusted": evidence.taint(state.spec()).untrusted,
            "status": observation.status.name(), "summary": observation.summary,
            "text": markdown_of(observation), "data": data.ok(),
        })
    });
    let named: Vec<Value> = Some(item).filter(|_| is_named("E0")).into_iter().chain(evidence).collect();
    let last = state.evidence().last().map_or(EvidenceId::ITEM, |last| last.id);
    let none = format!("no evidence {} in run {}; it has E0 to {last}", id.unwrap_or_default(), started.run);
    if named.is_empty() { Err(Failure::new(none)) } else { Ok(named) }
}

/// Reports for people: a line for each value, then the text, with invisible characters spelled out.
pub(super) fn in_words(reports: &[Value]) -> String {
    let mut text = if reports.is_empty() { "none\n".to_owned() } else { String::new() };
    for (name, value) in reports.iter().filter_map(Value::as_object).flatten() {
        let value = match (name.as_str(), value) {
            ("data", _) | (_, Value::Null) => continue,
            // Behind a mark, so that no line of it passes for one of ours.
            ("text", Value::String(value)) => format!("\n  | {}\n", value.trim_end().replace('\n', "\n  | ")),
            ("unix_ms", value) => format!(" {} UTC", time(value.as_u64().unwrap_or_default())),
            (_, Value::String(value)) => format!(" {}", value.replace('\n', " ")),
            (_, value) => format!(" {value}"),
        };
        let name = if name == "unix_ms" { "when" } else { name };
        _ = writeln!(text, "{name}:{}", escaped(&value));
    }
    text
}
