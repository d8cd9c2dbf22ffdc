//! Settings of a policy that contradict each other or have no effect.

use std::sync::Arc;

use serde_json::Value;

use crate::policy::scalar::Scalar;
use crate::policy::table::{Choice, table};
use crate::policy::{Reason, forbidden, names};
use crate::spec::{ArgSpec, ArgType, EndCall, RunSpec, ToolSpec};
use crate::types::{edits, pointer_step};

/// Two names at this edit distance or less are taken for a typo of one another.
const SLIP: usize = 2;

/// Names longer than this, in bytes, are not compared.
const LONGEST: usize = 128;

/// Fields whose names say that an outsider fills them.
const FILLED_BY_OUTSIDERS: [&str; 16] = [
    "subject",
    "body",
    "description",
    "title",
    "name",
    "filename",
    "file_name",
    "content",
    "text",
    "message",
    "comment",
    "note",
    "notes",
    "summary",
    "snippet",
    "html",
];

/// Whether the field at a JSON pointer, such as `/*/subject`, is by its name one that the author of an outside text
/// fills in.
pub fn is_filled_by_outsiders(pointer: &str) -> bool {
    let field = pointer.rsplit('/').next().unwrap_or_default().to_lowercase();
    FILLED_BY_OUTSIDERS.contains(&field.as_str())
}

/// The errors in the policy of a spec, one line each: the setting, why it is wrong, how to fix it.
pub fn problems(spec: &RunSpec) -> Vec<String> {
    let mut found = Vec::new();
    lists(spec, &mut found);
    demands(spec, &mut found);
    for tool in &spec.tools {
        of_tool(spec, tool, &mut found);
    }
    settings(spec, &mut found);
    found
}

/// Entries of `gate.forbid` that match no tool, one line each. They are harmless, but may be typos.
pub fn forbids_nothing(spec: &RunSpec) -> Vec<String> {
    let means_none = |entry: &&Arc<str>| {
        !spec.tools.iter().any(|tool| names(std::slice::from_ref(*entry), &tool.name))
            && !is_slip(spec, entry)
            && !means_an_end(spec, entry)
    };
    let line = |entry: &Arc<str>| {
        let what = if entry.contains('*') { "no tool's name fits" } else { "no tool is called" };
        format!(
            "gate.forbid: {what} `{entry}`; it holds for a name that a model makes up and for a tool that is added one day"
        )
    };
    spec.gate.forbid.iter().filter(means_none).map(line).collect()
}

/// Entries that match no tool, or only tools for which they have no effect.
fn lists(spec: &RunSpec, found: &mut Vec<String>) {
    let gate = &spec.gate;
    for (key, entries) in [("allow", &gate.allow), ("forbid", &gate.forbid), ("approved", &gate.approved)] {
        for entry in entries {
            let meant: Vec<&ToolSpec> =
                spec.tools.iter().filter(|tool| names(std::slice::from_ref(entry), &tool.name)).collect();
            if meant.is_empty() {
                // An entry that matches no tool forbids a name that a model may make up, unless it is a typo.
                if (key != "forbid" || is_slip(spec, entry)) && !means_an_end(spec, entry) {
                    found.push(no_tool(spec, key, entry));
                }
                continue;
            }
            if key == "forbid" {
                if let Some(tool) = meant.iter().find(|tool| spec.protocol.handles(&tool.name)) {
                    let name = &tool.name;
                    found.push(format!(
                        "gate.forbid: `{entry}` means `{name}`, with which the run ends; take it out"
                    ));
                }
                continue;
            }
            let reasons: Vec<Reason> = meant.iter().filter_map(|tool| forbidden(spec, tool)).collect();
            if reasons.len() < meant.len() {
                continue;
            }
            let what = if meant.len() == 1 { "the tool" } else { "every tool that it means" };
            let why = match reasons.first() {
                Some(Reason::NotAllowed) => "is not among what gate.allow names",
                _ => "is forbidden by gate.forbid",
            };
            found.push(format!(
                "gate.{key}: `{entry}` has no effect, for {what} {why}; take it out of one list"
            ));
        }
    }
    let choices: Vec<&ToolSpec> = spec
        .tools
        .iter()
        .filter(|tool| !spec.protocol.handles(&tool.name) && !spec.gate.validators.contains(&tool.name))
        .collect();
    if !choices.is_empty() && choices.iter().all(|tool| forbidden(spec, tool).is_some()) {
        found
            .push("gate.allow and gate.forbid leave no tool that may run; name one in gate.allow".to_owned());
    }
}

fn no_tool(spec: &RunSpec, key: &str, entry: &str) -> String {
    let by_alias = spec.tools.iter().find(|tool| tool.aliases.iter().any(|alias| **alias == *entry));
    match by_alias {
        Some(tool) => {
            format!(
                "gate.{key}: `{entry}` is an alias of `{}`; policy goes by own names, write that",
                tool.name
            )
        }
        None if entry.contains('*') => {
            format!("gate.{key}: no tool's name fits `{entry}`; correct it or take it out")
        }
        None => format!("gate.{key}: no tool is called `{entry}`; correct it or take it out"),
    }
}

/// Whether an entry means a call with which a model refuses the work or hands it over.
fn means_an_end(spec: &RunSpec, entry: &str) -> bool {
    spec.protocol.properties().native_calls && EndCall::named(entry).is_some()
}

