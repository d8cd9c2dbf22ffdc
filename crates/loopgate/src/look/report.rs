//! `loopgate report`: a report on one run for an auditor.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_inspect::RunReport;
use loop_inspect::audit::RunAudit;
use loop_inspect::called::called_runs;
use loop_runtime::journal::audit::AuditFilter;
use loop_server::pages;

use crate::args::{RecordedArgs, ReportArgs};
use crate::context::find;
use crate::context::places::{self, ReportFile};
use crate::output::{Failure, cut, row, time};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It answers: what did it cost, why did it stop, what did it do and read, who approved what, under which policy, \
                  and is the record whole. For the document: `loopgate show RUN`.\n\nExit codes: 0 the record is whole, \
                  1 it is not, or there is no such run, 2 wrong usage."
)]
pub(crate) struct ReportCommandArgs {
    #[command(flatten)]
    of: RecordedArgs,
    /// Write it as a page instead of printing it: one file, which loads nothing and can be printed
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) async fn report(args: ReportCommandArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.of.journal)?;
    let line = find(journal.as_ref(), &args.of.run).await?;
    let (verify, recorded) = RunAudit::read(&journal, &line.run).await?;
    let called = match &recorded {
        Some(recorded) => called_runs(&journal, recorded).await?,
        None => Vec::new(),
    };
    let mut audit = Vec::new();
    for run in called.iter().map(|it| &it.run).chain([&line.run]) {
        let filter = AuditFilter { before: None, run: Some(run.clone()), limit: u32::MAX };
        audit.extend(journal.audit_lines(&filter).await?);
    }
    let report = RunReport::of(&line.run, recorded.as_ref(), &called, verify, &audit, time);
    let title = format!("Run {} of {}", line.run, line.domain);
    match ReportFile::open("--html", args.html.as_deref())? {
        Some(file) => file.write(&pages::report(&title, &report.parts))?,
        None => args.json.print(&report, || in_words(&title, &report))?,
    }
    Ok(if report.verify.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The most characters of a line. The page and the JSON have the complete lines.
const MAX_CHARS: usize = 400;

fn in_words(title: &str, report: &RunReport) -> String {
    let mut text = String::new();
    row(&mut text, title);
    for part in &report.parts {
        text.push('\n');
        row(&mut text, &format!("{}:", part.title));
        for entry in &part.entries {
            row(&mut text, &format!("  {}", cut(&entry.text, MAX_CHARS)));
            entry.lines.iter().for_each(|line| row(&mut text, &format!("    {}", cut(line, MAX_CHARS))));
        }
    }
    text
}
