//! `loopgate backtest`: shows what recorded runs would have done under other policies.

mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::types::{Millis, PicoUsd};
use loop_domain::PolicyFile;
use loop_inspect::backtest::{
    BacktestReport, BacktestedRun, FindingKind, Policies, Policy, PolicyReport, RunUnderPolicy,
};
use loop_runtime::report::counted;
use loop_server::pages::{self, PagePlace};

use super::recorded;
use super::recorded::RunsArgs;
use crate::args::ReportArgs;
use crate::context::places::ReportFile;
use crate::output::{Failure, cut, grouped, row};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It calls no model and no tool. An earlier stop is exact: document, cost and time are in the journal. What \
                  was never recorded is unknown, with a bound of its cost.\n\nExit codes: 0 all runs were tested, 1 a run \
                  or a policy could not be read, 2 wrong usage."
)]
pub(crate) struct BacktestArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
    /// A TOML file with the keys of a domain's limits and gate that differ; may be given several times
    #[arg(long = "policy", value_name = "FILE", required_unless_present = "set")]
    pub(crate) policies: Vec<PathBuf>,
    /// One more policy: these settings together; one of them may have several values, as limits.passes=2,3,4, and each is a
    /// policy then
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    /// With --json: the document of each run that stops earlier
    #[arg(long, requires = "json")]
    pub(crate) documents: bool,
    /// Write it as a page with pictures
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

pub(crate) async fn backtest(args: BacktestArgs) -> Result<ExitCode, Failure> {
    let mut all = Vec::new();
    for path in &args.policies {
        all.push(policy(PolicyFile::read(path, &[])?));
    }
    for (name, settings) in settings::policies(&args.set)? {
        all.push(policy(PolicyFile::of_settings(&name, &settings)?));
    }
    let policies = Arc::new(Policies::new(all));
    let html = ReportFile::open("--html", args.html.as_deref())?;
    let of = recorded::runs_named(&args.runs).await?;
    let tested = recorded::tested(&policies, &of, args.documents).await?;
    let mut labels = BTreeMap::new();
    for of in &of {
        if let Some(journal) = of.handles.first() {
            labels.extend(journal.labels(Some(&of.runs)).await?);
        }
    }
    let report = BacktestReport::new(&policies, tested).with_labels(&labels);
    if let Some(file) = html {
        file.write(&pages::backtest(&report, PagePlace::File))?;
    }
    args.json.print(&report, || in_words(&report))?;
    Ok(if report.not_tested.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The policy in a file, for every recorded run.
fn policy(file: PolicyFile) -> Policy {
    Policy::new(file.name().to_owned(), file.settings(), move |spec| file.applied(spec))
}

/// The most differing runs that are listed for each policy.
const MAX_ROWS: usize = 20;
/// The most characters of a policy's name.
const MAX_NAME_CHARS: usize = 28;

fn in_words(report: &BacktestReport) -> String {
    let mut text = String::new();
    let recorded = &report.recorded;
    let open = match recorded.open {
        0 => String::new(),
        open => format!(", {open} not ended"),
    };
    let runs = counted(recorded.runs, "run");
    row(&mut text, &format!("{runs} recorded{open}, cost {}", PicoUsd(recorded.cost_pico_usd)));
    text.push('\n');
    table(&mut text, report);
    for (at, policy) in report.policies.iter().enumerate() {
        section(&mut text, report, at, policy);
    }
    if !report.not_tested.is_empty() {
        text.push('\n');
        row(&mut text, &format!("{} not tested:", counted(report.not_tested.len() as u64, "run")));
        report.not_tested.iter().take(MAX_ROWS).for_each(|run| row(&mut text, &format!("  {}", run.why)));
    }
    text
}

fn table(text: &mut String, report: &BacktestReport) {
    let columns = ["same", "reason", "earlier", "final", "continues", "differs"];
    let mut line = format!("{:<MAX_NAME_CHARS$}", "policy");
    columns.iter().for_each(|column| line.push_str(&format!(" {column:>9}")));
    line.push_str(&format!(" {:>12} {:>10}", "saved", "saved s"));
    row(text, &line);
    for policy in &report.policies {
        let mut line = format!("{:<MAX_NAME_CHARS$}", cut(&policy.name, MAX_NAME_CHARS));
        for finding in FindingKind::ALL {
            let count = policy.findings.iter().find(|count| count.finding == finding);
            let runs = u64::from(count.map_or(0, |count| count.runs));
            line.push_str(&format!(" {:>9}", grouped(runs)));
        }
        let (saved, seconds) = (PicoUsd(policy.saved_pico_usd), Millis(policy.saved_ms).in_seconds());
        line.push_str(&format!(" {:>12} {seconds:>10}", saved.to_string()));
        row(text, &line);
    }
}

fn section(text: &mut String, report: &BacktestReport, at: usize, policy: &PolicyReport) {
    text.push('\n');
    row(text, &format!("{}: {}", policy.name, settings_of(policy)));
    for assumption in &policy.assumptions {
        row(text, &format!("  assumed without effect on what the model writes: {assumption}"));
    }
    if policy.other_results > 0 {
        let ends = if policy.other_results == 1 { "run ends" } else { "runs end" };
        let runs = policy.other_results;
        row(text, &format!("  {runs} {ends} with another document, answer or output than the recorded one"));
    }
    if let Some(labelled) = &policy.labelled {
        row(text, &format!("  {}", labelled.in_words()));
    }
    if policy.unknown > 0 {
        let runs = counted(policy.unknown, "run");
        let least = PicoUsd(policy.unknown_at_least_pico_usd);
        let most = policy.unknown_at_most_pico_usd.map_or_else(
            || "no bound: the price of a model is not known, and no cost limit is set".to_owned(),
            |most| format!("{} at most", PicoUsd(most)),
        );
        row(text, &format!("  the end of {runs} is not known: {least} at least, {most}"));
    }
    let pairs = report.runs.iter().filter_map(|run| Some((run, run.under.get(at)?)));
    let differ: Vec<_> = pairs.filter(|(_, under)| under.finding != FindingKind::Same).collect();
    if differ.is_empty() {
        row(text, "  no run differs");
    }
    differ.iter().take(MAX_ROWS).for_each(|(run, under)| row(text, &line(run, under)));
    let more = differ.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        row(text, &format!("  and {} more: --json lists them", grouped(more as u64)));
    }
}

fn settings_of(policy: &PolicyReport) -> String {
    if policy.settings.is_empty() { "sets nothing".to_owned() } else { policy.settings.join(", ") }
}

fn line(run: &BacktestedRun, under: &RunUnderPolicy) -> String {
    let name = under.finding.name();
    let place = match (under.entry, under.pass) {
        (Some(entry), Some(0)) => format!("entry {entry}, before pass 1"),
        (Some(entry), Some(pass)) => format!("entry {entry}, pass {pass}"),
        _ => String::new(),
    };
    let cost =
        |cost: Option<u64>| cost.map_or_else(|| "unknown".to_owned(), |cost| PicoUsd(cost).to_string());
    let (then, now) = (cost(run.cost_pico_usd), cost(under.cost_pico_usd));
    let money = match &under.more_at_most {
        Some(more) => format!("{now} of {then}, at most {} more", cost(more.cost_pico_usd)),
        None if under.exact => format!("{now} instead of {then}"),
        None => format!("at most {now} instead of {then}"),
    };
    let result = match (under.finding.is_known(), under.same_result) {
        (true, true) => "; same result",
        (true, false) => "; another result",
        (false, _) => "",
    };
    format!("  {} {}: {name} at {place}: {}; {money}{result}", run.run, cut(&run.item, 40), under.what)
}
