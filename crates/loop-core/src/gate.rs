//! The gate: the decision after each pass. A pure function of what is known.

use std::sync::Arc;

use crate::ids::Millis;
use crate::money::PicoUsd;
use crate::outcome::Totals;
use crate::spec::Limits;
use crate::stop::{Certificate, Change, Condition, Confidence, Measure, StopReason};

/// Everything that the gate looks at.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) totals: &'a Totals,
    /// Milliseconds that count against the wall clock.
    pub(crate) elapsed_ms: u64,
    /// Since when a stop is asked for.
    pub(crate) stop_asked: Option<Millis>,
    pub(crate) confidence: Confidence,
    pub(crate) refused: Option<&'a Arc<str>>,
    pub(crate) escalated: Option<&'a Arc<str>>,
    pub(crate) candidates: Candidates,
    /// Whether somebody answers when an action needs a person.
    pub(crate) people: bool,
    /// What the domain demands and is not there.
    pub(crate) missing: &'a [Arc<str>],
}

/// How many required and recommended actions got which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub(crate) all: u32,
    pub(crate) run: u32,
    pub(crate) needs_person: u32,
    pub(crate) denied: u32,
    pub(crate) over_limit: u32,
}

/// A limit that a pass has reached, if any: the gate's step 2, also asked before the first call.
pub(crate) fn limits_reached(limits: &Limits, totals: &Totals, elapsed_ms: u64) -> Vec<Condition> {
    let count = |n: u32| Measure::Count(n.into());
    let mut reached = Vec::new();
    let mut push = |reason, value: Measure, threshold: Measure, setting: &str, to: Measure| {
        let change = Some(Change { setting: setting.into(), to });
        reached.push(Condition { reason, value, threshold: Some(threshold), change });
    };
    if totals.passes >= limits.passes {
        let to = count(totals.passes.saturating_add(1));
        push(StopReason::MaxPasses, count(totals.passes), count(limits.passes), "limits.passes", to);
    }
    if let Some(limit) = limits.cost
        && totals.cost.known >= limit
    {
        let (spent, to) = (totals.cost.known, totals.cost.known.plus(PicoUsd(1)));
        let measure = Measure::PicoUsd;
        push(StopReason::BudgetExceeded, measure(spent), measure(limit), "limits.cost_usd", measure(to));
    }
    if let Some(limit) = limits.tokens
        && totals.usage.total() >= limit
    {
        let (used, to) = (totals.usage.total(), totals.usage.total().saturating_add(1));
        push(
            StopReason::TokenLimit,
            Measure::Count(used),
            Measure::Count(limit),
            "limits.tokens",
            Measure::Count(to),
        );
    }
    if totals.model_calls >= limits.model_calls {
        let to = count(totals.model_calls.saturating_add(1));
        push(
            StopReason::MaxModelCalls,
            count(totals.model_calls),
            count(limits.model_calls),
            "limits.model_calls",
            to,
        );
    }
    if elapsed_ms >= limits.wall_ms {
        let to = Measure::Millis(elapsed_ms.saturating_add(1));
        push(
            StopReason::Timeout,
            Measure::Millis(elapsed_ms),
            Measure::Millis(limits.wall_ms),
            "limits.wall_ms",
            to,
        );
    }
    reached
}

/// The conditions of step 4: why nothing is left to run. Empty while something is.
fn nothing_left(view: &View<'_>) -> Vec<Condition> {
    let candidates = view.candidates;
    let asks = if view.people { candidates.needs_person } else { 0 };
    if candidates.run + asks > 0 {
        return Vec::new();
    }
    let plain = |reason, value| Condition { reason, value, threshold: None, change: None };
    let mut found = Vec::new();
    if let Some(why) = view.refused {
        found.push(plain(StopReason::Refused, Measure::Text(Arc::clone(why))));
    }
    if let Some(why) = view.escalated {
        found.push(plain(StopReason::NeedsHuman, Measure::Text(Arc::clone(why))));
    } else if candidates.needs_person > 0 {
        let change = Some(Change { setting: "gate.people".into(), to: Measure::Text("true".into()) });
        let value = Measure::Count(candidates.needs_person.into());
        found.push(Condition { reason: StopReason::NeedsHuman, value, threshold: None, change });
    }
    let confidence = Measure::Confidence(view.confidence);
    let high = Some(Measure::Confidence(Confidence::High));
    if view.confidence == Confidence::High {
        let (reason, value) = if view.missing.is_empty() {
            (StopReason::Confident, confidence.clone())
        } else {
            (StopReason::EvidenceMissing, Measure::Names(view.missing.to_vec()))
        };
        let threshold = if view.missing.is_empty() { high.clone() } else { None };
        found.push(Condition { reason, value, threshold, change: None });
    }
    if candidates.all > 0 && candidates.denied == candidates.all {
        found.push(plain(StopReason::PolicyBlocked, Measure::Count(candidates.denied.into())));
    }
    if candidates.over_limit > 0 {
        let limit = view.limits.tool_calls;
        let to = Measure::Count(u64::from(view.totals.tool_calls) + 1);
        found.push(Condition {
            reason: StopReason::MaxToolCalls,
            value: Measure::Count(view.totals.tool_calls.into()),
            threshold: Some(Measure::Count(limit.into())),
            change: Some(Change { setting: "limits.tool_calls".into(), to }),
        });
    }
    if found.is_empty() {
        found.push(Condition {
            reason: StopReason::NoNewActions,
            value: confidence,
            threshold: high,
            change: None,
        });
    }
    found
}

/// Stop, and why; or `None`: act. `cause` is what a landing was entered for: it comes first.
pub(crate) fn decide(view: &View<'_>, cause: Option<Condition>) -> Option<Certificate> {
    let mut conditions: Vec<Condition> = cause.into_iter().collect();
    let manual = view.stop_asked.map(manual_stop);
    let found = manual
        .into_iter()
        .chain(limits_reached(view.limits, view.totals, view.elapsed_ms))
        .chain(nothing_left(view));
    for condition in found {
        if conditions.iter().all(|known| known.reason != condition.reason) {
            conditions.push(condition);
        }
    }
    let mut conditions = conditions.into_iter();
    let primary = conditions.next()?;
    Some(Certificate::new(primary, conditions.collect()))
}

/// The condition of a stop that was asked for at `at`.
pub(crate) fn manual_stop(at: Millis) -> Condition {
    Condition { reason: StopReason::ManualStop, value: Measure::Millis(at.0), threshold: None, change: None }
}
