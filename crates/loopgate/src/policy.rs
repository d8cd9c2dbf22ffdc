//! `loopgate policy`: what a domain's policy lets its tools do.

use std::process::ExitCode;

use crate::args::PolicyArgs;
use crate::failure::Failure;

pub(crate) fn check(_args: &PolicyArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}
