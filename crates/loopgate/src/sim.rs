//! `loopgate sim`: how runs of a domain end under its policy, simulated without a key.

use std::process::ExitCode;

use loop_core::PicoUsd;
use loop_eval::sim::{Amounts, Assumptions, Distribution, Fault, SimAssumption, Study};

use crate::args::SimArgs;
use crate::failure::Failure;
use crate::run::count;
use crate::show::row;
use crate::stream::{self, grouped};
use crate::{places, saving};

pub(crate) fn sim(args: &SimArgs) -> Result<ExitCode, Failure> {
    let assumed = assumed(&args.assume)?;
    let domain = places::load(&args.domain)?;
    let item = match &args.item {
        Some(path) => Some(places::item(&domain, path)?),
        None => None,
    };
    let prepared = saving::to_loop(&domain, /*saves*/ true);
    let study = Study::new(prepared.spec(), &domain.prompts, item, assumed);
    let distribution = study.simulate(args.seed, args.runs).map_err(bug)?;
    if args.json {
        stream::print_json(&format!("{}\n", serde_json::to_string_pretty(&distribution)?));
    } else {
        stream::print(&in_words(&distribution));
    }
    Ok(ExitCode::SUCCESS)
}

/// The assumptions with what the options change.
pub(crate) fn assumed(changes: &[String]) -> Result<Assumptions, Failure> {
    let mut assumed = Assumptions::default();
    for text in changes {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Failure::new(format!("--assume {text}: expected NAME=NUMBER, for example done=30")));
        };
        assumed.change(name.trim(), value).map_err(|error| Failure::new(format!("--assume {error}")))?;
    }
    Ok(assumed)
}

/// An invariant that did not hold in the run of this seed.
pub(crate) fn bug((seed, fault): (u64, Fault)) -> Failure {
    Failure::new(format!(
        "a bug of loopgate: in simulated run {seed}: {}: {}; please report it with the domain",
        fault.check, fault.what
    ))
}

fn in_words(all: &Distribution) -> String {
    let mut text = String::new();
    let of = all.item.as_ref().map_or_else(|| "of any work item".to_owned(), |item| format!("of {item}"));
    let runs = count(u32::try_from(all.runs).unwrap_or(u32::MAX), "simulated run", "simulated runs");
    row(&mut text, &format!("{runs} of {}, {of}, seed {}", all.domain, all.seed));
    row(&mut text, "No model was called, and no tool ran.");
    row(&mut text, "");
    row(&mut text, "They stopped for:");
    for it in &all.reasons {
        row(&mut text, &share(&it.reason, it.runs, all.runs));
    }
    row(&mut text, "");
    row(&mut text, "Classes:");
    for it in &all.classes {
        row(&mut text, &share(&it.class, it.runs, all.runs));
    }
    amounts(&mut text, all);
    reached(&mut text, all);
    row(&mut text, "");
    assumptions(&mut text, ASSUMED, &all.assumptions);
    text
}

fn share(name: &str, runs: u64, of: u64) -> String {
    format!("  {name:<20} {:>8}  {:>7}", grouped(runs), percent(runs, of))
}

/// A share of runs, with one decimal.
pub(crate) fn percent(runs: u64, of: u64) -> String {
    let tenths = (runs * 1_000 + of / 2).checked_div(of).unwrap_or_default();
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn amounts(text: &mut String, all: &Distribution) {
    row(text, "");
    row(
        text,
        &format!("  {:<20} {:>12} {:>12} {:>12} {:>12}", "", "half at most", "95 % at most", "most", "limit"),
    );
    let mut line = |name: &str, it: &Amounts, shown: &dyn Fn(u64) -> String| {
        let limit = it.limit.map_or_else(|| "none".to_owned(), shown);
        let [p50, p95, max] = [it.p50, it.p95, it.max].map(shown);
        row(text, &format!("  {name:<20} {p50:>12} {p95:>12} {max:>12} {limit:>12}"));
    };
    line("passes", &all.passes, &grouped);
    line("model calls", &all.model_calls, &grouped);
    line("tool calls", &all.tool_calls, &grouped);
    line("tokens", &all.tokens, &grouped);
    if let Some(cost) = &all.cost_pico_usd {
        line("cost", cost, &|cost| PicoUsd(cost).to_string());
    }
    line("wall clock", &all.wall_ms, &|ms| format!("{} s", loop_core::Millis(ms).in_seconds()));
    line("requests to people", &all.requests_to_people, &grouped);
    if all.cost_pico_usd.is_none() {
        row(text, "  The cost is not known, because the price of a model is not.");
    }
}

fn reached(text: &mut String, all: &Distribution) {
    row(text, "");
    if all.reached.is_empty() {
        row(text, "No run reached a limit.");
        return;
    }
    row(text, "Limits that were reached, and how many runs stopped for them:");
    for it in &all.reached {
        let stopped = grouped(it.stopped);
        row(text, &format!("{}   {stopped} stopped", share(&it.setting, it.reached, all.runs)));
    }
}

const ASSUMED: &str =
    "This was assumed, and is not known of your models and tools. Change it with --assume NAME=NUMBER:";

/// Every assumption in a line of its own, behind a title.
pub(crate) fn assumptions(text: &mut String, title: &str, all: &[SimAssumption]) {
    row(text, title);
    let width = all.iter().map(|it| it.name.len()).max().unwrap_or_default().max(16);
    for SimAssumption { name, value, unit, meaning } in all {
        row(text, &format!("  {name:<width$} {:>7} {unit:<7} {meaning}", grouped(u64::from(*value))));
    }
}
