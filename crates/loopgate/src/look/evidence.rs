//! `loopgate show RUN E3`, `--evidence` and `--effects`: what tools returned, and what was to change something.

use std::fmt::Write as _;

use loop_core::policy::shown;
use loop_core::types::{CommandKey, Evidence, EvidenceId, is_clean};
use loop_core::{EventKind, Run};
use loop_runtime::journal::Recorded;
use loop_runtime::people::PeopleReport;
use loop_runtime::report::{EvidenceReport, action};
use loop_runtime::tools::markdown_of;
use serde_json::{Value, json};

use crate::args::ReportArgs;
use crate::output::{Failure, row, time};
use crate::shown::{approved_by, decided};

/// Prints one result, by its number, or all of them. `E0` is the work item.
pub(super) fn evidence(
    state: &Run,
    recorded: &Recorded,
    id: Option<&str>,
    json: ReportArgs,
) -> Result<(), Failure> {
    let started = state.started();
    let Some(id) = id else {
        let all: Vec<Value> = state.evidence().iter().map(|it| in_json(state, recorded, it)).collect();
        let report = json!({ "version": 1, "run": started.run, "evidence": all });
        return json.print(&report, || {
            let all: Vec<String> = state.evidence().iter().map(|it| in_words(state, recorded, it)).collect();
            if all.is_empty() { "no tool returned anything\n".to_owned() } else { all.join("\n---\n\n") }
        });
    };
    if let Some(found) = state.evidence().iter().find(|it| it.id.to_string().eq_ignore_ascii_case(id)) {
        return json.print(&in_json(state, recorded, found), || in_words(state, recorded, found));
    }
    if EvidenceId::ITEM.to_string().eq_ignore_ascii_case(id) {
        let (item, is_untrusted) = (&started.item, state.spec().gate.item_untrusted);
        let report = json!({
            "id": "E0", "item": item.id, "unix_ms": started.unix_ms, "untrusted": is_untrusted, "markdown": item.full,
        });
        return json.print(&report, || {
            let mut text = format!("E0 the work item, {} {}\n", item.kind, item.id);
            row(&mut text, &format!("  when:      {} UTC", time(started.unix_ms)));
            row(&mut text, &format!("  trust:     {}", trust(is_untrusted)));
            let _ = writeln!(text, "\n{}", visible(&item.full));
            text
        });
    }
    let known: Vec<String> = state.evidence().iter().map(|evidence| evidence.id.to_string()).collect();
    let known = match known.as_slice() {
        [] => "E0, the work item, alone".to_owned(),
        [.., last] => format!("E0 to {last}"),
    };
    Err(Failure::new(format!("{id}: run {} has no such evidence; it has {known}", started.run)))
}

/// When a call returned, in milliseconds since 1970. `None`: its run took the result over from another one.
fn returned(state: &Run, recorded: &Recorded, key: CommandKey) -> Option<u64> {
    let is_it = |kind: &EventKind| match kind {
        EventKind::ToolFinished { key: of, .. } | EventKind::PersonAnswered { key: of, .. } => *of == key,
        _ => false,
    };
    let entry = recorded.entries.iter().rev().find(|entry| is_it(&entry.event.kind))?;
    Some(state.started().unix_ms_at(entry.event.at))
}

fn is_untrusted(state: &Run, tool: &str) -> bool {
    state.spec().tool(tool).is_some_and(|tool| tool.policy.returns_untrusted)
}

fn trust(is_untrusted: bool) -> &'static str {
    if is_untrusted { "untrusted: third parties may have written it" } else { "trusted" }
}

fn in_json(state: &Run, recorded: &Recorded, evidence: &Evidence) -> Value {
    let mut report = json!(EvidenceReport::full(evidence));
    report["unix_ms"] = json!(returned(state, recorded, evidence.key));
    report["untrusted"] = json!(is_untrusted(state, &evidence.tool));
    report
}

fn in_words(state: &Run, recorded: &Recorded, evidence: &Evidence) -> String {
    let Evidence { id, tool, observation, pass, key, .. } = evidence;
    let mut text = String::new();
    row(&mut text, &format!("{id} {tool}, pass {pass} ({key})"));
    if let Some(when) = returned(state, recorded, *key) {
        row(&mut text, &format!("  when:      {} UTC", time(when)));
    }
    row(&mut text, &format!("  trust:     {}", trust(is_untrusted(state, tool))));
    row(&mut text, &format!("  status:    {}, {}", observation.status.name(), visible(&observation.summary)));
    arguments(&mut text, &evidence.parameters);
    for warning in &observation.warnings {
        row(&mut text, &format!("  warning:   {warning}"));
    }
    let _ = writeln!(text, "\n{}", visible(markdown_of(observation).trim_end()));
    text
}

fn arguments(text: &mut String, parameters: &str) {
    for (at, line) in shown(parameters).text.lines().enumerate() {
        row(text, &format!("  {:<10} {line}", if at == 0 { "arguments:" } else { "" }));
    }
}

/// A text with what does not show, or would steer a terminal, written out.
fn visible(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match is_clean(c) {
            true => all.push(c),
            false => _ = write!(all, "[U+{:04X}]", u32::from(c)),
        }
    }
    all
}

/// Prints each requested effect: its tool and where that connects, the arguments, what became of it, who approved it.
pub(super) fn effects(state: &Run, recorded: &Recorded, json: ReportArgs) -> Result<(), Failure> {
    let people = PeopleReport::of(recorded);
    let (mut text, mut all) = (String::new(), Vec::new());
    for judged in state.actions() {
        let ended = state.effect_of(judged);
        let Some(tool) = state.spec().tool(judged.tool_name()).filter(|_| !ended.is_none()) else { continue };
        // One effect is counted, so this is its state.
        let ended = ended.to_string().trim_start_matches("1 ").to_owned();
        let place = loop_tools::connects_to(&recorded.manifest, &tool.name);
        let requested = people.of_action(&judged.key);
        let approvers = requested.map_or(&[][..], |requested| requested.approvers.as_slice());
        let why = match requested.and_then(|requested| requested.answer.as_deref()) {
            Some("approved") => approved_by(approvers),
            _ => decided(state, judged, &people),
        };
        let when = requested.and_then(|requested| requested.answered_unix_ms);
        let when = when.map_or_else(String::new, |when| format!(", {} UTC", time(when)));
        let (key, name, effect) = (judged.key, &tool.name, tool.effect.name());
        row(&mut text, &format!("{key} {name} ({effect}): {ended}"));
        row(&mut text, &format!("  target:    {}", place.as_deref().unwrap_or("not declared")));
        arguments(&mut text, &judged.parameters);
        row(&mut text, &format!("  decided:   {why}{when}"));
        if let Some(found) = judged.evidence.and_then(|id| Evidence::find(state.evidence(), id)) {
            let (id, observation) = (found.id, &found.observation);
            row(
                &mut text,
                &format!("  result:    {id} {}, {}", observation.status.name(), observation.summary),
            );
        }
        text.push('\n');
        let mut report = json!(action(judged, state.evidence()));
        report["effect"] = json!(effect);
        report["connects_to"] = json!(place);
        report["state"] = json!(ended);
        report["approvers"] = json!(approvers);
        all.push(report);
    }
    let report = json!({ "version": 1, "run": state.id(), "effects": all });
    json.print(&report, || if text.is_empty() { "no effect was requested\n".to_owned() } else { text })
}
