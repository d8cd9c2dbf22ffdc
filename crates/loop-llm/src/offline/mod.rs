//! The offline model: an honest, deterministic stand-in without AI.
//!
//! It reads the same prompts as a model would. It picks tools by matching their descriptions and the examples of
//! their parameters with the work item, writes sections from the evidence and cites it, asks for more when a result
//! names something that another tool can look up, and reports a confidence that follows from what it has.

mod look;
mod read;
mod words;
mod write;

use async_trait::async_trait;
use loop_core::Usage;
use serde_json::{Value, json};

use crate::error::LlmError;
use crate::model::{ChatModel, EventStream, ModelReply, Timing, stream_of};
use crate::request::ModelRequest;
use crate::scripted::Purpose;

use look::{Wanted, not_found, wanted};
use read::Read;
use words::{overlap, stems};

/// How many calls it picks, and how many it asks for in one pass.
const MOST_CALLS: usize = 5;

/// A stand-in for a model: no AI, no network, the same reply to the same prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline {
    timing: Timing,
}

impl Offline {
    /// A stand-in that replies at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with pauses between lines, so that a person can watch.
    pub fn paced(self, timing: Timing) -> Self {
        Self { timing }
    }

    /// Its reply to a prompt.
    pub fn reply(&self, request: &ModelRequest) -> ModelReply {
        let text = match Purpose::of(request) {
            Purpose::Pick => pick(request),
            Purpose::Filter => filter(request),
            Purpose::Repair => repair(request),
            Purpose::Main => document(request),
        };
        // It has no tokens of its own; four bytes count as one, as is usual for English text.
        let usage = Usage {
            input: request.bytes().div_ceil(4) as u64,
            output: text.len().div_ceil(4) as u64,
            ..Usage::default()
        };
        ModelReply::text(text, Some(usage))
    }
}

#[async_trait]
impl ChatModel for Offline {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        Ok(stream_of(self.reply(request), self.timing))
    }
}

fn pick(request: &ModelRequest) -> String {
    let picks: Vec<Value> = wanted(&Read::of(request))
        .into_iter()
        .take(MOST_CALLS)
        .map(|wanted| json!({"tool": wanted.tool, "params": wanted.parameters, "reason": wanted.reason}))
        .collect();
    Value::Array(picks).to_string()
}

fn document(request: &ModelRequest) -> String {
    let read = Read::of(request);
    let mut asked = if read.is_landing { Vec::new() } else { wanted(&read) };
    asked.truncate(MOST_CALLS);
    let mut out = String::new();
    if read.written.is_empty() {
        out.push_str(write::SIGNATURE);
        out.push_str("\n\n");
    }
    for section in &read.sections {
        let body = write::section(section, &read, &asked);
        if read.written.get(section.heading) != Some(&body) {
            out.push_str(&format!("## {}\n\n{body}\n\n", section.heading));
        }
    }
    let (confidence, reason) = confidence(&read, &asked);
    let actions: Vec<Value> = asked
        .iter()
        .enumerate()
        .map(|(n, wanted)| {
            json!({
                "action_id": format!("look-up-{}", n + 1),
                "action_type": wanted.tool,
                "reason": wanted.reason,
                "parameters": wanted.parameters,
                "priority": "recommended",
            })
        })
        .collect();
    let contract = json!({
        "nonce": read.nonce,
        "analysis_confidence": confidence,
        "confidence_reason": reason,
        "ai_actions": actions,
    });
    out.push_str(&format!("```json\n{}\n```\n", serde_json::to_string_pretty(&contract).unwrap_or_default()));
    out
}

/// What follows from what there is: nothing here is a judgement.
fn confidence(read: &Read<'_>, asked: &[Wanted]) -> (&'static str, String) {
    let ok = read.evidence.iter().filter(|evidence| evidence.is_ok()).count();
    let missing = not_found(read);
    let failed = read.evidence.iter().filter(|evidence| !evidence.is_ok() && evidence.status != "empty").count();
    if !asked.is_empty() {
        let level = if ok > 0 { "medium" } else { "low" };
        return (level, format!("{} look-ups are still open", asked.len()));
    }
    if ok == 0 && (!read.evidence.is_empty() || write::is_complaint(read)) {
        return ("low", "nothing was found that could be looked up".to_owned());
    }
    if !missing.is_empty() {
        return ("medium", format!("no record of {}", missing.join(", ")));
    }
    if failed > 0 {
        return ("medium", format!("{failed} look-ups did not work"));
    }
    if ok == 0 {
        return ("high", "the item asks for nothing that has to be looked up".to_owned());
    }
    ("high", format!("everything that is named was looked up, with {ok} results"))
}

/// It wrote the block itself if it could; to the reply of another it can add only that it does not know.
fn repair(request: &ModelRequest) -> String {
    let contract = json!({
        "nonce": Read::of(request).nonce,
        "analysis_confidence": "low",
        "confidence_reason": "the reply does not say how sure it is",
        "ai_actions": [],
    });
    format!("```json\n{contract}\n```\n")
}

fn filter(request: &ModelRequest) -> String {
    let text = request.messages.last().map_or("", |message| message.text());
    let (context, results) = text.split_once("## Results").unwrap_or(("", text));
    let about = stems(context);
    let mut scored: Vec<(usize, usize)> = results
        .lines()
        .filter_map(|line| {
            let (index, result) = line.split_once(": ")?;
            Some((overlap(&stems(result), &about), index.trim().parse().ok()?))
        })
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let chosen: Vec<Value> = scored
        .into_iter()
        .take(3)
        .map(|(score, index)| json!({"index": index, "reason": format!("shares {score} words with the item")}))
        .collect();
    Value::Array(chosen).to_string()
}
