//! `loopgate why`: explains what stopped a run, what would have continued it, and how to continue.

use std::path::Path;
use std::process::ExitCode;

use loop_core::Run;
use loop_inspect::why::{Continuation, Why, WhyCondition, WhyStatus};
use loop_runtime::journal::{Recorded, RunLine, replay};

use crate::args::{RecordedArgs, ReportArgs};
use crate::context::Origin;
use crate::output::{Failure, at_journal, cut, quoted, row};
use crate::shown::people;

pub(crate) async fn why(args: WhyArgs) -> Result<ExitCode, Failure> {
    let (_, line, recorded) = args.of.open().await?;
    let why = Why::of(&line.run, &recorded)?;
    let state = replay(&line.run, &recorded)?;
    let at = args.of.journal.journal.as_deref();
    args.json.print(&why, || in_words(&why, &state, &line, &recorded, at))?;
    Ok(ExitCode::SUCCESS)
}

/// The most characters of a call's parameters.
const MAX_PARAMETER_CHARS: usize = 120;

fn in_words(why: &Why, state: &Run, line: &RunLine, recorded: &Recorded, journal: Option<&Path>) -> String {
    let mut text = String::new();
    let Why { run, domain, item, .. } = why;
    row(&mut text, &format!("run {run} of {domain}, {} {}: {}", item.kind, item.id, item.title));
    status(&mut text, why, line);
    conditions(&mut text, why);
    limits(&mut text, why);
    if let Some(continuation) = &why.continuation {
        title(&mut text, "What would have continued it");
        continued(&mut text, continuation);
    }
    if !why.warnings.is_empty() {
        title(&mut text, "Warnings");
        why.warnings.iter().for_each(|warning| row(&mut text, &format!("  {warning}")));
    }
    notes(&mut text, why);
    undone(&mut text, why);
    title(&mut text, "How to continue");
    next(&mut text, why, state, line, recorded, journal);
    text
}

fn title(text: &mut String, title: &str) {
    text.push('\n');
    row(text, &format!("{title}:"));
}

fn status(text: &mut String, why: &Why, line: &RunLine) {
    match (&why.class, why.status) {
        (Some(class), _) => {
            let reason = why.conditions.first().map_or("", |condition| &condition.reason);
            let place = why.stopped_in.as_ref().map_or_else(String::new, |it| match it.pass {
                0 => format!(", in phase {}, before pass 1", it.phase),
                pass => format!(", in phase {}, pass {pass}", it.phase),
            });
            row(text, &format!("stopped: {reason} ({class}){place}"));
        }
        (None, WhyStatus::Waiting) => {
            row(text, "not ended: it waits for a person, and no process is needed for that")
        }
        (None, _) if line.is_written => row(text, &format!("not ended: a process drives it ({})", why.phase)),
        (None, _) => row(text, &format!("not ended: no process drives it ({})", why.phase)),
    }
}

fn conditions(text: &mut String, why: &Why) {
    let Some((primary, also)) = why.conditions.split_first() else { return };
    title(text, "Why");
    condition(text, primary);
    if !also.is_empty() {
        title(text, "Also true");
        also.iter().for_each(|it| condition(text, it));
    }
}

fn condition(text: &mut String, condition: &WhyCondition) {
    let WhyCondition { reason, value, threshold, explanation, .. } = condition;
    let against = threshold.as_ref().map_or_else(String::new, |threshold| format!(", against {threshold}"));
    row(text, &format!("  {reason}: {explanation}"));
    row(text, &format!("    value {value}{against}"));
}

fn limits(text: &mut String, why: &Why) {
    title(text, if why.class.is_some() { "At the end" } else { "So far" });
    for of in &why.limits {
        row(text, &format!("  {:<20} {}", of.setting, of.in_words()));
    }
    if !why.confidence.is_empty() {
        let stated = why.confidence.iter().map(|it| match &it.measured {
            None => format!("{} in pass {}", it.confidence, it.pass),
            Some(measured) => format!("{} in pass {} (measured {measured})", it.confidence, it.pass),
        });
        row(text, &format!("  {:<20} {}", "confidence", stated.collect::<Vec<_>>().join(", ")));
    }
    for check in &why.checks {
        row(text, &format!("  {:<20} {}", "check", check.in_words()));
    }
    if let Some(reason) = why.confidence.last().map(|it| &it.reason).filter(|reason| !reason.is_empty()) {
        row(text, &format!("  {:<20} {reason}", "the model's reason"));
    }
}

fn continued(text: &mut String, continuation: &Continuation) {
    match continuation {
        Continuation::With { changes, next, at_least } => {
            for change in changes {
                row(text, &format!("  {} = {} instead of {}", change.setting, change.to, change.from));
            }
            let together = if changes.len() > 1 { "together: " } else { "" };
            row(text, &format!("  {together}{next}"));
            if *at_least {
                row(text, "  the next model call is checked against the limit again, and needs more");
            }
        }
        Continuation::NoSetting { reason, explanation } => {
            row(text, &format!("  no setting decides {reason}: {explanation}"));
        }
        Continuation::Unknown { why } => row(text, &format!("  unknown: {why}")),
    }
}

