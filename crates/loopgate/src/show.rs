//! `loopgate show` and `loopgate runs`: what the journal holds.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use loop_claims::Claim;
use loop_core::gate::JudgedAction;
use loop_core::run::{AttemptState, PassRecord, Reserve, ServedCall};
use loop_core::types::{Approver, RunId, Totals};
use loop_core::{Outcome, Run};
use loop_runtime::{
    journal::{Entry, Journal, JournalError, Recorded, RunLine, replay},
    people::{ApproverReport, InstructionReport, PeopleReport, PersonRequestRecord},
    report::{CallReport, CheckReport, Report, continued_with, counted, warnings},
    tools::{ToolUse, ToolUses},
};
use serde_json::json;

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::stream::{cut, grouped, one_line};
use crate::{cache, fork, grounding, places, run, run_page, runs, stream, wrote};

pub(crate) async fn show(args: ShowArgs) -> Result<ExitCode, Failure> {
    let (journal, line, recorded) = args.of.open().await?;
    let id = line.run;
    if args.events {
        for entry in &recorded.entries {
            stream::print_json(&lines_of(entry));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.cache {
        stream::print(&cache::table(&recorded.entries));
        return Ok(ExitCode::SUCCESS);
    }
    if args.tools {
        stream::print(&tools_table(&tools_of(&recorded)));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.html {
        return run_page::written(path, &id, recorded, journal);
    }
    let state = replay(&id, &recorded)?;
    let people = PeopleReport::of(&recorded);
    let tagged = tagged(&recorded);
    let Some(outcome) = state.outcome() else {
        if args.json.json {
            let why = "has not ended, so there is no outcome; omit --json to see its state so far";
            return Err(Failure::new(format!("run {id} {why}")));
        }
        stream::print(&tagged);
        stream::print(&unfinished(&state, &people, line.is_written, args.of.journal.journal.as_deref()));
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(detail) = args.json.detail() {
        let report = Report::new(state.started(), outcome).with_evidence(outcome, detail);
        let report = report.with_spec(state.spec(), state.started(), outcome);
        let report = report.with_tools(tools_of(&recorded)).with_people(people);
        stream::print_report(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    stream::print(&tagged);
    stream::print(&heading(&state));
    let claims = loop_claims::of_run(&state);
    print_result(outcome, &claims);
    stream::print(&details(&state, &people));
    stream::print(&grounding::list(&claims));
    run::summary(outcome, &claims, &[]);
    Ok(ExitCode::SUCCESS)
}

/// The tags that a run was begun with, in a line. Empty if there are none.
fn tagged(recorded: &Recorded) -> String {
    let tags = runs::tags(recorded.origin.as_deref());
    let mut text = String::new();
    if !tags.is_empty() {
        row(&mut text, &format!("tags: {}", tags.join(", ")));
    }
    text
}

/// Says of a run that it can be read and not be resumed, on standard error.
pub(crate) fn unverified(run: &RunId, recorded: &Recorded) {
    if let Some(why) = &recorded.unverified {
        stream::note(format!("loopgate: run {run} cannot be resumed: {why}"));
    }
}

/// Prints what a run came to: its document, its answer, or its output once that is valid. At a terminal the document has a
/// mark behind each value that is in no evidence.
pub(crate) fn print_result(outcome: &Outcome, claims: &[Claim]) {
    if let Some(answer) = &outcome.answer {
        return stream::print(&format!("{}\n", answer.trim_end()));
    }
    let Some(output) = outcome.output.as_ref().filter(|output| output.valid) else {
        return stream::print(&grounding::shown(&outcome.document, claims).to_markdown());
    };
    let value = serde_json::from_str::<serde_json::Value>(&output.value);
    let pretty = value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    stream::print_json(&format!("{}\n", pretty.as_deref().unwrap_or(&output.value)));
}

/// What each tool was used for in a recorded run.
pub(crate) fn tools_of(recorded: &Recorded) -> Vec<ToolUse> {
    let mut uses = ToolUses::default();
    recorded.entries.iter().for_each(|entry| uses.hear(entry, &recorded.spec));
    uses.all()
}

fn tools_table(tools: &[ToolUse]) -> String {
    if tools.is_empty() {
        return "no tool was asked for\n".to_owned();
    }
    let mut text = format!("{:<32} {:>7} {:>8} {:>8} {:>10}\n", "tool", "calls", "failed", "not run", "ms");
    for ToolUse { tool, calls, failures, refused, dropped, ms } in tools {
        let tool = cut(tool, 32);
        let early = match dropped {
            0 => String::new(),
            dropped => format!("  and {dropped} early, not used"),
        };
        let _ =
            writeln!(text, "{tool:<32} {calls:>7} {failures:>8} {refused:>8} {:>10}{early}", grouped(*ms));
    }
    text
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

/// The run with this id, with this beginning, or the last one.
pub(crate) async fn find(journal: &dyn Journal, wanted: &str) -> Result<RunLine, Failure> {
    Ok(named(&journal.runs().await?, wanted)?.clone())
}

/// The same, of these runs of a journal.
pub(crate) fn named<'a>(runs: &'a [RunLine], wanted: &str) -> Result<&'a RunLine, Failure> {
    if wanted == "last" {
        let (damaged, whole): (Vec<_>, Vec<_>) = runs.iter().partition(|line| line.trouble.is_some());
        let newest = whole.first().or(damaged.first());
        // What is newer and cannot be read hides no other run.
        let newer = damaged.iter().filter(|line| newest.is_some_and(|newest| line.unix_ms > newest.unix_ms));
        for RunLine { run, trouble, .. } in newer {
            let trouble = trouble.as_deref().unwrap_or_default();
            stream::note(format!("loopgate: run {run} is newer, and damaged: {trouble}"));
        }
        let none = || Failure::new("the journal holds no run yet; `loopgate run` makes one");
        return newest.copied().ok_or_else(none);
    }
    let mut matching = runs.iter().filter(|line| line.run.as_str().starts_with(wanted) && !wanted.is_empty());
    match (matching.next(), matching.next()) {
        (Some(line), None) => Ok(line),
        (Some(_), Some(_)) => {
            Err(Failure::new(format!("several runs begin with {wanted}; give more of the id")))
        }
        (None, _) => {
            Err(JournalError::Unknown { run: RunId::new(wanted), place: "this journal".to_owned() }.into())
        }
    }
}

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
        fork::taken_over(started, parent).iter().for_each(|line| row(&mut text, line));
    }
    text.push('\n');
    text
}

fn unfinished(state: &Run, people: &PeopleReport, is_written: bool, journal: Option<&Path>) -> String {
    let mut text = heading(state);
    let who = match (is_written, state.requested().len()) {
        (true, _) => "running: a process writes it".to_owned(),
        (false, 0) => "interrupted: no process writes it".to_owned(),
        (false, _) => "waiting for a person: no process writes it".to_owned(),
    };
    let next = if state.requested().is_empty() { "resume" } else { "pending" };
    row(&mut text, &format!("not ended: {}", state.phase().name()));
    row(&mut text, &who);
    row(&mut text, &format!("so far: {}", run::bill(&totals_so_far(state))));
    let Reserve { input_tokens, output_tokens, cost } = state.reserved();
    let money = cost.map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string());
    let tokens =
        format!("{}, {}", counted(input_tokens, "input token"), counted(output_tokens, "output token"));
    row(&mut text, &format!("reserved for what was in flight: {tokens}, {money}"));
    if !is_written {
        row(&mut text, &format!("to continue: loopgate {next} {}{}", state.id(), places::at(journal)));
    }
    text.push('\n');
    text.push_str(&state.document().to_markdown());
    text.push_str(&details(state, people));
    text
}

/// What a run that has not ended has used.
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
        let change = change.map_or_else(String::new, |change| format!("; would have gone on with {change}"));
        format!("- {}: {}{against}{change}", condition.reason, condition.value)
    });
    section(&mut text, "Conditions at the stop", None, conditions);
    text
}

