//! Running cases, and holding what happened against what was expected.
//!
//! [`run_case`] runs one: its domain or spec is made, mocked tools take the places of real ones, its model replies, its
//! people answer. Nothing in the world is changed: a tool that would change something is mocked, or says that it was done
//! without doing it. Afterwards the run's journal is replayed, and every decision has to come out as it was recorded.
//! A [`Suite`] runs many in parallel.
//! [`Suite::trials`] runs them with several models, several times, and [`compare`] compares that with an earlier report.

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
