//! Stub for builds without a durable engine: an error with the feature to enable.

use std::process::ExitCode;

use crate::args::PersonArgs;
use crate::drive::PersonReply;
use crate::output::Failure;

pub(crate) async fn say(_: &str, _: &PersonArgs, _: PersonReply) -> Result<ExitCode, Failure> {
    Err(Failure::not_built("engine", "restate"))
}

pub(crate) async fn tell(_: &str, _: &str, _: &str) -> Result<ExitCode, Failure> {
    Err(Failure::not_built("engine", "restate"))
}
