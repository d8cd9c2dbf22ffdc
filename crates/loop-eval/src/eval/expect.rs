//! Compares a run with the expectations of its case.

use loop_core::gate::JudgedAction;
use loop_core::types::PicoUsd;
use loop_core::{Outcome, StopReason};
use serde_json::Value;

use crate::case::reasons;
use crate::case::{ActionCheck, Counts, EvidenceCheck, Expected, OutputCheck, TextCheck};
use crate::eval::build::tool_name;
use crate::trace;

/// A line for each expectation that is not met.
pub(crate) fn failures(expected: &Expected, outcome: &Outcome, lines: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    stop(expected, outcome, &mut found);
    bill(expected, outcome, &mut found);
    tools(expected, outcome, &mut found);
    for wanted in &expected.requires_trace_events {
        if !lines.iter().any(|line| trace::is(line, wanted)) {
            found.push(format!("the trace has no `{wanted}`"));
        }
    }
    for wanted in &expected.forbids_trace_events {
        if let Some(line) = lines.iter().find(|line| trace::is(line, wanted)) {
            found.push(format!("the trace has `{line}`"));
        }
    }
    if let Some(wanted) = &expected.trace
        && wanted != lines
    {
        let differs = wanted.iter().zip(lines).position(|(wanted, line)| wanted != line);
        let at = differs.unwrap_or(wanted.len().min(lines.len()));
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
        found.push(format!("line {} of the trace is `{}`, expected `{}`", at + 1, line(lines), line(wanted)));
    }
    for (id, check) in expected.document.iter() {
        let section = outcome.document.sections.iter().find(|section| *section.id == *id);
        text(&format!("section `{id}`"), check, section.map(|section| &*section.body), &mut found);
    }
    if let Some(check) = &expected.answer {
        text("the answer", check, outcome.answer.as_deref(), &mut found);
    }
    output(expected, outcome, &mut found);
    expected.evidence.iter().for_each(|check| evidence(check, outcome, &mut found));
    expected.actions.iter().for_each(|check| actions(check, &outcome.actions, &mut found));
    if let Some(wanted) = &expected.missing {
        let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
        if *wanted != missing {
            found.push(format!("missing is [{}], expected [{}]", missing.join(", "), wanted.join(", ")));
        }
    }
    found
}

fn stop(expected: &Expected, outcome: &Outcome, found: &mut Vec<String>) {
    let stop = &outcome.stop;
    let why = format!("{} ({})", stop.name(), loop_runtime::report::explain(stop));
    let is_reason = is_expected(expected, stop.reason());
    if !is_reason {
        let wanted = expected.stop_reason.0.join(" or ");
        found.push(format!("it stopped with {why}, expected {wanted}"));
    }
    if let Some(class) = expected.class.as_deref().filter(|class| *class != stop.class.name()) {
        let why = if is_reason { format!(": it stopped with {why}") } else { String::new() };
        found.push(format!("the class is {}, expected {class}{why}", stop.class.name()));
        if !outcome.missing.is_empty() && expected.missing.is_none() {
            let missing = outcome.missing.join(", ");
            found.push(format!("the document lacks {missing}, which the domain demands"));
        }
    }
    for wanted in &expected.also {
        let named = reasons(wanted);
        if !stop.also.iter().any(|condition| named.contains(&condition.reason)) {
            let also: Vec<&str> = stop.also.iter().map(|condition| stop.name_of(condition)).collect();
            found.push(format!("`{wanted}` was not true as well; [{}] was", also.join(", ")));
        }
    }
}

/// Whether the reason is an expected one. True if none is expected.
pub(crate) fn is_expected(expected: &Expected, reason: StopReason) -> bool {
    let wanted = &expected.stop_reason;
    wanted.is_empty() || wanted.0.iter().any(|name| reasons(name).contains(&reason))
}

