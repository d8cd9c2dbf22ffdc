//! The commands that begin something: a domain, a run, a chat.

mod chat;
mod doctor;
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
pub(crate) use init::{InitArgs, init};
pub(crate) use manual::{CompletionsArgs, ManArgs, completions, man};
pub(crate) use many::many;
pub(crate) use resume::{ResumeArgs, resume};
pub(crate) use run::run;
pub(crate) use run_args::RunArgs;
