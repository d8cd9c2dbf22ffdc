//! Output of the program: standard output, standard error, the terminal, and failures.

pub(crate) mod edited;
mod failure;
pub(crate) mod panics;
pub(crate) mod screen;
pub(crate) mod stream;
mod text;
pub(crate) mod typed;
pub(crate) mod wrap;

pub(crate) use failure::Failure;
pub(crate) use text::{
    TextLine, at_journal, columns, count, cut, escaped, grouped, harmless, one_line, quoted, row, time,
};
