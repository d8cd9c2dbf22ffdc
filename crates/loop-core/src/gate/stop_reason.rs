//! Why a loop ends: one enum for every protocol.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::spec::ReasonName;
use crate::types::StopClass;

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
    /// Two passes returned neither new evidence nor a changed section.
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
    /// No attempt returned a valid output.
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
    /// with its condition, [`Condition::class`](crate::Condition::class).
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
