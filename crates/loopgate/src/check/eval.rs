//! `loopgate eval`: runs cases and compares the runs with their expectations.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use loop_eval::case::{Case, case_of_run};
use loop_eval::eval::{
    Baseline, CalibrationTarget, CaseResult, Configuration, Reliability, ResultStore, RunOptions, Suite,
    TrialResults, Trials, compare, run_case,
};
use loop_eval::report::{self, EvalReport};
use loop_llm::prices::origin;
use loop_runtime::journal::label::Label;
use loop_runtime::journal::{Journal, StoredJournal, replay, unix_ms};
use loop_runtime::report::counted;

use crate::args::{JournalArgs, ReportArgs, name_of, setting, tiered};
use crate::context::{find, places, places::ReportFile, places::private};
use crate::output::{Failure, stream};

pub(crate) async fn eval(args: EvalArgs) -> Result<ExitCode, Failure> {
    if let Some(EvalCommand::Record(args)) = &args.command {
        return record(args).await;
    }
    let mut suite = Suite::read(&args.paths)?;
    if args.frozen {
        suite.cases.iter_mut().filter_map(|case| case.recorded.as_mut()).for_each(|it| it.frozen = true);
    }
    if let Some(text) = &args.filter {
        suite = suite.filter(text);
        if suite.cases.is_empty() {
            return Err(Failure::new(format!(
                "--filter {text}: no case's name or file holds it; see --list"
            )));
        }
    }
    if args.list {
        stream::print(&list(&suite));
        return Ok(ExitCode::SUCCESS);
    }
    let is_changed = !args.models.is_empty() || !args.set.is_empty() || args.profile.is_some();
    if is_changed && suite.cases.iter().any(|case| case.recorded.is_none()) {
        let left_out = suite.cases.extract_if(.., |case| case.recorded.is_some()).count() as u64;
        if left_out > 0 {
            stream::note(format!(
                "{} not run: --model, --set and --profile do not apply to one; run it without them",
                counted(left_out, "recorded run")
            ));
        }
    }
    // Before anything is run and paid for: a journal that cannot be opened is found out now.
    let keeps = args.keep.as_deref().map(|name| EvalJournal::open(name, &args.journal)).transpose()?;
    let labelled = if args.labelled { labelled(&args.journal).await? } else { Vec::new() };
    let jobs = args.jobs.map_or_else(jobs, usize::from);
    // Before anything is run and paid for: a file that cannot be read or written is found out now.
    let baseline = match &args.baseline {
        Some(path) => {
            let (baseline, file) = (Baseline::read(path)?, path.display().to_string());
            baseline.check(&suite, &file)?;
            Some((baseline, file))
        }
        None => None,
    };
    let trials = trials(&args, jobs)?;
    places::expect_two_files(("--junit", args.junit.as_deref()), ("--html", args.html.as_deref()))?;
    let junit = ReportFile::open("--junit", args.junit.as_deref())?;
    let html = ReportFile::open("--html", args.html.as_deref())?;
    let calibration = args.calibration.as_deref().map(calibration_target).transpose()?;
    let runs = trials.as_ref().map_or(1, |trials| trials.configurations.len() * trials.repeat as usize);
    let (all, mut ended) = (suite.cases.len() * runs, 0);
    let mut done = |result: &CaseResult| {
        ended += 1;
        progress(result, ended, all);
    };
    let results = match &trials {
        None => suite.run(jobs, &mut done).await,
        Some(trials) => {
            let TrialResults { results, not_stored } = suite.trials(trials, &mut done).await?;
            if not_stored > 0 {
                stream::note(format!(
                    "{not_stored} results could not be stored, and are made anew the next time"
                ));
            }
            results
        }
    };
    if results.iter().any(|result| result.cost_pico_usd > 0) {
        let own = places::prices().map_or_else(String::new, |own| format!(", and {}", own.display()));
        stream::note(format!("prices:  {}{own}", origin()));
    }
    let comparison = baseline.map(|(baseline, file)| compare(&baseline, &results, &file));
    let counted = (!labelled.is_empty()).then(|| Reliability::of(&[results.clone(), labelled].concat()));
    let mut report = EvalReport::new(results, comparison);
    report.calibration = counted.or(report.calibration);
    if args.json.json {
        stream::print_report(&report)?;
    } else {
        if args.trace {
            report.cases.iter().for_each(trace);
        }
        // Of labelled runs alone there is a calibration and no table.
        let table = match trials {
            _ if args.paths.is_empty() => String::new(),
            None => report::table(&report.cases, &report.metrics),
            Some(_) => report::trials_table(&report.cases, &report.configurations),
        };
        stream::print(&table);
        if let Some(reliability) = report.calibration.as_ref().filter(|_| args.calibration.is_some()) {
            stream::print(&report::reliability_table(reliability));
        }
        if let Some(baseline) = &report.baseline {
            stream::print(&report::baseline_table(baseline));
        }
    }
    if let Some(file) = junit {
        file.write(&report::junit(&report.cases, report.baseline.as_ref()))?;
    }
    if let Some(file) = html {
        file.write(&report::page(&report))?;
    }
    if let Some(kept) = keeps {
        kept.write(&report).await?;
    }
    if let Some(target) = calibration {
        write_calibration(target, report.calibration.as_ref())?;
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The labelled runs of the journal as results. A run passed if its label is good.
async fn labelled(journal: &JournalArgs) -> Result<Vec<CaseResult>, Failure> {
    let journal = places::existing_journal(journal)?;
    let (mut results, mut good) = (Vec::new(), 0);
    for (run, label) in journal.labels(None).await? {
        let read = journal.read(&run).await.map_err(|error| error.to_string());
        let read = read.and_then(|recorded| replay(&run, &recorded).map_err(|error| error.to_string()));
        match read.map(|state| CaseResult::of_label(&state, label.label)) {
            Ok(result) => results.extend(result),
            Err(error) => stream::note(format!("loopgate: run {run} is not counted: {error}")),
        }
        good += u64::from(label.label == Label::Good);
    }
    if results.is_empty() {
        let place = journal.path().display();
        return Err(Failure::new(format!(
            "--labelled: {place}: no run is labelled; `loopgate label RUN good` labels one"
        )));
    }
    let runs = counted(results.len() as u64, "labelled run");
    stream::note(format!("{runs}, {good} of them good"));
    Ok(results)
}

/// The journal in which an eval is stored, and its name.
struct EvalJournal {
    name: Arc<str>,
    journal: StoredJournal,
}

impl EvalJournal {
    fn open(name: &str, journal: &JournalArgs) -> Result<Self, Failure> {
        let name = name_of("--keep", Some(name))?.unwrap_or_default();
        Ok(Self { name, journal: StoredJournal::open(journal.path())? })
    }

    async fn write(self, report: &EvalReport) -> Result<(), Failure> {
        let kept = report.kept(&self.name, unix_ms(SystemTime::now()));
        let id = self.journal.keep_eval(&kept, serde_json::to_string(report)?).await?;
        stream::note(format!("kept:    {} as eval {id} in {}", self.name, self.journal.path().display()));
        Ok(())
    }
}

/// The file of `--calibration`. Its content stays until it is replaced.
fn calibration_target(path: &Path) -> Result<CalibrationTarget, Failure> {
    CalibrationTarget::open(path).map_err(|error| {
        Failure::new(format!(
            "--calibration {}: {error}; name a file in a folder that can be written",
            path.display()
        ))
    })
}

/// Writes the calibration, and prints a warning for levels with few runs.
fn write_calibration(target: CalibrationTarget, reliability: Option<&Reliability>) -> Result<(), Failure> {
    let shown = target.path().display().to_string();
    let Some((reliability, file)) = reliability.and_then(|it| Some((it, it.file()?))) else {
        return Err(Failure::new(format!(
            "--calibration {shown}: no run counts, so nothing is written; a run counts if a model replied and stated its \
             confidence: give --model, or cases with \"model\": \"domain\""
        )));
    };
    target.write(&file).map_err(|error| {
        Failure::new(format!("--calibration {shown}: {error}; make room or name another file"))
    })?;
    stream::note(format!("calibration written to {shown}"));
    for warning in reliability.warnings() {
        stream::note(format!("warning: {warning}"));
    }
    if reliability.not_counted > 0 {
        stream::note(format!(
            "{} runs are not counted: no model of theirs stated a level",
            reliability.not_counted
        ));
    }
    Ok(())
}

/// The options for several models or repeats. `None`: each case runs once with its own model.
fn trials(args: &EvalArgs, jobs: usize) -> Result<Option<Trials>, Failure> {
    let is_as_written = args.models.is_empty() && args.set.is_empty() && args.profile.is_none();
    if is_as_written && args.repeat.is_none() && args.calibration.is_none() {
        for (option, is_given) in [
            ("--base-url", !args.base_urls.is_empty()),
            ("--cache", args.cache.is_some()),
            ("--fresh", args.fresh),
        ] {
            if is_given {
                return Err(Failure::new(format!(
                    "{option}: it is for --model, --set, --profile, --repeat and --calibration; give one of them as well"
                )));
            }
        }
        return Ok(None);
    }
    let cwd = places::cwd()?;
    let mut models = Vec::new();
    for text in &args.models {
        models.push(tiered::model(text)?);
    }
    let configurations = Configuration::all(models)?.into_iter().map(|one| one.located(&cwd)).collect();
    let base_urls = args.base_urls.iter().map(|text| tiered::base_url(text)).collect::<Result<_, _>>()?;
    let folder = args.cache.clone().map_or_else(places::cache, Ok)?;
    let store = ResultStore::open(&folder).map_err(|error| {
        Failure::new(format!("--cache {}: {error}; name a folder that can be written", folder.display()))
    })?;
    Ok(Some(Trials {
        configurations,
        repeat: args.repeat.map_or(1, u32::from),
        jobs,
        options: RunOptions {
            base_urls,
            profile: args.profile.clone(),
            set: args.set.iter().map(|text| setting(text)).collect::<Result<_, _>>()?,
            prices: places::prices(),
            uncalibrated: args.calibration.is_some(),
        },
        store: Some(if args.fresh { store.only_written() } else { store }),
    }))
}

/// How many cases run at a time. It is more than there are processors, since cases mostly wait.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |processors| processors.get() * 2)
}

/// One line for a case that has ended.
fn progress(result: &CaseResult, ended: usize, all: usize) {
    let mark = if result.passed { "ok" } else { "FAIL" };
    let stored = if result.stored { " (stored)" } else { "" };
    stream::note(format!("[{ended}/{all}] {mark} {}{stored}", result.name()));
}

fn trace(result: &CaseResult) {
    let mut text = format!("{}\n", result.case_id);
    for line in &result.trace {
        let _ = writeln!(text, "  {line}");
    }
    stream::print(&text);
}

fn list(suite: &Suite) -> String {
    let mut text = String::new();
    for case in &suite.cases {
        let _ = writeln!(text, "{}  {}", case.case_id, case.origin.display());
        if !case.shows.is_empty() {
            let covers =
                if case.covers.is_empty() { String::new() } else { format!(" ({})", case.covers.join(", ")) };
            let _ = writeln!(text, "    {}{covers}", case.shows);
        }
    }
    let _ = writeln!(text, "{}", counted(suite.cases.len() as u64, "case"));
    text
}

async fn record(args: &EvalRecordArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let run = find(journal.as_ref(), &args.run).await?.run;
    let recorded = journal.read(&run).await?;
    let shown = args.output.display();
    let name = args.output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.trim_end_matches(".json").trim_end_matches(".case");
    let mut case = case_of_run(if name.is_empty() { "recorded" } else { name }, &recorded)
        .map_err(|error| Failure::new(format!("run {run}: {error}")))?;
    case.recorded.iter_mut().for_each(|recording| recording.frozen = args.frozen);
    let text = format!("{}\n", serde_json::to_string_pretty(&case)?);
    // What is written is what is run, not what it was made from.
    let result = run_case(&Case::parse(&text, &args.output)?).await;
    let mut file =
        private(OpenOptions::new().write(true).create_new(true)).open(&args.output).map_err(|error| {
            Failure::new(format!(
                "-o {shown}: {error}; name a file that is not there yet, in a folder that is"
            ))
        })?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::new(format!("-o {shown}: {error}")))?;
    if result.passed {
        let against = result.against.map_or("", |against| against.name());
        stream::note(format!("{shown}: {run} ends with {} again ({against})", result.stop_reason));
        return Ok(ExitCode::SUCCESS);
    }
    stream::note(format!("{shown}: written, and it does not run as it ran:"));
    result.failures.iter().for_each(|failure| stream::note(format!("  {failure}")));
    Ok(ExitCode::FAILURE)
}

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit codes: 0 all runs ended as expected, 1 some did not or could not be read, 2 wrong usage. With --baseline: 0 \
                  no regression, 1 a regression, or a case could not be run."
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EvalCommand>,
    /// Case files, or folders with case files
    #[arg(required_unless_present = "labelled", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Run only cases whose name or file contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Model for a tier in place of the cases' own: selector, base, escalated or fallback; several models of one tier are
    /// alternatives, each a row of the table
    #[arg(short = 'm', long = "model", value_name = "[TIER=]PROVIDER/NAME", conflicts_with = "list")]
    pub(crate) models: Vec<String>,
    /// URL of a tier's model server; again for a run that was started with one that holds a credential
    #[arg(long = "base-url", value_name = "[TIER=]URL", conflicts_with = "list")]
    pub(crate) base_urls: Vec<String>,
    /// Profile of the domain to use
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    pub(crate) profile: Option<String>,
    /// Change a setting of the domain, for example limits.passes=3
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "list")]
    pub(crate) set: Vec<String>,
    /// Number of runs of each case with each model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "list")]
    pub(crate) repeat: Option<u16>,
    /// An earlier `eval --json` to compare with: fail where fewer runs pass than there, beyond noise
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write how often the stated confidence of each model was right to this file, for `gate.calibration`; the runs ignore that
    /// setting
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) calibration: Option<PathBuf>,
    /// With --calibration: count the runs of the journal that a person labelled as well, or alone where no PATH is given
    #[arg(long, requires = "calibration", conflicts_with = "list")]
    pub(crate) labelled: bool,
    /// Keep the results in the journal under this name, for the pages of `loopgate serve` and `loopgate view`
    #[arg(long, value_name = "NAME", requires = "paths", conflicts_with = "list")]
    pub(crate) keep: Option<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Folder in which results of runs with --model or --repeat are stored and looked up [default:
    /// $XDG_CACHE_HOME/loopgate/evals]
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    pub(crate) cache: Option<PathBuf>,
    /// Make every run anew, also where its result is stored, and replace that
    #[arg(long, conflicts_with = "list")]
    pub(crate) fresh: bool,
    /// Run recorded cases against their recorded settings and tools, also where they lie in the run's domain
    #[arg(long, conflicts_with = "list")]
    pub(crate) frozen: bool,
    /// Number of runs in parallel [default: twice the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print the cases and what they show, without running them
    #[arg(long, conflicts_with_all = ["json", "junit"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the results as a page: one static file without scripts
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) html: Option<PathBuf>,
    /// Print each case's trace
    #[arg(long, conflicts_with_all = ["json", "list"])]
    pub(crate) trace: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EvalCommand {
    /// Make a case from a run in the journal; the case passes as recorded
    Record(EvalRecordArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalRecordArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The case file to create; it must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Run the case against the recorded settings and tools, also where it lies in the run's domain
    #[arg(long)]
    pub(crate) frozen: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}
