//! Runs cases and compares each run with its expectations.
//!
//! [`run_case`] runs one case. It makes the domain or spec of the case, puts mocked tools in place of real ones, and
//! gives the replies of the model and the answers of people. Nothing is changed in the world: a tool with effects is
//! mocked, or only reports success. Then the run's journal is replayed, and every decision must be the recorded one. A
//! [`Suite`] runs many cases in parallel. [`Suite::trials`] runs them with several models, several times, and
//! [`compare`] compares the results with an earlier report.

mod baseline;
mod build;
mod calibration;
mod configuration;
mod content;
mod drive;
mod expect;
mod metrics;
mod mock;
mod result;
mod store;
mod suite;
mod summary;
mod transcript;
mod trials;
mod verify;

pub(crate) use build::own_work;
pub(crate) use mock::Surplus;

pub use baseline::{
    Baseline, BaselineComparison, BaselineError, ComparedConfiguration, FALSE_ALARMS, FallenCase, compare,
};
pub use calibration::{
    CalibrationTarget, Reliability, ReliabilityOfLevel, ReliabilityOfModel, StatedByModel,
};
pub use configuration::{Configuration, ConfigurationError, MAX_CONFIGURATIONS, OWN_MODELS, RunOptions};
pub use metrics::{Metrics, Share};
pub use result::{ActionCounts, Against, CaseResult};
pub use store::ResultStore;
pub use suite::{Suite, run_case};
pub use summary::{CaseCount, ConfigurationSummary, ReasonCount};
pub use transcript::TranscriptLine;
pub use trials::{TrialResults, Trials};
pub use verify::{VerifyError, verify};
