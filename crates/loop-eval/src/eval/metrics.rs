//! Metrics over many cases.

use loop_core::StopReason;
use loop_core::types::StopClass;
use schemars::JsonSchema;
use serde::Serialize;

use crate::eval::result::CaseResult;

/// The results of many cases together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Metrics {
    /// All cases.
    pub cases: u32,
    /// Cases that met all their expectations.
    pub passed: u32,
    /// Among the cases that should be answered, those that were.
    pub completion: Share,
    /// Among the cases that expect a stop reason, those that stopped with it.
    pub correct_stop_reason: Share,
    /// Among all requested actions, those that could not run: unknown tools, invalid arguments, denials by policy.
    pub invalid_actions: Share,
    /// Among all requested actions, those refused as repeats.
    pub repeated_actions: Share,
    /// Among the cases that expect a stop reason, those handed to a person exactly when expected.
    pub escalation_accuracy: Share,
    /// Among all runs, those whose journal a replay reproduces exactly.
    pub replay: Share,
    /// Tokens of all runs.
    pub tokens: u64,
    /// Tool calls of all runs.
    pub tool_calls: u64,
    /// Cost in US dollars of all runs whose cost is known.
    pub cost_usd: f64,
    /// How many runs have an unknown cost.
    pub unknown_costs: u32,
    /// Median wall-clock time of a run, in milliseconds.
    pub wall_ms_median: u64,
    /// 95th percentile of the wall-clock time of a run, in milliseconds.
    pub wall_ms_p95: u64,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// The number of cases counted.
    pub part: u32,
    /// The number of cases considered.
    pub of: u32,
}

impl Share {
    fn of(parts: impl IntoIterator<Item = bool>) -> Self {
        let mut share = Self::default();
        for part in parts {
            share.of += 1;
            share.part += u32::from(part);
        }
        share
    }

    /// The part as a fraction of the whole, from 0 to 1. `None`: the whole is 0.
    pub fn fraction(&self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.part) / f64::from(self.of))
    }
}

impl Metrics {
    /// The metrics of these results. A case that could not be run counts as one that did not pass. It is in no other
    /// count.
    pub fn of(results: &[CaseResult]) -> Self {
        let ran: Vec<&CaseResult> = results.iter().filter(|result| result.error.is_none()).collect();
        let reported = || ran.iter().filter(|result| !result.expected.is_empty());
        let class_of = |name: &str| {
            let reason = serde_json::from_value::<StopReason>(name.into()).ok();
            reason.map(StopReason::class)
        };
        let answers = |result: &&&CaseResult| match &result.expected_class {
            Some(class) => class == StopClass::Answered.name(),
            None => result.expected.iter().any(|name| class_of(name) == Some(StopClass::Answered)),
        };
        let hands_over =
            |result: &CaseResult| result.expected.iter().any(|name| name == StopReason::NeedsHuman.name());
        let sum = |of: fn(&CaseResult) -> u32| ran.iter().map(|result| of(result)).sum::<u32>();
        let proposed = sum(|result| result.actions.proposed);
        let mut times: Vec<u64> = ran.iter().map(|result| result.wall_ms).collect();
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
            times.get(rank).copied().unwrap_or_default()
        };
        Self {
            cases: results.len() as u32,
            passed: results.iter().filter(|result| result.passed).count() as u32,
            completion: Share::of(
                ran.iter().filter(answers).map(|result| result.class == StopClass::Answered.name()),
            ),
            correct_stop_reason: Share::of(reported().map(|result| result.correct_reason == Some(true))),
            invalid_actions: Share { part: sum(|result| result.actions.invalid), of: proposed },
            repeated_actions: Share { part: sum(|result| result.actions.repeated), of: proposed },
            escalation_accuracy: Share::of(reported().map(|result| result.escalated() == hands_over(result))),
            replay: Share::of(ran.iter().map(|result| result.replayed)),
            tokens: ran.iter().map(|result| result.tokens).sum(),
            tool_calls: u64::from(sum(|result| result.tool_calls)),
            // The sum of nothing is written -0.
            cost_usd: ran.iter().filter_map(|result| result.cost_usd).fold(0.0, |sum, cost| sum + cost),
            unknown_costs: ran.iter().filter(|result| result.cost_usd.is_none()).count() as u32,
            wall_ms_median: at(50),
            wall_ms_p95: at(95),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::result::ActionCounts;

    fn result(expected: &str, found: &str, class: &str, wall_ms: u64) -> CaseResult {
        CaseResult {
            expected: vec![expected.to_owned()],
            stop_reason: found.to_owned(),
            class: class.to_owned(),
            correct_reason: Some(expected == found),
            passed: expected == found,
            replayed: true,
            wall_ms,
            tokens: 100,
            tool_calls: 2,
            cost_usd: Some(0.25),
            actions: ActionCounts { proposed: 4, invalid: 1, repeated: 2, requested: 0 },
            ..CaseResult::default()
        }
    }

    #[test]
    fn each_metric_counts_what_it_says() {
        // S4-59: completion, correct stop reason, invalid and repeated actions, escalation, tokens, cost, latency, replay.
        let mut broken = result("completed", "completed", "answered", 40);
        (broken.replayed, broken.cost_usd) = (false, None);
        let results = [
            result("completed", "completed", "answered", 10),
            result("completed", "needs_human", "needs_human", 20),
            result("needs_human", "needs_human", "needs_human", 30),
            broken,
            CaseResult::failed("x", "x.json".into(), "x.json: /domain: no".to_owned()),
        ];
        let metrics = Metrics::of(&results);
        let share = |part, of| Share { part, of };
        let expected = Metrics {
            cases: 5,
            passed: 3,
            completion: share(2, 3),
            correct_stop_reason: share(3, 4),
            invalid_actions: share(4, 16),
            repeated_actions: share(8, 16),
            escalation_accuracy: share(3, 4),
            replay: share(3, 4),
            tokens: 400,
            tool_calls: 8,
            cost_usd: 0.75,
            unknown_costs: 1,
            wall_ms_median: 20,
            wall_ms_p95: 40,
        };
        assert_eq!(metrics, expected);
        assert_eq!(Metrics::of(&[]), Metrics::default());
        assert!(Metrics::of(&[]).cost_usd.is_sign_positive());
        let by_class = CaseResult {
            expected: Vec::new(),
            expected_class: Some("answered".to_owned()),
            ..result("", "max_passes", "answered", 1)
        };
        assert_eq!(Metrics::of(&[by_class]).completion, share(1, 1));
        assert_eq!((share(1, 4).fraction(), share(0, 0).fraction()), (Some(0.25), None));
    }
}
