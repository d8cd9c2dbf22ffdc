//! Completion of values in a shell: runs, domains, tiers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use loop_core::types::Tier;
use loop_runtime::journal::{Journal as _, RunLine};

use super::JournalArgs;
use crate::context::places;
use crate::output::cut;

/// The command line with what completes the values of its arguments.
pub(crate) fn completed(command: Command) -> Command {
    command.mut_args(completed_arg).mut_subcommands(completed)
}

fn completed_arg(arg: Arg) -> Arg {
    let is_name = arg.get_value_names().is_some_and(|names| names == ["NAME"]);
    match arg.get_id().as_str() {
        "run" | "runs" | "a" | "b" if arg.is_positional() => arg.add(ArgValueCandidates::new(runs)),
        "models" | "base_urls" => arg.add(ArgValueCandidates::new(tiers)),
        "domain" | "domains" if is_name => arg.add(ArgValueCandidates::new(names)),
        "domain" | "domains" => arg.add(ArgValueCompleter::new(folders)),
        _ => arg,
    }
}

/// The runs of the default journal, newest first. Empty if it cannot be read: a shell has no place for the reason.
fn lines() -> Vec<RunLine> {
    let read = || {
        let journal = places::existing_journal(&JournalArgs { journal: None }).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(journal.runs()).ok()
    };
    read().unwrap_or_default()
}

fn runs() -> Vec<CompletionCandidate> {
    let last = CompletionCandidate::new("last").help(Some("the newest run".into()));
    let run = |line: RunLine| {
        let about = cut(&format!("{} {}", line.item, line.title), MAX_ABOUT);
        CompletionCandidate::new(line.run.to_string()).help(Some(about.into()))
    };
    lines().into_iter().take(MAX_RUNS).map(run).chain([last]).collect()
}

/// The names of the domains that have runs.
fn names() -> Vec<CompletionCandidate> {
    let mut names: Vec<String> = lines().iter().map(|line| cut(&line.domain, MAX_ABOUT)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn tiers() -> Vec<CompletionCandidate> {
    let tiers = [Tier::Base, Tier::Selector, Tier::Escalated, Tier::Fallback];
    tiers.map(|tier| CompletionCandidate::new(format!("{}=", tier.name()))).into()
}

/// The domain folders here and in the folders here; where none fits, any folder.
fn folders(typed: &OsStr) -> Vec<CompletionCandidate> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
        read.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let here = below(Path::new("."));
    let all = here.iter().flat_map(|folder| below(folder)).chain(here.iter().cloned());
    let found = all.filter(|folder| folder.join("loopgate.toml").is_file());
    let shown = found.map(|folder| folder.strip_prefix(".").map(Path::to_owned).unwrap_or(folder));
    let typed_text = typed.to_string_lossy();
    let mut fits: Vec<PathBuf> = shown.filter(|it| it.to_string_lossy().starts_with(&*typed_text)).collect();
    fits.sort_unstable();
    match fits.is_empty() {
        true => PathCompleter::dir().complete(typed),
        false => fits.into_iter().map(CompletionCandidate::new).collect(),
    }
}

/// How many runs are offered.
const MAX_RUNS: usize = 50;
/// How many characters of an item or a name are shown.
const MAX_ABOUT: usize = 60;
