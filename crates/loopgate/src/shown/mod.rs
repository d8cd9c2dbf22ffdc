//! Runs in words: as they are under way, as they ended, and what waits in them.

pub(crate) mod calls;
pub(crate) mod grounding;
pub(crate) mod listed;
mod live;
mod outcome;
pub(crate) mod people;
mod state;
pub(crate) mod status;
pub(crate) mod wrote;

pub(crate) use live::Live;
pub(crate) use outcome::{bill, budget_lines, doubts, ended, print_result, summary, warned};
pub(crate) use state::{details, heading, lines_of, taken_over, tools_of, totals_so_far};
