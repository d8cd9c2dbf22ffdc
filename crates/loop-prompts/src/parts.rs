//! The fixed parts of prompts: evidence, executed tools, tool lines, section list. Templates arrange them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::run::PassRecord;
use loop_core::spec::{ArgSpec, ArgType, Cite, OutputSpec, ProtocolSpec, SectionSpec, ToolSpec};
use loop_core::types::Status;
use loop_core::{Evidence, Run, RunSpec, Verdict};
use serde_json::Value;

use crate::anchors::{
    CANCELLED, CHOICES, DENIED, DOCUMENT_LABEL, DOUBTED, EFFECT, EMPTY, ENDS_WORK, ENTRY, EVIDENCE_HEADER,
    EVIDENCE_PARTS, EXAMPLES, FAILED, ITEM_LABEL, NAMES, NOT_ACCEPTED, NOT_RUN, OPTIONAL, OUTCOME,
    OUTCOME_ENDS, PARAMETER_ENTRY, PARAMETER_TYPE, PATTERN, PENDING, QUESTION, REQUIRED, SECTION_ENTRY,
    SKIPPED, SUCCESS, WITH_RESULT,
};
use crate::failure::markdown_of;
use crate::notes::note;
use crate::text::{fence, line, line_without};

/// The work item, fenced with the nonce.
pub(crate) fn item(text: &str, nonce: &str) -> String {
    fence(ITEM_LABEL, nonce, text)
}

/// Each observation under a header with number, tool, parameters, status and source, its body fenced with the nonce. The
/// note that it repeats something follows the fence.
pub(crate) fn evidence(evidence: &[Evidence], nonce: &str, run: &Run) -> String {
    let spec = run.spec();
    let blocks: Vec<String> = evidence
        .iter()
        .map(|evidence| {
            let observation = &evidence.observation;
            let is_question = spec.tool(&evidence.tool).is_some_and(|tool| tool.policy.asks_person);
            let is_answer = is_question && observation.status == Status::Ok;
            let header = format!(
                "{EVIDENCE_HEADER}{}{EVIDENCE_PARTS}{} {}{EVIDENCE_PARTS}{}{}",
                evidence.id,
                evidence.tool,
                line_without(nonce, &evidence.parameters),
                observation.status.name(),
                if is_answer { " · a person's answer" } else { "" }
            );
            let body = if evidence.shortened {
                format!("(shortened) {}", observation.summary)
            } else {
                markdown_of(observation).into_owned()
            };
            let fenced = fence(&evidence.id.to_string(), nonce, &body);
            let note = note(run, evidence).map_or_else(String::new, |note| format!("\n{note}"));
            format!("{header}\n{fenced}{note}")
        })
        .collect();
    blocks.join("\n\n")
}

/// How many calls stopped by a limit are listed. The rest is counted.
const MAX_OVER_LIMIT: usize = 5;

/// A line about the calls of a reply beyond the limit, which were not read. `None` if there are none.
pub(crate) fn unread(run: &Run, pass: u32) -> Option<String> {
    let count = run.unread_calls(pass);
    let limit = run.spec().limits.read_calls();
    let calls = if count == 1 { "call" } else { "calls" };
    let asked = if limit == 1 { "call" } else { "calls" };
    (count > 0).then(|| format!("{count} more {calls}: Not read — one reply may ask for {limit} {asked}"))
}