fn bill(expected: &Expected, outcome: &Outcome, found: &mut Vec<String>) {
    let totals = &outcome.totals;
    let mut max = |what: &str, found_: u64, wanted: Option<u64>| {
        if let Some(wanted) = wanted.filter(|wanted| found_ > *wanted) {
            found.push(format!("{found_} {what}, expected {wanted} at most"));
        }
    };
    max("tool calls", totals.tool_calls.into(), expected.max_tool_calls.map(u64::from));
    max("passes", totals.passes.into(), expected.max_passes.map(u64::from));
    max("calls to models", totals.model_calls.into(), expected.max_model_calls.map(u64::from));
    max("tokens", totals.usage.total(), expected.max_tokens);
    if let Some(wanted) = expected.min_tool_calls.filter(|wanted| totals.tool_calls < *wanted) {
        found.push(format!("{} tool calls, expected {wanted} at the least", totals.tool_calls));
    }
    if let Some(wanted) = expected.max_cost_usd {
        match totals.cost.total() {
            None => found.push("its cost is unknown, and a bound is expected".to_owned()),
            Some(cost) if cost.as_usd() > wanted + PicoUsd(1).as_usd() / 2.0 => {
                found.push(format!("it cost {cost}, expected ${wanted} at most"));
            }
            Some(_) => {}
        }
    }
    let Some(Counts { passes, model_calls, tool_calls, evidence, attempts }) = expected.counts else {
        return;
    };
    let mut exactly = |what: &str, found_: u32, wanted: Option<u32>| {
        if let Some(wanted) = wanted.filter(|wanted| found_ != *wanted) {
            found.push(format!("{found_} {what}, expected {wanted}"));
        }
    };
    exactly("passes", totals.passes, passes);
    exactly("calls to models", totals.model_calls, model_calls);
    exactly("tool calls", totals.tool_calls, tool_calls);
    exactly("observations", outcome.evidence.len() as u32, evidence);
    exactly("attempts", outcome.attempts, attempts);
}

/// Whether an action ran, that is whether its tool was started.
fn ran(action: &JudgedAction, name: &str) -> bool {
    action.verdict == loop_core::Verdict::Run && action.evidence.is_some() && is_tool(action, name)
}

fn is_tool(action: &JudgedAction, name: &str) -> bool {
    let own = tool_name(name);
    action.tool_name() == own || *action.action.tool == own || *action.action.tool == *name
}

fn tools(expected: &Expected, outcome: &Outcome, found: &mut Vec<String>) {
    let ran = |name: &str| {
        // Selected tools are evidence without having been asked for by a main call.
        outcome.actions.iter().any(|action| ran(action, name))
    };
    for name in expected.forbidden_tools.iter().filter(|name| ran(name)) {
        found.push(format!("`{name}` ran, and is forbidden"));
    }
    for name in expected.required_tools.iter().filter(|name| !ran(name)) {
        found.push(format!("`{name}` did not run, and is required"));
    }
}

fn text(what: &str, check: &TextCheck, text: Option<&str>, found: &mut Vec<String>) {
    let wants = check.present.unwrap_or(true);
    let text = match (text.filter(|text| !text.trim().is_empty()), wants) {
        (None, true) => return found.push(format!("{what} is not there")),
        (Some(_), false) => return found.push(format!("{what} is there, and should not be")),
        (None, false) => return,
        (Some(text), true) => text,
    };
    if let Some(wanted) = check.equals.as_deref().filter(|wanted| wanted.trim() != text.trim()) {
        found.push(format!("{what} is `{}`, expected `{}`", short(text), short(wanted)));
    }
    for wanted in check.contains.iter().filter(|wanted| !text.contains(wanted.as_str())) {
        found.push(format!("{what} does not say `{wanted}`: `{}`", short(text)));
    }
    for unwanted in check.excludes.iter().filter(|unwanted| text.contains(unwanted.as_str())) {
        found.push(format!("{what} says `{unwanted}`"));
    }
}

