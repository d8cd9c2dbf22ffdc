//! Renders the state of a run, ended or not, as lists.

use std::fmt::Write as _;

use loop_core::Run;
use loop_core::run::{AttemptState, Parent, ParentEffect, PassRecord, ServedCall, Started};
use loop_core::types::Totals;
use loop_inspect::effects::{approved_by, decided};
use loop_runtime::journal::{Entry, Recorded};
use loop_runtime::people::{InstructionReport, PeopleReport, PersonRequestRecord};
use loop_runtime::report::{CallReport, CheckReport, continued_with, counted, warnings};
use loop_runtime::run::Takeover;
use loop_runtime::tools::{ToolUse, ToolUses};
use serde_json::json;

use super::outcome::bill;
use super::people::plan_lines;
use super::wrote;
use crate::output::{cut, row, time};

pub(crate) fn heading(state: &Run) -> String {
    let (started, mut text) = (state.started(), String::new());
    row(&mut text, &format!("# {} {}: {}", started.item.kind, started.item.id, started.item.title));
    text.push('\n');
    let after =
        started.history.as_ref().map(|history| format!(", after {}", counted(history.messages, "message")));
    let after = after.unwrap_or_default();
    let (run, domain, time) = (&started.run, &state.spec().domain, time(started.unix_ms));
    row(&mut text, &format!("run {run} of {domain}, {time}{after}"));
    if let Some(parent) = &started.parent {
        taken_over(started, parent).iter().for_each(|line| row(&mut text, line));
    }
    text.push('\n');
    text
}

/// The usage of a run that has not ended.
pub(crate) fn totals_so_far(state: &Run) -> Totals {
    Totals { wall_ms: state.elapsed_ms(), ..*state.totals() }
}

/// Passes, evidence, actions and people as lists.
pub(crate) fn details(state: &Run, people: &PeopleReport) -> String {
    let mut text = String::from("\n---\n");
    let written_by = wrote::list(state.started(), &state.spec().domain, &state.model_calls());
    section(&mut text, "Written by", Some(""), written_by.iter().map(|line| format!("- {line}")));
    section(&mut text, "Passes", NONE, state.passes().iter().map(|pass| pass_line(state, pass)));
    let checks = state.checks().iter().map(|record| format!("- {}", CheckReport::new(record).in_words()));
    section(&mut text, "Checks", None, checks);
    let attempts = state.attempts().iter().enumerate().map(|(at, attempt)| {
        let end = match &attempt.state {
            AttemptState::Open => "open".to_owned(),
            AttemptState::Ends => "to be validated".to_owned(),
            AttemptState::Valid => "valid".to_owned(),
            AttemptState::Rejected(rejection) => format!("rejected, {rejection}"),
        };
        let output = attempt.output.as_deref().unwrap_or("no output");
        format!("- {} (from pass {}): {output}: {end}", at + 1, attempt.from_pass)
    });
    section(&mut text, "Attempts", None, attempts);
    let calls = state.model_calls();
    section(&mut text, "Model calls", None, calls.iter().map(call_line));
    let warnings = warnings(&calls, state.warnings());
    section(&mut text, "Warnings", None, warnings.iter().map(|warning| format!("- {warning}")));
    let evidence = state.evidence().iter().flat_map(|evidence| {
        let (id, tool, parameters) = (&evidence.id, &evidence.tool, &evidence.parameters);
        let (status, summary) = (evidence.observation.status.name(), &evidence.observation.summary);
        let line = format!("- {id} {tool} {parameters}: {status}, {summary} (pass {})", evidence.pass);
        std::iter::once(line).chain(state.repeat_note(*id).map(|note| format!("  note: {}", note.summary())))
    });
    section(&mut text, "Evidence", NONE, evidence);
    section(&mut text, "Plan", None, plan_lines(state).into_iter());
    let actions = state.actions().iter().map(|action| {
        let (verdict, why) = (action.verdict.name(), decided(state, action, people));
        format!("- {} {} {}: {verdict}, {why}", action.key, action.tool_name(), action.parameters)
    });
    section(&mut text, "Actions", NONE, actions);
    section(&mut text, "People", None, person_lines(people).iter().map(|line| format!("- {line}")));
    let stop = state.outcome().map(|outcome| &outcome.stop);
    let conditions = stop.into_iter().flat_map(|stop| std::iter::once(&stop.primary).chain(&stop.also));
    let conditions = conditions.map(|condition| {
        let against = condition.threshold.as_ref();
        let against = against.map_or_else(String::new, |threshold| format!(" against {threshold}"));
        let change = continued_with(condition);
        let change =
            change.map_or_else(String::new, |change| format!("; would have continued with {change}"));
        format!("- {}: {}{against}{change}", condition.reason, condition.value)
    });
    section(&mut text, "Conditions at the stop", None, conditions);
    text
}

/// The content of a section without lines.
const NONE: Option<&str> = Some("- none\n");

/// Adds a section with a title. `none`: its text without lines. Without `none`, an empty section is left out.
fn section(text: &mut String, title: &str, none: Option<&str>, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    let is_empty = lines.peek().is_none();
    if is_empty && none.is_none() {
        return;
    }
    let _ = write!(text, "\n{title}:\n\n");
    lines.for_each(|line| row(text, &line));
    none.filter(|_| is_empty).into_iter().for_each(|none| text.push_str(none));
}

