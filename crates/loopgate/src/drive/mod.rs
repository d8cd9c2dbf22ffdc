//! Drives runs to their end: shows progress, asks people, handles stops.

mod ask;
mod asking;
pub(crate) mod attach;
mod driving;
mod listen;
mod takeover;
mod watch;

pub(crate) use ask::{PersonReply, approver, ask, denied, is_binding};
pub(crate) use asking::{PersonEvents, ask_all, asking};
pub(crate) use driving::DrivenRun;
pub(crate) use listen::Listening;
pub(crate) use takeover::{NextArgs, drive, runner, salvage};
pub(crate) use watch::{Lines, driven};
