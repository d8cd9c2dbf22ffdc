//! `loopgate serve hooks`: lists, delivers and drops undelivered hook messages.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use loop_core::types::RunId;
use loop_runtime::hooks::{DeliveryResult, HookReport, QueuedMessage};
use loop_runtime::journal::{Journal as _, StoredJournal, unix_ms};
use serde_json::json;

use crate::args::{JournalArgs, ReportArgs};
use crate::context::{FoundRun, places, reporting};
use crate::output::{Failure, cut, row, stream, time};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    command: Option<HooksCommand>,
    #[command(flatten)]
    json: ReportArgs,
    #[command(flatten)]
    journal: JournalArgs,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum HooksCommand {
    /// Deliver the messages that are due, with the hooks that the domains of their runs have now
    #[command(after_help = DELIVER_CODES)]
    Deliver {
        /// Deliver all that are left, also those that are not due yet or have failed too often
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        journal: JournalArgs,
    },
    /// Take a message out of the outbox without delivering it
    Drop {
        /// The message's id
        id: String,
        #[command(flatten)]
        journal: JournalArgs,
    },
}

const DELIVER_CODES: &str =
    "Exit codes: 0 all that was due is delivered, 1 a delivery failed, 2 wrong usage.";

pub(crate) async fn hooks(args: HooksArgs) -> Result<ExitCode, Failure> {
    match args.command {
        None => list(places::existing_journal(&args.journal)?.as_ref(), args.json).await,
        Some(HooksCommand::Deliver { now, journal }) => {
            deliver(&places::existing_journal(&journal)?, now).await
        }
        Some(HooksCommand::Drop { id, journal }) => {
            if places::existing_journal(&journal)?.drop_message(&id).await? {
                stream::note(format!("dropped: {id}"));
                return Ok(ExitCode::SUCCESS);
            }
            let id = cut(&id, 80);
            Err(Failure::new(format!(
                "there is no message {id} in the outbox; `loopgate serve hooks` lists them"
            )))
        }
    }
}

async fn list(journal: &StoredJournal, json: ReportArgs) -> Result<ExitCode, Failure> {
    let queued = journal.outbox().await?;
    let message = |QueuedMessage { message, failures, next_unix_ms, error, is_sealed }: &QueuedMessage| {
        json!({
            "id": message.id,
            "run": message.run,
            "hook": message.hook,
            "event": message.event,
            "unix_ms": message.unix_ms,
            "failures": failures,
            "next_unix_ms": next_unix_ms,
            "error": error,
            "sealed": is_sealed,
        })
    };
    let messages: Vec<_> = queued.iter().map(message).collect();
    json.print(&json!({ "version": 1, "messages": messages }), || in_words(&queued))?;
    if queued.is_empty() && !json.json {
        stream::note("no message is left");
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(queued: &[QueuedMessage]) -> String {
    let mut text = String::new();
    for QueuedMessage { message, failures, next_unix_ms, error, is_sealed } in queued {
        let next = match (is_sealed, next_unix_ms) {
            (false, _) => "changed since it was written, and never delivered".to_owned(),
            (true, Some(next)) => format!("due {} UTC", time(*next)),
            (true, None) => "given up".to_owned(),
        };
        let (id, run, hook, event) = (&message.id, &message.run, &message.hook, message.event.name());
        row(&mut text, &format!("{id}  {run}  {hook}  {event}  {failures} failed, {next}"));
        if let Some(error) = error {
            row(&mut text, &format!("  {error}"));
        }
    }
    text
}

async fn deliver(journal: &Arc<StoredJournal>, all: bool) -> Result<ExitCode, Failure> {
    let now = unix_ms(SystemTime::now());
    let is_due = |queued: &QueuedMessage| {
        // A message with a time of its own is not sent before.
        let has_happened = queued.message.unix_ms <= now;
        queued.is_sealed && has_happened && (all || queued.next_unix_ms.is_some_and(|next| next <= now))
    };
    let mut of_runs: BTreeMap<RunId, Vec<QueuedMessage>> = BTreeMap::new();
    for queued in journal.outbox().await?.into_iter().filter(is_due) {
        of_runs.entry(queued.message.run.clone()).or_default().push(queued);
    }
    let (mut delivered, mut failed) = (0_u64, 0_u64);
    for (run, messages) in of_runs {
        let left = messages.len() as u64;
        match deliver_of(journal, &run, messages).await {
            Ok(reports) => {
                let arrived =
                    reports.iter().filter(|report| report.delivered == DeliveryResult::Yes).count() as u64;
                delivered += arrived;
                failed += reports.len() as u64 - arrived;
            }
            // The others are delivered all the same.
            Err(failure) => {
                failed += left;
                stream::note(format!("loopgate: run {run}: {}", failure.line()));
            }
        }
    }
    stream::note(format!("delivered: {delivered}; failed: {failed}"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Delivers the messages of one run with the current hooks of its domain.
async fn deliver_of(
    journal: &Arc<StoredJournal>,
    run: &RunId,
    messages: Vec<QueuedMessage>,
) -> Result<Vec<HookReport>, Failure> {
    let domain = FoundRun::read(Arc::clone(journal), run).await?.domain(None)?;
    let hooks = reporting(domain.hooks());
    for QueuedMessage { message, .. } in &messages {
        if hooks.get(&message.hook).is_none() {
            let folder = domain.folder().display();
            return Err(Failure::new(format!(
                "its domain {folder} has no hook `{}` any more; add it, or `loopgate serve hooks drop {}`",
                message.hook, message.id
            )));
        }
    }
    Ok(hooks.deliver(journal.as_ref(), messages).await?)
}
