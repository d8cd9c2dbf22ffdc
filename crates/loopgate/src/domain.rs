//! `loopgate domain check`: what a domain folder holds, or the first thing that is wrong with it.

use std::process::ExitCode;

use crate::args::DomainArgs;
use crate::failure::Failure;
use crate::{places, stream};

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
}

pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let report = places::check(&args.domain)?;
    stream::print(&format!("{}\n", report.lines.join("\n")));
    for warning in &report.warnings {
        stream::note(format!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}
