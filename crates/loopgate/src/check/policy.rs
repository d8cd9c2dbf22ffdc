//! `loopgate policy check`: what a domain's policy lets each tool do, why, and what in it contradicts itself.

use std::fmt::Write as _;
use std::process::ExitCode;

use loop_core::RunSpec;
use loop_core::policy::{Cell, PolicyRow, Taint, forbids_nothing, offers_plan, problems, reachable, table};
use loop_core::spec::TaintRule;
use serde_json::{Value, json};

use crate::args::{DomainArgs, ReportArgs};
use crate::context::places;
use crate::output::{Failure, columns, stream};

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
    let people = if gate.people { "a person can be asked" } else { "nobody can be asked" };
    let _ = writeln!(text, "{people}; {}", read(spec));
    if !gate.authorities.is_empty() {
        let quoted: Vec<String> = gate.authorities.iter().map(|value| format!("\"{value}\"")).collect();
        let _ = writeln!(text, "given by policy: {}", quoted.join(", "));
    }
    for slot in &spec.plan {
        let _ = writeln!(text, "planned: {slot}");
    }
    if offers_plan(spec) {
        text.push_str("a model may plan its effects before it reads untrusted text\n");
    }
    let rows = table(spec);
    if rows.is_empty() {
        text.push_str("there is no tool\n");
        return text;
    }
    let lines: Vec<[String; 4]> = std::iter::once(["tool", "effect", "may happen", "why"].map(str::to_owned))
        .chain(rows.iter().flat_map(|row| of_row(spec, row)))
        .collect();
    text.push('\n');
    text.push_str(&columns(&lines, "  "));
    text
}

/// What reading can come to in a run of this spec.
fn read(spec: &RunSpec) -> &'static str {
    let reach = reachable(spec);
    match (spec.gate.taint, reach.untrusted, spec.gate.item_untrusted) {
        (TaintRule::Off, _, _) => "what a run has read does not matter (gate.taint is off)",
        (TaintRule::Ask, true, true) => "the work item is untrusted text",
        (TaintRule::Ask, true, false) => "what a run has read matters",
        (TaintRule::Ask, false, _) => "nothing that a run reads is marked as untrusted",
    }
}

/// The lines of a tool: what may happen with it, and below it what changes that.
fn of_row(spec: &RunSpec, row: &PolicyRow) -> Vec<[String; 4]> {
    let Taint { untrusted, private } = reachable(spec);
    let Cell { may, why } = &row.at_start;
    let mut lines =
        vec![[row.tool.to_string(), row.effect.name().to_owned(), may.name().to_owned(), why.to_string()]];
    let mut below = |when: &str, may: &str, why: &str| {
        lines.push([String::new(), when.to_owned(), may.to_owned(), why.to_owned()]);
    };
    let later = [
        ("untrusted read", &row.untrusted, untrusted),
        ("and private read", &row.untrusted_and_private, untrusted && private),
    ];
    let mut before = &row.at_start;
    for (when, cell, is_reached) in later {
        if is_reached && cell != before {
            below(when, cell.may.name(), &cell.why);
            before = cell;
        }
    }
    if let Some(may) = row.untrusted_origin {
        let places = row.authority.join(", ");
        let why = "a value there that neither the work item nor policy nor a person nor a trusted tool gave";
        below(&format!("other {places}"), may.name(), why);
    }
    let brings = match (row.returns_untrusted, row.reads_private) {
        (true, true) => "untrusted text and private data",
        (true, false) => "untrusted text",
        (false, true) => "private data",
        (false, false) => return lines,
    };
    below("brings", "", brings);
    lines
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
