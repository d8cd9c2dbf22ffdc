//! The outcome: the document, the reason and the bill. Whatever the reason, nothing that was paid for is missing.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::action::JudgedAction;
use crate::document::Document;
use crate::ids::{CommandKey, EvidenceId, Millis, RunId};
use crate::money::{Spend, Usage};
use crate::observation::{Observation, Status};
use crate::spec::{RunSpec, Tier, is_default};
use crate::stop::{Certificate, Confidence};
use crate::verdict::Verdict;

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

/// What became of the effects that were asked for in a run: calls of tools that do more than read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// They ran, and their tool says so.
    pub executed: u32,
    /// They ran and failed, as their tool says.
    pub failed: u32,
    /// Policy or a person denied them.
    pub denied: u32,
    /// They need a person's consent that was not given, or their tool is not ready yet.
    pub waiting: u32,
    /// They were begun, and whether they happened is unknown.
    pub in_doubt: u32,
    /// They were not begun for another reason: a limit, arguments that do not fit, a repeat, the end of the run.
    pub not_run: u32,
}

impl Effects {
    /// The effects among `actions`, whose observations are in `evidence`; `is_in_doubt` says whether what was begun under a key
    /// may have happened.
    pub(crate) fn of(
        spec: &RunSpec,
        actions: &[JudgedAction],
        evidence: &[Evidence],
        is_in_doubt: impl Fn(&CommandKey) -> bool,
    ) -> Self {
        let mut effects = Self::default();
        for action in actions {
            let tool = action.tool.as_deref().and_then(|name| spec.tool(name));
            if tool.is_none_or(|tool| tool.effect.is_read()) {
                continue;
            }
            let found = || Evidence::find(evidence, action.evidence?);
            *match &action.verdict {
                Verdict::Run => {
                    match found().map(|found| (found.observation.status, is_in_doubt(&found.key))) {
                        Some((_, true)) => &mut effects.in_doubt,
                        Some((status, false)) => match status {
                            Status::Ok | Status::Empty => &mut effects.executed,
                            Status::Pending => &mut effects.waiting,
                            Status::Denied => &mut effects.denied,
                            // A later try under the same key has settled what this one left open.
                            Status::InDoubt
                            | Status::Timeout
                            | Status::RetryableError
                            | Status::PermanentError
                            | Status::InvalidInput
                            | Status::MalformedResult => &mut effects.failed,
                            Status::Cancelled | Status::Duplicate | Status::Skipped => &mut effects.not_run,
                        },
                        None => &mut effects.not_run,
                    }
                }
                Verdict::Denied { .. } => &mut effects.denied,
                Verdict::NeedsPerson { .. } => &mut effects.waiting,
                Verdict::UnknownTool { .. }
                | Verdict::InvalidArguments { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::OverLimit { .. }
                | Verdict::BreakerOpen { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. } => &mut effects.not_run,
                Verdict::Kept => continue,
            } += 1;
        }
        effects
    }

    /// Whether none was asked for.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Effects {
    /// The counts that are not 0, for example `1 executed, 2 denied`; `none` where all are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executed, failed, denied, waiting, in_doubt, not_run } = *self;
        let all = [
            (executed, "executed"),
            (failed, "failed"),
            (denied, "denied"),
            (waiting, "waiting"),
            (in_doubt, "in doubt"),
            (not_run, "not run"),
        ];
        let counts = all.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if counts.is_empty() { "none" } else { "" })?;
        f.write_str(&counts.join(", "))
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
    pub landing: bool,
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

/// A settled observation with its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// In the order in which it was asked for.
    pub id: EvidenceId,
    /// The action that brought it.
    pub key: CommandKey,
    /// The pass that asked for it; 0 for a picked tool.
    pub pass: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Rebuilt parameters, as canonical JSON.
    pub parameters: Arc<str>,
    /// What came back.
    pub observation: Observation,
    /// Whether prompts show only its summary, because its body no longer fits.
    pub shortened: bool,
}

impl Evidence {
    /// The one of this number, or none. `all` is a run's evidence, in the order of its numbers.
    pub fn find(all: &[Self], id: EvidenceId) -> Option<&Self> {
        all.get(all.binary_search_by_key(&id, |evidence| evidence.id).ok()?)
    }
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Totals {
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind that were started.
    pub model_calls: u32,
    /// Tool calls that were started, picked ones included.
    pub tool_calls: u32,
    /// Calls that replies asked for beyond `limits.asked_calls`: they were not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// Of the model calls, those of smart tools.
    pub sub_calls: u32,
    /// Passes at high confidence that asked for required actions all the same: how far a model's confidence can be
    /// trusted (C15).
    #[serde(default, skip_serializing_if = "is_default")]
    pub contradictions: u32,
    /// Tokens of all calls.
    pub usage: Usage,
    /// Money for all calls.
    pub cost: Spend,
    /// Milliseconds from start to stop, waiting for people and times without a driver apart.
    pub wall_ms: u64,
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
