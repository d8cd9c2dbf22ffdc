//! A change of one setting, made in a spec, to compute what a run would have done under it.

use serde_json::{Value, json};

use crate::gate::stop::{Measure, Remedy};
use crate::spec::{OnToolError, RunSpec, Setting};
use crate::types::PicoUsd;

impl Remedy {
    /// The same spec with this change. `None`: the spec does not have the setting, or the value does not fit it.
    pub fn applied(&self, spec: &RunSpec) -> Option<RunSpec> {
        let mut changed = spec.clone();
        self.setting.set(&mut changed, self.value()?)?;
        Some(changed)
    }

    /// The value that the same setting has in `spec`, as a change to it. `None`: the spec does not have the setting.
    pub fn before(&self, spec: &RunSpec) -> Option<Self> {
        let to = match (self.setting, self.setting.get(spec)?) {
            (_, Value::Null) => Measure::Text("none".into()),
            (Setting::OnToolError, _) => Measure::Text(spec.gate.on_tool_error.written().into()),
            (Setting::Cost, value) => Measure::PicoUsd(PicoUsd(value.as_u64()?)),
            (Setting::WallMs, value) => Measure::Millis(value.as_u64()?),
            (_, Value::String(name)) => Measure::Text(name.into()),
            (_, Value::Bool(is)) => Measure::Text(is.to_string().into()),
            (_, value) => Measure::Count(value.as_u64()?),
        };
        Some(Self { setting: self.setting, to })
    }

    /// The value of the setting as JSON. `None`: no value of the setting is written like this.
    fn value(&self) -> Option<Value> {
        match (self.setting, &self.to) {
            (Setting::Cost, Measure::PicoUsd(PicoUsd(amount))) => Some(json!(amount)),
            (Setting::Cost, Measure::Count(_) | Measure::Millis(_)) => None,
            (_, Measure::Count(n) | Measure::Millis(n)) => Some(json!(n)),
            (Setting::OnToolError, Measure::Text(text)) => {
                serde_json::to_value(OnToolError::of_written(text)?).ok()
            }
            (_, Measure::Text(text)) => Some(match &**text {
                "none" => Value::Null,
                text => text.parse().map_or_else(|_| json!(text), Value::Bool),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, OnDenied, OutputSpec, Stale};

    fn spec() -> RunSpec {
        RunSpec::output("d", OutputSpec::new("save"), ModelSpec::new("p", "m"))
    }

    #[test]
    fn each_setting_is_changed_and_nothing_else_is() {
        // C14: what `why` tells to change is what the gate reads.
        for setting in Setting::ALL.iter().copied() {
            let to = match setting {
                Setting::Cost => Measure::PicoUsd(PicoUsd(77)),
                Setting::WallMs => Measure::Millis(77),
                Setting::OnInvalid | Setting::OnDenied | Setting::OnToolError => Measure::Text("stop".into()),
                Setting::HighIsFinal | Setting::CheaperTier => Measure::Text("true".into()),
                Setting::Stale => Measure::Text("off".into()),
                _ => Measure::Count(77),
            };
            let changed = Remedy { setting, to: to.clone() }.applied(&spec());
            let Some(changed) = changed else {
                assert_eq!(setting, Setting::MaxCalls);
                continue;
            };
            let (before, after) = (serde_json::to_value(spec()), serde_json::to_value(&changed));
            assert_ne!(before.unwrap(), after.unwrap(), "{setting}");
            // Made twice it changes nothing more, and what was before puts the spec back.
            let change = Remedy { setting, to };
            assert_eq!(change.applied(&changed).unwrap(), changed);
            assert_eq!(change.before(&changed).unwrap(), change);
            let back = change.before(&spec()).unwrap();
            assert_eq!(back.applied(&changed).unwrap(), spec(), "{setting}");
        }
        let denied = Remedy { setting: Setting::OnDenied, to: Measure::Text("stop".into()) };
        assert_eq!(denied.applied(&spec()).unwrap().gate.on_denied, OnDenied::Stop);
        let stale = Remedy { setting: Setting::Stale, to: Measure::Text("off".into()) };
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
            assert_eq!(Remedy { setting, to }.applied(&spec()), None, "{setting}");
        }
        let model = ModelSpec::new("p", "m");
        let conversation = RunSpec::conversation("d", model);
        assert_eq!(Remedy { setting: Setting::Attempts, to: Measure::Count(2) }.applied(&conversation), None);
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
