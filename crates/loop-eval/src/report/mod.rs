//! Reports of evals: a table, JSON, JUnit, a page.

mod junit;
mod page;
mod reliability;
mod table;
mod trials;

use schemars::JsonSchema;
use serde::Serialize;

use crate::eval::{BaselineComparison, CaseResult, ConfigurationSummary, Metrics, Reliability};

pub use junit::junit;
pub use page::page;
pub use reliability::reliability_table;
pub use table::table;
pub use trials::{baseline_table, trials_table};

/// The version of the JSON reports.
pub const REPORT_VERSION: u32 = 1;

/// The results of an eval for programs: what `loopgate eval --json` prints. Schema: `docs/schema/eval.schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EvalReport {
    /// The version of this format: 1.
    pub version: u32,
    /// The metrics of all results together.
    pub metrics: Metrics,
    /// The results by configuration.
    pub configurations: Vec<ConfigurationSummary>,
    /// How reliable the confidence is that models stated. Absent: no run of a model stated a level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Reliability>,
    /// The comparison with the baseline. Absent: none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineComparison>,
    /// The results: by configuration, in it by case, in it by repeat.
    pub cases: Vec<CaseResult>,
}

impl EvalReport {
    /// The report of these results.
    pub fn new(cases: Vec<CaseResult>, baseline: Option<BaselineComparison>) -> Self {
        Self {
            version: REPORT_VERSION,
            metrics: Metrics::of(&cases),
            configurations: ConfigurationSummary::all(&cases),
            calibration: Some(Reliability::of(&cases)).filter(|it| !it.models.is_empty()),
            baseline,
            cases,
        }
    }

    /// Whether all is as it should be: against a baseline, that nothing regressed and everything could be run and something
    /// compared; without one,
    /// that every run met its expectations.
    pub fn is_good(&self) -> bool {
        match &self.baseline {
            Some(baseline) if baseline.configurations.is_empty() => false,
            Some(baseline) => !baseline.regressed && self.cases.iter().all(|result| result.error.is_none()),
            None => self.cases.iter().all(|result| result.passed),
        }
    }
}
