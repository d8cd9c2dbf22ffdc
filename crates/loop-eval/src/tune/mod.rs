//! The cheapest settings that keep the good outcomes of recorded runs.
//!
//! Only settings that end a run earlier are tried, because only these have an answer in the journal: a backtest says
//! exactly what each run would have ended with. The runs are split into two halves, all runs of one work item in the same
//! half. The settings are chosen on one half. The other half, which the choice has not seen, says how many good outcomes
//! they keep, with an interval.
//!
//! # When an outcome is good
//!
//! A run whose label is `good` is kept under other settings if its end is known, and
//!
//! - it ends with the same document, answer or output, or
//! - its label has `good_from_pass`, and it ends after that pass or a later one.
//!
//! A run whose end is unknown under the settings is not kept, and counts with the most that it may cost.

mod labels;
mod report;
mod search;
mod space;

pub use crate::interval::Interval;
pub use labels::{Labels, LabelsError, OutcomeLabel};
pub use report::{HalfReport, TUNE_VERSION, TriedSettings, TuneReport, TuneVerdict};
pub use search::{TuneError, TuneOptions, tune};
