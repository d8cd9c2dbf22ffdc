//! Shell completion of runs, domains and tiers.

use std::collections::BTreeSet;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter};
use loop_runtime::journal::{Journal as _, RunLine};

use crate::args::JournalArgs;
use crate::context::places;
use crate::output::cut;

/// Adds completion of values to the arguments of the command line.
pub(crate) fn completed(command: Command) -> Command {
    let by_arg = |arg: Arg| match (arg.get_id().as_str(), arg.get_long()) {
        ("run" | "runs" | "a" | "b", None) => arg.add(ArgValueCandidates::new(runs)),
        ("models" | "base_urls", _) => {
            arg.add(ArgValueCandidates::new(|| TIERS.map(CompletionCandidate::new).into()))
        }
        // The other commands with the option take a folder.
        ("domain", Some(_)) if arg.get_value_names().is_some_and(|names| names == ["NAME"]) => {
            arg.add(ArgValueCandidates::new(domains))
        }
        ("domain" | "domains", None) => arg.add(ArgValueCompleter::new(PathCompleter::dir())),
        _ => arg,
    };
    command.mut_args(by_arg).mut_subcommands(completed)
}

/// The runs of the default journal, newest first. Empty if it cannot be read, since a shell cannot show an error.
fn lines() -> Vec<RunLine> {
    let read = || {
        let journal = places::existing_journal(&JournalArgs { journal: None }).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(journal.runs()).ok()
    };
    read().unwrap_or_default()
}

/// The names of the domains of these runs.
fn domains() -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> = lines().iter().map(|line| line.domain.to_string()).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn runs() -> Vec<CompletionCandidate> {
    let candidate = |line: RunLine| {
        let about = cut(&format!("{} {}", line.item, line.title), 60);
        CompletionCandidate::new(line.run.to_string()).help(Some(about.into()))
    };
    let runs = lines().into_iter().take(50).map(candidate);
    runs.chain([CompletionCandidate::new("last")]).collect()
}

const TIERS: [&str; 4] = ["base=", "selector=", "escalated=", "fallback="];
