//! The outcome: the document, the reason and the cost. Whatever the reason, nothing that was paid for is missing.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, JudgedAction, Verdict};
use crate::reply::Document;
use crate::types::{CommandKey, Confidence, Evidence, Millis, RunId, Tier, Totals, is_default};

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// Why it stopped.
    pub stop: Certificate,
    /// What the last reply said of its confidence.
    pub confidence: Confidence,
    /// Why it said so.
    pub confidence_reason: Arc<str>,
    /// The history of passes, in their order (S0-49).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<PassSummary>,
    /// The document so far.
    pub document: Document,
    /// The final answer of a conversation, or as much of one as came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Arc<str>>,
    /// The last output, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Why the last output that was rejected was, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<Rejection>,
    /// How many attempts at an output were begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// What the run was doing when its reason was fixed.
    #[serde(default)]
    pub stopped_in: StoppedIn,
    /// Required sections that are not there, and what else the domain demands and did not get.
    pub missing: Vec<Arc<str>>,
    /// Settled observations by number.
    pub evidence: Vec<Evidence>,
    /// Every action with its verdict.
    pub actions: Vec<JudgedAction>,
    /// The bill.
    pub totals: Totals,
    /// The calls to models that settled, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ServedCall>,
    /// Whether it was saved, once the run is done; `None` where nothing was to be saved.
    pub saved: Option<Saved>,
}

impl Outcome {
    /// The actions that were asked for, mattered, and were not run: what was left undone.
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

/// A call to a model: which model was asked, and which served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServedCall {
    /// What it was for; of a smart tool's call the key of its action.
    pub key: CommandKey,
    /// Which try of it, from 1.
    pub attempt: u32,
    /// The tier that was asked.
    pub tier: Tier,
    /// The provider that was asked.
    pub provider: Arc<str>,
    /// The model that was asked, by the provider's name for it.
    pub model: Arc<str>,
    /// The model that it is, where the provider has another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Arc<str>>,
    /// The model that served, as the provider says; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
}

/// A pass in the history of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassSummary {
    /// From 1.
    pub pass: u32,
    /// Whether it was the final pass: the last call, without tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub final_pass: bool,
    /// The tier that replied.
    pub tier: Tier,
    /// What its reply said of its confidence.
    pub confidence: Confidence,
    /// Why it said so.
    pub confidence_reason: Arc<str>,
    /// The sections that it changed.
    pub changed: Vec<Arc<str>>,
    /// When its reply was read.
    pub at: Millis,
}

/// An output that the model gave.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Output {
    /// The value, as the model wrote it: JSON, once it is valid.
    pub value: Arc<str>,
    /// Whether it passed all validation.
    pub valid: bool,
}

/// Why an output was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rejection {
    /// `schema`, or the validator's name.
    pub by: Arc<str>,
    /// What is wrong, for the model.
    pub message: Arc<str>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.message)
    }
}

/// What a run was doing when its reason was fixed (S2-79).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct StoppedIn {
    /// The phase, for example `calling` or `acting`.
    pub phase: Arc<str>,
    /// The pass, from 1; 0 before the first.
    pub pass: u32,
    /// The attempt at an output, from 1; 0 where there are none.
    #[serde(skip_serializing_if = "is_default")]
    pub attempt: u32,
}

/// What became of saving.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "saved", rename_all = "snake_case")]
pub enum Saved {
    /// It is there.
    At {
        /// Where.
        location: Arc<str>,
    },
    /// It is not; the journal has it.
    Not {
        /// Why.
        message: Arc<str>,
    },
}
