//! Checks a case before it is run: its sources, models, names and expectations.

use loop_core::types::StopClass;
use loop_core::{StopReason, Verdict};

use crate::case::{AnswerKind, CASE_VERSION, Case, CaseError, MockStatus};
use crate::trace;

/// The stop reasons that a name in a case means: a built-in reason, an alias, or a reason that the domain declares.
pub(crate) fn reasons(name: &str) -> Vec<StopReason> {
    match name {
        "max_steps" => vec![StopReason::MaxPasses],
        "completed" => vec![StopReason::Completed, StopReason::Confident],
        "failed" => {
            let all = StopReason::all().iter().copied();
            all.filter(|reason| reason.class() == StopClass::Failed).collect()
        }
        name => {
            let ours = StopReason::all().iter().copied().find(|reason| reason.name() == name);
            ours.or_else(|| name.parse().ok().map(StopReason::Domain)).into_iter().collect()
        }
    }
}

/// The error of a stop reason that the runs of a case cannot have.
pub(crate) fn no_reason(name: &str, own: &[&str]) -> String {
    let known: Vec<&str> =
        StopReason::all().iter().map(StopReason::name).chain(own.iter().copied()).collect();
    format!("there is no reason `{name}`; there are {}", known.join(", "))
}

/// The stop reasons that a case expects, each with its place.
pub(crate) fn expected_reasons(case: &Case) -> impl Iterator<Item = (String, &str)> {
    let expected = &case.expected;
    let several = expected.stop_reason.0.len() > 1;
    let named = expected.stop_reason.0.iter().enumerate().map(move |(at, name)| {
        let pointer = "/expected/stop_reason".to_owned();
        (if several { format!("{pointer}/{at}") } else { pointer }, name.as_str())
    });
    let also = expected.also.iter().enumerate();
    named.chain(also.map(|(at, name)| (format!("/expected/also/{at}"), name.as_str())))
}

/// The first expected reason that is neither built in nor one of `own`.
pub(crate) fn unknown_reason(case: &Case, own: &[&str]) -> Option<(String, String)> {
    expected_reasons(case).find_map(|(pointer, name)| {
        let is_known = |reason: &StopReason| match reason {
            StopReason::Domain(name) => own.contains(&name.as_str()),
            _ => true,
        };
        (!reasons(name).iter().any(is_known)).then(|| (pointer, no_reason(name, own)))
    })
}

/// Returns the first error.
pub(crate) fn check(case: &Case, origin: &str) -> Result<(), CaseError> {
    let wrong = |pointer: &str, message: String| Err(CaseError::invalid(origin, pointer, message));
    if case.version != CASE_VERSION {
        let message = format!("there is no version {}; this one reads {CASE_VERSION}", case.version);
        return wrong("/version", message);
    }
    if case.case_id.trim().is_empty() {
        return wrong("/case_id", "it is empty; give the case a name of its own".to_owned());
    }
    sources(case, origin)?;
    models(case, origin)?;
    for (tool, outcomes) in case.mocked_tools.iter() {
        let pointer = format!("/mocked_tools/{}", escaped(tool));
        if outcomes.is_empty() {
            return wrong(&pointer, "its results are missing; give at least one outcome".to_owned());
        }
        for (at, outcome) in outcomes.iter().enumerate() {
            if outcome.retry_after_ms.is_some() && outcome.status != MockStatus::Pending {
                let message = "only what is `pending` is asked again; take it out, or change `status`";
                return wrong(&format!("{pointer}/{at}/retry_after_ms"), message.to_owned());
            }
        }
        let repeats = outcomes.iter().position(|outcome| outcome.repeats && outcome.parameters.is_none());
        if let Some(at) = repeats.filter(|at| at + 1 < outcomes.len()) {
            let message = "it serves every further call, so that those behind it never come; put it last";
            return wrong(&format!("{pointer}/{at}/repeats"), message.to_owned());
        }
    }
    if case.stop.is_some_and(|stop| stop.during_pass == 0) {
        return wrong("/stop/during_pass", "passes count from 1; correct the number".to_owned());
    }
    if case.restart_after_pass == Some(0) {
        return wrong("/restart_after_pass", "passes count from 1; correct the number".to_owned());
    }
    for (at, line) in case.people.iter().enumerate() {
        if line.say == AnswerKind::Answer && line.text.trim().is_empty() {
            return wrong(&format!("/people/{at}/text"), "the answer is empty; write one".to_owned());
        }
    }
    expected(case, origin)
}

