//! `loopgate redteam`: a domain under attack.

use std::process::ExitCode;

use crate::args::RedteamArgs;
use crate::failure::Failure;

pub(crate) async fn redteam(_args: RedteamArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("it is not there yet"))
}
