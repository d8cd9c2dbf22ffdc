//! Commands for people: pending requests, approvals, answers, instructions, stops and labels.

#[cfg(feature = "restate")]
mod engine;
#[cfg(not(feature = "restate"))]
#[path = "no_engine.rs"]
mod engine;
mod label;
mod people;
mod stop;

pub(crate) use label::{LabelArgs, label};
pub(crate) use people::{
    AnswerArgs, ApproveArgs, DenyArgs, PendingArgs, TellArgs, answer, approve, deny, pending, tell,
};
pub(crate) use stop::{StopArgs, stop};
