//! Stub of `loopgate mock` in a build without it: an error with the feature to enable.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::output::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct MockArgs {
    /// What the command takes where it is there
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    given: Vec<OsString>,
}

pub(crate) async fn mock(_: MockArgs) -> Result<ExitCode, Failure> {
    Err(Failure::not_built("mock", "mock"))
}
