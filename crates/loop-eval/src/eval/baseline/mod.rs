//! Baselines: an earlier report, against which new results are tested for regressions.

mod compare;
mod exact;
mod read;

pub use compare::{BaselineComparison, ComparedConfiguration, FALSE_ALARMS, FallenCase, compare};
pub use read::{Baseline, BaselineError};
