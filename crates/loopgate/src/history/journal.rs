//! `loopgate journal`: statistics, pruning, export and import of runs.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_core::types::RunId;
use loop_inspect::listed::{ListedRun, StatsReport};
use loop_runtime::journal::prune::KeepReason;
use loop_runtime::journal::prune::Retention;
use loop_runtime::journal::transfer::{Exported, ImportedRuns};
use loop_runtime::journal::{Journal as _, RunLine, StoredJournal, replay};
use loop_tools::files;

use crate::args::{FilterArgs, JournalArgs, ReportArgs, When};
use crate::context::{find, places};
use crate::output::{Failure, count, grouped, row, stream, time};
use crate::shown::listed;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum JournalCommand {
    /// Print how many runs and bytes the journal has, by outcome and domain
    Stats(StatsArgs),
    /// Delete runs that ended long ago; a run that is open, waits, or is in doubt is kept
    Prune(PruneArgs),
    /// Write runs as JSON lines
    Export(ExportArgs),
    /// Take the runs of an export in
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    json: ReportArgs,
    #[command(flatten)]
    journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = PRUNE_HELP)]
pub(crate) struct PruneArgs {
    /// Delete runs that ended before then: an age (90d, 12h), or a UTC date or time (2026-11-01)
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    older_than: When,
    /// Only print what would be deleted, and what would be kept
    #[arg(long)]
    dry_run: bool,
    /// Delete runs whose outcome could not be saved as well; only the journal has them
    #[arg(long)]
    unsaved: bool,
    /// Leave the file as large as it is; its free parts may still hold what was deleted
    #[arg(long)]
    no_compact: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    journal: JournalArgs,
}

const PRUNE_HELP: &str = "Each run is deleted in one transaction, with its label. Its id, its number of entries and its last hash stay, under the \
    journal's seal, so that `verify` tells it from a run that vanished, and its request key stays taken. Then the file \
    is written anew without the deleted parts. Without a filter, evals that were kept before then are deleted as well.\n\nExit codes: 0 done, 1 a run could not be deleted, or the journal could not be read, 2 wrong usage.";

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Runs: ids, beginnings of ids, or `last`
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    runs: Vec<String>,
    /// All runs that the filters leave, oldest first
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// The file to write; it must not exist yet [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the calls of each run and their results, one run a line, instead of the journal's entries
    #[arg(long)]
    trajectories: bool,
    #[command(flatten)]
    journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A run is taken in as a whole or not at all, and one that is there already is skipped. Runs that this journal made and \
                  exported are its own again once they have ended. All others can be read, compared, replayed and exported, and not \
                  be resumed."
)]
pub(crate) struct ImportArgs {
    /// The export; `-` reads standard input
    file: PathBuf,
    #[command(flatten)]
    journal: JournalArgs,
}

pub(crate) async fn journal(command: JournalCommand) -> Result<ExitCode, Failure> {
    match command {
        JournalCommand::Stats(args) => stats(args).await,
        JournalCommand::Prune(args) => prune(args).await,
        JournalCommand::Export(args) => export(args).await,
        JournalCommand::Import(args) => import(args).await,
    }
}

