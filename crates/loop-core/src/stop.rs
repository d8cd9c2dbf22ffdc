//! Why a run stopped: the reason, its class, and a certificate with every condition that was true.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::EvidenceId;
use crate::money::PicoUsd;
use crate::outcome::Effects;
use crate::setting::Setting;
use crate::spec::Tier;
use crate::stop_own::ReasonName;

/// Why the loop ended. One enum for every protocol, `snake_case` on the wire (C22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// High confidence, nothing left to run, and what the domain demands is there (S0-41).
    Confident,
    /// A final answer of a protocol without confidence.
    Completed,
    /// Nothing left to run, and the confidence is not high (S0-42).
    NoNewActions,
    /// The confidence did not improve (S0-44).
    StaleConfidence,
    /// Two passes brought neither new evidence nor a changed section.
    NoProgress,
    /// The pass limit is reached (S0-43).
    MaxPasses,
    /// The limit of messages is reached (S1-39).
    MaxMessages,
    /// The limit of model calls is reached.
    MaxModelCalls,
    /// Something would run and no tool call is left for it.
    MaxToolCalls,
    /// The money is used up (S0-45).
    BudgetExceeded,
    /// The tokens are used up, or nothing fits into the model any more.
    TokenLimit,
    /// The last reply was cut at the output limit of its call.
    OutputLimit,
    /// The wall clock ran out.
    Timeout,
    /// High confidence, but what the domain demands is not there.
    EvidenceMissing,
    /// The model refused the work.
    Refused,
    /// Every action that mattered was denied.
    PolicyBlocked,
    /// A person has to go on.
    NeedsHuman,
    /// A tool's failure ended the run.
    ToolFailure,
    /// The model could not be called, or its reply could not be used.
    ModelFailure,
    /// A reply that is none of what the protocol allows.
    InvalidResponse,
    /// The end was called before there was an output.
    SubmitBeforeOutput,
    /// No attempt brought a valid output.
    MaxAttempts,
    /// The journal could not be written.
    StorageFailed,
    /// Someone stopped it (S0-46).
    ManualStop,
    /// An effect was started and its outcome is unknown. Never the first condition of a certificate: it stands beside
    /// the one that stopped the run.
    InDoubt,
    /// A main call was made on another tier than the base one. It stops nothing: it stands beside what did.
    TierChanged,
    /// A reason of the domain's own, by its name: see [`OwnReason`](crate::OwnReason).
    #[serde(untagged)]
    Domain(ReasonName),
}

impl StopReason {
    /// Every reason of the loop, in the order in which they are declared here.
    pub const ALL: [Self; 26] = [
        Self::Confident,
        Self::Completed,
        Self::NoNewActions,
        Self::StaleConfidence,
        Self::NoProgress,
        Self::MaxPasses,
        Self::MaxMessages,
        Self::MaxModelCalls,
        Self::MaxToolCalls,
        Self::BudgetExceeded,
        Self::TokenLimit,
        Self::OutputLimit,
        Self::Timeout,
        Self::EvidenceMissing,
        Self::Refused,
        Self::PolicyBlocked,
        Self::NeedsHuman,
        Self::ToolFailure,
        Self::ModelFailure,
        Self::InvalidResponse,
        Self::SubmitBeforeOutput,
        Self::MaxAttempts,
        Self::StorageFailed,
        Self::ManualStop,
        Self::InDoubt,
        Self::TierChanged,
    ];

    /// The reason as it is written, for example `no_new_actions`.
    pub fn name(&self) -> &str {
        match self {
            Self::Domain(name) => name.as_str(),
            Self::Confident => "confident",
            Self::Completed => "completed",
            Self::NoNewActions => "no_new_actions",
            Self::StaleConfidence => "stale_confidence",
            Self::NoProgress => "no_progress",
            Self::MaxPasses => "max_passes",
            Self::MaxMessages => "max_messages",
            Self::MaxModelCalls => "max_model_calls",
            Self::MaxToolCalls => "max_tool_calls",
            Self::BudgetExceeded => "budget_exceeded",
            Self::TokenLimit => "token_limit",
            Self::OutputLimit => "output_limit",
            Self::Timeout => "timeout",
            Self::EvidenceMissing => "evidence_missing",
            Self::Refused => "refused",
            Self::PolicyBlocked => "policy_blocked",
            Self::NeedsHuman => "needs_human",
            Self::ToolFailure => "tool_failure",
            Self::ModelFailure => "model_failure",
            Self::InvalidResponse => "invalid_response",
            Self::SubmitBeforeOutput => "submit_before_output",
            Self::MaxAttempts => "max_attempts",
            Self::StorageFailed => "storage_failed",
            Self::ManualStop => "manual_stop",
            Self::InDoubt => "in_doubt",
            Self::TierChanged => "tier_changed",
        }
    }

