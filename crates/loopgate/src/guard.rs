//! `loopgate guard`: policies of repeats over recorded trajectories.

use std::process::ExitCode;

use crate::args::GuardArgs;
use crate::failure::Failure;

pub(crate) fn score(_args: &GuardArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}
