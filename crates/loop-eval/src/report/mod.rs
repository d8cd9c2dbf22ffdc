//! Reports of an eval: a table, JSON, JUnit XML, and an HTML page.

mod junit;
mod page;
mod reliability;
mod table;
mod trials;

use std::collections::BTreeSet;

use loop_runtime::journal::evals::KeptEval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::eval::{BaselineComparison, CaseResult, ConfigurationSummary, Metrics, Reliability};

pub use junit::junit;
pub use page::{page, page_content};
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

    /// The results of a report that was printed as JSON.
    ///
    /// # Errors
    /// The text is not such a report.
    pub fn results(json: &str) -> serde_json::Result<Vec<CaseResult>> {
        #[derive(Deserialize)]
        struct ReadResults {
            cases: Vec<CaseResult>,
        }
        Ok(serde_json::from_str::<ReadResults>(json)?.cases)
    }

    /// The report as an entry of the list of stored evals, under this name.
    pub fn kept(&self, name: &str, unix_ms: u64) -> KeptEval {
        let domains: BTreeSet<&str> = self.cases.iter().map(|result| &*result.domain).collect();
        KeptEval {
            id: String::new(),
            name: name.to_owned(),
            unix_ms,
            domains: domains.into_iter().map(str::to_owned).collect(),
            configurations: self.configurations.iter().map(|one| one.name.clone()).collect(),
            passed: self.metrics.passed,
            runs: self.metrics.cases,
            cost_pico_usd: self.cases.iter().fold(0, |sum, it| sum.saturating_add(it.cost_pico_usd)),
            unknown_costs: self.metrics.unknown_costs,
        }
    }

    /// Whether the eval succeeded. With a baseline: nothing regressed, every case could be run, and something was
    /// compared. Without one: every run met its expectations.
    pub fn is_good(&self) -> bool {
        match &self.baseline {
            Some(baseline) if baseline.configurations.is_empty() => false,
            Some(baseline) => !baseline.regressed && self.cases.iter().all(|result| result.error.is_none()),
            None => self.cases.iter().all(|result| result.passed),
        }
    }
}
