//! `loopgate domain check`: prints what a domain folder contains, or its first error.

use std::process::ExitCode;

use crate::args::DomainArgs;
use crate::context::places;
use crate::output::{Failure, stream};

pub(crate) fn domain(DomainCommand::Check(args): &DomainCommand) -> Result<ExitCode, Failure> {
    let report = places::check(args)?;
    stream::print(&format!("{}\n", report.lines.join("\n")));
    for warning in &report.warnings {
        stream::note(format!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DomainCommand {
    /// Read and check a domain folder, and print its contents
    Check(DomainArgs),
}
