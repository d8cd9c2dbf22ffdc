//! The requests of a run to people, their answers and their instructions, read from the run's entries.

use std::sync::Arc;

use loop_core::run::Started;
use loop_core::types::{CommandKey, Millis};
use loop_core::{EventKind, Run, Verdict};
use loop_journal::{Entry, Recorded};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::watch::report::json;

pub use loop_core::run::{PersonAnswer, PersonRequest};
pub use loop_core::types::Approver;

/// When the time to answer a request ends, in milliseconds since 1970 (UTC). `None`: it does not end.
pub(crate) fn deadline_unix_ms(started: &Started, requested: &PersonRequest) -> Option<u64> {
    requested.deadline.map(|deadline| started.unix_ms_at(deadline))
}

/// Whether a run, or a run that it called, waits for a person who has time left. A request whose time is over is denied as
/// soon as the run is resumed.
pub fn waits(state: &Run, now: Millis) -> bool {
    let is_over = state.deadline().is_some_and(|deadline| deadline <= now);
    state.waits_for_people() && !is_over
}

/// What people were asked and answered. Of an approval the journal records the account that gave it, where one was
/// checked, and the name that was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeopleReport {
    /// The requests to people, in order. Empty if there were none.
    pub requested: Vec<PersonRequestRecord>,
    /// The instructions of people, in order. Empty if there were none.
    pub instructions: Vec<InstructionReport>,
}

/// A request to a person, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonRequestRecord {
    /// The action's key, `pass/action-n`.
    pub action: String,
    /// The tool's own name.
    pub tool: String,
    /// The parameters that would run.
    pub parameters: Value,
    /// Whether it is a question, which takes an answer instead of an approval.
    pub question: bool,
    /// Why a person was asked.
    pub why: String,
    /// When the person was asked, in milliseconds since 1970 (UTC).
    pub requested_unix_ms: u64,
    /// `approved`, `denied`, `answered`, or `expired` without an answer in time. Absent while it is open, and if the
    /// run ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The answer to a question, or the reason of a denial. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Who approved it, in order. Empty if no user is known to have.
    pub approvers: Vec<ApproverReport>,
    /// When it was answered or expired, in milliseconds since 1970 (UTC). Absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_unix_ms: Option<u64>,
}

/// Who approved an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApproverReport {
    /// The account that was checked, for example `token ada`. Empty if none was.
    pub account: String,
    /// The account's name. Empty if it is not known.
    pub user: String,
    /// The name that was claimed, which was not checked. Absent if none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unverified_claim: Option<String>,
    /// When, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

/// An instruction that a person gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstructionReport {
    /// The instruction.
    pub text: String,
    /// The first pass whose prompt holds it, from 1.
    pub from_pass: u32,
    /// When it was given, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

impl PeopleReport {
    /// The requests, answers and instructions of a recorded run. It ends before the first entry that does not follow
    /// from the earlier ones.
    pub fn of(recorded: &Recorded) -> Self {
        let mut report = Self::default();
        let mut entries = recorded.entries.iter();
        let opened = entries.next().map(|first| Run::open(&first.event, Arc::clone(&recorded.spec)));
        let Some(Ok((mut run, _))) = opened else { return report };
        let mut open = Vec::new();
        for entry in entries {
            if run.apply(&entry.event).is_err() {
                break;
            }
            report.hear(&run, entry, &mut open);
        }
        report
    }

    /// Whether there were no requests and no instructions.
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty() && self.instructions.is_empty()
    }

    /// The newest request about an action, with its answer. `None`: people were not asked about it.
    pub fn of_action(&self, key: &CommandKey) -> Option<&PersonRequestRecord> {
        let key = key.to_string();
        self.requested.iter().rev().find(|requested| requested.action == key)
    }

    /// Takes one entry in, which `run` has just applied; `open` are the actions that waited before it.
    fn hear(&mut self, run: &Run, entry: &Entry, open: &mut Vec<CommandKey>) {
        let unix_ms = run.started().unix_ms_at(entry.event.at);
        if let EventKind::PersonAnswered { key, answer, .. } = &entry.event.kind {
            let (answer, text) = match answer {
                PersonAnswer::Approved => ("approved", None),
                PersonAnswer::Denied { why } => ("denied", Some(why.to_string())),
                PersonAnswer::Answered { text } => ("answered", Some(text.to_string())),
            };
            self.settle(key, answer, text, unix_ms);
            open.retain(|waits| waits != key);
        }
        if let EventKind::ApprovedBy { key, by, .. } = &entry.event.kind {
            let of = key.to_string();
            if let Some(requested) = self.requested.iter_mut().rev().find(|requested| requested.action == of)
            {
                requested.approvers.push(ApproverReport {
                    account: by.account.to_string(),
                    user: by.user.to_string(),
                    unverified_claim: by.claim.as_ref().map(ToString::to_string),
                    unix_ms,
                });
            }
            if !run.requested().iter().any(|requested| requested.key == *key) {
                self.settle(key, "approved", None, unix_ms);
                open.retain(|waits| waits != key);
            }
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
                approvers: Vec::new(),
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
