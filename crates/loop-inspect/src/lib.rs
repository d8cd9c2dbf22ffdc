//! Questions to recorded runs. Every answer is read from the entries of a journal; no model is called.
//!
//! | question | answer |
//! |---|---|
//! | why did it stop, and what would have continued it? | [`Why`] |
//! | what may a run use at most, before it begins? | [`Plan`], [`Forecast`] |
//! | is it decided, rendered and read the same today? | [`Replay`] |
//! | is what the journal holds whole? | [`audit`] |
//! | what did the model read? | [`sent`] |
//! | how do two runs differ? | [`diff`] |
//! | what would it have done under other limits? | [`backtest`] |
//! | what has an auditor to know of it? | [`RunReport`] |
//! | what was to change something, and what became of it? | [`effects`] |
//! | which runs did it call? | [`called`] |
//! | what may a run do, in words? | [`policy_in_words`] |
//! | which runs are there? | [`listed`] |

pub mod audit;
pub mod backtest;
pub mod called;
pub mod diff;
pub mod effects;
mod forecast;
pub mod listed;
mod plan;
mod policy;
pub mod replay;
pub mod report;
pub mod sent;
pub mod why;

pub use forecast::{Forecast, PassBound};
pub use plan::{AtMost, PLAN_VERSION, PassesThatFit, Plan};
pub use policy::policy_in_words;
pub use replay::{Replay, ReplayDepth};
pub use report::RunReport;
pub use why::Why;
