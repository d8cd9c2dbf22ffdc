//! `loopgate plan`: prints the most that a run may use, before it begins.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_inspect::{AtMost, Plan};

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
    args.json.print(&plan, || in_words(&plan, domain.price_notes()))?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(plan: &Plan, notes: &[String]) -> String {
    let mut text = String::new();
    match &plan.item {
        Some(item) => {
            row(&mut text, &format!("a run of {}, {} {}: {}", plan.domain, item.kind, item.id, item.title));
        }
        None => row(&mut text, &format!("a run of {}, of any work item", plan.domain)),
    }
    at_most(&mut text, &plan.at_most);
    worst(&mut text, &plan.at_most);
    notes.iter().for_each(|note| row(&mut text, &format!("  price              {note}")));
    binds(&mut text, plan);
    text
}

fn at_most(text: &mut String, at_most: &AtMost) {
    row(text, "");
    let has_worst = at_most.worst_in_words(grouped).is_some();
    row(
        text,
        if has_worst { "It uses at most, except for the worst case below:" } else { "It uses at most:" },
    );
    for (name, value) in at_most.in_words(grouped) {
        row(text, &format!("  {name:<18} {value}"));
    }
}

/// Adds how far cost and tokens may exceed their limits, and why. Nothing in the mode `strict`.
fn worst(text: &mut String, at_most: &AtMost) {
    if let Some((amounts, why)) = at_most.worst_in_words(grouped) {
        text.push_str(&format!(
            "\nWorst case: {amounts}, if every call that is in flight when the\nlimit is reached is billed for the whole context of \
             its model.\nThe cost mode {why}, and a bill\ncan be higher. `limits.cost_mode=strict` excludes this case.\n",
        ));
    }
}

fn binds(text: &mut String, plan: &Plan) {
    row(text, "");
    row(text, "If each pass uses the most that it may, these limits bind, in this order:");
    for fit in &plan.passes_that_fit {
        row(text, &format!("  {:<20} {}", fit.setting, fit.in_words()));
    }
    if plan.item.is_none() {
        row(text, "This counts no work item: name one, and its size is counted.");
    }
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
