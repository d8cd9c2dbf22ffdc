//! The report of a domain: what it contains, and warnings, in lines for people.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use loop_core::spec::{
    Cite, Execution, GroundingRule, ModelSpec, OnDenied, ProtocolSpec, TaintRule, ThreeTier, ToolSpec,
};
use loop_core::types::{Millis, Tier};
use loop_core::{RunSpec, policy};

use loop_runtime::report::counted;

use crate::protocol;

/// What a domain contains, and what its author may want to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainReport {
    /// The contents, one line each.
    pub lines: Vec<String>,
    /// Warnings about valid settings that are probably a mistake, one line each. Empty: none.
    pub warnings: Vec<String>,
}

/// The contents of a domain, a line each.
pub(crate) fn lines(
    spec: &RunSpec,
    path: &Path,
    kinds: &BTreeMap<&str, &str>,
    servers: &[String],
    saved: Option<&str>,
    profiles: &[String],
) -> Vec<String> {
    let mut lines = vec![format!("domain {} ({})", spec.domain, path.display())];
    if !spec.goal.is_empty() {
        lines.push(format!("goal: {}", spec.goal));
    }
    match (&spec.profile, profiles) {
        (_, []) => {}
        (Some(profile), _) => lines.push(format!("profile: {profile} of {}", profiles.join(", "))),
        (None, _) => lines.push(format!("profiles: {}", profiles.join(", "))),
    }
    match &spec.protocol {
        ProtocolSpec::Document(document) => lines.push(counted(document.sections.len() as u64, "section")),
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => lines.push(native(spec)),
    }
    for section in spec.sections() {
        let cites = match section.cite {
            Cite::No => None,
            Cite::Any => Some("cites evidence"),
            Cite::Evidence => Some("cites evidence other than E0"),
        };
        let values = match section.grounding {
            Some(GroundingRule::Demand) => Some("its values must be in the evidence"),
            Some(GroundingRule::Report) => Some("values that the evidence contradicts are reported"),
            Some(GroundingRule::Off) => Some("its values are not looked for"),
            None => None,
        };
        let verify = section.verify.then_some("verify");
        let required = section.required.then_some("required");
        let marks: Vec<&str> = required.into_iter().chain(cites).chain(values).chain(verify).collect();
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        lines.push(format!("  {}: {}{marks}", section.id, section.heading));
    }
    let tools: Vec<&ToolSpec> = tools(spec).collect();
    lines.push(counted(tools.len() as u64, "tool"));
    for tool in tools {
        let kind = kinds.get(&*tool.name).copied().unwrap_or("code");
        let smart = if tool.smart { ", smart" } else { "" };
        let aliases = if tool.aliases.is_empty() {
            String::new()
        } else {
            format!("; also {}", tool.aliases.iter().map(|alias| &**alias).collect::<Vec<_>>().join(", "))
        };
        lines.push(format!("  {}: {kind}, {}{smart}{aliases}", tool.name, tool.effect.name()));
    }
    lines.extend_from_slice(servers);
    for tier in [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback] {
        let is_own = match tier {
            Tier::Selector => spec.models.selector.is_some(),
            Tier::Base => true,
            Tier::Escalated => spec.models.escalated.is_some(),
            Tier::Fallback => spec.models.fallback.is_some(),
        };
        // Such a protocol has no stated confidence, so that nothing is ever escalated.
        if tier == Tier::Escalated && !spec.protocol.properties().states_confidence {
            continue;
        }
        let model = match tier {
            _ if is_own => model(spec.model(tier)),
            Tier::Escalated => "none, so that nothing is escalated".to_owned(),
            Tier::Fallback => "none, so that a provider that fails ends the run".to_owned(),
            Tier::Selector | Tier::Base => "the base model".to_owned(),
        };
        lines.push(format!("model {}: {model}", tier.name()));
    }
    lines.push(limits(spec));
    lines.push(gate(spec));
    lines.push(match saved {
        Some(place) => format!("saved to {place}"),
        None => "nothing is saved".to_owned(),
    });
    lines
}

