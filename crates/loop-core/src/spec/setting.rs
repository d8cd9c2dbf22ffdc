//! The settings that a decision can name: the limit that was reached, or the one to change.
//!
//! A setting is compared as this type and written as its path in a domain file, for example `limits.passes`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A setting that a stop, a verdict or a forecast names. As JSON it is its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Main calls of a run.
    Passes,
    /// Cost of a run.
    Cost,
    /// Tokens of a run.
    Tokens,
    /// Model calls of every kind.
    ModelCalls,
    /// Tool calls of a run.
    ToolCalls,
    /// Wall clock of a run.
    WallMs,
    /// Tools that run before the first pass.
    Selected,
    /// Output tokens of one call.
    OutputTokens,
    /// Messages of one call.
    Messages,
    /// What follows an invalid reply or call.
    OnInvalid,
    /// What follows a call that policy denies.
    OnDenied,
    /// What follows a tool that fails.
    OnToolError,
    /// Whether high confidence ends a run although actions could run.
    HighIsFinal,
    /// Passes in a row without anything new.
    NoProgress,
    /// Which confidence counts as stale.
    Stale,
    /// Whether a cheaper tier may reply when the cost limit requires it.
    CheaperTier,
    /// Failures of one tool in a row.
    ToolFailuresBreaker,
    /// Denied calls in a row.
    DeniedBreaker,
    /// Calls in a row with an unknown tool or invalid arguments.
    BadArgumentsBreaker,
    /// Attempts at an output.
    Attempts,
    /// Passes of one attempt.
    PassesPerAttempt,
    /// Calls of one tool. It is in the tool's own settings, or in a table of the policy.
    MaxCalls,
}

impl Setting {
    /// Every setting, in order of declaration.
    pub const ALL: [Self; 22] = [
        Self::Passes,
        Self::Cost,
        Self::Tokens,
        Self::ModelCalls,
        Self::ToolCalls,
        Self::WallMs,
        Self::Selected,
        Self::OutputTokens,
        Self::Messages,
        Self::OnInvalid,
        Self::OnDenied,
        Self::OnToolError,
        Self::HighIsFinal,
        Self::NoProgress,
        Self::Stale,
        Self::CheaperTier,
        Self::ToolFailuresBreaker,
        Self::DeniedBreaker,
        Self::BadArgumentsBreaker,
        Self::Attempts,
        Self::PassesPerAttempt,
        Self::MaxCalls,
    ];

    /// Its path in a domain file.
    pub fn path(self) -> &'static str {
        match self {
            Self::Passes => "limits.passes",
            Self::Cost => "limits.cost_usd",
            Self::Tokens => "limits.tokens",
            Self::ModelCalls => "limits.model_calls",
            Self::ToolCalls => "limits.tool_calls",
            Self::WallMs => "limits.wall_ms",
            Self::Selected => "limits.selected",
            Self::OutputTokens => "limits.output_tokens",
            Self::Messages => "limits.messages",
            Self::OnInvalid => "gate.on_invalid",
            Self::OnDenied => "gate.on_denied",
            Self::OnToolError => "gate.on_tool_error",
            Self::HighIsFinal => "gate.high_is_final",
            Self::NoProgress => "gate.no_progress",
            Self::Stale => "gate.stale",
            Self::CheaperTier => "gate.cheaper_tier",
            Self::ToolFailuresBreaker => "gate.breakers.tool_failures",
            Self::DeniedBreaker => "gate.breakers.denied",
            Self::BadArgumentsBreaker => "gate.breakers.bad_arguments",
            Self::Attempts => "output.attempts",
            Self::PassesPerAttempt => "output.passes_per_attempt",
            Self::MaxCalls => "max_calls",
        }
    }

    /// The setting with this path. `None`: no decision names it.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.path() == path)
    }

    /// Whether it is the threshold of a circuit breaker.
    pub fn is_breaker(self) -> bool {
        matches!(self, Self::ToolFailuresBreaker | Self::DeniedBreaker | Self::BadArgumentsBreaker)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.path())
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = String::deserialize(deserializer)?;
        Self::of_path(&path)
            .ok_or_else(|| de::Error::custom(format!("no decision names the setting `{path}`")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_is_read_back_from_its_path() {
        let paths: BTreeSet<&str> = Setting::ALL.iter().map(|setting| setting.path()).collect();
        assert_eq!(paths.len(), Setting::ALL.len());
        for setting in Setting::ALL {
            let json = serde_json::to_string(&setting).unwrap();
            assert_eq!(json, format!("\"{setting}\""));
            assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
            assert_eq!(setting.is_breaker(), setting.path().starts_with("gate.breakers."));
        }
        assert!(serde_json::from_str::<Setting>("\"limits.luck\"").is_err());
    }
}
