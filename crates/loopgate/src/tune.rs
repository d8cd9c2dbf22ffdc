//! `loopgate tune`: the cheapest settings that keep the good outcomes of recorded runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loop_core::PicoUsd;
use loop_eval::tune::{HalfReport, Interval, Labels, TuneOptions, TuneReport, TuneVerdict};

use crate::failure::Failure;
use crate::recorded::{self, Progress, RunsArgs};
use crate::run::count;
use crate::show::row;
use crate::stream;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It calls no model and no tool. Settings are chosen on one half of the labelled runs; the other half says \
                  what they keep.\n\nExit codes: 0 the held-out half shows that the share is kept, or nothing is cheaper; 1 it \
                  does not show it, or a file could not be read; 2 wrong usage."
)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
    /// Which outcomes are good: JSON Lines or CSV with `run`, `good`, and if known `good_from_pass`
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: PathBuf,
    /// The share of good outcomes that has to be kept
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub(crate) keep: f64,
    /// Which work items are in which half
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the chosen settings as a policy file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn tune(args: TuneArgs) -> Result<ExitCode, Failure> {
    let labels = Arc::new(Labels::read(&args.labels)?);
    let of = recorded::named(&args.runs).await?;
    let done = Arc::new(AtomicUsize::new(0));
    let options = TuneOptions { keep: args.keep, seed: args.seed };
    let progress = Progress::show(&done, None);
    let report = loop_eval::tune::tune(&of, &labels, options, &done).await;
    drop(progress);
    let report = report?;
    if let Some(path) = &args.out {
        std::fs::write(path, &report.toml).map_err(|error| {
            Failure::new(format!("{}: {error}; make its folder writable", path.display()))
        })?;
    }
    if args.json {
        stream::print_json(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    } else {
        stream::print(&in_words(&report));
    }
    Ok(match report.verdict {
        TuneVerdict::Shown | TuneVerdict::NothingCheaper => ExitCode::SUCCESS,
        TuneVerdict::NotShown | TuneVerdict::Missed => ExitCode::FAILURE,
    })
}

fn in_words(report: &TuneReport) -> String {
    let mut text = String::new();
    let left_out = match report.left_out {
        0 => String::new(),
        left_out => format!(", {left_out} left out: not ended, or not readable"),
    };
    let (runs, labels) = (count(report.runs, "run", "runs"), count(report.labels, "label", "labels"));
    row(&mut text, &format!("{runs} of {labels}{left_out}; {} settings were tried", report.tried.len()));
    row(&mut text, &format!("at least {} of the good outcomes have to be kept", percent(report.keep)));
    text.push('\n');
    if report.verdict == TuneVerdict::NothingCheaper {
        row(&mut text, "No settings are cheaper and keep as much: stay with the recorded ones.");
        return text;
    }
    row(&mut text, "The cheapest settings:");
    text.push('\n');
    report.toml.lines().for_each(|line| row(&mut text, &format!("    {line}")));
    text.push('\n');
    half(&mut text, "chosen on", &report.choosing);
    half(&mut text, "held out", &report.held_out);
    text.push('\n');
    verdict(&mut text, report);
    text
}

fn half(text: &mut String, name: &str, half: &HalfReport) {
    let (runs, kept) = (count(half.runs, "run", "runs"), half.kept);
    let interval = format!("95 % interval {} to {}", percent(half.low), percent(half.high));
    row(
        text,
        &format!(
            "{name:<10} {runs}: {kept} of {} good outcomes kept ({}, {interval})",
            half.good,
            percent(half.rate)
        ),
    );
    let recorded = PicoUsd(half.recorded_cost_pico_usd);
    let cost = match half.cost_pico_usd {
        Some(cost) if half.unknown == 0 => format!("{} instead of {recorded}", PicoUsd(cost)),
        Some(cost) => format!("at most {} instead of {recorded}", PicoUsd(cost)),
        None => format!("unknown instead of {recorded}"),
    };
    let unknown = match half.unknown {
        0 => String::new(),
        unknown => format!("; the end of {} is not known", count(unknown, "run", "runs")),
    };
    row(text, &format!("{:<10} cost {cost}{unknown}", ""));
}

fn verdict(text: &mut String, report: &TuneReport) {
    let keep = percent(report.keep);
    match report.verdict {
        TuneVerdict::Shown => row(text, &format!("The held-out half shows that at least {keep} are kept.")),
        TuneVerdict::NotShown => {
            row(text, &format!("The data do not suffice to show that at least {keep} are kept."));
            if let Some(runs) = Interval::least_runs(report.keep) {
                row(
                    text,
                    &format!(
                        "Even without a miss a half needs {runs} good outcomes for that, and this one has {}.",
                        report.held_out.good
                    ),
                );
            }
        }
        TuneVerdict::Missed => {
            row(text, &format!("The held-out half keeps less than {keep}: do not use these settings."));
        }
        TuneVerdict::NothingCheaper => {}
    }
}

/// A share in percent, rounded to one decimal place.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
