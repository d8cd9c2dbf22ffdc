//! What is run over many runs: evals of whole trajectories, scores of guards over recorded ones, backtests, a red team, and
//! simulations.

pub mod backtest;
pub mod case;
pub mod eval;
pub mod guard;
mod interval;
pub mod page;
pub mod redteam;
pub mod report;
pub mod sim;
pub mod trace;
