//! The offline stub: a deterministic model that is not an AI, and whose output says so.
//!
//! **What it is not.** It uses no network, no key and no randomness: the same prompt always gets the same reply.
//! [`Offline`] is the model, and [`described`] returns the tools and sections that it finds in a prompt.
//!
//! It parses the prompts of `loop-prompts` by their anchors. It selects tools whose descriptions and parameter examples
//! match the work item. It writes sections from the evidence, with citations. It requests more calls if a result names
//! something that another tool can look up. Its confidence is computed from what it found. In a conversation it calls
//! the tools that the text names, with values from the text, and quotes the results.

mod conversation;
mod instance;
mod look;
mod read;
mod schema;
mod shape;
mod words;
mod write;

use async_trait::async_trait;
use loop_core::reply::FinishReason;
use loop_core::types::ToolCall;
use loop_llm::model::{Timing, stream_of};
use loop_llm::options::OutputFormat;
use loop_llm::scripted::{RequestPurpose, estimated, has_tools, nonce_of};
use loop_llm::{ChatModel, EventStream, LlmError, ModelReply, ModelRequest};
use loop_prompts::anchors::{HEADING, LOOKING_FOR, NAMES, RESULTS};
use serde_json::{Value, json};

use crate::purpose::with_purpose;
use look::{WantedCall, changes, names_nothing, not_found, spoken_of, wanted, why_not};
use read::PromptText;
use words::{count, overlap, stems};

/// The most tools that it selects, and the most calls of one pass.
const MAX_CALLS: usize = 5;

/// The stub: a model that is not an AI, uses no network, and always gives the same reply to the same prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline {
    timing: Timing,
}

impl Offline {
    /// A stub that replies at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same stub with pauses between lines, for demonstrations.
    pub fn paced(self, timing: Timing) -> Self {
        Self { timing }
    }

    /// The reply to a prompt.
    pub fn reply(&self, request: &ModelRequest) -> ModelReply {
        let request = &*with_purpose(request);
        if is_conversation(request) {
            return converse(request);
        }
        let text = match RequestPurpose::of(request) {
            RequestPurpose::Select => select(request),
            RequestPurpose::Filter => filter(request),
            RequestPurpose::Repair => repair(request),
            // A stub that reads nothing cannot confirm anything.
            RequestPurpose::Opinion => format!("{}: cannot tell", nonce_of(request).unwrap_or_default()),
            RequestPurpose::Main => document(request),
        };
        finished(request, text, Vec::new())
    }
}

#[async_trait]
impl ChatModel for Offline {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        Ok(stream_of(self.reply(request), self.timing))
    }
}

/// The tools that a prompt describes, each with its first required parameter, and the headings of its sections.
pub fn described(request: &ModelRequest) -> (Vec<(String, Option<String>)>, Vec<String>) {
    let read = PromptText::of(request);
    let first = |tool: &read::Tool<'_>| {
        tool.parameters.iter().find(|parameter| parameter.required).map(|parameter| parameter.name.to_owned())
    };
    let tools = read.tools.iter().map(|tool| (tool.name.to_owned(), first(tool))).collect();
    (tools, read.sections.iter().map(|section| section.heading.to_owned()).collect())
}

/// The work item in a prompt, and the evidence: the number of each, for example `1` of `E1`, and its text.
pub fn sources(request: &ModelRequest) -> (String, Vec<(String, String)>) {
    let read = PromptText::of(request);
    let evidence = read.evidence.iter().filter(|evidence| evidence.is_ok());
    let evidence = evidence.map(|it| (it.id.to_owned(), it.body.to_owned())).collect();
    (format!("{}\n{}", read.title, read.item), evidence)
}

/// Whether it is a turn of a conversation: with native tools, or without the parts of a document prompt.
fn is_conversation(request: &ModelRequest) -> bool {
    let is_document = || RequestPurpose::of(request) != RequestPurpose::Main || nonce_of(request).is_some();
    has_tools(request) || !is_document()
}