/// The most notes that are listed.
const MAX_NOTES: usize = 10;

fn notes(text: &mut String, why: &Why) {
    if why.notes.is_empty() {
        return;
    }
    title(text, "What was repeated");
    for note in why.notes.iter().take(MAX_NOTES) {
        row(text, &format!("  {} {} (pass {}): {}", note.evidence, note.tool, note.pass, note.explanation));
    }
    let more = why.notes.len().saturating_sub(MAX_NOTES);
    if more > 0 {
        row(text, &format!("  {more} more (--json lists all of them)"));
    }
}

fn undone(text: &mut String, why: &Why) {
    let Why { undone, missing, weak_sections, in_doubt, not_saved, .. } = why;
    let is_nothing = undone.is_empty() && missing.is_empty() && weak_sections.is_empty();
    if is_nothing && in_doubt.is_empty() && not_saved.is_none() {
        if why.status == WhyStatus::Ended {
            title(text, "What is left");
            row(text, "  nothing");
        }
        return;
    }
    title(text, "What is left");
    for effect in in_doubt {
        row(text, &format!("  in doubt: {effect}: it may or may not have happened"));
    }
    for what in missing {
        row(text, &format!("  missing: {what}"));
    }
    for action in undone {
        let parameters = action.parameters.to_string();
        let parameters = cut(&parameters, MAX_PARAMETER_CHARS);
        let (key, tool, verdict) = (&action.key, &action.tool, &action.verdict_reason);
        row(text, &format!("  not run: {key} {tool} {parameters}: {verdict}"));
    }
    for weak in weak_sections {
        row(
            text,
            &format!(
                "  weak: section `{}`, of pass {} at {} confidence",
                weak.section, weak.pass, weak.confidence
            ),
        );
    }
    if let Some(why) = not_saved {
        row(text, &format!("  not saved: {why}"));
    }
}

/// The commands with which a person can continue.
fn next(
    text: &mut String,
    why: &Why,
    state: &Run,
    line: &RunLine,
    recorded: &Recorded,
    journal: Option<&Path>,
) {
    let (run, at) = (&why.run, at_journal(journal));
    match why.status {
        WhyStatus::Waiting => {
            let words = people::in_words(state, &recorded.manifest, recorded.now(), journal);
            // The first line names the run, which was named already.
            words.lines().skip(1).filter(|line| !line.is_empty()).for_each(|line| row(text, line));
        }
        WhyStatus::Open if line.is_written => row(
            text,
            &format!("  loopgate stop {run}{at}, or wait; `loopgate show {run}{at}` shows how far it is"),
        ),
        WhyStatus::Open if recorded.unverified.is_some() => row(text, "  it cannot be resumed, see above"),
        WhyStatus::Open => row(text, &format!("  loopgate resume {run}{at}")),
        WhyStatus::Ended => {
            if !why.in_doubt.is_empty() {
                row(text, "  look whether the effects in doubt happened, before anything is done again");
            }
            row(text, &format!("  this run is over: loopgate show {run}{at}"));
            if let Some(by) = state.started().provenance.called_by.as_deref() {
                let root = &by.root;
                row(text, &format!("  it is part of run {root}, which is continued as a whole:"));
                row(text, &format!("    loopgate why {root}{at}"));
                return;
            }
            row(text, "  a fork continues it before its end, and repeats no effect without an approval:");
            row(text, &format!("    loopgate fork {run}{}{at}", settings(why)));
            if state.spec().protocol.properties().has_sections {
                row(text, "  a retry begins anew and knows its evidence:");
                row(text, &format!("    loopgate retry {run}{}{at}", settings(why)));
            }
            row(text, "  a new run calls models and tools again (ITEM is the file of the work item):");
            row(text, &format!("    loopgate run {}", again(why, recorded)));
        }
    }
}

/// The settings under which the run would have continued.
fn changes(why: &Why) -> impl Iterator<Item = (String, String)> {
    let changes = match &why.continuation {
        Some(Continuation::With { changes, .. }) => changes.as_slice(),
        Some(Continuation::NoSetting { .. } | Continuation::Unknown { .. }) | None => &[],
    };
    changes.iter().map(|change| (change.setting.clone(), change.to.clone()))
}

/// The settings as options of `loopgate fork`.
fn settings(why: &Why) -> String {
    changes(why).map(|(setting, to)| format!(" --set {}", quoted(&format!("{setting}={to}")))).collect()
}

/// The command that begins a new run with these settings.
fn again(why: &Why, recorded: &Recorded) -> String {
    match recorded.origin.as_deref().and_then(|origin| Origin::read(origin).ok()) {
        Some(origin) => origin.in_command("ITEM", &changes(why).collect::<Vec<_>>()),
        None => format!("DOMAIN ITEM{}", settings(why)),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) of: RecordedArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}
