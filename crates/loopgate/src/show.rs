//! `loopgate show` and `loopgate runs`: what the journal holds.

use std::fmt::Write as _;
use std::process::ExitCode;

use loop_core::{Run, RunId};
use loop_runtime::{Entry, Journal, JournalError, Report, RunLine, replay};
use serde_json::json;

use crate::args::{JournalArgs, ShowArgs};
use crate::failure::Failure;
use crate::{places, run, stream};

pub(crate) async fn show(args: ShowArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let id = find(journal.as_ref(), &args.run).await?;
    let recorded = journal.read(&id).await?;
    if args.events {
        for entry in &recorded.entries {
            stream::print(&lines_of(entry));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let state = replay(&id, &recorded)?;
    let Some(outcome) = state.outcome() else {
        if args.json {
            let why = "has not ended, so there is no outcome; leave --json out to see what there is";
            return Err(Failure::new(format!("run {id} {why}")));
        }
        stream::print(&unfinished(&state));
        return Ok(ExitCode::SUCCESS);
    };
    if args.json {
        let report = Report::new(state.started(), outcome);
        stream::print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
        return Ok(ExitCode::SUCCESS);
    }
    stream::print(&heading(&state));
    stream::print(&outcome.document.to_markdown());
    stream::print(&details(&state));
    run::summary(outcome);
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn runs(args: JournalArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args)?;
    let runs = journal.runs().await?;
    let mut text = String::new();
    for RunLine { run, unix_ms, domain, item, title, entries, stop } in runs {
        let stop = stop.map_or_else(|| format!("open, {entries} entries"), |reason| reason.to_string());
        let _ = writeln!(text, "{run}  {}  {domain:<12} {item:<10} {stop:<18} {title}", time(unix_ms));
    }
    stream::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// An entry as JSON lines: the event, then each note.
pub(crate) fn lines_of(entry: &Entry) -> String {
    let seq = entry.seq;
    let mut lines = format!("{}\n", json!({"seq": seq, "at": entry.event.at, "event": entry.event.fact}));
    for note in &entry.notes {
        let _ = writeln!(lines, "{}", json!({"seq": seq, "at": entry.event.at, "note": note}));
    }
    lines
}

/// The run with this id, with this beginning, or the last one.
async fn find(journal: &dyn Journal, wanted: &str) -> Result<RunId, Failure> {
    let runs = journal.runs().await?;
    if wanted == "last" {
        return match runs.first() {
            Some(line) => Ok(line.run.clone()),
            None => Err(Failure::new("the journal holds no run yet; `loopgate run` makes one")),
        };
    }
    let mut matching = runs.iter().filter(|line| line.run.as_str().starts_with(wanted) && !wanted.is_empty());
    match (matching.next(), matching.next()) {
        (Some(line), None) => Ok(line.run.clone()),
        (Some(_), Some(_)) => {
            Err(Failure::new(format!("several runs begin with {wanted}; give more of the id")))
        }
        (None, _) => {
            Err(JournalError::Unknown { run: RunId::new(wanted), place: "this journal".to_owned() }.into())
        }
    }
}

fn heading(state: &Run) -> String {
    let started = state.started();
    format!(
        "# {} {}: {}\n\nrun {} of {}, {}\n\n",
        started.item.kind,
        started.item.id,
        started.item.title,
        started.run,
        state.spec().domain,
        time(started.unix_ms)
    )
}

fn unfinished(state: &Run) -> String {
    let mut text = heading(state);
    let _ = writeln!(text, "not ended: {}, {} passes so far\n", state.phase().name(), state.totals().passes);
    text.push_str(&state.document().to_markdown());
    text.push_str(&details(state));
    text
}

/// Passes, evidence and actions as lists.
fn details(state: &Run) -> String {
    let mut text = String::from("\n---\n\nPasses:\n\n");
    for pass in state.passes() {
        let landing = if pass.landing { ", the last" } else { "" };
        let mending = if state.mending(pass.pass).is_some() { ", to mend" } else { "" };
        let changed = if pass.changed.is_empty() { "nothing".to_owned() } else { pass.changed.join(", ") };
        let (tier, confidence) = (pass.tier.name(), pass.confidence.name());
        let _ = writeln!(text, "- {} ({tier}, {confidence}{landing}{mending}): changed {changed}", pass.pass);
    }
    if state.passes().is_empty() {
        text.push_str("- none\n");
    }
    text.push_str("\nEvidence:\n\n");
    for evidence in state.evidence() {
        let (tool, parameters) = (&evidence.tool, &evidence.parameters);
        let (status, summary) = (evidence.observation.status.name(), &evidence.observation.summary);
        let _ = writeln!(
            text,
            "- {} {tool} {parameters}: {status}, {summary} (pass {})",
            evidence.id, evidence.pass
        );
    }
    if state.evidence().is_empty() {
        text.push_str("- none\n");
    }
    text.push_str("\nActions:\n\n");
    for action in state.actions() {
        let (verdict, why) = (action.verdict.name(), action.verdict.reason());
        let _ =
            writeln!(text, "- {} {} {}: {verdict}, {why}", action.key, action.tool_name(), action.parameters);
    }
    if state.actions().is_empty() {
        text.push_str("- none\n");
    }
    if let Some(outcome) = state.outcome() {
        text.push_str("\nConditions at the stop:\n\n");
        for condition in std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also) {
            let against = condition
                .threshold
                .as_ref()
                .map_or_else(String::new, |threshold| format!(" against {threshold}"));
            let change = condition
                .change
                .as_ref()
                .map_or_else(String::new, |change| format!("; would have gone on with {change}"));
            let _ = writeln!(text, "- {}: {}{against}{change}", condition.reason, condition.value);
        }
    }
    text
}

/// A wall time as people read it, in UTC.
fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| unix_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