/// One line for each call: `- <tool> (target: X): Success — <summary>`. A call that was not run has the reason. Of the
/// calls that a limit or the end of the run left undone, the first are listed and the rest is counted.
pub(crate) fn executed(
    actions: &[Arc<JudgedAction>],
    all: &[Evidence],
    nonce: &str,
    unread: Option<String>,
) -> String {
    let is_over = |action: &&Arc<JudgedAction>| {
        matches!(action.verdict, Verdict::OverLimit { .. } | Verdict::Ended { .. })
    };
    let mut over = actions.iter().filter(is_over).skip(MAX_OVER_LIMIT);
    let rest = over.next().map(|first| (first.key, 1 + over.count()));
    let counted = rest.map(|(_, count)| {
        format!("{count} more calls{OUTCOME}{NOT_RUN}{OUTCOME_ENDS}a limit of calls, or the end of the run")
    });
    let lines: Vec<String> = actions
        .iter()
        .filter(|action| !is_over(action) || rest.is_none_or(|(first, _)| action.key < first))
        .filter_map(|action| {
            let reason = || line_without(nonce, &action.reason(all));
            let (word, text) = match (&action.verdict, action.evidence) {
                (Verdict::Run, None) | (Verdict::Kept, _) => return None,
                (Verdict::Run, Some(id)) => {
                    let seen = &Evidence::find(all, id)?.observation;
                    (outcome_word(seen.status), format!("{} [{id}]", line_without(nonce, &seen.summary)))
                }
                (Verdict::Skipped, _) => (SKIPPED, "nice_to_have".to_owned()),
                (Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. }, _) => (FAILED, reason()),
                (
                    Verdict::Denied { .. }
                    | Verdict::Duplicate { .. }
                    | Verdict::NeedsPerson { .. }
                    | Verdict::OverLimit { .. }
                    | Verdict::BreakerOpen { .. }
                    | Verdict::OneAtATime
                    | Verdict::Ended { .. },
                    _,
                ) => (NOT_RUN, reason()),
            };
            let (tool, target) = (line_without(nonce, action.tool_name()), target(&action.parameters, nonce));
            Some(format!("{ENTRY}{tool}{target}{OUTCOME}{word}{OUTCOME_ENDS}{text}"))
        })
        .chain(counted.into_iter().chain(unread).map(|line| format!("{ENTRY}{line}")))
        .collect();
    lines.join("\n")
}

/// The word for a status in the list of executed tools.
fn outcome_word(status: Status) -> &'static str {
    match status {
        Status::Ok => SUCCESS,
        Status::Empty => EMPTY,
        Status::Pending => PENDING,
        Status::InDoubt => DOUBTED,
        Status::Denied => DENIED,
        Status::Cancelled => CANCELLED,
        Status::RetryableError
        | Status::PermanentError
        | Status::InvalidInput
        | Status::MalformedResult
        | Status::Duplicate
        | Status::Skipped
        | Status::Timeout => FAILED,
    }
}

/// One entry for each tool: name, description, when to use it, parameters, approval.
pub(crate) fn tools<'a>(tools: impl Iterator<Item = &'a ToolSpec>) -> String {
    let entries: Vec<String> = tools
        .map(|tool| {
            let mut entry = format!("{ENTRY}{}{NAMES}{}", tool.name, line(&tool.description));
            if !tool.when.is_empty() {
                let ends = entry.ends_with(['.', '!', '?', ':']);
                entry.push_str(if ends { " When: " } else { ". When: " });
                entry.push_str(&line(&tool.when));
            }
            for (name, spec) in tool.args.ordered() {
                entry += "\n";
                entry += &parameter(name, spec, tool.args.required.contains(name));
            }
            if tool.policy.asks_person {
                entry += &format!("\n{QUESTION}, whose answer is the result)");
            } else if !tool.effect.is_read() {
                entry += &format!("\n{EFFECT}{}, needs a person's consent)", tool.effect.name());
            }
            entry
        })
        .collect();
    entries.join("\n")
}

/// The rule by which a loop with native calls ends.
pub(crate) fn ending(protocol: &ProtocolSpec, has_tools: bool) -> String {
    match protocol {
        ProtocolSpec::Output(OutputSpec { tool, submit: None, .. }) => {
            format!("End by calling `{tool}{WITH_RESULT}. A reply that calls no tool is {NOT_ACCEPTED}.")
        }
        ProtocolSpec::Output(OutputSpec { tool, submit: Some(submit), .. }) => format!(
            "Call `{tool}{WITH_RESULT} and read the text that it answers with. Call it again where something is \
             to be repaired. Once it is right, call `{submit}{ENDS_WORK}. A reply that calls no tool is \
             {NOT_ACCEPTED}."
        ),
        ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_) if has_tools => {
            "A reply that calls no tool is your final answer.".to_owned()
        }
        ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_) => String::new(),
    }
}

/// The sections to write, with their descriptions.
pub(crate) fn sections(sections: &[SectionSpec]) -> String {
    let lines: Vec<String> = sections
        .iter()
        .map(|section| {
            let marks = match (section.required, section.cite) {
                (true, Cite::Evidence) => " (required, cites evidence other than E0)",
                (true, Cite::Any) => " (required, cites evidence)",
                (true, Cite::No) => " (required)",
                (false, Cite::Evidence) => " (cites evidence other than E0)",
                (false, Cite::Any) => " (cites evidence)",
                (false, Cite::No) => "",
            };
            let describe = if section.describe.is_empty() {
                String::new()
            } else {
                format!(": {}", line(&section.describe))
            };
            format!("{SECTION_ENTRY}{}`{marks}{describe}", line(&section.heading))
        })
        .collect();
    lines.join("\n")
}