/// A pass in a line.
fn pass_line(state: &Run, pass: &PassRecord) -> String {
    let final_pass = if pass.final_pass { ", the last" } else { "" };
    let (nth, tier) = (pass.pass, pass.tier.name());
    if !state.spec().protocol.properties().states_confidence {
        // What it asked for, or that it answered.
        let calls = state.actions().iter().filter(|action| action.key.pass == nth);
        let calls: Vec<&str> = calls.map(|action| action.tool_name()).collect();
        let what =
            if calls.is_empty() { "no calls".to_owned() } else { format!("calls {}", calls.join(", ")) };
        return format!("- {nth} ({tier}{final_pass}): {what}");
    }
    let revisions = if state.revisions(nth).is_some() { ", to revise" } else { "" };
    let changed = if pass.changed.is_empty() { "nothing".to_owned() } else { pass.changed.join(", ") };
    let measured = pass.calibrated.map(|it| format!(" (measured {})", it.measured.name()));
    let (confidence, measured) = (pass.confidence.name(), measured.unwrap_or_default());
    format!("- {nth} ({tier}, {confidence}{measured}{final_pass}{revisions}): changed {changed}")
}

/// A call to a model in a line.
fn call_line(call: &ServedCall) -> String {
    let CallReport { call, attempt, tier, provider, model, served_model, other_model } =
        CallReport::new(call);
    let again = if attempt > 1 { format!(", try {attempt}") } else { String::new() };
    let served = match served_model {
        Some(served) if other_model => format!(", served by another model: {served}"),
        Some(served) if served != model => format!(", served by {served}"),
        Some(_) | None => String::new(),
    };
    format!("- {call} ({tier}{again}): {provider} {model}{served}")
}

/// Requests to people, their answers and instructions, in order of time.
pub(crate) fn person_lines(people: &PeopleReport) -> Vec<String> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for PersonRequestRecord {
        action,
        tool,
        parameters,
        why,
        requested_unix_ms,
        answer,
        text,
        approvers,
        answered_unix_ms,
        ..
    } in &people.requested
    {
        lines.push((*requested_unix_ms, format!("asked about {action} {tool} {parameters}: {why}")));
        if answer.is_none() && !approvers.is_empty() {
            lines.push((
                *requested_unix_ms,
                format!("{action} {tool} {}, and not enough yet", approved_by(approvers)),
            ));
        }
        let stated = match (answer.as_deref(), text) {
            (Some("approved"), _) => approved_by(approvers),
            (Some("expired"), _) => "no answer in time, which counts as a denial".to_owned(),
            (Some(answer), Some(text)) => format!("{answer}: {text}"),
            (Some(answer), None) => answer.to_owned(),
            (None, _) => continue,
        };
        lines.push((answered_unix_ms.unwrap_or(*requested_unix_ms), format!("{action} {tool} {stated}")));
    }
    for InstructionReport { text, from_pass, unix_ms } in &people.instructions {
        lines.push((*unix_ms, format!("instruction, from pass {from_pass} on: {text}")));
    }
    lines.sort_by_key(|(unix_ms, _)| *unix_ms);
    lines.into_iter().map(|(unix_ms, line)| format!("{} UTC {line}", time(unix_ms))).collect()
}

/// The use of each tool in a recorded run.
pub(crate) fn tools_of(recorded: &Recorded) -> Vec<ToolUse> {
    let mut uses = ToolUses::default();
    recorded.entries.iter().for_each(|entry| uses.hear(entry, &recorded.spec));
    uses.all()
}

/// An entry as JSON lines: the event, then each note.
pub(crate) fn lines_of(entry: &Entry) -> String {
    let seq = entry.seq;
    let mut lines = format!("{}\n", json!({"seq": seq, "at": entry.event.at, "event": entry.event.kind}));
    for note in &entry.notes {
        let _ = writeln!(lines, "{}", json!({"seq": seq, "at": entry.event.at, "note": note}));
    }
    lines
}

/// What a run took over from another run, in lines.
pub(crate) fn taken_over(started: &Started, parent: &Parent) -> Vec<String> {
    let (run, entries) = (&parent.run, parent.entries);
    let what = match parent.how {
        Takeover::Fork => {
            format!("fork:    {} continues {run} after entry {}", started.run, entries.saturating_sub(1))
        }
        Takeover::Retry => format!("retry:   {} knows the evidence of {run}", started.run),
        Takeover::Salvage => format!("salvage: {} continues {run} after {entries} entries", started.run),
    };
    let mut lines = vec![what];
    if parent.how != Takeover::Retry {
        lines.push(format!("so far:  {} (counted against the limits)", bill(&parent.totals())));
    }
    let open = |effect: &&ParentEffect| effect.evidence.is_none() || parent.how == Takeover::Retry;
    for effect in parent.effects.iter().filter(open) {
        lines.push(format!("effect:  {}", described(effect, parent.how)));
    }
    if parent.lost {
        lines.push(format!(
            "effects: {run} may have made, or may still make, others: every write needs an approval"
        ));
    }
    lines
}

/// One effect of the parent, in a line.
fn described(effect: &ParentEffect, how: Takeover) -> String {
    let ParentEffect { key, tool, parameters, status, evidence } = effect;
    let status = status.map_or("not settled", |status| status.name());
    let parameters = parameters.to_string();
    let what = format!("{key} {tool} {}: {status}", cut(&parameters, MAX_PARAMETER_CHARS));
    match (how, evidence) {
        (Takeover::Retry, Some(evidence)) => format!("{what}, see {evidence}"),
        _ => format!("{what}; it is not repeated without an approval"),
    }
}

/// The most characters of a call's parameters.
const MAX_PARAMETER_CHARS: usize = 120;
