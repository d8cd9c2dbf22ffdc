//! The summary of one configuration: the counts, rates and costs of its runs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::eval::configuration::OWN_MODELS;
use crate::eval::metrics::{Metrics, Share};
use crate::eval::result::CaseResult;
use crate::interval::Interval;

/// The runs of one configuration together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConfigurationSummary {
    /// Its name: its models as `TIER=PROVIDER/NAME`, or `own`.
    pub name: String,
    /// Runs that met all their expectations, of those that could be run.
    pub passed: Share,
    /// Runs that could not be made at all. They are counted in nothing else.
    pub not_run: u32,
    /// The pass rate. 0 if nothing was run.
    pub rate: f64,
    /// The lower end of its interval (95 %, Wilson).
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Cost in US dollars of all runs whose cost is known.
    pub cost_usd: f64,
    /// The same of one run, on average. Null: no run has a known cost.
    pub cost_usd_per_run: Option<f64>,
    /// Runs whose cost is unknown.
    pub unknown_costs: u32,
    /// Tokens of all runs.
    pub tokens: u64,
    /// Median wall-clock time of a run, in milliseconds.
    pub wall_ms_median: u64,
    /// 95th percentile of the wall-clock time of a run, in milliseconds.
    pub wall_ms_p95: u64,
    /// Why its runs stopped, the most frequent reason first.
    pub stop_reasons: Vec<ReasonCount>,
    /// Results that were stored by an earlier command.
    pub stored: u32,
    /// Its cases, in the order in which they were run.
    pub cases: Vec<CaseCount>,
}

/// How many runs stopped for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// Runs that stopped for it.
    pub runs: u32,
}

/// The runs of one case under one configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaseCount {
    /// The case's id.
    pub case_id: String,
    /// The case's file.
    pub file: String,
    /// Runs that passed, of those that could be run.
    pub passed: Share,
}

impl ConfigurationSummary {
    /// One summary for each configuration of the results, in their order.
    pub fn all(results: &[CaseResult]) -> Vec<Self> {
        let mut groups: Vec<(&str, Vec<CaseResult>)> = Vec::new();
        for result in results {
            match groups.iter_mut().find(|(name, _)| *name == result.configuration) {
                Some((_, group)) => group.push(result.clone()),
                None => groups.push((&result.configuration, vec![result.clone()])),
            }
        }
        groups.into_iter().map(|(name, group)| Self::of(name, &group)).collect()
    }

    fn of(name: &str, results: &[CaseResult]) -> Self {
        let metrics = Metrics::of(results);
        let ran = || results.iter().filter(|result| result.error.is_none());
        let passed = Share { part: metrics.passed, of: ran().count() as u32 };
        let Interval { rate, low, high } = Interval::of(passed.part, passed.of);
        let known = passed.of - metrics.unknown_costs;
        let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
        for result in ran() {
            *reasons.entry(&result.stop_reason).or_default() += 1;
        }
        let counted =
            reasons.into_iter().map(|(reason, runs)| ReasonCount { reason: reason.to_owned(), runs });
        let mut stop_reasons: Vec<ReasonCount> = counted.collect();
        stop_reasons.sort_by_key(|count| Reverse(count.runs));
        let mut cases: Vec<CaseCount> = Vec::new();
        for result in results {
            let file = result.file.display().to_string();
            let counted = u32::from(result.error.is_none());
            let is_same = |count: &&mut CaseCount| count.case_id == result.case_id && count.file == file;
            match cases.iter_mut().find(is_same) {
                Some(CaseCount { passed, .. }) => {
                    passed.part += u32::from(result.passed);
                    passed.of += counted;
                }
                None => {
                    let passed = Share { part: u32::from(result.passed), of: counted };
                    cases.push(CaseCount { case_id: result.case_id.clone(), file, passed });
                }
            }
        }
        Self {
            name: if name.is_empty() { OWN_MODELS.to_owned() } else { name.to_owned() },
            passed,
            not_run: results.len() as u32 - passed.of,
            rate,
            low,
            high,
            cost_usd: metrics.cost_usd,
            cost_usd_per_run: (known > 0).then(|| metrics.cost_usd / f64::from(known)),
            unknown_costs: metrics.unknown_costs,
            tokens: metrics.tokens,
            wall_ms_median: metrics.wall_ms_median,
            wall_ms_p95: metrics.wall_ms_p95,
            stop_reasons,
            stored: results.iter().filter(|result| result.stored).count() as u32,
            cases,
        }
    }
}
