//! Renders runs for people: live progress, outcomes, lists, and what waits for people.

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