    /// The class that this reason alone would give. A domain's own reason gives `partial` here: what it means stands
    /// with its condition, [`Condition::class`].
    pub fn class(self) -> StopClass {
        match self {
            Self::Confident | Self::Completed => StopClass::Answered,
            Self::NoNewActions
            | Self::StaleConfidence
            | Self::NoProgress
            | Self::MaxPasses
            | Self::MaxMessages
            | Self::MaxModelCalls
            | Self::MaxToolCalls
            | Self::BudgetExceeded
            | Self::TokenLimit
            | Self::OutputLimit
            | Self::Timeout
            | Self::EvidenceMissing
            | Self::TierChanged
            | Self::Domain(_) => StopClass::Partial,
            Self::Refused | Self::PolicyBlocked => StopClass::Refused,
            Self::NeedsHuman => StopClass::NeedsHuman,
            Self::ToolFailure
            | Self::ModelFailure
            | Self::InvalidResponse
            | Self::SubmitBeforeOutput
            | Self::MaxAttempts
            | Self::StorageFailed => StopClass::Failed,
            Self::ManualStop => StopClass::Cancelled,
            Self::InDoubt => StopClass::InDoubt,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a stop means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopClass {
    /// The document answers.
    Answered,
    /// The document is there and says less than it might.
    Partial,
    /// The work was refused.
    Refused,
    /// A person has to go on.
    NeedsHuman,
    /// Something broke.
    Failed,
    /// An effect's outcome is unknown: a person has to look before anything is done again.
    InDoubt,
    /// Someone stopped it.
    Cancelled,
}

impl StopClass {
    /// The exit code of a program that ends with this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Partial => 3,
            Self::Refused => 4,
            Self::NeedsHuman => 5,
            Self::Failed => 6,
            Self::InDoubt => 7,
            Self::Cancelled => 130,
        }
    }

    /// The class as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::NeedsHuman => "needs_human",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How sure the model says it is (S0-96). A missing or garbled statement is `unknown`: low, never high (S0-d9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Nothing usable was said; counts as low.
    Unknown,
    /// Mostly guessing.
    Low,
    /// Reasonable, but data would improve it.
    Medium,
    /// Specific, actionable data.
    High,
}

impl Confidence {
    /// Its place in the order low, medium, high; unknown counts as low.
    pub(crate) fn level(self) -> u8 {
        match self {
            Self::Unknown | Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }

    /// The confidence as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A value of a condition or its threshold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case")]
pub enum Measure {
    /// A number of things.
    Count(u64),
    /// Money.
    PicoUsd(PicoUsd),
    /// A duration.
    Millis(u64),
    /// A confidence.
    Confidence(Confidence),
    /// Names of things, for example of what is missing.
    Names(Vec<Arc<str>>),
    /// A text, for example a failure's message.
    Text(Arc<str>),
    /// Why an output could not be checked: the check's name and what went wrong.
    BrokenCheck(Arc<str>),
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// Money that was not enough for the next call.
    NextCost {
        /// What was spent, and reserved by what was in flight.
        spent: PicoUsd,
        /// What the call would have taken at the least.
        needs: PicoUsd,
        /// What is held back for the landing.
        held: PicoUsd,
    },
    /// Time that is not enough for anything but the landing.
    NextTime {
        /// What has passed.
        elapsed_ms: u64,
        /// What is held back for the landing.
        held_ms: u64,
    },
    /// Main calls that another tier's model took.
    Tiers(Vec<TierChange>),
    /// The same trouble so often in a row.
    InARow {
        /// What happened, for example `failures of fetch_device`.
        what: Arc<str>,
        /// How often.
        times: u64,
    },
    /// What a reply wrote that was cut.
    Output(Written),
    /// What a domain declares as an end of its own, and found.
    Declared {
        /// What it means.
        class: StopClass,
        /// What is so, as a sentence.
        says: Arc<str>,
        /// The observation that shows it.
        evidence: EvidenceId,
    },
    /// Tokens that were not enough for the next call.
    NextTokens {
        /// What was used, and reserved by what was in flight.
        used: u64,
        /// What the call would have taken at the least.
        needs: u64,
        /// What is held back for the landing.
        held: u64,
    },
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => n.fmt(f),
            Self::PicoUsd(amount) => amount.fmt(f),
            Self::Millis(ms) => write!(f, "{ms} ms"),
            Self::Confidence(confidence) => f.write_str(confidence.name()),
            Self::Names(names) => {
                let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                f.write_str(&names.join(", "))
            }
            Self::Text(text) | Self::BrokenCheck(text) => f.write_str(text),
            Self::ContentFilter => f.write_str("a content filter of the provider stopped the reply"),
            Self::NextCost { spent, needs, held } => {
                write!(f, "{spent} spent, {needs} for the next call, {held} held back for the landing")
            }
            Self::NextTime { elapsed_ms, held_ms } => {
                write!(f, "{elapsed_ms} ms passed, {held_ms} ms held back for the landing")
            }
            Self::Declared { says, evidence, .. } => write!(f, "{says} [{evidence}]"),
            Self::Tiers(changes) => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                f.write_str(&changes.join("; "))
            }
            Self::InARow { what, times } => write!(f, "{times} {what} in a row"),
            Self::Output(written) => written.fmt(f),
            Self::NextTokens { used, needs, held } => {
                write!(f, "{used} used, {needs} for the next call, {held} held back for the landing")
            }
        }
    }
}