async fn stats(args: StatsArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let listed = FilterArgs::default().listed(&journal).await?;
    let listed: Vec<ListedRun> = listed.into_iter().map(|(_, run)| run).collect();
    let stats = journal.stats().await?;
    let report = StatsReport::new(journal.path().display().to_string(), &stats, &listed);
    args.json.print(&report, || in_words(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(report: &StatsReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, what: String| row(&mut text, &format!("{name:<10} {what}"));
    line("journal:", report.journal.clone());
    line("runs:", listed::in_words(&report.totals));
    for (domain, count) in &report.totals.by_domain {
        line("", format!("{} of {domain}", grouped(*count)));
    }
    line("entries:", grouped(report.entries));
    line("bytes:", format!("{}, {} of them free", grouped(report.bytes), grouped(report.free_bytes)));
    if let (Some(oldest), Some(newest)) = (report.oldest_unix_ms, report.newest_unix_ms) {
        line("begun:", format!("{} to {} UTC", time(oldest), time(newest)));
    }
    line("open:", grouped(report.open));
    line("damaged:", grouped(report.damaged));
    line("imported:", grouped(report.imported));
    line("pruned:", grouped(report.pruned));
    line("missing:", grouped(report.missing));
    text
}

async fn prune(args: PruneArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let all = journal.runs().await?;
    let listed = args.filter.listed(&journal).await?;
    let lines: Vec<RunLine> = listed.iter().map(|(line, _)| line.clone()).collect();
    let before = args.older_than.unix_ms();
    let Retention { mut prune, mut kept } = Retention::of(&journal, lines, &all, before).await?;
    if args.unsaved {
        let unsaved = kept.extract_if(.., |(_, why)| *why == KeepReason::Unsaved);
        prune.extend(unsaved.map(|(line, _)| line));
    }
    let mut text = String::new();
    if args.dry_run {
        for (line, run) in &listed {
            if prune.contains(line) {
                listed::one(&mut text, run, None);
            }
        }
    }
    let (mut pruned, mut entries, mut failed) = (0_u64, 0_u64, 0_u64);
    let mut kept: Vec<(RunId, KeepReason)> = kept.into_iter().map(|(line, why)| (line.run, why)).collect();
    for line in prune {
        let done = if args.dry_run { Ok(()) } else { journal.prune(&line.run).await };
        match done {
            Ok(()) => {
                pruned += 1;
                entries += line.entries;
            }
            Err(loop_runtime::journal::JournalError::Kept { run, why }) => kept.push((run, why)),
            Err(loop_runtime::journal::JournalError::Busy { run, .. }) => {
                kept.push((run, KeepReason::Written))
            }
            // Another process was first.
            Err(loop_runtime::journal::JournalError::Pruned { .. }) => {}
            Err(error) => {
                failed += 1;
                stream::note(format!("loopgate: {error}"));
            }
        }
    }
    // What an eval read is of no domain alone, so a filter leaves all of them.
    let evals = match args.filter.is_any() {
        true => 0,
        false => journal.prune_evals(before, args.dry_run).await?,
    };
    if pruned + evals > 0 && !args.dry_run {
        let compacts = !args.no_compact;
        if let Err(error) = journal.tidy_up(compacts).await {
            stream::note(format!("loopgate: not compacted: {error}; the next prune does it"));
        }
    }
    stream::print(&text);
    for (run, why) in &kept {
        stream::note(format!("kept:    {run}: {why}"));
    }
    let verb = if args.dry_run { "would be pruned" } else { "pruned" };
    let runs = count(pruned, "run");
    let evals = if evals == 0 { String::new() } else { format!(" and {}", count(evals, "eval")) };
    stream::note(format!("{verb}: {runs} with {} entries{evals}; kept: {}", grouped(entries), kept.len()));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn export(args: ExportArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let mut ids: Vec<RunId> = Vec::new();
    if args.all {
        ids.extend(args.filter.listed(&journal).await?.into_iter().rev().map(|(line, _)| line.run));
    }
    for named in &args.runs {
        let run = find(journal.as_ref(), named).await?.run;
        if !ids.contains(&run) {
            ids.push(run);
        }
    }
    let out = ExportSink::open(args.out.as_deref())?;
    let place = out.place.clone();
    let written = match args.trajectories {
        true => trajectories(&journal, &ids, out).await,
        false => {
            let program = concat!("loopgate ", env!("CARGO_PKG_VERSION"));
            let ExportSink { place, to, .. } = out;
            journal.export(&ids, program, &place, to).await.map_err(Failure::from)
        }
    };
    let exported = match written {
        Ok(exported) => exported,
        Err(failure) => {
            // A part of an export is not one.
            if let Some(path) = &args.out {
                _ = std::fs::remove_file(path);
            }
            return Err(failure);
        }
    };
    for (run, why) in &exported.left_out {
        stream::note(format!("loopgate: run {run} is left out: {why}"));
    }
    let runs = count(exported.runs, "run");
    stream::note(format!("exported: {runs} with {} entries to {place}", grouped(exported.entries)));
    Ok(if exported.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Standard output. If its reader is gone, the command ends quietly.
struct QuietStdout(std::io::Stdout);

impl QuietStdout {
    fn unless_unread<T>(result: std::io::Result<T>) -> std::io::Result<T> {
        match result {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => stream::exit(stream::UNREAD),
            result => result,
        }
    }
}

impl Write for QuietStdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::unless_unread(self.0.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Self::unless_unread(self.0.flush())
    }
}

/// The destination of an export.
struct ExportSink {
    place: String,
    to: Box<dyn Write + Send>,
}

impl ExportSink {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Self {
                place: "standard output".to_owned(),
                to: Box::new(QuietStdout(std::io::stdout())),
            });
        };
        let place = path.display().to_string();
        let file = places::private(std::fs::OpenOptions::new().write(true).create_new(true))
            .open(path)
            .map_err(|error| Failure::new(format!("{place}: {error}; name a file that is not there yet")))?;
        Ok(Self { place, to: Box::new(BufWriter::with_capacity(1 << 16, file)) })
    }
}

/// Exports the tool calls of each run, one run a line. A run that cannot be read is left out.
async fn trajectories(journal: &StoredJournal, ids: &[RunId], out: ExportSink) -> Result<Exported, Failure> {
    let ExportSink { place, mut to } = out;
    let mut exported = Exported::default();
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "{place}: the export cannot be written: {error}; make room, or name another file"
        ))
    };
    for id in ids {
        let read = match journal.read(id).await {
            Ok(recorded) => {
                let entries = recorded.entries.len() as u64;
                replay(id, &recorded).map(|run| (run, entries)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok((run, entries)) => {
                writeln!(to, "{}", loop_eval::trajectory_line(&run)?).map_err(failed)?;
                exported.runs += 1;
                exported.entries += entries;
            }
            Err(why) => exported.left_out.push((id.clone(), why.into())),
        }
    }
    to.flush().map_err(failed)?;
    Ok(exported)
}

async fn import(args: ImportArgs) -> Result<ExitCode, Failure> {
    let (place, lines): (String, Box<dyn BufRead + Send>) = match args.file.as_path() {
        path if path == Path::new("-") => {
            ("standard input".to_owned(), Box::new(BufReader::with_capacity(1 << 16, std::io::stdin())))
        }
        path => {
            let place = path.display().to_string();
            let file = files::open(path)
                .map_err(|error| Failure::new(format!("{place}: {error}; correct the path")))?;
            (place, Box::new(BufReader::with_capacity(1 << 16, file)))
        }
    };
    let path = args.journal.path();
    let journal = StoredJournal::open(path)?;
    let imported = journal.import(lines).await;
    let ImportedRuns { runs, own, skipped } =
        imported.map_err(|error| Failure::new(format!("{place}, {error}")))?;
    let runs = count(runs, "run");
    stream::note(format!(
        "imported: {runs}, {} of them made by this journal; {} were there already",
        grouped(own),
        grouped(skipped)
    ));
    Ok(ExitCode::SUCCESS)
}
