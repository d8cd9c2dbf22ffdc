//! The transcript of a run, for the page of an eval.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::run::PersonAnswer;
use loop_core::types::{CommandKey, Slot};
use loop_core::{EventKind, Note, Outcome};
use loop_runtime::journal::Entry;
use loop_runtime::report::explain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::page::shortened;

/// The most characters of a text. The rest is cut.
const MAX_TEXT: usize = 4_000;
/// The most lines. The last is always that of the end.
const MAX_LINES: usize = 200;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptLine {
    /// Who: `item`, `model`, a tool by its name, `person`, `end`.
    pub by: String,
    /// What, at most 4,000 characters.
    pub text: String,
}

fn line(by: &str, text: &str) -> TranscriptLine {
    TranscriptLine { by: by.to_owned(), text: shortened(text, MAX_TEXT) }
}

/// The transcript of a run's entries, at most 200 lines.
pub(super) fn transcript(entries: &[Entry], outcome: &Outcome) -> Vec<TranscriptLine> {
    let mut tools: BTreeMap<CommandKey, Arc<str>> = BTreeMap::new();
    let mut lines = Vec::new();
    for entry in entries {
        match &entry.event.kind {
            EventKind::Started(started) => lines.push(line("item", &started.item.full)),
            EventKind::ModelReplied { key, reply, .. } if matches!(key.slot, Slot::Main | Slot::Final) => {
                let calls = reply.calls.iter().map(|call| format!("{} {}", call.name, call.arguments.text()));
                let parts: Vec<String> = std::iter::once(reply.text.to_string()).chain(calls).collect();
                lines.push(line("model", parts.join("\n").trim()));
            }
            EventKind::ModelFailed { failure, .. } => {
                lines.push(line("model", &format!("failed: {}", failure.kind)));
            }
            EventKind::ToolFinished { key, observation, .. } => {
                let by = tools.get(key).map_or("tool", |name| name);
                let text = format!(
                    "{}: {}\n{}",
                    observation.status.name(),
                    observation.summary,
                    observation.markdown
                );
                lines.push(line(by, text.trim_end()));
            }
            EventKind::PersonAnswered { answer, .. } => lines.push(line(
                "person",
                match answer {
                    PersonAnswer::Approved => "approved",
                    PersonAnswer::Denied { why } => why,
                    PersonAnswer::Answered { text } => text,
                },
            )),
            EventKind::Instruction { text } => lines.push(line("person", text)),
            _ => {}
        }
        for note in &entry.notes {
            if let Note::ActionJudged(judged) = note {
                tools.insert(judged.key, judged.tool_name().into());
            }
        }
    }
    lines.truncate(MAX_LINES);
    lines.push(line("end", &explain(&outcome.stop)));
    lines
}