/// What a reply that was cut at its output limit had written by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Written {
    /// Output tokens, reasoning included; `None` where the provider reported none.
    pub tokens: Option<u64>,
    /// How many of them were reasoning, as far as the provider says.
    pub reasoning: u64,
    /// Whether any text or call of it can be seen.
    pub visible: bool,
    /// Whether our own cap cut it: the provider had passed the limit that it was given.
    pub capped: bool,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tokens {
            Some(tokens) => write!(f, "{tokens} output tokens")?,
            None => f.write_str("an unknown number of output tokens")?,
        }
        if self.reasoning > 0 {
            write!(f, ", {} of them reasoning", self.reasoning)?;
        }
        if !self.visible {
            f.write_str(", none of them visible")?;
        }
        if self.capped {
            f.write_str(", cut by loopgate since the provider ignored the limit")?;
        }
        Ok(())
    }
}

/// A condition that was true at the stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The reason that this condition gives.
    pub reason: StopReason,
    /// What was found.
    pub value: Measure,
    /// What it was held against, where there is such a thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Measure>,
    /// The smallest change of a setting under which this condition would not have been true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

impl Condition {
    /// The class that this condition alone would give.
    pub fn class(&self) -> StopClass {
        match &self.value {
            Measure::Declared { class, .. } => *class,
            _ => self.reason.class(),
        }
    }
}

/// A main call that another tier's model took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierChange {
    /// The pass, from 1.
    pub pass: u32,
    /// The tier whose model was to be called.
    pub from: Tier,
    /// The tier whose model was called in its place.
    pub to: Tier,
    /// Why.
    pub why: TierCause,
}

impl fmt::Display for TierChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, from, to, why } = self;
        write!(f, "from pass {pass} {} instead of {}: {}", to.name(), from.name(), why.words())
    }
}

/// Why a main call is made on another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TierCause {
    /// The confidence stayed low.
    LowConfidence,
    /// The model of the tier before could not be called.
    Unavailable,
    /// The cost limit does not pay for the model of the tier before.
    Cost,
    /// The prompt does not fit into the model of the tier before.
    Context,
    /// The run ends: the tier is given back.
    Ended,
}

impl TierCause {
    /// The cause in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::LowConfidence => "the confidence stayed low",
            Self::Unavailable => "the model could not be called",
            Self::Cost => "the cost limit does not pay for the model",
            Self::Context => "the prompt does not fit into the model",
            Self::Ended => "the run ends",
        }
    }
}

/// A setting and the value that it would have needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The setting; in JSON its path, for example `limits.passes`.
    pub setting: Setting,
    /// The nearest value under which the run would have gone on.
    pub to: Measure,
}

impl fmt::Display for Change {
    /// As a domain file takes it, for example `limits.cost_usd = 0.045`: dollars and milliseconds without a unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.setting)?;
        match &self.to {
            Measure::PicoUsd(amount) => {
                let amount = amount.to_string();
                let digits = amount.trim_start_matches('$').trim_end_matches('0');
                f.write_str(digits.strip_suffix('.').unwrap_or(digits))
            }
            Measure::Millis(ms) => ms.fmt(f),
            to => to.fmt(f),
        }
    }
}

/// The explanation of a stop: the condition that decided, and whatever else was true (C14).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// The class of the stop as a whole.
    pub class: StopClass,
    /// The first true condition in the gate's order.
    pub primary: Condition,
    /// The other conditions that were true.
    pub also: Vec<Condition>,
    /// What was done and what was not, once everything has settled: part of an outcome's certificate.
    #[serde(default, skip_serializing_if = "Effects::is_none")]
    pub effects: Effects,
}