/// Whether an unknown name is a typo of a tool's name, or an alias.
fn is_slip(spec: &RunSpec, name: &str) -> bool {
    spec.tools.iter().any(|tool| {
        let own = name.len() <= LONGEST && tool.name.len() <= LONGEST && edits(name, &tool.name) <= SLIP;
        own || tool.aliases.iter().any(|alias| **alias == *name)
    })
}

/// Demanded tools that policy forbids.
fn demands(spec: &RunSpec, found: &mut Vec<String>) {
    let never = |name: &str| {
        spec.tools.iter().find(|tool| *tool.name == *name).and_then(|tool| forbidden(spec, tool))
    };
    for name in &spec.gate.required_tools {
        if let Some(reason) = never(name) {
            found.push(format!(
                "gate.required_tools: `{name}` is {reason}, so that no answer could ever do; take it out of one list"
            ));
        }
    }
    for call in &spec.selection.defaults {
        if let Some(reason) = never(&call.tool) {
            found.push(format!("selection.defaults: `{}` is {reason}; take it out", call.tool));
        }
    }
}

fn of_tool(spec: &RunSpec, tool: &ToolSpec, found: &mut Vec<String>) {
    let name = &tool.name;
    let policy = &tool.policy;
    for pointer in &policy.authority {
        if let Some(fault) = fault(&tool.args, pointer) {
            found.push(format!("tools.{name}.authority: `{pointer}` {fault}"));
        }
    }
    if tool.effect.is_read() && !policy.authority.is_empty() {
        found.push(format!("tools.{name}.authority has no effect, for the tool only reads; take it out, or declare its effect"));
    }
    for pointer in &policy.trusted_fields {
        if is_filled_by_outsiders(pointer) {
            found.push(format!(
                "tools.{name}.returns_untrusted: who writes the text fills the field `{pointer}` as well, so that an \
                 attacker chooses whom an effect reaches; take it out of `except`"
            ));
        }
    }
    for pointer in &policy.repeats.key {
        if let Some(fault) = fault(&tool.args, pointer) {
            found.push(format!("tools.{name}.repeats.key: `{pointer}` {fault}"));
        }
    }
    for alias in &tool.aliases {
        if let Some(other) = spec.tools.iter().find(|other| other.name == *alias) {
            found.push(format!(
                "tools.{name}: the alias `{alias}` is the name of the tool `{}`; take it out",
                other.name
            ));
        }
    }
}

/// The error in a pointer to a parameter. `None`: it can match.
fn fault(args: &ArgSpec, pointer: &str) -> Option<&'static str> {
    let Some(steps) = pointer.strip_prefix('/') else {
        return Some("is not a pointer to a parameter; write `/` before its name");
    };
    (!may_hold(args, steps)).then_some("means no parameter that the tool declares; correct it")
}

/// Whether a value that matches the schema can have a member at these steps.
fn may_hold(args: &ArgSpec, steps: &str) -> bool {
    let (step, rest) = match steps.split_once('/') {
        Some((step, rest)) => (step, Some(rest)),
        None => (steps, None),
    };
    let below = |args: &ArgSpec| rest.is_none_or(|rest| may_hold(args, rest));
    if let Some(items) = &args.items {
        return (step == "*" || step.parse::<usize>().is_ok()) && below(items);
    }
    let is_open =
        args.additional_properties == Some(true) || (args.kind.is_none() && args.properties.is_empty());
    let mut members = args.properties.iter().filter(|(name, _)| step == "*" || pointer_step(name) == step);
    is_open || args.kind == Some(ArgType::Array) || members.any(|(_, args)| below(args))
}

fn settings(spec: &RunSpec, found: &mut Vec<String>) {
    let gate = &spec.gate;
    let reaches = |tool: &&ToolSpec| !tool.effect.is_read() && !tool.policy.authority.is_empty();
    if !gate.authorities.is_empty() && !spec.tools.iter().any(|tool| reaches(&tool)) {
        found.push(
            "gate.authorities has no effect, for no tool that changes something declares `authority`; take it out"
                .to_owned(),
        );
    }
    for value in &gate.authorities {
        let plain = Scalar::of(&Value::from(&**value)).is_some_and(|scalar| scalar.is_plain());
        if !plain {
            found.push(format!(
                "gate.authorities: {} can never be met: it is empty, too long, or holds what does not show; correct it",
                crate::policy::shown::quoted(&Value::from(&**value), 80)
            ));
        } else if value.contains('*') {
            found.push(format!(
                "gate.authorities: `{value}` is taken letter for letter, `*` included; write each value"
            ));
        }
    }
    if gate.people {
        return;
    }
    for row in table(spec) {
        let approved = !row.effect.is_read() && names(&gate.approved, &row.tool);
        let held_up = matches!(row.at_start.may, Choice::LeftUndone | Choice::Denied);
        let is_forbidden =
            spec.tools.iter().any(|tool| tool.name == row.tool && forbidden(spec, tool).is_some());
        if approved && held_up && !is_forbidden && gate.item_untrusted {
            found.push(format!(
                "gate.approved: `{}` can never run, for gate.item_untrusted makes it need a person and gate.people says that there is none; set gate.people, or gate.taint to off",
                row.tool
            ));
        }
    }
}
