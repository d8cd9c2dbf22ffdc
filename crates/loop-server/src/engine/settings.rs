//! Checks the settings that a caller changes for a run.

use loop_core::spec::{CostMode, Limits};

use super::{EngineError, ServedDomain};

/// Fails for a setting that the domain does not let callers change.
pub(super) fn check_named(domain: &ServedDomain, settings: &[(String, String)]) -> Result<(), EngineError> {
    for (key, _) in settings {
        if domain.domain.lets_set(key) {
            continue;
        }
        let may = match domain.domain.caller_may_set().as_slice() {
            [] => "the domain lets a caller set nothing".to_owned(),
            known => format!("a caller may set {}", known.join(", ")),
        };
        let key: String = key.chars().take(80).collect();
        return Err(EngineError::Setting(format!("`{key}` is not one of them: {may}")));
    }
    Ok(())
}

/// Fails for a limit that is looser than the domain's.
pub(super) fn check_tightened(domain: &Limits, run: &Limits) -> Result<(), EngineError> {
    match raised(domain, run) {
        None => Ok(()),
        Some(limit) => Err(EngineError::Setting(format!(
            "limits.{limit} is more than the domain allows; a caller can only lower a limit"
        ))),
    }
}

/// The first limit that is higher than before.
fn raised(before: &Limits, after: &Limits) -> Option<&'static str> {
    let known = |value: Option<u64>| value.unwrap_or(u64::MAX);
    let of = |limits: &Limits| {
        [
            ("passes", u64::from(limits.passes)),
            ("cost_usd", known(limits.cost.map(|cost| cost.0))),
            ("tokens", known(limits.tokens)),
            ("tool_calls", limits.tool_calls.into()),
            ("requested_calls", limits.requested_calls.into()),
            ("model_calls", limits.model_calls.into()),
            ("wall_ms", limits.wall_ms),
            ("selected", limits.selected.into()),
            ("selector_ms", limits.selector_ms),
            ("output_tokens", limits.output_tokens),
            ("markdown_chars", limits.markdown_chars.into()),
            ("sub_call_ms", limits.sub_call_ms),
            ("sub_call_tokens", limits.sub_call_tokens),
            ("sub_call_bytes", limits.sub_call_bytes),
            ("person_ms", known(limits.person_ms)),
            ("messages", known(limits.messages.map(u64::from))),
        ]
    };
    let mut pairs = of(before).into_iter().zip(of(after));
    if let Some((_, (name, _))) = pairs.find(|((_, before), (_, after))| after > before) {
        return Some(name);
    }
    let strictness = |mode: CostMode| match mode {
        CostMode::Strict => 2,
        CostMode::Estimated => 1,
        CostMode::After => 0,
    };
    (strictness(after.cost_mode) < strictness(before.cost_mode)).then_some("cost_mode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_can_be_lowered_and_not_raised() {
        let domain = Limits::default();
        assert_eq!(raised(&domain, &Limits { passes: 1, ..domain.clone() }), None);
        assert_eq!(raised(&domain, &Limits { tokens: Some(9), ..domain.clone() }), None);
        assert_eq!(raised(&domain, &Limits { passes: 6, ..domain.clone() }), Some("passes"));
        assert_eq!(raised(&domain, &Limits { cost: None, ..domain.clone() }), Some("cost_usd"));
        assert_eq!(raised(&domain, &Limits { messages: None, ..domain.clone() }), None);
    }
}