impl Certificate {
    /// The certificate of conditions in the gate's order, `primary` first.
    ///
    /// The class is `answered` when `confident` or `completed` is among them, unless the primary is `manual_stop`, `refused`,
    /// `needs_human` or of class `failed`. Where `in_doubt` is among them it is `in_doubt`, unless the run was stopped by
    /// hand.
    pub fn new(primary: Condition, also: Vec<Condition>) -> Self {
        let own = primary.class();
        let is_declared = matches!(primary.reason, StopReason::Domain(_));
        let stands = matches!(own, StopClass::Cancelled | StopClass::NeedsHuman | StopClass::Failed)
            || primary.reason == StopReason::Refused
            || is_declared && own == StopClass::Refused;
        let is_answer = |reason| matches!(reason, StopReason::Confident | StopReason::Completed);
        let answers = also.iter().any(|condition| is_answer(condition.reason));
        let doubts = also.iter().any(|condition| condition.reason == StopReason::InDoubt);
        let class = match own {
            StopClass::Cancelled => StopClass::Cancelled,
            _ if doubts => StopClass::InDoubt,
            _ if answers && !stands => StopClass::Answered,
            _ => own,
        };
        Self { class, primary, also, effects: Effects::default() }
    }

    /// The same certificate with the effects whose outcome is unknown, and the class that follows.
    pub(crate) fn doubting(self, effects: Vec<Arc<str>>) -> Self {
        let Self { primary, mut also, .. } = self;
        also.retain(|condition| condition.reason != StopReason::InDoubt);
        if !effects.is_empty() {
            let value = Measure::Names(effects);
            also.push(Condition { reason: StopReason::InDoubt, value, threshold: None, change: None });
        }
        Self::new(primary, also)
    }

    /// The certificate of conditions in the gate's order, each reason told once; `None` where nothing was true.
    pub(crate) fn of(conditions: impl IntoIterator<Item = Condition>) -> Option<Self> {
        let mut told: Vec<Condition> = Vec::new();
        for condition in conditions {
            if told.iter().all(|known| known.reason != condition.reason) {
                told.push(condition);
            }
        }
        let mut told = told.into_iter();
        Some(Self::new(told.next()?, told.collect()))
    }

    /// The same certificate with more conditions, each reason told once.
    pub(crate) fn and(self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        let mut also = self.also;
        for condition in conditions {
            if condition.reason != self.primary.reason
                && also.iter().all(|known| known.reason != condition.reason)
            {
                also.push(condition);
            }
        }
        Self::new(self.primary, also)
    }

    /// The primary reason.
    pub fn reason(&self) -> StopReason {
        self.primary.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(reason: StopReason) -> Condition {
        Condition { reason, value: Measure::Count(1), threshold: None, change: None }
    }

    #[test]
    fn a_confident_answer_on_the_last_pass_is_answered_and_says_so() {
        // C14: the primary keeps the gate's order, the class tells what it means.
        let certificate =
            Certificate::new(condition(StopReason::MaxPasses), vec![condition(StopReason::Confident)]);
        assert_eq!((certificate.reason(), certificate.class), (StopReason::MaxPasses, StopClass::Answered));
        let stopped =
            Certificate::new(condition(StopReason::ManualStop), vec![condition(StopReason::Confident)]);
        assert_eq!(stopped.class, StopClass::Cancelled);
    }

    #[test]
    fn an_effect_in_doubt_takes_precedence_over_all_but_a_stop_by_hand() {
        // W5
        for reason in StopReason::ALL {
            let certificate = Certificate::new(condition(reason), vec![condition(StopReason::Confident)])
                .doubting(vec!["x".into()]);
            let expected =
                if reason == StopReason::ManualStop { StopClass::Cancelled } else { StopClass::InDoubt };
            assert_eq!(certificate.class, expected, "{reason}");
            assert_eq!(certificate.also.last().map(|it| it.reason), Some(StopReason::InDoubt));
            let again = certificate.clone().doubting(vec!["x".into()]);
            assert_eq!(again, certificate, "told once");
            assert_eq!(certificate.doubting(Vec::new()).class, {
                Certificate::new(condition(reason), vec![condition(StopReason::Confident)]).class
            });
        }
        assert_eq!(StopClass::InDoubt.exit_code(), 7);
    }

    #[test]
    fn reasons_are_written_as_they_are_named() {
        // S0-57: stable names.
        for reason in [
            StopReason::Confident,
            StopReason::MaxPasses,
            StopReason::BudgetExceeded,
            StopReason::NoNewActions,
        ] {
            let written = serde_json::to_string(&reason).unwrap_or_default();
            assert_eq!(written, format!("\"{}\"", reason.name()));
        }
    }
}
