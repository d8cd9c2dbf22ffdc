//! Scores of repeat policies over recorded trajectories: what each would have refused, turn by turn, without running
//! anything.
//!
//! ```text
//! a file of runs ──▶ Trajectories ──▶ Trajectory ──▶ Table::add ──▶ Table ──▶ table(), details(), to_json()
//! ```
//!
//! A policy sees of a call only what it would have seen: once it refused one, the recorded result of that call is not
//! shown to it, and a policy that ends the run at its first hit sees nothing more.

mod effects;
mod own;
mod page;
mod policy;
mod prepared;
mod published;
mod recorded;
mod reported;
mod score;
mod show;
mod trajectory;

pub use effects::{EffectsError, ToolEffects};
pub use page::page;
pub use policy::{Policy, UnknownPolicy};
pub use recorded::trajectory_line;
pub use score::{
    Group, GuardScores, Labelled, MetRun, NotedCall, RefusedCall, RefusedTool, RunScore, Score, Table,
};
pub use trajectory::{Label, Problem, Split, Step, Trajectories, Trajectory};
