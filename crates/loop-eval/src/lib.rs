//! Evaluates agent loops over many runs: eval cases with expectations, calibration of stated confidence, and a red team.
//!
//! **What it is not.** It changes nothing in the world: tools with effects are mocked or recorded. It makes no decisions of its
//! own, and drives runs with the same runner as production. Backtests and audits of recorded runs are in `loop-inspect`.
//!
//! A case gives a model's replies and the results of tools, and states what it expects:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use loop_eval::{case::Case, eval::run_case};
//!
//! let case = Case::parse(
//!     r#"{
//!       "case_id": "asks_once",
//!       "goal": "When does the shop open?",
//!       "replies": [{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }],
//!       "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" } }] },
//!       "expected": { "stop_reason": "completed", "max_tool_calls": 1 }
//!     }"#,
//!     "asks_once.json",
//! )?;
//! let result = run_case(&case).await;
//! assert!(result.passed, "{:?}", result.failures);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`case`] | cases: their JSON format, how they are found and checked, and how a recorded run becomes one |
//! | [`eval`] | running cases once or several times with several models, comparing with a baseline, calibration |
//! | [`report`] | the results as a table, JSON, JUnit XML or an HTML page |
//! | [`redteam`] | attacks on a domain with injected texts and models that follow them |
//! | [`page`] | HTML pages without scripts, with untrusted Markdown rendered as inert HTML |
//! | [`trace`] | a run as trace lines, which cases can expect |
//!
//! [`trajectory_line`] exports a recorded run as one JSON line.

pub mod case;
pub mod eval;
mod interval;
pub mod page;
pub mod redteam;
pub mod report;
pub mod trace;
mod trajectory;

pub use trajectory::trajectory_line;
