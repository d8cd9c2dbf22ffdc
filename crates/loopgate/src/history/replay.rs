//! `loopgate replay`: replays a recorded run's decisions, prompts and reads, or shows it after an entry.

use std::process::ExitCode;

use clap::ValueEnum;
use loop_core::{Command, Run};
use loop_inspect::replay::{
    DecisionDifference, Drift, PromptReplay, Replay, ReplayDepth, ShortResult, ToolReplay,
};
use loop_runtime::journal::{Entry, Recorded, replay as state_of};
use loop_runtime::people::PeopleReport;
use loop_runtime::report::counted;
use serde_json::json;

use crate::args::{FolderArgs, RecordedArgs, ReportArgs};
use crate::context::{FoundRun, opened};
use crate::output::{Failure, cut, grouped, row};
use crate::shown::{bill, details, heading, totals_so_far};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "No model is called and nothing is journaled. Writes are never called; their results come from the record.\n\n\
                  Exit codes: 0 everything that was compared is the same, 1 something differs, or the run could not be read, \
                  2 wrong usage."
)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) of: RecordedArgs,
    /// How much is done again
    #[arg(long, value_enum, default_value_t = Depth::Gate)]
    pub(crate) depth: Depth,
    /// Show the run as it was after this entry, from 0, in place of comparing; `loopgate show RUN --events` numbers them
    #[arg(long, value_name = "ENTRY", conflicts_with = "depth")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
}

/// How much of a recorded run is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Depth {
    /// The decisions, from the recorded replies and results
    Gate,
    /// The decisions, and the prompts with the domain's templates as they are now
    Prompts,
    /// The decisions, the prompts, and the reads: the tools are called
    Tools,
}