fn output(expected: &Expected, outcome: &Outcome, found: &mut Vec<String>) {
    let output = outcome.output.as_ref();
    if let Some(wanted) = expected.output_valid {
        match output {
            None => found.push("there is no output".to_owned()),
            Some(output) if output.valid != wanted => {
                let words = |valid| if valid { "valid" } else { "not valid" };
                found.push(format!("the output is {}, expected {}", words(output.valid), words(wanted)));
            }
            Some(_) => {}
        }
    }
    if expected.output.is_empty() {
        return;
    }
    let value = output.map(|output| {
        serde_json::from_str::<Value>(&output.value)
            .unwrap_or_else(|_| Value::String(output.value.to_string()))
    });
    let Some(value) = value else { return found.push("there is no output".to_owned()) };
    for OutputCheck { pointer, equals, contains, present } in &expected.output {
        let what =
            if pointer.is_empty() { "the output".to_owned() } else { format!("{pointer} of the output") };
        let part = match (value.pointer(pointer), present.unwrap_or(true)) {
            (None, true) => {
                found.push(format!("{what} is not there"));
                continue;
            }
            (Some(_), false) => {
                found.push(format!("{what} is there, and should not be"));
                continue;
            }
            (None, false) => continue,
            (Some(part), true) => part,
        };
        if let Some(wanted) = equals.as_ref().filter(|wanted| !is_same(wanted, part)) {
            found.push(format!("{what} is {part}, expected {wanted}"));
        }
        if let Some(wanted) = contains
            && !part.as_str().is_some_and(|text| text.contains(wanted.as_str()))
        {
            found.push(format!("{what} does not say `{wanted}`: {part}"));
        }
    }
}

/// Whether two values are equal. Numbers are compared by value, so 1 is 1.0.
fn is_same(one: &Value, two: &Value) -> bool {
    loop_core::types::canonical(one) == loop_core::types::canonical(two)
}

fn evidence(check: &EvidenceCheck, outcome: &Outcome, found: &mut Vec<String>) {
    let EvidenceCheck { tool, status, contains, count } = check;
    let own = tool_name(tool);
    let matching = outcome.evidence.iter().filter(|evidence| {
        *evidence.tool == *own
            && status.as_ref().is_none_or(|status| status == evidence.observation.status.name())
            && contains.iter().all(|wanted| evidence.observation.text().contains(wanted.as_str()))
    });
    let matching = matching.count() as u32;
    let shown = status.as_ref().map_or_else(|| tool.clone(), |status| format!("{tool} ({status})"));
    let shown =
        if contains.is_empty() { shown } else { format!("{shown} that says `{}`", contains.join("` and `")) };
    counted(&format!("observations of {shown}"), matching, *count, found);
}

fn actions(check: &ActionCheck, actions: &[JudgedAction], found: &mut Vec<String>) {
    let ActionCheck { tool, verdict, reason, count } = check;
    let of_tool = || actions.iter().filter(|action| is_tool(action, tool));
    let matching = of_tool().filter(|action| {
        verdict.as_ref().is_none_or(|verdict| verdict == action.verdict.name())
            && reason.as_ref().is_none_or(|reason| action.verdict.reason().contains(reason.as_str()))
    });
    let matching = matching.count() as u32;
    let shown = verdict.as_ref().map_or_else(|| tool.clone(), |verdict| format!("{tool} ({verdict})"));
    let shown =
        reason.as_ref().map_or_else(|| shown.clone(), |reason| format!("{shown} because of `{reason}`"));
    let before = found.len();
    counted(&format!("actions {shown}"), matching, *count, found);
    if found.len() > before
        && let Some(last) = found.last_mut()
    {
        let decided: Vec<String> = of_tool()
            .map(|action| format!("{}: {}", action.verdict.name(), action.verdict.reason()))
            .collect();
        last.push_str(&format!("; found [{}]", decided.join("; ")));
    }
}

fn counted(what: &str, matching: u32, count: Option<u32>, found: &mut Vec<String>) {
    match count {
        None if matching == 0 => found.push(format!("there are no {what}")),
        Some(count) if count != matching => {
            found.push(format!("there are {matching} {what}, expected {count}"))
        }
        None | Some(_) => {}
    }
}

/// The beginning of a text in one line.
fn short(text: &str) -> String {
    const CHARS: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > CHARS { line.chars().take(CHARS).chain(['…']).collect() } else { line }
}
