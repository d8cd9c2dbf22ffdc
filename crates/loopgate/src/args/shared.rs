//! Global options: they are explained once in the help of the program, and can be given before or after a command.

use std::ffi::OsString;

use clap::{Arg, Args as _, Command};

use super::{EngineArgs, FolderArgs, JournalArgs, ReportArgs, SettingArgs};

/// The global options, in the order of the help.
fn options() -> Command {
    let with_settings = SettingArgs::augment_args(FolderArgs::augment_args(Command::new("shared")));
    JournalArgs::augment_args(ReportArgs::augment_args(EngineArgs::augment_args(with_settings)))
}

/// Replaces the global options in the help of each command by one line.
pub(crate) fn explained_once(program: Command) -> Command {
    let shared = options();
    program.mut_subcommands(|command| points(command, &shared)).args(shared.get_arguments())
}

fn points(command: Command, shared: &Command) -> Command {
    let is_shared = |arg: &Arg| {
        let same = |known: &&Arg| known.get_long() == arg.get_long() && known.get_help() == arg.get_help();
        arg.get_long().is_some() && shared.get_arguments().any(|known| same(&known))
    };
    let has = command.get_arguments().filter(|arg| is_shared(arg));
    let names: Vec<String> = has.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
    let command = command.mut_subcommands(|below| points(below, shared));
    if names.is_empty() {
        return command;
    }
    let line = format!("It also has {}: see `loopgate --help`.", names.join(", "));
    let after = command.get_after_help().map_or_else(String::new, |after| format!("\n\n{after}"));
    command
        .mut_args(|arg| if is_shared(&arg) { arg.hide(true) } else { arg })
        .after_help(format!("{line}{after}"))
}

/// Moves global options before a command behind it, where clap reads them. Returns the words, and how many of them are
/// the program and the command.
pub(crate) fn behind_the_command(
    program: &Command,
    words: impl Iterator<Item = OsString>,
) -> (Vec<OsString>, usize) {
    let shared = options();
    let mut words = words.peekable();
    let mut line: Vec<OsString> = words.next().into_iter().collect();
    let (mut before, mut command) = (Vec::new(), program);
    while let Some(word) = words.next_if(|word| !word.is_empty()) {
        let text = word.to_string_lossy();
        let (name, has_value) = text.split_once('=').map_or((&*text, false), |(name, _)| (name, true));
        let named = |arg: &&Arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
        };
        if let Some(below) = command.find_subcommand(&word) {
            command = below;
            line.push(word);
        } else if let Some(option) = shared.get_arguments().find(named) {
            let takes = option.get_action().takes_values() && !has_value;
            before.push(word);
            before.extend(words.next_if(|_| takes));
        } else {
            before.push(word);
            break;
        }
    }
    let command = line.len();
    line.extend(before.into_iter().chain(words));
    (line, command)
}
