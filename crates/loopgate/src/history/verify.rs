//! `loopgate verify`: checks that recorded runs are complete and unchanged, and explains errors.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_core::types::RunId;
use loop_inspect::audit::{AuditFault, AuditFinding, JournalAudit, RunAudit};
use loop_runtime::report::counted;

use crate::args::{FolderArgs, JournalArgs, ReportArgs};
use crate::context::{find, places};
use crate::drive::{NextArgs, salvage};
use crate::output::{Failure, row, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It changes nothing and calls nothing. With --salvage the run stays as it is, and a new run continues its good \
                  entries.\n\nExit codes: 0 nothing is wrong, 1 something is, or the journal could not be read, 2 wrong usage. \
                  With --salvage those of `run`."
)]
pub(crate) struct VerifyArgs {
    /// The run's id, the beginning of one, `last`, or the file of a journal, whose runs are all checked
    #[arg(required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Check every run of the journal, and whether one is missing
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,
    /// Continue the good entries of a damaged run as a new run. Every effect that the damaged run may have begun after them
    /// needs an approval, and keeps its idempotency key
    #[arg(long, requires = "run", conflicts_with = "json")]
    pub(crate) salvage: bool,
    /// With --salvage: the run's domain folder, or its loopgate.toml [default: where it was when the run began]
    #[arg(long, value_name = "FOLDER", requires = "salvage")]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

pub(crate) async fn verify(args: VerifyArgs) -> Result<ExitCode, Failure> {
    if let Some(run) = args.run.as_deref().filter(|_| args.salvage) {
        return salvage(
            run,
            &NextArgs::unchanged(FolderArgs { domain: args.domain.clone() }, args.journal.clone()),
        )
        .await;
    }
    let audit = audit(&args).await?;
    args.json.print(&audit, || in_words(&audit))?;
    if !args.json.json && audit.runs.len() + audit.missing.len() > 1 {
        let ok = audit.runs.iter().filter(|run| run.findings.is_empty()).count();
        let (wrong, missing) = (audit.runs.len() - ok, audit.missing.len());
        stream::note(format!("totals:  {ok} ok, {wrong} wrong, {missing} missing"));
    }
    Ok(if audit.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn audit(args: &VerifyArgs) -> Result<JournalAudit, Failure> {
    let Some(run) = args.run.as_deref() else {
        let journal = places::existing_journal(&args.journal)?;
        return Ok(JournalAudit::of_all(&journal).await?);
    };
    // An id has no separator and no dot, so a file is not taken for one.
    if args.journal.journal.is_none() && Path::new(run).is_file() {
        let journal = places::existing_journal(&JournalArgs { journal: Some(run.into()) })?;
        return Ok(JournalAudit::of_all(&journal).await?);
    }
    let journal = places::existing_journal(&args.journal)?;
    let run: RunId = find(journal.as_ref(), run).await?.run;
    Ok(JournalAudit::of(&journal, &[run]).await?)
}

fn in_words(audit: &JournalAudit) -> String {
    let mut text = String::new();
    for run in &audit.runs {
        of_run(&mut text, run);
    }
    for missing in &audit.missing {
        row(&mut text, &format!("{missing}  missing: the journal had this run, and has it no longer"));
        row(&mut text, "  next: put the journal's files back, of one time; nothing of the run is known");
    }
    if audit.runs.is_empty() && audit.missing.is_empty() {
        row(&mut text, "the journal has no runs");
    }
    text
}

fn of_run(text: &mut String, audit: &RunAudit) {
    let RunAudit { run, entries, stop, findings, more, .. } = audit;
    let stop = stop.as_deref().unwrap_or("not ended");
    let Some((first, others)) = findings.split_first() else {
        let imported = if audit.imported { " (imported)" } else { "" };
        row(text, &format!("{run}  ok: {}, {stop}{imported}", counted(*entries, "entry")));
        return;
    };
    row(text, &format!("{run}  {}", finding(first)));
    for other in others {
        row(text, &format!("  also {}", finding(other)));
    }
    if *more > 0 {
        row(text, &format!("  also {more} more invariants that do not hold"));
    }
    match audit.last_good {
        Some(seq) => row(text, &format!("  good: entries 0 to {seq}, of {entries} that can be read")),
        None => row(text, "  good: no entry"),
    }
    match audit.lost {
        Some(0) => {}
        Some(1) => row(text, "  lost: 1 entry; it may have begun an effect"),
        Some(lost) => row(text, &format!("  lost: {lost} entries; each may have begun an effect")),
        None => row(text, "  lost: not known, because no record of the key counts its entries"),
    }
    row(text, &format!("  next: {}", first.next));
}

fn finding(finding: &AuditFinding) -> String {
    let AuditFinding { fault, invariant, entry, message, .. } = finding;
    let at = entry.map_or_else(String::new, |entry| format!(", entry {entry}"));
    let what = match fault {
        AuditFault::Damaged => "damaged".to_owned(),
        AuditFault::Unverified => "unverified".to_owned(),
        AuditFault::Rejected => "rejected".to_owned(),
        AuditFault::DecidedOtherwise => "decided otherwise".to_owned(),
        AuditFault::Invariant => format!("{invariant} does not hold"),
    };
    format!("{what}{at}: {message}")
}