fn converse(request: &ModelRequest) -> ModelReply {
    let stated = conversation::reply(request);
    let text = match &request.output {
        OutputFormat::JsonSchema { schema, .. } if stated.calls.is_empty() => {
            instance::of(schema).to_string()
        }
        OutputFormat::JsonObject if stated.calls.is_empty() => json!({"text": stated.text}).to_string(),
        OutputFormat::Text | OutputFormat::JsonObject | OutputFormat::JsonSchema { .. } => stated.text,
    };
    finished(request, text, stated.calls)
}

/// A reply, cut to the permitted output.
fn finished(request: &ModelRequest, text: String, calls: Vec<ToolCall>) -> ModelReply {
    // It has no tokens of its own; four bytes count as one, as is usual for English text.
    let max = request
        .max_output_tokens
        .map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
        .saturating_mul(4);
    let size =
        text.len() + calls.iter().map(|call| call.name.len() + call.arguments.text().len()).sum::<usize>();
    // Half a call is none.
    let calls = if size > max { Vec::new() } else { calls };
    let finish = match (size > max, calls.is_empty()) {
        (true, _) => FinishReason::MaxTokens,
        (false, true) => FinishReason::EndTurn,
        (false, false) => FinishReason::ToolUse,
    };
    let text = text.get(..text.floor_char_boundary(max.min(text.len()))).unwrap_or_default();
    let stop = Some(finish.into());
    let mut reply = ModelReply { finish, stop, tool_calls: calls, ..ModelReply::text(text, None) };
    reply.usage = Some(estimated(request, &reply));
    reply
}

/// A tool that the stub does not select, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSelected {
    /// The tool's name.
    pub tool: String,
    /// The reason, for an operator.
    pub why: String,
}

/// The tools in a selection prompt that the stub does not select, in the order of the prompt.
pub fn not_selected(request: &ModelRequest) -> Vec<NotSelected> {
    let read = PromptText::of(request);
    let max = max_selected(&read);
    let selected: Vec<String> = wanted(&read).into_iter().take(max).map(|wanted| wanted.tool).collect();
    let others = read.tools.iter().filter(|tool| !selected.iter().any(|name| name == tool.name));
    others
        .map(|tool| NotSelected {
            tool: tool.name.to_owned(),
            why: why_not(&read, tool).map_or_else(
                || format!("others come first, and {max} at most are selected"),
                |why| why.to_string(),
            ),
        })
        .collect()
}

fn max_selected(read: &PromptText<'_>) -> usize {
    read.max.unwrap_or(MAX_CALLS).min(MAX_CALLS)
}

fn select(request: &ModelRequest) -> String {
    let read = PromptText::of(request);
    let selections: Vec<Value> = wanted(&read)
        .into_iter()
        .take(max_selected(&read))
        .map(|wanted| json!({"tool": wanted.tool, "params": wanted.parameters, "reason": wanted.reason}))
        .collect();
    Value::Array(selections).to_string()
}

fn document(request: &ModelRequest) -> String {
    let read = PromptText::of(request);
    let open = wanted(&read);
    // What changes something waits until all that can be known is known. It does not lower the confidence: the gate
    // asks for a required action whatever that is.
    let changes = if open.is_empty() { changes(&read) } else { Vec::new() };
    let all_open = || open.iter().chain(&changes);
    let mut out = String::new();
    if read.written.is_empty() {
        out.push_str(write::SIGNATURE);
        out.push_str("\n\n");
    }
    for section in &read.sections {
        let written = read.written.get(section.heading).copied();
        if written.is_some() && write::is_of_the_item(section) {
            continue; // A later prompt may hold only the short form of the item.
        }
        let body = write::section(section, &read, all_open());
        if written != Some(body.as_str()) {
            out.push_str(&format!("{HEADING}{}\n\n{body}\n\n", section.heading));
        }
    }
    let (confidence, reason) = confidence(&read, &open);
    // After the last call nothing runs any more.
    let max = if read.is_final_pass { 0 } else { MAX_CALLS };
    let action = |wanted: &WantedCall, id: String, priority: &str| {
        json!({
            "action_id": id,
            "action_type": wanted.tool,
            "reason": wanted.reason,
            "parameters": wanted.parameters,
            "priority": priority,
        })
    };
    let reads = (1..).zip(&open).map(|(n, wanted)| action(wanted, format!("look-up-{n}"), "recommended"));
    let changes = (1..).zip(&changes).map(|(n, wanted)| action(wanted, format!("change-{n}"), "required"));
    let actions: Vec<Value> = reads.chain(changes).take(max).collect();
    let contract = json!({
        "nonce": read.nonce,
        "analysis_confidence": confidence,
        "confidence_reason": reason,
        "ai_actions": actions,
    });
    out.push_str(&format!("```json\n{contract:#}\n```\n"));
    out
}

