//! What people say to runs that wait for them.

use std::process::ExitCode;

use crate::args::{AnswerArgs, DenyArgs, PendingArgs, PersonArgs, ResumeArgs, TellArgs};
use crate::failure::Failure;

pub(crate) async fn pending(_args: PendingArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}

pub(crate) async fn approve(_args: PersonArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}

pub(crate) async fn deny(_args: DenyArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}

pub(crate) async fn answer(_args: AnswerArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}

pub(crate) async fn tell(_args: TellArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}

pub(crate) async fn resume(_args: ResumeArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}