/// The index of the document after `passes`: each section's heading and the pass that wrote it last.
///
/// It depends only on the spec and on `passes`, so that rendering it later gives the same text.
pub(crate) fn index(passes: &[PassRecord], spec: &RunSpec) -> String {
    let mut written: BTreeMap<&str, u32> = BTreeMap::new();
    for pass in passes {
        for id in &pass.changed {
            written.insert(id, pass.pass);
        }
        for id in &pass.removed {
            written.remove(id.as_ref());
        }
    }
    let declared: BTreeMap<&str, (usize, &str)> =
        spec.sections().iter().enumerate().rev().map(|(at, it)| (&*it.id, (at, &*it.heading))).collect();
    let headings =
        if written.keys().all(|id| declared.contains_key(id)) { BTreeMap::new() } else { headings(passes) };
    let mut written: Vec<_> = written.into_iter().collect();
    written.sort_by_key(|(id, _)| declared.get(id).map_or(usize::MAX, |(at, _)| *at));
    let lines: Vec<String> = written
        .iter()
        .map(|(id, pass)| {
            let own = || headings.get(&plain(id)).copied().unwrap_or(id);
            let heading = declared.get(id).map_or_else(own, |(_, heading)| heading);
            format!("{SECTION_ENTRY}{}` (pass {pass})", line(heading))
        })
        .collect();
    if lines.is_empty() { "- no section yet".to_owned() } else { lines.join("\n") }
}

/// The first heading in the replies for each plain form. The id of a section that the domain does not declare is a slug
/// of its heading.
fn headings(passes: &[PassRecord]) -> BTreeMap<String, &str> {
    let lines = passes.iter().flat_map(|pass| pass.reply.lines()).filter_map(|line| line.strip_prefix("## "));
    let mut headings = BTreeMap::new();
    for heading in lines {
        headings.entry(plain(heading)).or_insert(heading);
    }
    headings
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The document in full, fenced with the nonce since it may quote tool results. For the layout that repeats it.
pub(crate) fn document(markdown: &str, nonce: &str) -> String {
    if markdown.trim().is_empty() {
        "Nothing is written yet.".to_owned()
    } else {
        fence(DOCUMENT_LABEL, nonce, markdown)
    }
}

fn target(parameters: &str, nonce: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(parameters) else { return String::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let named: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{name}{NAMES}{}", line_without(nonce, &text(value))))
        .collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

/// The longest pattern that a prompt shows, in bytes. A longer one helps neither a model nor its budget.
const MAX_PATTERN: usize = 200;

fn parameter(name: &str, spec: &ArgSpec, required: bool) -> String {
    let kind = match spec.kind {
        Some(ArgType::Object) => "object",
        Some(ArgType::Array) => "array",
        Some(ArgType::String) => "string",
        Some(ArgType::Integer) => "integer",
        Some(ArgType::Number) => "number",
        Some(ArgType::Boolean) => "boolean",
        Some(ArgType::Null) => "null",
        None => "any",
    };
    let need = if required { REQUIRED } else { OPTIONAL };
    let mut text = format!("{PARAMETER_ENTRY}{name}{PARAMETER_TYPE}{kind}, {need})");
    if let Some(description) = &spec.description {
        text.push_str(": ");
        text.push_str(&line(description));
    }
    let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    if let Some(values) = &spec.one_of {
        text.push_str(CHOICES);
        text.push_str(&list(values));
    }
    if let Some(pattern) = spec.pattern.as_deref().filter(|pattern| pattern.len() <= MAX_PATTERN) {
        text.push_str(PATTERN);
        text.push_str(&Value::from(pattern).to_string());
    }
    if !spec.examples.is_empty() {
        text.push_str(EXAMPLES);
        text.push_str(&list(&spec.examples));
    }
    text
}

/// The plan that the selection gave, a line for each slot. A later one is in the reply that gave it.
pub(crate) fn planned(run: &Run) -> String {
    let of_selection = run.plan().filter(|plan| plan.by.is_some_and(|by| by.pass == 0));
    let slots = of_selection.map_or(&[][..], |plan| &plan.slots);
    let lines =
        slots.iter().map(|it| format!("- {}", line_without(&run.started().nonce, &it.slot.to_string())));
    lines.collect::<Vec<_>>().join("\n")
}
