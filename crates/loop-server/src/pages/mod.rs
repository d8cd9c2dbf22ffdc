//! HTML pages that show people what a run did and why, and on which they decide and begin runs.
//!
//! A page is a function from data to HTML, for example [`run`] of a [`OneRunPage`]. It reads no file and no request, so
//! the same function writes the page of `loopgate show RUN --html` and the page of the server. Every untrusted text is
//! escaped by one function, which also spells out invisible characters.

#[cfg(feature = "http")]
mod act;
mod approve;
mod backtest;
#[cfg(feature = "http")]
mod begin;
mod compare;
#[cfg(feature = "http")]
mod domain;
#[cfg(feature = "http")]
mod evals;
#[cfg(feature = "http")]
mod pending;
mod report;
#[cfg(feature = "http")]
mod routes;
mod run;
mod runs;
pub(crate) mod shell;
mod span;
mod text;

pub use approve::{ApproveForm, ApprovePage, Notice, approve};
pub use backtest::backtest;
pub use compare::{ComparePage, compare};
pub use report::report;
#[cfg(feature = "http")]
pub use routes::{FindPrompts, PageSource, router};
pub use run::{LabelPart, OneRunPage, OneRunView, run};
pub use runs::{RUNS_PER_PAGE, RunsFilter, RunsPage, runs};
pub use shell::{PagePlace, SCRIPT, SERVER_POLICY, STYLE};
pub use span::EventSpan;
pub use text::CutText;

#[cfg(feature = "http")]
use runs::encoded;
