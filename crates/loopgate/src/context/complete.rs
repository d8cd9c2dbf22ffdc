//! Completion of values in a shell: runs, domains, tiers.

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter};
use loop_runtime::journal::{Journal as _, RunLine};

use crate::args::JournalArgs;
use crate::context::places;
use crate::output::cut;

/// The command line with what completes the values of its arguments.
pub(crate) fn completed(command: Command) -> Command {
    let by_arg = |arg: Arg| match (arg.get_id().as_str(), arg.get_long()) {
        ("run" | "runs" | "a" | "b", None) => arg.add(ArgValueCandidates::new(runs)),
        ("models" | "base_urls", _) => {
            arg.add(ArgValueCandidates::new(|| TIERS.map(CompletionCandidate::new).into()))
        }
        ("domain" | "domains", None) => arg.add(ArgValueCompleter::new(PathCompleter::dir())),
        _ => arg,
    };
    command.mut_args(by_arg).mut_subcommands(completed)
}

/// The newest runs of the default journal. None if it cannot be read: a shell has no place for the reason.
fn runs() -> Vec<CompletionCandidate> {
    let read = || {
        let journal = places::existing_journal(&JournalArgs { journal: None }).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(journal.runs()).ok()
    };
    let candidate = |line: RunLine| {
        let about = cut(&format!("{} {}", line.item, line.title), 60);
        CompletionCandidate::new(line.run.to_string()).help(Some(about.into()))
    };
    let runs = read().unwrap_or_default().into_iter().take(50).map(candidate);
    runs.chain([CompletionCandidate::new("last")]).collect()
}

const TIERS: [&str; 4] = ["base=", "selector=", "escalated=", "fallback="];