pub(crate) async fn replay(args: ReplayArgs) -> Result<ExitCode, Failure> {
    let (journal, line, recorded) = args.of.open().await?;
    let id = line.run;
    if let Some(at) = args.at {
        return shown_at(&id, recorded, at, args.json);
    }
    let replay = match args.depth {
        Depth::Gate => Replay::of(&id, &recorded)?,
        Depth::Prompts | Depth::Tools => {
            let found = FoundRun { run: opened(&recorded)?, recorded, journal };
            let (depth, calls) = match args.depth {
                Depth::Tools => (ReplayDepth::Tools, true),
                Depth::Prompts | Depth::Gate => (ReplayDepth::Prompts, false),
            };
            let runner = found.compared(args.folder.domain.as_deref(), calls)?;
            Replay::with(&runner, &id, &found.recorded, depth).await?
        }
    };
    args.json.print(&replay, || in_words(&replay))?;
    Ok(if replay.equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The most characters of a value.
const MAX_VALUE_CHARS: usize = 160;

fn in_words(replay: &Replay) -> String {
    let mut text = String::new();
    let Replay { run, domain, item, entries, decisions, prompts, tools, .. } = replay;
    row(&mut text, &format!("run {run} of {domain}, {} {}: {}", item.kind, item.id, item.title));
    match decisions.len() {
        0 => row(&mut text, &format!("decisions  {} entries, all decided as they were", grouped(*entries))),
        differing => {
            row(&mut text, &format!("decisions  {differing} of {} entries differ", grouped(*entries)));
            decisions.iter().for_each(|decision| decided(&mut text, decision));
        }
    }
    if let Some(prompts) = prompts {
        rendered(&mut text, prompts);
    }
    if let Some(tools) = tools {
        called(&mut text, tools);
    }
    text
}

fn decided(text: &mut String, decision: &DecisionDifference) {
    let DecisionDifference { entry, event, recorded, now, rejected } = decision;
    row(text, &format!("  entry {entry}, {event}:"));
    if let Some(rejected) = rejected {
        row(text, &format!("    cannot follow today: {rejected}; the rest was not replayed"));
        return;
    }
    let line = |value: &serde_json::Value| cut(&value.to_string(), MAX_VALUE_CHARS);
    recorded
        .iter()
        .filter(|note| !now.contains(note))
        .for_each(|note| row(text, &format!("    then: {}", line(note))));
    now.iter()
        .filter(|note| !recorded.contains(note))
        .for_each(|note| row(text, &format!("    now:  {}", line(note))));
}

fn rendered(text: &mut String, prompts: &PromptReplay) {
    let PromptReplay { rendered, different } = prompts;
    if different.is_empty() {
        row(text, &format!("prompts    {rendered}, all the bytes that were sent"));
        return;
    }
    row(text, &format!("prompts    {} of {rendered} differ", different.len()));
    for it in different {
        let now =
            it.bytes.map_or_else(|| "not rendered".to_owned(), |bytes| format!("{} bytes", grouped(bytes)));
        let (entry, call, attempt) = (it.entry, &it.call, it.attempt);
        let then = grouped(it.recorded_bytes);
        row(text, &format!("  entry {entry}, {call}, try {attempt}: then {then} bytes, now {now}"));
    }
}

fn called(text: &mut String, tools: &ToolReplay) {
    let ToolReplay { called, drifted, not_called } = tools;
    if drifted.is_empty() {
        row(text, &format!("tools      {} called again, nothing differs", counted(*called, "read")));
    } else {
        let read = counted(*called, "read");
        row(
            text,
            &format!(
                "tools      {read} called again, {} {}",
                drifted.len(),
                if drifted.len() == 1 { "differs" } else { "differ" }
            ),
        );
    }
    for Drift { entry, action, tool, parameters, recorded, now, lines } in drifted {
        let parameters = cut(&parameters.to_string(), MAX_VALUE_CHARS);
        row(text, &format!("  entry {entry}, {action} {tool} {parameters}:"));
        let short =
            |result: &ShortResult| format!("{}, {}", result.status, cut(&result.summary, MAX_VALUE_CHARS));
        if recorded.status != now.status || recorded.summary != now.summary {
            row(text, &format!("    then: {}", short(recorded)));
            row(text, &format!("    now:  {}", short(now)));
        }
        lines.iter().for_each(|line| row(text, &format!("    {}", cut(line, MAX_VALUE_CHARS))));
        if lines.is_empty() {
            row(text, &format!("    the data differs: then {}, now {}", recorded.digest, now.digest));
        }
    }
    for it in not_called {
        let (entry, action, tool) = (it.entry, &it.action, &it.tool);
        row(
            text,
            &format!("  entry {entry}, {action} {tool}: from the record, because {}", it.why.sentence()),
        );
    }
}

/// Prints the run as it was after entry `at`.
fn shown_at(
    id: &loop_core::types::RunId,
    mut recorded: Recorded,
    at: u64,
    json: ReportArgs,
) -> Result<ExitCode, Failure> {
    let entries = recorded.entries.len();
    let end = usize::try_from(at).ok().filter(|at| *at < entries).ok_or_else(|| {
        let last = entries.saturating_sub(1);
        Failure::new(format!(
            "run {id} has the entries 0 to {last}, and not {at}; `loopgate show {id} --events` lists them"
        ))
    })?;
    recorded.entries.truncate(end.saturating_add(1));
    let state = state_of(id, &recorded)?;
    let entry = recorded.entries.last().ok_or_else(|| Failure::new("the run has no entries"))?;
    let value = json!({
        "run": id, "entry": entry.seq, "of": entries, "at_ms": entry.event.at, "event": entry.event.kind,
        "notes": entry.notes, "phase": state.phase().name(), "commands": commands(&state), "state": state.state(),
    });
    json.print(&value, || after(&state, entry, entries, &PeopleReport::of(&recorded)))?;
    Ok(ExitCode::SUCCESS)
}

fn after(state: &Run, entry: &Entry, entries: usize, people: &PeopleReport) -> String {
    let mut text = heading(state);
    let (seq, at, name) = (entry.seq, grouped(entry.event.at.0), entry.event.kind.name());
    let last = entries.saturating_sub(1);
    row(&mut text, &format!("after entry {seq} of {last}, {name}, {at} ms after the start"));
    row(&mut text, &format!("phase: {}", state.phase().name()));
    row(&mut text, &format!("so far: {}", bill(&totals_so_far(state))));
    match commands(state) {
        commands if commands.is_empty() => row(&mut text, "next: nothing"),
        commands => row(&mut text, &format!("next: {}", commands.join(", "))),
    }
    for note in &entry.notes {
        let note = serde_json::to_value(note).unwrap_or_default();
        row(&mut text, &format!("decided: {}", cut(&note.to_string(), MAX_VALUE_CHARS)));
    }
    text.push('\n');
    text.push_str(&state.document().to_markdown());
    text.push_str(&details(state, people));
    text
}

/// The run's commands in words.
fn commands(state: &Run) -> Vec<String> {
    let in_words = |command: &Command| match command {
        Command::CallModel(call) => format!("call a model ({}, try {})", call.key, call.attempt),
        Command::RunTool(tool) => format!("call {} ({}, try {})", tool.tool, tool.key, tool.attempt),
        Command::AskPerson { key, action, .. } => format!("ask a person about {} ({key})", action.tool),
        Command::Check(check) => format!("check ({}, try {})", check.key, check.attempt),
        Command::Abort { key, .. } => format!("cancel {key}"),
        Command::Save { attempt } => format!("save the outcome (try {attempt})"),
    };
    state.commands().iter().map(in_words).collect()
}
