//! The settings that a decision can name: the limit that was reached, or the one to change.
//!
//! A setting is compared as this type and written as its path in a domain file, for example `limits.passes`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::spec::run_spec::RunSpec;

/// One row a setting: what it is, its path in a domain file, and its field of a [`RunSpec`], where it is in one.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident = $path:literal $(, |$spec:ident| $field:expr)?;)*) => {
        /// A setting that a stop, a verdict or a forecast names. As JSON it is its path.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $($(#[$doc])* $name,)*
        }

        impl Setting {
            /// Every setting, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its path in a domain file.
            pub fn path(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)*
                }
            }

            /// Its field of a spec. `None`: the spec does not have the setting.
            #[allow(unreachable_code, reason = "a setting with a field returns it")]
            fn field(self, spec: &mut RunSpec) -> Option<&mut dyn Field> {
                match self {
                    $(Self::$name => {
                        $(let $spec = spec; return Some(&mut $field);)?
                        None
                    })*
                }
            }
        }
    };
}

settings! {
    /// Main calls of a run.
    Passes = "limits.passes", |spec| spec.limits.passes;
    /// Cost of a run.
    Cost = "limits.cost_usd", |spec| spec.limits.cost;
    /// Tokens of a run.
    Tokens = "limits.tokens", |spec| spec.limits.tokens;
    /// Model calls of every kind.
    ModelCalls = "limits.model_calls", |spec| spec.limits.model_calls;
    /// Tool calls of a run.
    ToolCalls = "limits.tool_calls", |spec| spec.limits.tool_calls;
    /// Wall clock of a run.
    WallMs = "limits.wall_ms", |spec| spec.limits.wall_ms;
    /// Levels of runs below a run.
    Depth = "limits.depth", |spec| spec.limits.depth;
    /// Tools that run before the first pass.
    Selected = "limits.selected", |spec| spec.limits.selected;
    /// Output tokens of one call.
    OutputTokens = "limits.output_tokens", |spec| spec.limits.output_tokens;
    /// Messages of one call.
    Messages = "limits.messages", |spec| spec.limits.messages;
    /// What follows an invalid reply or call.
    OnInvalid = "gate.on_invalid", |spec| spec.gate.on_invalid;
    /// What follows a call that policy denies.
    OnDenied = "gate.on_denied", |spec| spec.gate.on_denied;
    /// What follows a tool that fails.
    OnToolError = "gate.on_tool_error", |spec| spec.gate.on_tool_error;
    /// Whether high confidence ends a run although actions could run.
    HighIsFinal = "gate.high_is_final", |spec| spec.gate.high_is_final;
    /// Passes in a row without anything new.
    NoProgress = "gate.no_progress", |spec| spec.gate.no_progress;
    /// Which confidence counts as stale.
    Stale = "gate.stale", |spec| spec.gate.stale;
    /// Whether a cheaper tier may reply when the cost limit requires it.
    CheaperTier = "gate.cheaper_tier", |spec| spec.gate.cheaper_tier;
    /// Failures of one tool in a row.
    ToolFailuresBreaker = "gate.breakers.tool_failures", |spec| spec.gate.breakers.tool_failures;
    /// Denied calls in a row.
    DeniedBreaker = "gate.breakers.denied", |spec| spec.gate.breakers.denied;
    /// Calls in a row with an unknown tool or invalid arguments.
    BadArgumentsBreaker = "gate.breakers.bad_arguments", |spec| spec.gate.breakers.bad_arguments;
    /// Attempts at an output.
    Attempts = "output.attempts", |spec| spec.protocol.output_mut()?.attempts;
    /// Passes of one attempt.
    PassesPerAttempt = "output.passes_per_attempt", |spec| spec.protocol.output_mut()?.passes_per_attempt;
    /// Calls of one tool. It is in the tool's own settings, or in a table of the policy.
    MaxCalls = "max_calls";
}

impl Setting {
    /// The setting with this path. `None`: no decision names it.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|setting| setting.path() == path)
    }

    /// Its value in a spec, as JSON. `None`: the spec does not have the setting.
    pub(crate) fn get(self, spec: &RunSpec) -> Option<Value> {
        self.field(&mut spec.clone())?.get()
    }

    /// Gives it this value. `None`: the spec does not have the setting, or the value does not fit it.
    pub(crate) fn set(self, spec: &mut RunSpec, value: Value) -> Option<()> {
        self.field(spec)?.set(value)
    }

    /// Whether it is the threshold of a circuit breaker.
    pub fn is_breaker(self) -> bool {
        matches!(self, Self::ToolFailuresBreaker | Self::DeniedBreaker | Self::BadArgumentsBreaker)
    }
}

/// A field of a spec, whatever its type.
trait Field {
    fn get(&self) -> Option<Value>;
    fn set(&mut self, value: Value) -> Option<()>;
}

impl<T: Serialize + de::DeserializeOwned> Field for T {
    fn get(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }

    fn set(&mut self, value: Value) -> Option<()> {
        *self = serde_json::from_value(value).ok()?;
        Some(())
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
        for setting in Setting::ALL.iter().copied() {
            let json = serde_json::to_string(&setting).unwrap();
            assert_eq!(json, format!("\"{setting}\""));
            assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
            assert_eq!(setting.is_breaker(), setting.path().starts_with("gate.breakers."));
        }
        assert!(serde_json::from_str::<Setting>("\"limits.luck\"").is_err());
    }
}
