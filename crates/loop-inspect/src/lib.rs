//! Answers questions about recorded agent runs: why a run stopped, what would have continued it, what it sent, whether it is
//! unchanged, and what it would have done under other limits.
//!
//! **What it is not.** It calls no model and changes no journal: every answer comes from the entries of a journal. It makes no
//! decisions of its own: where an answer needs a decision, it runs the gate of `loop-core` again. It does not run loops, which
//! `loop-runtime` does. Only [`Replay::with`] calls tools, and only those that read.
//!
//! A program that runs a loop, reads its entries and prints why it stopped:
//!
//! ```
//! use std::sync::Arc;
//! use loop_inspect::Why;
//! use loop_runtime::journal::{Journal as _, MemoryJournal};
//! # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Scripted}, spec::SectionSpec, tools::Registry};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("scripted", "s"));
//! # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Scripted::replies(["## Findings\n\nNone."]))));
//! # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
//!
//! let journal = Arc::new(MemoryJournal::new());
//! let outcome = runner.with_journal(journal.clone()).run(item).await?;
//!
//! let recorded = journal.read(&outcome.run).await?;
//! let why = Why::of(&outcome.run, &recorded)?;
//! assert_eq!(why.conditions[0].reason, outcome.stop.reason().name());
//! println!("{}", why.conditions[0].explanation);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`why`] | why a run stopped, and which settings would have continued it: [`Why`] |
//! | [`sent`] | the prompts of a run as they were sent |
//! | [`effects`] | the effects that a run requested, their results, and who decided |
//! | [`called`] | the runs that a run called as tools |
//! | [`report`] | one run for an auditor: [`RunReport`] |
//! | [`audit`] | whether recorded runs are complete, unchanged and decided by the rules: what `loopgate verify` prints |
//! | [`replay`] | a recorded run decided again, with its prompts and its reads on request: [`Replay`] |
//! | [`diff`] | the differences between two runs |
//! | [`backtest`] | recorded runs under other policies, with a report |
//! | [`listed`] | runs as a list, with totals |
//!
//! Two more answers are about a run that has not begun: [`Plan`] is the most that it may use, and [`Forecast`] is the number of passes that each limit leaves room for. [`policy_in_words`] says what the tools of a spec may do.

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