/// How a run of a protocol with native calls continues, and what ends it.
fn native(spec: &RunSpec) -> String {
    let order = match spec.protocol.execution() {
        Execution::Ordered => "tools one after another",
        Execution::Parallel => "tools that only look side by side",
        Execution::Single => "one tool a reply",
    };
    let how = format!("{order}, errors {}", spec.protocol.errors().name());
    match spec.protocol.output() {
        None => format!("a conversation: {how}"),
        Some(output) => {
            let members = protocol::members(spec).filter(|members| !members.is_empty());
            let members = members.map_or_else(String::new, |members| format!(" with {members}"));
            let (tool, attempts, passes) = (&output.tool, output.attempts, output.passes_per_attempt);
            let attempts = counted(attempts, "attempt");
            format!("output {tool}{members}: {attempts} of {}, {how}", counted(passes, "pass"))
        }
    }
}

/// The tools that the model can choose. The tool that takes the output is not one.
fn tools(spec: &RunSpec) -> impl Iterator<Item = &ToolSpec> {
    let output = spec.protocol.output().map(|output| &output.tool);
    let checks = |tool: &ToolSpec| spec.gate.validators.contains(&tool.name);
    spec.tools.iter().filter(move |tool| Some(&tool.name) != output && !checks(tool))
}

fn model(model: &ModelSpec) -> String {
    let price = match &model.price {
        None => "price unknown",
        Some(price) if price.is_free() => "free",
        Some(_) => "priced",
    };
    format!("{}/{} ({price}, {})", model.provider, model.model, counted(model.context_tokens, "token"))
}

pub(crate) fn limits(spec: &RunSpec) -> String {
    let limits = &spec.limits;
    let mode = limits.cost_mode.name();
    let cost = limits.cost.map_or_else(|| "no cost limit".to_owned(), |cost| format!("{cost} ({mode})"));
    let tokens = limits.tokens.map_or_else(String::new, |tokens| format!(", {}", counted(tokens, "token")));
    let messages =
        limits.messages.map_or_else(String::new, |messages| format!(", {}", counted(messages, "message")));
    format!(
        "limits: {}, {cost}{tokens}{messages}, {}, {}, {} s",
        counted(limits.passes, "pass"),
        counted(limits.tool_calls, "tool call"),
        counted(limits.model_calls, "model call"),
        Millis(limits.wall_ms).in_seconds()
    )
}

fn gate(spec: &RunSpec) -> String {
    let gate = &spec.gate;
    let after = |passes: u32, what: &str| match passes {
        0 => format!("never {what}"),
        passes => format!("{what} after {}", counted(passes, "pass")),
    };
    let is_document = spec.protocol.properties().has_sections;
    let stale = is_document.then(|| format!("stale {}", gate.stale.name()));
    let mut parts: Vec<String> = stale.into_iter().collect();
    parts.push(after(gate.no_progress, "no progress"));
    if is_document && spec.models.escalated.is_some() {
        parts.push(after(gate.escalate_after, "escalation"));
    }
    let names = |names: &[Arc<str>]| names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    if !gate.required_tools.is_empty() {
        parts.push(format!("demands {}", names(&gate.required_tools)));
    }
    if !gate.allow.is_empty() {
        parts.push(format!("allows only {}", names(&gate.allow)));
    }
    if !gate.forbid.is_empty() {
        parts.push(format!("forbids {}", names(&gate.forbid)));
    }
    if !gate.approved.is_empty() {
        parts.push(format!("approves {}", names(&gate.approved)));
    }
    if let Some(repeats) = gate.repeats {
        parts.push(format!("repeats {}", repeats.name()));
    }
    if gate.people {
        parts.push("people can be asked".to_owned());
    }
    if gate.taint == TaintRule::Off {
        parts.push("what was read does not matter".to_owned());
    }
    if gate.on_denied == OnDenied::Stop {
        parts.push("what is denied ends the run".to_owned());
    }
    if gate.cheaper_tier {
        parts.push("a cheaper model may reply where the cost limit asks for it".to_owned());
    }
    if let Some(opinion) = gate.second_opinion {
        parts.push(format!("a second opinion by the {} model", opinion.tier.name()));
    }
    if gate.calibration.is_some() {
        parts.push("confidence is calibrated".to_owned());
    }
    if gate.high_is_final {
        parts.push("high confidence is final".to_owned());
    }
    format!("gate: {}", parts.join(", "))
}

/// Limits of tools that the domain does not have. Tools that the preset names are left out.
fn limits_of_none(spec: &RunSpec) -> impl Iterator<Item = String> {
    let usual = ThreeTier::default().limits;
    let is_none = move |(name, limit): &(&Arc<str>, &u32)| {
        spec.tool(name).is_none() && usual.get(*name) != Some(*limit)
    };
    spec.gate.three_tier.limits.iter().filter(is_none).map(|(name, _)| {
        format!("gate.three_tier.limits: no tool is called `{name}`; correct it or take it out")
    })
}

