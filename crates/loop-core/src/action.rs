//! Actions that a model asks for, and what software says to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{CommandKey, EvidenceId};
use crate::observation::Status;
use crate::outcome::Evidence;
use crate::spec::{Effect, is_default};
use crate::trouble::TOOL_FAILURES;

/// How much an action matters to the one who asked for it (S0-102).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The answer cannot stand without it; admitted first when calls run short.
    Required,
    /// The answer would be better with it.
    Recommended,
    /// Skipped: the model itself said that it is not critical (S0-105).
    NiceToHave,
}

/// A tool call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Action {
    /// The model's own name for it, for example `check-backup`.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub tool: Arc<str>,
    /// How the result would change the answer.
    pub reason: Arc<str>,
    /// Parameters as canonical JSON.
    pub parameters: Arc<str>,
    /// How much it matters.
    pub priority: Priority,
}

/// What was decided about an action, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Run,
    /// The protocol takes it itself: an output, or the call that submits one.
    Kept,
    /// No tool has this name or alias.
    UnknownTool {
        /// Names that come near it.
        near: Vec<Arc<str>>,
    },
    /// The parameters do not fit the tool.
    InvalidArguments {
        /// JSON pointer to what does not fit; empty for the whole.
        pointer: Arc<str>,
        /// What was expected there.
        message: Arc<str>,
    },
    /// Policy or a person refused it.
    Denied {
        /// Why.
        why: Arc<str>,
    },
    /// The same call has been run, or stands earlier in the same reply (S0-118, S0-d8).
    Duplicate {
        /// The earlier call.
        of: CommandKey,
        /// Its evidence, where it has settled.
        evidence: Option<EvidenceId>,
        /// Which rule found it, where more than one could.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RepeatRule>,
    },
    /// Its priority is `nice_to_have`.
    Skipped,
    /// Its effect needs a person's consent.
    NeedsPerson {
        /// What the tool does to the world.
        effect: Effect,
        /// Why, where it is not for the effect alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    /// A limit came first: of tool calls, of picked tools, of a tool's failures, or the one that stopped the run.
    OverLimit {
        /// The setting, for example `limits.tool_calls`, or the reason of the stop.
        setting: Arc<str>,
    },
}

/// Which rule refused a repeat, with what it was held against (S3-31, I-32).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RepeatRule {
    /// The same call, and once is enough (S3-29).
    Exact,
    /// The same call brought the same result so often, and nothing was changed between.
    SameResult {
        /// How often.
        times: u32,
        /// What in the results was not looked at, where something was found there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ignored: Vec<Arc<str>>,
    },
    /// The same call failed for good.
    Failed,
    /// The same calls brought the same results in a circle.
    Cycle {
        /// Calls in the circle.
        length: u32,
        /// How often it went round.
        times: u32,
    },
    /// The tool's limit is reached (S3-28).
    Limit {
        /// The limit.
        limit: u32,
    },
    /// A search text like one before (S3-30).
    Similar {
        /// The text before.
        query: Arc<str>,
        /// The likeness in thousandths.
        millis: u32,
    },
}

impl Verdict {
    /// The verdict as it is written, for example `unknown_tool`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Kept => "kept",
            Self::UnknownTool { .. } => "unknown_tool",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::Denied { .. } => "denied",
            Self::Duplicate { .. } => "duplicate",
            Self::Skipped => "skipped",
            Self::NeedsPerson { .. } => "needs_person",
            Self::OverLimit { .. } => "over_limit",
        }
    }

    /// The reason in one line, for people and for the model.
    pub fn reason(&self) -> String {
        match self {
            Self::Run => "admitted".to_owned(),
            Self::Kept => "taken as the output".to_owned(),
            Self::UnknownTool { near } if near.is_empty() => "no tool has this name".to_owned(),
            Self::UnknownTool { near } => {
                let near: Vec<&str> = near.iter().map(AsRef::as_ref).collect();
                format!("no tool has this name; near names: {}", near.join(", "))
            }
            Self::InvalidArguments { pointer, message } if pointer.is_empty() => message.to_string(),
            Self::InvalidArguments { pointer, message } => format!("{pointer}: {message}"),
            Self::Denied { why } => why.to_string(),
            Self::Duplicate { of, evidence: Some(evidence), .. } => {
                format!("already run as {of}, see {evidence}")
            }
            Self::Duplicate { of, evidence: None, .. } => format!("already asked for as {of}"),
            Self::Skipped => "nice_to_have actions are not run".to_owned(),
            Self::NeedsPerson { why: Some(why), .. } => why.to_string(),
            Self::NeedsPerson { effect, why: None } => {
                format!("its effect `{}` needs a person's consent", effect.name())
            }
            Self::OverLimit { setting } if &**setting == TOOL_FAILURES => {
                "it failed too often in a row, and is not run any more in this run".to_owned()
            }
            Self::OverLimit { setting } => format!("left undone: {setting}"),
        }
    }
}

/// An action with its verdict: kept for the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JudgedAction {
    /// Fixed when it was proposed.
    pub key: CommandKey,
    /// What was asked for.
    pub action: Action,
    /// The tool's own name, where one was found.
    pub tool: Option<Arc<str>>,
    /// Parameters rebuilt from the fields that the tool declares, as canonical JSON (S4-81).
    pub parameters: Arc<str>,
    /// What was decided.
    pub verdict: Verdict,
    /// The number of its observation, once it was admitted.
    pub evidence: Option<EvidenceId>,
    /// Whether its tool was found by a part of its name alone (C21).
    #[serde(default, skip_serializing_if = "is_default")]
    pub guessed: bool,
}

impl JudgedAction {
    /// The tool's own name where it is known, else what the model wrote.
    pub fn tool_name(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.action.tool)
    }

    /// The reason of its verdict in one line. Of a repeat it says as well where the earlier call never ran: policy or a person
    /// refused it, or nobody answered in time; and of an unknown tool where none was named. `evidence` is the run's.
    pub fn reason(&self, evidence: &[Evidence]) -> String {
        let (of, earlier) = match &self.verdict {
            Verdict::Duplicate { of, evidence: Some(earlier), .. } => (of, earlier),
            Verdict::UnknownTool { near } if near.is_empty() && self.tool_name().trim().is_empty() => {
                return "it names no tool".to_owned();
            }
            verdict => return verdict.reason(),
        };
        let earlier = evidence.iter().find(|it| it.id == *earlier);
        match earlier.filter(|it| it.observation.status == Status::Denied) {
            Some(Evidence { id, observation, .. }) => {
                format!("already asked for as {of} and denied: {}; see {id}", observation.summary)
            }
            None => self.verdict.reason(),
        }
    }
}
