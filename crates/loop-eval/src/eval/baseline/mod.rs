//! An earlier report as a baseline: whether fewer runs pass than then, beyond noise.

mod compare;
mod exact;
mod read;

pub use compare::{BaselineComparison, ComparedConfiguration, FALSE_ALARMS, FallenCase, compare};
pub use read::{Baseline, BaselineError};
