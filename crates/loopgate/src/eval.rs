//! `loopgate eval`: cases, run and held against what they expect.

use std::process::ExitCode;

use crate::args::EvalArgs;
use crate::failure::Failure;

pub(crate) async fn eval(_args: EvalArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}
