//! Resolves the tool name of a call to a tool.

use std::sync::Arc;

use crate::policy::{forbids, is_forbidden};
use crate::spec::{EndCall, Resolve, RunSpec, ToolSpec};
use crate::types::similar_names;

/// The minimum letters and digits of a partial name.
const LEAST: usize = 4;

/// How the name in a call matched a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameMatch {
    /// The name is the tool's own.
    Exact,
    /// The name is an alias that the tool declares.
    Alias,
    /// The name is part of the name of exactly one tool. This is a repair, and it is journaled.
    Fuzzy,
}

/// The tool that `name` resolves to under the spec's `gate.resolve`, and how it matched. `None`: no tool.
///
/// A partial name has at least four letters or digits. It is compared without case, and blanks and hyphens count as
/// underscores. It resolves only if exactly one tool contains it and that tool is a read.
pub fn resolve<'a>(spec: &'a RunSpec, name: &str) -> Option<(&'a ToolSpec, NameMatch)> {
    if let Some(tool) = spec.tool(name) {
        let how = if &*tool.name == name { NameMatch::Exact } else { NameMatch::Alias };
        return (how == NameMatch::Exact || spec.gate.resolve != Resolve::Strict).then_some((tool, how));
    }
    match spec.gate.resolve {
        Resolve::Strict | Resolve::Alias => None,
        Resolve::FuzzyUnique => by_part(&spec.tools, name).map(|tool| (tool, NameMatch::Fuzzy)),
    }
}

/// The end that a native call of `name` proposes. A tool of the domain with that name or alias takes precedence, and
/// `gate.forbid` disables the end. `gate.allow` names tools only, so it need not name an end. `None`: the call proposes
/// no end.
pub fn end_call(spec: &RunSpec, name: &str) -> Option<EndCall> {
    let is_native = spec.protocol.properties().native_calls;
    EndCall::named(name).filter(|_| is_native && spec.tool(name).is_none() && !forbids(spec, name))
}

/// The ends that are declared to the model, where it is offered a tool besides the one for the output.
pub fn offered_ends(spec: &RunSpec) -> impl Iterator<Item = EndCall> {
    let offers = |tool: &ToolSpec| !spec.protocol.is_output(&tool.name) && !is_forbidden(spec, tool);
    let offers = spec.tools.iter().any(offers);
    EndCall::ALL.into_iter().filter(move |end| offers && end_call(spec, end.name()).is_some())
}

/// Suggestions for an unknown name: at most three similar tool names, nearest first. Forbidden tools are left out, so
/// that an unknown name does not reveal them.
pub fn similar(spec: &RunSpec, name: &str) -> Vec<Arc<str>> {
    let known = spec.tools.iter().filter(|tool| !is_forbidden(spec, tool));
    similar_names(name, known.map(|tool| (&tool.name, tool.aliases.as_slice())))
}

fn by_part<'a>(tools: &'a [ToolSpec], name: &str) -> Option<&'a ToolSpec> {
    let wanted = folded(name.trim());
    if wanted.chars().filter(|c| c.is_alphanumeric()).count() < LEAST {
        return None;
    }
    let has = |tool: &&ToolSpec| {
        let mut names = std::iter::once(&tool.name).chain(&tool.aliases);
        names.any(|known| folded(known).contains(&wanted))
    };
    let mut found = tools.iter().filter(has);
    let tool = found.next().filter(|_| found.next().is_none())?;
    let only_looks = tool.effect.is_read() && !tool.policy.asks_person;
    only_looks.then_some(tool)
}

fn folded(name: &str) -> String {
    name.to_lowercase().replace(['-', ' '], "_")
}
