//! `loopgate show`: prints a run of the journal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_core::Run;
use loop_core::run::Reserve;
use loop_core::types::RunId;
use loop_inspect::called::called_runs;
use loop_inspect::effects::effects_of_all;
use loop_runtime::{
    journal::{Journal as _, Recorded, StoredJournal, replay},
    people::{PeopleReport, waits},
    report::{EvidenceDetail, Report, counted},
    tools::ToolUse,
};

use serde_json::json;

use super::{cache, evidence, run_page};
use crate::args::{DETAILS, RecordedArgs, ReportArgs, one_of};
use crate::context::tags_of;
use crate::output::{Failure, at_journal, cut, grouped, row, stream, time};
use crate::shown::{
    bill, details, grounding, heading, lines_of, print_result, summary, tools_of, totals_so_far,
};

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
    let label = journal.labels(Some(std::slice::from_ref(&id))).await?.remove(&id);
    if let Some(path) = &args.html {
        return run_page::written(path, &id, recorded, label, journal);
    }
    if let Some((of, rest)) = args.piece.as_deref().and_then(|piece| piece.split_once('.')) {
        return show_below(&args, &journal, &id, &recorded, of, rest).await;
    }
    let state = replay(&id, &recorded)?;
    if args.effects || args.piece.is_some() || args.evidence == Some(None) {
        let (name, reports) = match args.effects {
            true => {
                let called = called_runs(&journal, &recorded).await?;
                let rows = effects_of_all(&state, &recorded, &called).iter().map(|it| json!(it)).collect();
                ("effects", rows)
            }
            false => ("evidence", evidence::evidence(&state, &recorded, args.piece.as_deref())?),
        };
        let report = json!({ "version": 1, "run": id, name: reports });
        args.json.print(&report, || evidence::in_words(&reports))?;
        return Ok(ExitCode::SUCCESS);
    }
    let tagged = tagged(&recorded);
    let Some(outcome) = state.outcome() else {
        if args.json.json {
            let why = "has not ended, so there is no outcome; omit --json to see its state so far";
            return Err(Failure::new(format!("run {id} {why}")));
        }
        stream::print(&tagged);
        stream::print(&unfinished(&state, &recorded, line.is_written, args.of.journal.journal.as_deref()));
        return Ok(ExitCode::SUCCESS);
    };
    let people = PeopleReport::of(&recorded);
    if args.json.json {
        let detail = args.evidence.flatten().unwrap_or_default();
        let report = Report::new(state.started(), outcome).with_evidence(outcome, detail);
        let report = report.with_spec(state.spec(), state.started(), outcome);
        let report = report.with_tools(tools_of(&recorded)).with_people(people);
        let report = report.with_run(&state, &recorded.manifest);
        stream::print_report(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    stream::print(&tagged);
    stream::print(&heading(&state));
    if let Some(label) = &label {
        let mut text = String::new();
        row(
            &mut text,
            &format!("label: {} (by {}, {} UTC)", label.in_words(), label.by, time(label.unix_ms)),
        );
        stream::print(&text);
    }
    let claims = loop_claims::of_run(&state);
    print_result(outcome, &claims);
    stream::print(&details(&state, &people));
    stream::print(&grounding::list(&claims));
    summary(outcome, &claims, &[]);
    Ok(ExitCode::SUCCESS)
}

/// Shows evidence of a run that this one called, by the name that its result has here: `E3.1` is `E1` of the run of `E3`.
async fn show_below(
    args: &ShowArgs,
    journal: &StoredJournal,
    id: &RunId,
    recorded: &Recorded,
    of: &str,
    rest: &str,
) -> Result<ExitCode, Failure> {
    let state = replay(id, recorded)?;
    let called = state.evidence().iter().find(|it| it.id.to_string() == of.to_uppercase());
    let run = called.and_then(|it| it.observation.child.as_ref()?.run.clone());
    let run =
        run.ok_or_else(|| Failure::new(format!("evidence {of} of run {id} is not of a run that it called")))?;
    let below = journal.read(&run).await?;
    let piece = if rest.starts_with(['e', 'E']) { rest.to_owned() } else { format!("E{rest}") };
    if let Some((of, rest)) = piece.split_once('.') {
        return Box::pin(show_below(args, journal, &run, &below, of, rest)).await;
    }
    let reports = evidence::evidence(&replay(&run, &below)?, &below, Some(&piece))?;
    let report = json!({ "version": 1, "run": run, "evidence": reports });
    args.json.print(&report, || evidence::in_words(&reports))?;
    Ok(ExitCode::SUCCESS)
}

/// The tags of a run in a line. Empty if there are none.
fn tagged(recorded: &Recorded) -> String {
    let tags = tags_of(recorded.origin.as_deref());
    let mut text = String::new();
    if !tags.is_empty() {
        row(&mut text, &format!("tags: {}", tags.join(", ")));
    }
    text
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

fn unfinished(state: &Run, recorded: &Recorded, is_written: bool, journal: Option<&Path>) -> String {
    let (mut text, waits) = (heading(state), waits(state, recorded.now()));
    let who = match (is_written, waits) {
        (true, _) => "running: a process writes it",
        (false, false) => "interrupted: no process writes it",
        (false, true) => "waiting for a person: no process writes it",
    };
    let next = if waits { "pending" } else { "resume" };
    row(&mut text, &format!("not ended: {}", state.phase().name()));
    row(&mut text, who);
    row(&mut text, &format!("so far: {}", bill(&totals_so_far(state))));
    let Reserve { input_tokens, output_tokens, cost } = state.reserved();
    let money = cost.map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string());
    let tokens =
        format!("{}, {}", counted(input_tokens, "input token"), counted(output_tokens, "output token"));
    row(&mut text, &format!("reserved for what was in flight: {tokens}, {money}"));
    if !is_written {
        row(&mut text, &format!("to continue: loopgate {next} {}{}", state.id(), at_journal(journal)));
    }
    text.push('\n');
    text.push_str(&state.document().to_markdown());
    text.push_str(&details(state, &PeopleReport::of(recorded)));
    text
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) of: RecordedArgs,
    /// Print one result as the document cites it, for example E3; E0 is the work item
    #[arg(value_name = "EVIDENCE", conflicts_with_all = ["evidence", "events", "cache", "html", "tools", "effects"])]
    pub(crate) piece: Option<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    /// Print what each tool returned, whole; with --json and a value: how much of it the outcome holds
    #[arg(long, value_parser = one_of(DETAILS), value_name = "DETAIL", num_args = 0..=1,
        requires_ifs = [("full", "json"), ("summary", "json"), ("none", "json")],
        conflicts_with_all = ["events", "cache", "html", "tools"])]
    pub(crate) evidence: Option<Option<EvidenceDetail>>,
    /// Print each requested effect: its tool and target, arguments, what became of it, who approved it
    #[arg(long, conflicts_with_all = ["evidence", "events", "cache", "html", "tools"])]
    pub(crate) effects: bool,
    /// Print each event and note as a JSON line
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
    /// Print, for each model request, what it shared with the one before and what the provider read from its cache
    #[arg(long, conflicts_with_all = ["json", "events"])]
    pub(crate) cache: bool,
    /// Write the run as a page instead of printing it: one file, which loads nothing and can be read without scripts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "events", "cache", "tools"])]
    pub(crate) html: Option<PathBuf>,
    /// Print, for each tool, the number of calls, the number of failures and the time taken
    #[arg(long, conflicts_with_all = ["json", "events", "cache"])]
    pub(crate) tools: bool,
}
