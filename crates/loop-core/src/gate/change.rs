//! A change of one setting, made in a spec: for the question what would have followed under it.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gate::stop::{Change, Measure};
use crate::spec::{OnToolError, ProtocolSpec, RunSpec, Setting};

impl Change {
    /// The same spec with this change. `None`: the spec does not have the setting, or the value does not fit it.
    pub fn applied(&self, spec: &RunSpec) -> Option<RunSpec> {
        let mut changed = spec.clone();
        let (limits, gate) = (&mut changed.limits, &mut changed.gate);
        match self.setting {
            Setting::Passes => limits.passes = small(&self.to)?,
            Setting::Cost => {
                limits.cost = match &self.to {
                    Measure::PicoUsd(amount) => Some(*amount),
                    // The only other value of a cost limit.
                    Measure::Text(_) => None,
                    _ => return None,
                }
            }
            Setting::Tokens => limits.tokens = Some(count(&self.to)?),
            Setting::ModelCalls => limits.model_calls = small(&self.to)?,
            Setting::ToolCalls => limits.tool_calls = small(&self.to)?,
            Setting::WallMs => limits.wall_ms = count(&self.to)?,
            Setting::Selected => limits.selected = small(&self.to)?,
            Setting::OutputTokens => limits.output_tokens = count(&self.to)?,
            Setting::Messages => limits.messages = Some(small(&self.to)?),
            Setting::OnInvalid => gate.on_invalid = named(&self.to)?,
            Setting::OnDenied => gate.on_denied = named(&self.to)?,
            Setting::OnToolError => {
                let Measure::Text(text) = &self.to else { return None };
                gate.on_tool_error = OnToolError::of_written(text)?;
            }
            Setting::HighIsFinal => gate.high_is_final = switch(&self.to)?,
            Setting::CheaperTier => gate.cheaper_tier = switch(&self.to)?,
            Setting::NoProgress => gate.no_progress = small(&self.to)?,
            Setting::Stale => gate.stale = named(&self.to)?,
            Setting::ToolFailuresBreaker => gate.breakers.tool_failures = small(&self.to)?,
            Setting::DeniedBreaker => gate.breakers.denied = small(&self.to)?,
            Setting::BadArgumentsBreaker => gate.breakers.bad_arguments = small(&self.to)?,
            Setting::Attempts | Setting::PassesPerAttempt => {
                let ProtocolSpec::Output(output) = &mut changed.protocol else { return None };
                let to = small(&self.to)?;
                if self.setting == Setting::Attempts {
                    output.attempts = to;
                } else {
                    output.passes_per_attempt = to;
                }
            }
            // It is the limit of one tool, which the change does not name.
            Setting::MaxCalls => return None,
        }
        Some(changed)
    }

    /// The value that the same setting has in `spec`, as a change to it. `None`: the spec does not have the setting.
    pub fn before(&self, spec: &RunSpec) -> Option<Self> {
        let (limits, gate) = (&spec.limits, &spec.gate);
        let text = |name: &str| Measure::Text(name.into());
        let number = |n: u32| Measure::Count(n.into());
        let to = match self.setting {
            Setting::Passes => number(limits.passes),
            Setting::Cost => limits.cost.map_or_else(|| text("none"), Measure::PicoUsd),
            Setting::Tokens => limits.tokens.map_or_else(|| text("none"), Measure::Count),
            Setting::ModelCalls => number(limits.model_calls),
            Setting::ToolCalls => number(limits.tool_calls),
            Setting::WallMs => Measure::Millis(limits.wall_ms),
            Setting::Selected => number(limits.selected),
            Setting::OutputTokens => Measure::Count(limits.output_tokens),
            Setting::Messages => limits.messages.map_or_else(|| text("none"), number),
            Setting::OnInvalid => Measure::Text(name_of(gate.on_invalid)?),
            Setting::OnDenied => Measure::Text(name_of(gate.on_denied)?),
            Setting::OnToolError => text(&gate.on_tool_error.written()),
            Setting::HighIsFinal => text(&gate.high_is_final.to_string()),
            Setting::CheaperTier => text(&gate.cheaper_tier.to_string()),
            Setting::NoProgress => number(gate.no_progress),
            Setting::Stale => text(gate.stale.name()),
            Setting::ToolFailuresBreaker => number(gate.breakers.tool_failures),
            Setting::DeniedBreaker => number(gate.breakers.denied),
            Setting::BadArgumentsBreaker => number(gate.breakers.bad_arguments),
            Setting::Attempts => number(spec.protocol.output()?.attempts),
            Setting::PassesPerAttempt => number(spec.protocol.output()?.passes_per_attempt),
            Setting::MaxCalls => return None,
        };
        Some(Self { setting: self.setting, to })
    }
}

