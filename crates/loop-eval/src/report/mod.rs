//! Reports of evals: a table, JSON, JUnit.

mod junit;
mod table;

use serde::Serialize;
use serde_json::Value;

use crate::eval::{Ablation, CaseResult, Metrics};

pub use junit::junit;
pub use table::{ablation_table, table};

/// The version of the JSON reports.
pub const REPORT_VERSION: u32 = 1;

/// The results and their metrics as one JSON object.
pub fn json(results: &[CaseResult], metrics: &Metrics) -> Value {
    #[derive(Serialize)]
    struct Report<'a> {
        version: u32,
        metrics: &'a Metrics,
        cases: &'a [CaseResult],
    }
    serde_json::to_value(Report { version: REPORT_VERSION, metrics, cases: results }).unwrap_or_default()
}

/// An ablation as one JSON object.
pub fn ablation_json(ablation: &Ablation) -> Value {
    #[derive(Serialize)]
    struct Report<'a> {
        version: u32,
        ablation: &'a Ablation,
    }
    serde_json::to_value(Report { version: REPORT_VERSION, ablation }).unwrap_or_default()
}
