//! What people had to do with a run: what they were asked, what they answered and when, what they told it. Read from a
//! run's entries.

use std::sync::Arc;

use loop_core::{CommandKey, EventKind, Run, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::journal::{Entry, Recorded};
use crate::report::json;

pub use loop_core::{PersonAnswer, PersonRequest};

/// What people had to do with a run. The journal knows that a person spoke, and not which one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeopleReport {
    /// What they were asked, in the order in which it was.
    pub requested: Vec<PersonRequestRecord>,
    /// What they told the run, in its order.
    pub instructions: Vec<InstructionReport>,
}

/// An action about which a person was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonRequestRecord {
    /// `pass/action-n`.
    pub action: String,
    /// The tool.
    pub tool: String,
    /// What it would be run with.
    pub parameters: Value,
    /// Whether it is a question, which takes an answer in place of a consent.
    pub question: bool,
    /// Why a person was asked.
    pub why: String,
    /// When: milliseconds since 1970.
    pub requested_unix_ms: u64,
    /// `approved`, `denied`, `answered`, or `expired` where nobody answered in time; not there while it is open, and where
    /// the run was ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The answer to a question, or why it was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it was answered, or counted as a no: milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_unix_ms: Option<u64>,
}

/// What a run was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstructionReport {
    /// What.
    pub text: String,
    /// The first pass whose prompt could hold it.
    pub from_pass: u32,
    /// When: milliseconds since 1970.
    pub unix_ms: u64,
}

impl PeopleReport {
    /// What people had to do with a recorded run. Of entries that do not follow from each other it is what comes before
    /// the first such.
    pub fn of(recorded: &Recorded) -> Self {
        let mut report = Self::default();
        let mut entries = recorded.entries.iter();
        let opened = entries.next().map(|first| Run::open(&first.event, Arc::clone(&recorded.spec)));
        let Some(Ok((mut run, _))) = opened else {
            return report;
        };
        let mut open = Vec::new();
        for entry in entries {
            if run.apply(&entry.event).is_err() {
                break;
            }
            report.hear(&run, entry, &mut open);
        }
        report
    }

    /// Whether no person had anything to do with it.
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty() && self.instructions.is_empty()
    }

    /// What became of the newest asking about an action.
    pub fn of_action(&self, key: &CommandKey) -> Option<&PersonRequestRecord> {
        let key = key.to_string();
        self.requested.iter().rev().find(|requested| requested.action == key)
    }

    /// Takes one entry in, which `run` has just applied; `open` are the actions that waited before it.
    fn hear(&mut self, run: &Run, entry: &Entry, open: &mut Vec<CommandKey>) {
        let unix_ms = run.started().unix_ms.saturating_add(entry.event.at.0);
        if let EventKind::PersonAnswered { key, answer, .. } = &entry.event.kind {
            let (answer, text) = match answer {
                PersonAnswer::Approved => ("approved", None),
                PersonAnswer::Denied { why } => ("denied", Some(why.to_string())),
                PersonAnswer::Answered { text } => ("answered", Some(text.to_string())),
            };
            self.settle(key, answer, text, unix_ms);
            open.retain(|waits| waits != key);
        }
        if let (EventKind::Instruction { text }, Some(instructions)) =
            (&entry.event.kind, run.instructions().last())
        {
            let (text, from_pass) = (text.to_string(), instructions.from_pass);
            self.instructions.push(InstructionReport { text, from_pass, unix_ms });
        }
        let requested = run.requested();
        let is_over = |key: &CommandKey| !requested.iter().any(|requested| requested.key == *key);
        let closed: Vec<CommandKey> = open.extract_if(.., |key| is_over(key)).collect();
        // Silence was a no; what a stop cut off was not decided.
        let is_denied = |key: &CommandKey| {
            let action = run.actions().iter().find(|action| action.key == *key);
            action.is_some_and(|action| matches!(action.verdict, Verdict::Denied { .. }))
        };
        for key in closed.iter().filter(|key| is_denied(key)) {
            self.settle(key, "expired", None, unix_ms);
        }
        for requested in requested {
            if open.contains(&requested.key) {
                continue;
            }
            open.push(requested.key);
            self.requested.push(PersonRequestRecord {
                action: requested.key.to_string(),
                tool: requested.tool.to_string(),
                parameters: json(&requested.parameters),
                question: requested.is_question,
                why: requested.why,
                requested_unix_ms: unix_ms,
                answer: None,
                text: None,
                answered_unix_ms: None,
            });
        }
    }

    fn settle(&mut self, key: &CommandKey, answer: &str, text: Option<String>, unix_ms: u64) {
        let key = key.to_string();
        let Some(requested) = self.requested.iter_mut().rev().find(|requested| requested.action == key)
        else {
            return;
        };
        requested.answer = Some(answer.to_owned());
        requested.text = text;
        requested.answered_unix_ms = Some(unix_ms);
    }
}
