//! A policy in words: the rules of a whole run, and what each tool may do.

use loop_core::RunSpec;
use loop_core::policy::{PolicyRow, TableCell, Taint, offers_plan, reachable, table};
use loop_core::spec::TaintRule;

/// The policy of a spec in words, for tables. First the rules of the whole run, a line each. Then the rows of the
/// tools: name, effect, what may happen, and why. Rows below a tool with an empty name are its exceptions.
pub fn policy_in_words(spec: &RunSpec) -> (Vec<String>, Vec<[String; 4]>) {
    let gate = &spec.gate;
    let people = if gate.people { "a person can be asked" } else { "no person can be asked" };
    let mut rules = vec![format!("{people}; {}", read(spec))];
    if !gate.authorities.is_empty() {
        let quoted: Vec<String> = gate.authorities.iter().map(|value| format!("\"{value}\"")).collect();
        rules.push(format!("given by policy: {}", quoted.join(", ")));
    }
    rules.extend(spec.plan.iter().map(|slot| format!("planned: {slot}")));
    if offers_plan(spec) {
        rules.push("a model may plan its effects before it reads untrusted text".to_owned());
    }
    let tools: Vec<_> = table(spec).iter().flat_map(|row| of_row(spec, row)).collect();
    if tools.is_empty() {
        rules.push("no tools".to_owned());
    }
    (rules, tools)
}

/// How reading changes what a run of this spec may do, in words.
fn read(spec: &RunSpec) -> &'static str {
    let reach = reachable(spec);
    match (spec.gate.taint, reach.untrusted, spec.gate.item_untrusted) {
        (TaintRule::Off, _, _) => "what a run has read does not matter (gate.taint is off)",
        (TaintRule::Ask, true, true) => "the work item is untrusted text",
        (TaintRule::Ask, true, false) => "what a run has read matters",
        (TaintRule::Ask, false, _) => "nothing that a run reads is marked as untrusted",
    }
}

/// The rows of a tool: what it may do, and its exceptions.
fn of_row(spec: &RunSpec, row: &PolicyRow) -> Vec<[String; 4]> {
    let Taint { untrusted, private } = reachable(spec);
    let TableCell { may, why } = &row.at_start;
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
    let returned = match (row.returns_untrusted, row.reads_private) {
        (true, true) => "untrusted text and private data",
        (true, false) => "untrusted text",
        (false, true) => "private data",
        (false, false) => return lines,
    };
    below("returns", "", returned);
    lines
}
