//! Runs are watched: events, observers, spans, and what is reported of a run.

pub(crate) mod asked;
pub(crate) mod batch_line;
pub(crate) mod claims;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod observer;
pub(crate) mod parent;
pub mod people;
pub mod report;
pub(crate) mod served;
pub(crate) mod sink;
pub(crate) mod steps;
pub(crate) mod trace;
pub(crate) mod uses;
pub(crate) mod values;
pub(crate) mod waits;