/// The name of a setting's value, as a domain file has it.
fn name_of(value: impl Serialize) -> Option<Arc<str>> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Some(name.into()),
        _ => None,
    }
}

fn count(to: &Measure) -> Option<u64> {
    match to {
        Measure::Count(n) | Measure::Millis(n) => Some(*n),
        _ => None,
    }
}

fn small(to: &Measure) -> Option<u32> {
    u32::try_from(count(to)?).ok()
}

/// The value of a setting with names for its values.
fn named<T: DeserializeOwned>(to: &Measure) -> Option<T> {
    let Measure::Text(name) = to else { return None };
    serde_json::from_value(Value::String(name.as_ref().to_owned())).ok()
}

fn switch(to: &Measure) -> Option<bool> {
    let Measure::Text(text) = to else { return None };
    text.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, OnDenied, OutputSpec, Stale};
    use crate::types::PicoUsd;

    fn spec() -> RunSpec {
        RunSpec::output("d", OutputSpec::new("save"), ModelSpec::new("p", "m"))
    }

    #[test]
    fn each_setting_is_changed_and_nothing_else_is() {
        // C14: what `why` tells to change is what the gate reads.
        for setting in Setting::ALL {
            let to = match setting {
                Setting::Cost => Measure::PicoUsd(PicoUsd(77)),
                Setting::WallMs => Measure::Millis(77),
                Setting::OnInvalid | Setting::OnDenied | Setting::OnToolError => Measure::Text("stop".into()),
                Setting::HighIsFinal | Setting::CheaperTier => Measure::Text("true".into()),
                Setting::Stale => Measure::Text("off".into()),
                _ => Measure::Count(77),
            };
            let changed = Change { setting, to: to.clone() }.applied(&spec());
            let Some(changed) = changed else {
                assert_eq!(setting, Setting::MaxCalls);
                continue;
            };
            let (before, after) = (serde_json::to_value(spec()), serde_json::to_value(&changed));
            assert_ne!(before.unwrap(), after.unwrap(), "{setting}");
            // Made twice it changes nothing more, and what was before puts the spec back.
            let change = Change { setting, to };
            assert_eq!(change.applied(&changed).unwrap(), changed);
            assert_eq!(change.before(&changed).unwrap(), change);
            let back = change.before(&spec()).unwrap();
            if setting != Setting::Tokens && setting != Setting::Messages {
                assert_eq!(back.applied(&changed).unwrap(), spec(), "{setting}");
            }
        }
        let denied = Change { setting: Setting::OnDenied, to: Measure::Text("stop".into()) };
        assert_eq!(denied.applied(&spec()).unwrap().gate.on_denied, OnDenied::Stop);
        let stale = Change { setting: Setting::Stale, to: Measure::Text("off".into()) };
        assert_eq!(stale.applied(&spec()).unwrap().gate.stale, Stale::Off);
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        for (setting, to) in [
            (Setting::Passes, Measure::Text("six".into())),
            (Setting::Passes, Measure::Count(u64::MAX)),
            (Setting::Cost, Measure::Count(1)),
            (Setting::OnDenied, Measure::Text("shrug".into())),
            (Setting::OnToolError, Measure::Text("{ escalate_after = }".into())),
            (Setting::HighIsFinal, Measure::Count(0)),
        ] {
            assert_eq!(Change { setting, to }.applied(&spec()), None, "{setting}");
        }
        let model = ModelSpec::new("p", "m");
        let conversation = RunSpec::conversation("d", model);
        assert_eq!(Change { setting: Setting::Attempts, to: Measure::Count(2) }.applied(&conversation), None);
    }

    #[test]
    fn what_follows_a_failed_tool_is_read_as_it_is_written() {
        for setting in [
            OnToolError::Continue,
            OnToolError::Stop,
            OnToolError::EscalateAfter(12),
            OnToolError::StopOrEscalateAfter(3),
        ] {
            assert_eq!(OnToolError::of_written(&setting.written()), Some(setting));
        }
        assert_eq!(OnToolError::of_written("never"), None);
    }
}
