//! `loopgate serve audit`: prints the server's audit log.

use std::process::ExitCode;

use loop_core::types::RunId;
use loop_runtime::journal::audit::{AuditEntry, AuditFilter, AuditLine, AuditReport};

use crate::args::{JournalArgs, ReportArgs};
use crate::context::{find, places};
use crate::output::{Failure, row, stream, time};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every entry is sealed together with the one before it. All are checked, whichever are printed.\n\n\
                        Exit codes: 0 done, 1 an entry was changed, removed or added by another program, or the journal could \
                        not be read, 2 wrong usage."
)]
pub(crate) struct AuditArgs {
    /// Only entries of this run: its id, the beginning of one, or `last`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    json: ReportArgs,
    #[command(flatten)]
    journal: JournalArgs,
}

pub(crate) async fn audit(args: AuditArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let run: Option<RunId> = match &args.run {
        Some(named) => Some(find(journal.as_ref(), named).await?.run),
        None => None,
    };
    let filter = AuditFilter { before: None, run, limit: args.limit };
    let lines = journal.audit_lines(&filter).await?;
    let broken = journal.broken_audit().await?;
    let report = AuditReport { version: 1, broken, entries: lines };
    args.json.print(&report, || {
        let mut text = String::new();
        report.entries.iter().rev().for_each(|line| in_words(&mut text, line));
        text
    })?;
    if report.entries.is_empty() && !args.json.json {
        stream::note("no entry is there; `loopgate serve` writes them");
    }
    match broken {
        None => Ok(ExitCode::SUCCESS),
        Some(seq) => Err(Failure::new(format!(
            "entry {seq} of the audit log, or the one before it, was changed, removed or added by another program; compare \
             the journal with a copy of it"
        ))),
    }
}

fn in_words(text: &mut String, AuditLine { seq, sealed, entry }: &AuditLine) {
    let mark = if *sealed { "" } else { "  NOT SEALED" };
    let Some(entry) = entry else { return row(text, &format!("{seq}  cannot be read{mark}")) };
    let AuditEntry { unix_ms, who, account, from, action, run, key, binding, result, detail } = entry;
    let who = match (&**who, &**account) {
        ("", _) => "an unknown caller".to_owned(),
        (who, account) => format!("{who} ({account})"),
    };
    let about = [run.as_ref().map(RunId::as_str), key.as_deref(), binding.as_deref()];
    let about: String = about.into_iter().flatten().map(|about| format!(" {about}")).collect();
    let detail = detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
    let (at, action, result) = (time(*unix_ms), action.name(), result.name());
    row(text, &format!("{seq}  {at}  {who} from {from}  {action}{about}  {result}{detail}{mark}"));
}
