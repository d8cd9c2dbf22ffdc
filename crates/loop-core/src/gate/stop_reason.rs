//! Stop reasons: one enum for every protocol.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use strum::{EnumIter, EnumMessage, IntoEnumIterator, IntoStaticStr};

use crate::spec::ReasonName;
use crate::types::StopClass;

/// Why the loop ended. One enum for every protocol, `snake_case` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumIter, EnumMessage, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// High confidence, nothing left to run, and everything that the domain requires is present.
    Confident,
    /// A final answer, in a protocol without confidence.
    Completed,
    /// Nothing is left to run, and the confidence is not high.
    NoNewActions,
    /// The confidence did not improve between passes, by the rule in `gate.stale`.
    StaleConfidence,
    /// As many passes as `gate.no_progress` says returned neither new evidence nor a changed section.
    NoProgress,
    /// `limits.passes` is reached.
    MaxPasses,
    /// `limits.messages` is reached.
    MaxMessages,
    /// `limits.model_calls` is reached.
    MaxModelCalls,
    /// An action would run, and `limits.tool_calls` is used up.
    MaxToolCalls,
    /// `limits.cost_usd` is used up, or does not cover the next call.
    BudgetExceeded,
    /// The budget that the run shares with other runs does not cover its next call: that of a day, of a month or of a
    /// batch.
    SharedBudgetExceeded,
    /// `limits.tokens` is used up, or the prompt no longer fits into any model's context.
    TokenLimit,
    /// The last reply was cut at the output limit of its call.
    OutputLimit,
    /// The wall-clock limit is reached.
    Timeout,
    /// High confidence, but something that the domain requires is missing.
    EvidenceMissing,
    /// The model or its provider's content filter refused the work, so that another call would not help. Another model or
    /// another wording of the work item may be accepted; what was found so far is kept.
    Refused,
    /// Every action that mattered was denied.
    PolicyBlocked,
    /// A person has to continue the work.
    NeedsHuman,
    /// The failure of a tool ended the run.
    ToolFailure,
    /// The model could not be called, or its reply could not be used.
    ModelFailure,
    /// A reply has a form that the protocol does not allow.
    InvalidResponse,
    /// The model submitted before there was an output.
    SubmitBeforeOutput,
    /// No attempt returned a valid output.
    MaxAttempts,
    /// The journal could not be written.
    StorageFailed,
    /// A person or the calling program stopped the run.
    ManualStop,
    /// An effect was started and its outcome is unknown. Never the primary condition of a certificate.
    InDoubt,
    /// An effect that was owed was denied, expired or not begun, so that not everything that was requested happened.
    /// Never the primary condition of a certificate: it turns `answered` into `partial`.
    EffectNotDone,
    /// A denied call would have changed something, and fits no slot of the run's plan. The user did not request it, so
    /// nothing is owed for it. Never the primary condition of a certificate.
    EffectBlocked,
    /// A main call was made on another tier than the base one. It stops nothing and is never the primary condition.
    TierChanged,
    /// A reason of the domain's own, by its name: see [`OwnReason`](crate::spec::OwnReason).
    #[serde(untagged)]
    #[strum(disabled)]
    Domain(ReasonName),
}

impl StopReason {
    /// Every reason of the loop, in order of declaration.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<StopReason>> = LazyLock::new(|| StopReason::iter().collect());
        &ALL
    }

    /// The reason's name in JSON, for example `no_new_actions`.
    pub fn name(&self) -> &str {
        match self {
            Self::Domain(name) => name.as_str(),
            own => own.into(),
        }
    }

    /// What was true as the run stopped, in words. Empty for a reason of a domain's own.
    pub fn about(&self) -> String {
        let words = self.get_documentation().unwrap_or_default().split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    }

    /// The class that this reason alone gives. For a domain's own reason it is `partial`: the declared class is in
    /// [`Condition::class`](crate::gate::Condition::class).
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
            | Self::SharedBudgetExceeded
            | Self::TokenLimit
            | Self::OutputLimit
            | Self::Timeout
            | Self::EvidenceMissing
            | Self::EffectNotDone
            | Self::EffectBlocked
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

#[cfg(test)]
mod tests {
    use super::*;

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
