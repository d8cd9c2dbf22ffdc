//! `loopgate plan`: what a run may use at most, before it begins.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_core::spec::CostMode;
use loop_core::types::PicoUsd;
use loop_inspect::{AtMost, PassesThatFit, Plan};
use loop_runtime::report::counted;

use crate::args::{DomainArgs, ReportArgs};
use crate::context::{places, to_loop};
use crate::output::{Failure, grouped, row};

pub(crate) fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let domain = places::load(&args.domain)?;
    let item = match &args.item {
        Some(path) => Some(places::item(&domain, path)?),
        None => None,
    };
    let prepared = to_loop(&domain, /*saves*/ true);
    let plan = Plan::new(prepared.spec(), &domain.prompts, item.as_ref());
    let mode = prepared.spec().limits.cost_mode;
    args.json.print(&plan, || in_words(&plan, mode, domain.price_notes()))?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(plan: &Plan, mode: CostMode, notes: &[String]) -> String {
    let mut text = String::new();
    match &plan.item {
        Some(item) => {
            row(&mut text, &format!("a run of {}, {} {}: {}", plan.domain, item.kind, item.id, item.title));
        }
        None => row(&mut text, &format!("a run of {}, of any work item", plan.domain)),
    }
    at_most(&mut text, &plan.at_most);
    worst(&mut text, &plan.at_most, mode);
    notes.iter().for_each(|note| row(&mut text, &format!("  price              {note}")));
    binds(&mut text, plan);
    text
}

fn at_most(text: &mut String, at_most: &AtMost) {
    let AtMost { tokens, tokens_over_limit, cost_pico_usd, cost_over_limit_pico_usd, .. } = at_most;
    row(text, "");
    let has_worst = *cost_over_limit_pico_usd > 0 || *tokens_over_limit > 0;
    row(
        text,
        if has_worst { "It uses at most, except for the worst case below:" } else { "It uses at most:" },
    );
    let mut line = |name: &str, value: &str| row(text, &format!("  {name:<18} {value}"));
    line("passes", &at_most.passes.to_string());
    line("model calls", &at_most.model_calls.to_string());
    line("tool calls", &at_most.tool_calls.to_string());
    line("tokens", &grouped(tokens.saturating_sub(*tokens_over_limit)));
    match cost_pico_usd {
        Some(cost) => {
            line("cost", &PicoUsd(cost.saturating_sub(*cost_over_limit_pico_usd)).to_string());
        }
        None if !at_most.called_runs.is_empty() => {
            line("cost", "unknown: it calls runs, and no cost limit is set");
        }
        None => line("cost", "unknown: the price of a model is not known, and no cost limit is set"),
    }
    if !at_most.called_runs.is_empty() {
        let runs = at_most.called_runs.join(", ");
        line("runs that it calls", &format!("{runs}: part of these limits; tokens are of this domain's models"));
    }
    line("wall clock", &seconds(at_most.wall_ms));
    match at_most.requests_to_people {
        0 => line("people", "are not asked"),
        requests => line(
            "people",
            &match (counted(requests, "request"), at_most.person_ms) {
                (requests, Some(ms)) => format!("{requests}, and {} of waiting more", seconds(ms)),
                (requests, None) => format!("{requests}, which wait until they are answered"),
            },
        ),
    }
}

/// What the limits of cost and tokens do not exclude, and why. Nothing in the mode `strict`.
fn worst(text: &mut String, at_most: &AtMost, mode: CostMode) {
    let AtMost { tokens, tokens_over_limit, cost_pico_usd, cost_over_limit_pico_usd, .. } = at_most;
    let cost = cost_pico_usd.filter(|_| *cost_over_limit_pico_usd > 0).map(|cost| PicoUsd(cost).to_string());
    let tokens = (*tokens_over_limit > 0).then(|| format!("{} tokens", grouped(*tokens)));
    let amounts: Vec<String> = cost.into_iter().chain(tokens).collect();
    let checked = match mode {
        CostMode::After => "checks the limit once a call is billed",
        CostMode::Estimated | CostMode::Strict => "begins no call whose estimate does not fit",
    };
    if !amounts.is_empty() {
        text.push_str(&format!(
            "\nWorst case: {}, if every call that is in flight when the\nlimit is reached is billed for the whole context of \
             its model.\nThe cost mode `{}` {checked}, and a bill\ncan be higher. `limits.cost_mode=strict` excludes \
             this case.\n",
            amounts.join(" and "),
            mode.name(),
        ));
    }
}

fn binds(text: &mut String, plan: &Plan) {
    row(text, "");
    row(text, "If each pass uses the most that it may, these limits bind, in this order:");
    for PassesThatFit { setting, passes } in &plan.passes_that_fit {
        let after = match passes {
            0 => "before a whole pass".to_owned(),
            passes => format!("after {}", counted(*passes, "pass")),
        };
        row(text, &format!("  {setting:<20} {after}"));
    }
    if plan.item.is_none() {
        row(text, "This counts no work item: name one, and its size is counted.");
    }
}

fn seconds(ms: u64) -> String {
    format!("{} s", loop_core::types::Millis(ms).in_seconds())
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, or `-` for standard input [default: any]
    pub(crate) item: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}