/// Warnings that follow from the spec alone.
pub(crate) fn warnings(spec: &RunSpec) -> Vec<String> {
    let mut warnings = Vec::new();
    if spec.goal.is_empty() {
        let what = match &spec.protocol {
            ProtocolSpec::Document(_) => "what the document is for",
            ProtocolSpec::Conversation(_) => "what it is to do",
            ProtocolSpec::Output(_) => "what the output is for",
        };
        warnings.push(format!("there is no `goal`: the model is not told {what}"));
    }
    if spec.protocol.properties().has_sections && !spec.sections().iter().any(|section| section.required) {
        warnings.push("no section is required: an empty answer counts as finished".to_owned());
    }
    if spec.gate.second_opinion.is_none()
        && let Some(section) = spec.sections().iter().find(|section| section.verify)
    {
        warnings.push(format!(
            "section `{}` is marked `verify`, and nothing asks about it; gate.second_opinion does",
            section.id
        ));
    }
    let output = spec.protocol.output().and_then(|output| spec.tool(&output.tool));
    if output.is_some_and(|output| output.description.is_empty()) {
        warnings.push("the output has no `description`: the model has only its name to go by".to_owned());
    }
    if !spec.protocol.properties().states_confidence && spec.models.escalated.is_some() {
        warnings.push("models.escalated is for documents: no other run ever changes to it".to_owned());
    }
    if tools(spec).next().is_none() {
        warnings.push("there is no tool: the answer rests on the work item alone".to_owned());
    }
    if spec.selection.enabled && spec.selection.defaults.is_empty() && tools(spec).next().is_some() {
        warnings.push(
            "selecting has no defaults: nothing runs before the first pass where choosing fails".to_owned(),
        );
    }
    let is_requested_about = |tool: &&ToolSpec| {
        !policy::is_forbidden(spec, tool) && !tool.effect.is_read() && !policy::approves(spec, &tool.name)
    };
    for tool in spec.tools.iter().filter(is_requested_about).filter(|_| !spec.gate.people) {
        let effect = tool.effect.name();
        warnings.push(format!(
            "tool `{}` is declared `{effect}`: its calls need a person's consent and are left undone; gate.approved gives it",
            tool.name
        ));
    }
    for tool in spec.tools.iter().filter(|tool| tool.policy.asks_person && !spec.gate.people) {
        warnings.push(format!(
            "tool `{}` asks a person, and no person can be asked; gate.people says who can",
            tool.name
        ));
    }
    if spec.gate.people && spec.limits.person_ms == Some(0) {
        warnings.push(
            "limits.person_ms is 0: nobody has time to answer, so that every question is a no".to_owned(),
        );
    }
    warnings.extend(limits_of_none(spec));
    warnings.extend(policy::problems(spec).into_iter().map(|problem| format!("policy: {problem}")));
    warnings.extend(
        policy::forbids_nothing(spec).into_iter().map(|instructions| format!("policy: {instructions}")),
    );
    let limits = &spec.limits;
    let zero = [
        (limits.passes == 0, "passes"),
        (limits.cost.is_some_and(|cost| cost.0 == 0), "cost_usd"),
        (limits.tokens == Some(0), "tokens"),
        (limits.model_calls == 0, "model_calls"),
        (limits.wall_ms == 0, "wall_ms"),
        (limits.output_tokens == 0, "output_tokens"),
    ];
    for (_, key) in zero.into_iter().filter(|(is_zero, _)| *is_zero) {
        warnings.push(format!("limits.{key} is 0: a run stops before its first call"));
    }
    let tiers = [
        (Tier::Base, Some(&spec.models.base)),
        (Tier::Selector, spec.models.selector.as_ref()),
        (Tier::Escalated, spec.models.escalated.as_ref()),
        (Tier::Fallback, spec.models.fallback.as_ref()),
    ];
    for (tier, model) in tiers {
        if model.is_some_and(|model| model.context_tokens < 256 || model.max_output_tokens == 0) {
            let name = tier.name();
            let follows = match tier {
                Tier::Base => "a run stops before its first call",
                Tier::Selector | Tier::Escalated | Tier::Fallback => "none of its calls is ever made",
            };
            warnings.push(format!("models.{name} leaves no room for a reply: {follows}"));
        }
    }
    warnings
}