/// What a section without lines says.
const NONE: Option<&str> = Some("- none\n");

/// Adds lines under a title. `none`: what it says if there are none; without it the section is left out then.
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

/// Why an action has its verdict, in words: by a person, where one decided.
pub(crate) fn decided(state: &Run, action: &JudgedAction, people: &PeopleReport) -> String {
    let why = action.reason(state.evidence());
    match people.of_action(&action.key).and_then(|requested| requested.answer.as_deref()) {
        Some("approved") => "a person approved it".to_owned(),
        Some("answered") => "a person answered it".to_owned(),
        Some("denied") => format!("a person denied it: {why}"),
        _ => why,
    }
}

/// Requests to people, their answers and instructions, in the order of time.
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

/// That an action was approved, and by whom as far as it is known.
fn approved_by(approvers: &[ApproverReport]) -> String {
    let one = |by: &ApproverReport| {
        let (account, user) = (by.account.as_str().into(), by.user.as_str().into());
        Approver { account, user, claim: by.unverified_claim.as_deref().map(Into::into) }.to_string()
    };
    let all: Vec<String> = approvers.iter().map(one).collect();
    if all.is_empty() { "approved".to_owned() } else { format!("approved by {}", all.join(" and ")) }
}

/// Adds a line. What is in it comes from outside, so it is made to stay one.
pub(crate) fn row(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

/// A wall time as people read it, in UTC.
pub(crate) fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| unix_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_without_a_checked_account_says_so() {
        // U4: one that was given on the command line.
        let by = |account: &str, claim: Option<&str>| ApproverReport {
            account: account.to_owned(),
            user: String::new(),
            unverified_claim: claim.map(str::to_owned),
            unix_ms: 1,
        };
        let both = [by("token ci", None), by("", Some("Ada"))];
        let said = "approved by token ci and an unverified account as `Ada` (unverified)";
        assert_eq!((approved_by(&both), approved_by(&[])), (said.to_owned(), "approved".to_owned()));
    }
}