/// The confidence, computed from what was found and what is open. It is not a judgement.
fn confidence(read: &PromptText<'_>, open: &[WantedCall]) -> (&'static str, String) {
    let ok = read.evidence.iter().filter(|evidence| evidence.is_ok()).count();
    let failed = read.evidence.iter().filter(|evidence| !evidence.is_ok() && !evidence.is_empty()).count();
    let undone = read.listed.iter().filter(|call| call.undone).count();
    let missing = not_found(read);
    if !open.is_empty() {
        let level = if ok > 0 { "medium" } else { "low" };
        let verb = if open.len() == 1 { "is" } else { "are" };
        return (level, format!("{} {verb} still open", count(open.len(), "read-only call")));
    }
    if ok == 0 && (!read.evidence.is_empty() || write::asks(read)) {
        return ("low", "nothing was found that says more than the item".to_owned());
    }
    if !missing.is_empty() {
        return ("medium", format!("no record of {}", missing.join(", ")));
    }
    if failed > 0 {
        return ("medium", format!("{} did not work", count(failed, "call")));
    }
    if undone > 0 {
        let verb = if undone == 1 { "was" } else { "were" };
        return ("medium", format!("{} {verb} not made", count(undone, "call")));
    }
    if names_nothing(read) && write::complains(read) {
        return ("low", "the item names nothing that could be looked up".to_owned());
    }
    if ok == 0 {
        return ("high", "the item asks for nothing that has to be looked up".to_owned());
    }
    let (stated, requested) = spoken_of(read);
    if stated * 2 < requested {
        return (
            "medium",
            format!("the results speak of {stated} of the title's {}", count(requested, "word")),
        );
    }
    ("high", format!("everything that is named was looked up, with {}", count(ok, "result")))
}

/// The reply to a repair prompt: a contract block with low confidence and no actions. The broken reply is of another
/// model, since the stub's own blocks are valid.
fn repair(request: &ModelRequest) -> String {
    let contract = json!({
        "nonce": PromptText::of(request).nonce,
        "analysis_confidence": "low",
        "confidence_reason": "the reply does not say how sure it is",
        "ai_actions": [],
    });
    format!("```json\n{contract}\n```\n")
}

fn filter(request: &ModelRequest) -> String {
    let text = request.messages.last().map_or("", |message| message.text());
    let (context, results) = text.split_once(&format!("\n{RESULTS}\n")).unwrap_or(("", text));
    let context = context.lines().filter(|line| !line.starts_with(HEADING));
    let about =
        context.map(|line| line.strip_prefix(LOOKING_FOR).unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let about = stems(&about);
    let mut scored: Vec<(usize, usize)> = results
        .lines()
        .filter_map(|line| {
            let (index, result) = line.split_once(NAMES)?;
            Some((overlap(&stems(result), &about), index.trim().parse().ok()?))
        })
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let chosen: Vec<Value> = scored
        .into_iter()
        .take(3)
        .map(|(score, index)| json!({"index": index, "reason": format!("shares {} with the item", count(score, "word"))}))
        .collect();
    Value::Array(chosen).to_string()
}
