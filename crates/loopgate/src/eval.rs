//! `loopgate eval`: cases, run and compared with what they expect.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use loop_eval::case::{Case, case_of_run};
use loop_eval::eval::{CaseResult, Metrics, Suite, ablate, run_case};
use loop_eval::report;
use loop_runtime::journal::Journal;

use crate::args::{EvalArgs, EvalCommand, EvalRecordArgs};
use crate::failure::Failure;
use crate::{places, show, stream};

pub(crate) async fn eval(args: EvalArgs) -> Result<ExitCode, Failure> {
    if let Some(EvalCommand::Record(args)) = &args.command {
        return record(args).await;
    }
    let mut suite = Suite::read(&args.paths)?;
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
    let jobs = args.jobs.map_or_else(jobs, usize::from);
    if args.ablate {
        let ablation = ablate(&suite, jobs, |guard| stream::note(format!("without {guard}: done"))).await;
        if args.json {
            stream::print_json(&format!(
                "{}\n",
                serde_json::to_string_pretty(&report::ablation_json(&ablation))?
            ));
        } else {
            stream::print(&report::ablation_table(&ablation));
        }
        return Ok(if ablation.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    // Before anything is run and paid for: a file that cannot be written is found out now.
    let junit = args.junit.as_deref().map(|path| opened(path).map(|file| (path, file))).transpose()?;
    let (all, mut ended) = (suite.cases.len(), 0);
    let results = suite
        .run(jobs, |result| {
            ended += 1;
            progress(result, ended, all);
        })
        .await;
    let metrics = Metrics::of(&results);
    if args.json {
        stream::print_json(&format!(
            "{}\n",
            serde_json::to_string_pretty(&report::json(&results, &metrics))?
        ));
    } else {
        if args.trace {
            results.iter().for_each(trace);
        }
        stream::print(&report::table(&results, &metrics));
    }
    if let Some((path, mut file)) = junit {
        file.write_all(report::junit(&results, &metrics).as_bytes())
            .map_err(|error| Failure::new(format!("--junit {}: {error}", path.display())))?;
    }
    let passed = results.iter().all(|result| result.passed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file for JUnit's XML, empty.
fn opened(path: &Path) -> Result<File, Failure> {
    private(OpenOptions::new().write(true).create(true).truncate(true)).open(path).map_err(|error| {
        Failure::new(format!("--junit {}: {error}; name a file in a folder that is there", path.display()))
    })
}

/// Lets nobody but the owner read a new file: it holds what runs have read.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// How many cases run at a time: they wait more than they work.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |processors| processors.get() * 2)
}

/// One line for a case that has ended.
fn progress(result: &CaseResult, ended: usize, all: usize) {
    let mark = if result.passed { "ok" } else { "FAIL" };
    stream::note(format!("[{ended}/{all}] {mark} {}", result.case_id));
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
    let _ = writeln!(text, "{} cases", suite.cases.len());
    text
}

async fn record(args: &EvalRecordArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let run = show::find(journal.as_ref(), &args.run).await?.run;
    let recorded = journal.read(&run).await?;
    let shown = args.output.display();
    let name = args.output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.trim_end_matches(".json").trim_end_matches(".case");
    let case = case_of_run(if name.is_empty() { "recorded" } else { name }, &recorded)
        .map_err(|error| Failure::new(format!("run {run}: {error}")))?;
    let text = format!("{}\n", serde_json::to_string_pretty(&case)?);
    // What is written is what is run, not what it was made from.
    let result = run_case(&Case::parse(&text, &args.output)?).await;
    let mut file = private(OpenOptions::new().write(true).create_new(true))
        .open(&args.output)
        .map_err(|error| Failure::new(format!("-o {shown}: {error}; name a file that is not there yet")))?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::new(format!("-o {shown}: {error}")))?;
    if result.passed {
        stream::note(format!("{shown}: {} ends with {} again", run, result.stop_reason));
        return Ok(ExitCode::SUCCESS);
    }
    stream::note(format!("{shown}: written, and it does not run as it ran:"));
    result.failures.iter().for_each(|failure| stream::note(format!("  {failure}")));
    Ok(ExitCode::FAILURE)
}
