//! `loopgate mcp` in a build without it: one line that says how to get it.

use std::process::ExitCode;

use crate::args::McpArgs;
use crate::failure::Failure;

pub(crate) async fn mcp(_: McpArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("this loopgate is built without `mcp`; build it with --features mcp-server to get it"))
}