/// Checks where the spec and the work item are from.
fn sources(case: &Case, origin: &str) -> Result<(), CaseError> {
    let wrong = |pointer: &str, message: &str| Err(CaseError::invalid(origin, pointer, message));
    let given = [
        ("domain", case.domain.is_some()),
        ("spec", case.spec.is_some()),
        ("recorded", case.recorded.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    if let [first, second, ..] = given.as_slice() {
        return wrong(&format!("/{second}"), &format!("`{first}` is there as well; keep one of them"));
    }
    if case.profile.is_some() && case.domain.is_none() {
        return wrong("/profile", "profiles are a domain's, and no `domain` is given; take it out");
    }
    if case.recorded.is_some() && !case.set.is_empty() {
        return wrong("/set", "a recorded run keeps its settings; take it out");
    }
    match &case.item {
        Some(_) if case.text.is_some() => return wrong("/text", "`item` is there as well; keep one of them"),
        Some(item) if !item.is_string() && !item.is_object() => {
            return wrong("/item", "it is neither the name of a file nor an object; correct it");
        }
        Some(_) | None => {}
    }
    if case.item.is_none() && case.text.is_none() && case.goal.trim().is_empty() {
        return wrong(
            "/goal",
            "there is neither a goal nor a work item; add one of `goal`, `item` and `text`",
        );
    }
    if case.goal.trim().is_empty() || case.domain.is_none() || (case.item.is_none() && case.text.is_none()) {
        return Ok(());
    }
    wrong("/goal", "the domain has its own goal, and the work item is given; take it out")
}

/// Checks which model replies.
fn models(case: &Case, origin: &str) -> Result<(), CaseError> {
    let wrong = |pointer: &str, message: &str| Err(CaseError::invalid(origin, pointer, message));
    let given = [
        ("replies", case.replies.is_some()),
        ("script", case.script.is_some()),
        ("model", case.model.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    if let [first, second, ..] = given.as_slice() {
        let message = format!("`{first}` is there as well; a case has one model, so keep one of them");
        return wrong(&format!("/{second}"), &message);
    }
    if given.is_empty() && case.domain.is_some() {
        let message =
            "no model is given; add `replies`, `script`, or `model` (`domain` for the domain's own)";
        return wrong("/model", message);
    }
    if given.is_empty() && case.mocked_tools.is_empty() {
        let message =
            "neither a model nor a mocked tool is given, so that nothing would happen; add `replies`";
        return wrong("/replies", message);
    }
    if case.exhausted.is_some() && case.replies.is_none() {
        return wrong("/exhausted", "it follows `replies`, and there are none; take it out");
    }
    if !case.models.is_empty() && case.script.is_none() && case.model.is_none() {
        return wrong("/models", "`replies` are for all tiers; use `script` or `model` beside single tiers");
    }
    if (!case.models.is_empty() || case.script.is_some()) && case.recorded.is_some() {
        return wrong("/recorded", "a recorded run takes `replies`; take the other model out");
    }
    for (tier, model) in case.models.iter() {
        let pointer = format!("/models/{}", escaped(tier));
        if !matches!(tier, "selector" | "escalated" | "fallback") {
            return wrong(&pointer, "there is no such tier; there are selector, escalated and fallback");
        }
        if !model.contains('/') {
            return wrong(&pointer, &format!("`{model}` is not a model; write it as PROVIDER/NAME"));
        }
    }
    match case.model.as_deref() {
        None | Some("domain" | "offline") => Ok(()),
        Some(model) if model.contains('/') => Ok(()),
        Some(model) => {
            let message = format!("`{model}` is not a model; write `domain`, `offline` or PROVIDER/NAME");
            wrong("/model", &message)
        }
    }
}

fn expected(case: &Case, origin: &str) -> Result<(), CaseError> {
    let wrong = |pointer: String, message: String| Err(CaseError::invalid(origin, pointer, message));
    let expected = &case.expected;
    // Those of a domain in a file are known once it is read.
    if case.domain.is_none() {
        let own =
            case.spec.as_ref().and_then(|spec| spec.get("stop_reasons")).and_then(|own| own.as_object());
        let own: Vec<&str> = own.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if let Some((pointer, message)) = unknown_reason(case, &own) {
            return wrong(pointer, message);
        }
    }
    if let Some(class) = &expected.class
        && StopClass::ALL.iter().all(|known| known.name() != class)
    {
        let known = StopClass::ALL.iter().map(|class| class.name()).collect::<Vec<_>>().join(", ");
        return wrong(
            "/expected/class".to_owned(),
            format!("there is no class `{class}`; there are {known}"),
        );
    }
    for (at, action) in expected.actions.iter().enumerate() {
        if let Some(verdict) = &action.verdict
            && !Verdict::NAMES.contains(&verdict.as_str())
        {
            let message = format!("there is no verdict `{verdict}`; there are {}", Verdict::NAMES.join(", "));
            return wrong(format!("/expected/actions/{at}/verdict"), message);
        }
    }
    for (at, evidence) in expected.evidence.iter().enumerate() {
        if let Some(status) = &evidence.status
            && !STATUSES.contains(&status.as_str())
        {
            let message = format!("there is no status `{status}`; there are {}", STATUSES.join(", "));
            return wrong(format!("/expected/evidence/{at}/status"), message);
        }
    }
    // Of its own reasons a domain tells those here that the case expects.
    let own: Vec<&str> = expected_reasons(case).map(|(_, name)| name).collect();
    for (list, events) in [
        ("requires_trace_events", &expected.requires_trace_events),
        ("forbids_trace_events", &expected.forbids_trace_events),
    ] {
        if let Some((at, event)) =
            events.iter().enumerate().find(|(_, event)| !trace::is_known_with(event, &own))
        {
            let message =
                format!("no line of a trace is ever `{event}`; docs/how-to/evals.md has what there is");
            return wrong(format!("/expected/{list}/{at}"), message);
        }
    }
    let mut output = expected.output.iter().enumerate();
    if let Some((at, check)) =
        output.find(|(_, check)| !check.pointer.is_empty() && !check.pointer.starts_with('/'))
    {
        let message = format!("`{}` is not a JSON pointer; begin it with `/`", check.pointer);
        return wrong(format!("/expected/output/{at}/pointer"), message);
    }
    Ok(())
}

/// Every status of an observation, as it is written.
pub(crate) const STATUSES: [&str; 13] = [
    "ok",
    "empty",
    "retryable_error",
    "permanent_error",
    "invalid_input",
    "malformed_result",
    "denied",
    "duplicate",
    "skipped",
    "timeout",
    "cancelled",
    "pending",
    "in_doubt",
];

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use loop_core::Verdict;
    use loop_core::types::Status;

    #[test]
    fn every_reason_can_be_named() {
        for reason in StopReason::all() {
            assert!(reasons(reason.name()).contains(reason), "{reason}");
            let read = serde_json::from_value::<StopReason>(reason.name().into());
            assert_eq!(read.as_ref().ok(), Some(reason));
        }
        // S4-21: S4's own names.
        assert_eq!(reasons("max_steps"), [StopReason::MaxPasses]);
        assert!(reasons("failed").contains(&StopReason::ToolFailure));
        assert!(!reasons("failed").contains(&StopReason::NeedsHuman));
        assert!(reasons("Completed").is_empty());
        // S4-35: one of the domain's own.
        assert_eq!(reasons("already_refunded"), [StopReason::Domain("already_refunded".parse().unwrap())]);
    }

    #[test]
    fn every_status_and_verdict_can_be_named() {
        for name in STATUSES {
            let read = serde_json::from_value::<Status>(name.into());
            assert_eq!(read.ok().map(Status::name), Some(name));
        }
        for verdict in [Verdict::Run, Verdict::Kept, Verdict::Skipped] {
            assert!(Verdict::NAMES.contains(&verdict.name()));
        }
    }
}
