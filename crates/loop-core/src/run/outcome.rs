//! The outcome: the document, the stop reason and the cost. It contains everything that was paid for, whatever the
//! reason.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, JudgedAction, Verdict};
use crate::reply::Document;
use crate::run::check::CheckRecord;
use crate::run::eager_read::DroppedRead;
use crate::run::warning::RunWarning;
use crate::types::{CommandKey, Confidence, Evidence, Millis, RunId, Tier, Totals, is_default};

/// The result of a run, whatever the reason for its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// The run's id.
    pub run: RunId,
    /// Why it stopped.
    pub stop: Certificate,
    /// The last stated confidence. `unknown` in protocols without confidence.
    pub confidence: Confidence,
    /// The model's reason for it. Empty if it gave none.
    pub confidence_reason: Arc<str>,
    /// The passes, in their order. Empty if no reply was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<PassSummary>,
    /// The document so far. Empty outside of documents.
    pub document: Document,
    /// The final answer of a conversation, or the part of it that was received. `None` outside of conversations, or
    /// if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Arc<str>>,
    /// The last output, valid or not. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Why the last rejected output was rejected. `None`: none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<Rejection>,
    /// How many attempts at an output were begun; 0 outside of outputs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// What the run was doing when its reason was fixed.
    #[serde(default)]
    pub stopped_in: StoppedIn,
    /// What the domain requires and the run does not have: required sections first. Empty if nothing is missing.
    pub missing: Vec<Arc<str>>,
    /// The checks of the document, in the order of the passes. Empty if none was demanded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRecord>,
    /// The settled results, by number.
    pub evidence: Vec<Evidence>,
    /// Every action with its verdict.
    pub actions: Vec<JudgedAction>,
    /// Reads that started before their reply was complete and whose results were not used, in the order in which they
    /// were dropped. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_reads: Vec<DroppedRead>,
    /// Usage and cost of the run.
    pub totals: Totals,
    /// The model calls that settled, in the order of settling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ServedCall>,
    /// What was irregular and did not end the run, each once, in the order in which it happened. Empty if nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RunWarning>,
    /// Where the outcome was saved, or why not. `None`: the run is not done, or nothing was to be saved.
    pub saved: Option<SaveState>,
}

impl Outcome {
    /// The actions that were left undone: requested, not `nice_to_have`, and not run.
    pub fn undone(&self) -> impl Iterator<Item = &JudgedAction> {
        self.actions.iter().filter(|action| match action.verdict {
            Verdict::Denied { .. }
            | Verdict::NeedsPerson { .. }
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. }
            | Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. } => true,
            Verdict::Run | Verdict::Kept | Verdict::Duplicate { .. } | Verdict::Skipped => false,
        })
    }
}

/// A model call that settled: the model that was requested, and the one that served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServedCall {
    /// The call's key. For a sub-call, the key of its action.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// The tier that was requested.
    pub tier: Tier,
    /// The provider that was called.
    pub provider: Arc<str>,
    /// The model that was requested, by the provider's name for it.
    pub model: Arc<str>,
    /// The official name of the model, for the price table. `None`: `model` is the official name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Arc<str>>,
    /// The model that served, as the provider reports it. `None`: not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
}

/// A pass in the history of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassSummary {
    /// The pass, from 1.
    pub pass: u32,
    /// Whether it was the final pass: the last call, without tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub final_pass: bool,
    /// The tier that replied.
    pub tier: Tier,
    /// The stated confidence.
    pub confidence: Confidence,
    /// The model's reason for it. Empty if it gave none.
    pub confidence_reason: Arc<str>,
    /// Ids of the sections that it changed.
    pub changed: Vec<Arc<str>>,
    /// When its reply was read, since the start of the run.
    pub at: Millis,
    /// The level by which the gate ends a run in place of the stated one. `None`: the stated one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Confidence>,
}

/// A typed output of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Output {
    /// The value as the model wrote it. It is JSON of the schema if `valid`.
    pub value: Arc<str>,
    /// Whether it passed all validation.
    pub valid: bool,
}

/// Why an output was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rejection {
    /// `schema`, or the name of the validator.
    pub by: Arc<str>,
    /// What is wrong, for the model.
    pub message: Arc<str>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.message)
    }
}

/// What a run was doing when its stop reason was fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct StoppedIn {
    /// The name of the phase, for example `calling` or `acting`.
    pub phase: Arc<str>,
    /// The pass, from 1; 0 before the first.
    pub pass: u32,
    /// The attempt at an output, from 1; 0 outside of outputs.
    #[serde(skip_serializing_if = "is_default")]
    pub attempt: u32,
}

/// Where an outcome was saved, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "saved", rename_all = "snake_case")]
pub enum SaveState {
    /// It is saved.
    At {
        /// Where, for people: a path or an address.
        location: Arc<str>,
    },
    /// It is not saved. The journal contains it.
    Not {
        /// Why, as one line for people.
        message: Arc<str>,
    },
}
