//! What is run over many runs: evals of whole trajectories, backtests, and a red team.

pub mod case;
pub mod eval;
mod interval;
pub mod page;
pub mod redteam;
pub mod report;
pub mod trace;
mod trajectory;

pub use trajectory::trajectory_line;
