//! Backtests: recorded runs under other policies, where each would have stopped, and what that would have cost.
//!
//! The events of a recorded run are applied, one by one, to a second run that was started under the other policy. The
//! replies, the results, the answers of people, the sizes of prompts and the times stay as recorded. The gate decides
//! anew, and each call is quoted anew. The second run is compared with the first after each event. The first place
//! where they differ is the [`Finding`]:
//!
//! - The second run has ended: it stops earlier. Its document, cost and time are exact.
//! - It makes its final pass: the reply to that prompt was never recorded. Everything before it is exact.
//! - It continues where the first run ended: the rest is unknown. [`Finding::more`] bounds it.
//! - It decides otherwise about a call, so that the model would have read something else: the rest is unknown.
//!
//! A backtest calls no model and no tool, and reads no clock. All decisions are those of the core's gate.

mod compare;
mod drive;
mod finding;
mod left;
mod over;
mod policy;
mod report;

pub use drive::{BacktestError, Backtested, NamedSpec, backtest};
pub use finding::{DivergencePoint, Finding, FindingKind};
pub use over::{NotTested, RunsOf};
pub use policy::{Assumption, Policies, Policy};
pub use report::{
    BACKTEST_VERSION, BacktestReport, BacktestedRun, ClassCount, EarlierSection, FindingCount, LabelledCount,
    LabelledRuns, MayUse, PolicyReport, RecordedTotals, RunUnderPolicy, TestedRun, UntestedRun,
};
