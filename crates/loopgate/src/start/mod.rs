//! Commands that begin something: domains, runs, chats, and setup checks.

mod chat;
mod doctor;
mod help;
mod init;
mod manual;
mod many;
mod resume;
mod run;
mod run_args;
mod save;
mod selection;

pub(crate) use chat::{ChatArgs, chat};
pub(crate) use doctor::{DoctorArgs, doctor};
pub(crate) use help::{topics, unknown};
pub(crate) use init::{InitArgs, init};
pub(crate) use manual::{COMPLETE, CompletionsArgs, ManArgs, completions, man};
pub(crate) use many::many;
pub(crate) use resume::{ResumeArgs, resume};
pub(crate) use run::run;
pub(crate) use run_args::RunArgs;
