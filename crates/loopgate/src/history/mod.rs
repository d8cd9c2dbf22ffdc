//! Commands for recorded runs: replay, verify, backtest, fork, retry, and maintenance of the journal.

mod backtest;
mod fork;
mod journal;
mod recorded;
mod replay;
mod verify;

pub(crate) use backtest::{BacktestArgs, backtest};
pub(crate) use fork::{ForkArgs, RetryArgs, fork, retry};
pub(crate) use journal::{JournalCommand, journal};
pub(crate) use replay::{ReplayArgs, replay};
pub(crate) use verify::{VerifyArgs, verify};
