//! `loopgate policy check`: prints what a domain's policy lets each tool do, why, and where it contradicts itself.

use std::process::ExitCode;

use loop_core::RunSpec;
use loop_core::policy::{forbids_nothing, offers_plan, problems, reachable, table};
use loop_inspect::policy_in_words;
use serde_json::{Value, json};

use crate::args::{DomainArgs, ReportArgs};
use crate::context::places;
use crate::output::{Failure, columns, row, stream};

pub(crate) fn policy(PolicyCommand::Check(args): &PolicyCommand) -> Result<ExitCode, Failure> {
    let domain = places::load(&args.domain)?;
    let spec = &*domain.spec;
    let problems = problems(spec);
    let notes = forbids_nothing(spec);
    args.json.print(&as_json(spec, &problems, &notes), || as_text(spec))?;
    if !args.json.json {
        for problem in &problems {
            stream::note(format!("problem: {problem}"));
        }
        for reported in &notes {
            stream::note(format!("note: {reported}"));
        }
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn as_json(spec: &RunSpec, problems: &[String], notes: &[String]) -> Value {
    let gate = &spec.gate;
    json!({
        "domain": spec.domain,
        "profile": spec.profile,
        "label": gate.label,
        "policy": spec.policy_hash(),
        "spec": spec.hash(),
        "people": gate.people,
        "taint": gate.taint,
        "item_untrusted": gate.item_untrusted,
        "on_denied": gate.on_denied,
        "resolve": gate.resolve,
        "authorities": gate.authorities,
        "plan": spec.plan,
        "offers_plan": offers_plan(spec),
        "reachable": reachable(spec),
        "tools": table(spec),
        "problems": problems,
        "notes": notes,
    })
}

fn as_text(spec: &RunSpec) -> String {
    let gate = &spec.gate;
    let label = if gate.label.is_empty() { String::new() } else { format!(" \"{}\"", gate.label) };
    let mut text = format!("policy{label} of {}: {}\n", spec.domain, spec.policy_hash());
    let (rules, tools) = policy_in_words(spec);
    rules.iter().for_each(|rule| row(&mut text, rule));
    if !tools.is_empty() {
        let head = ["tool", "effect", "may happen", "why"].map(str::to_owned);
        let lines: Vec<[String; 4]> = std::iter::once(head).chain(tools).collect();
        text.push('\n');
        text.push_str(&columns(&lines, "  "));
    }
    text
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print what each tool may do, and why
    Check(PolicyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}
