//! `loopgate completions` and `loopgate man`, generated from the arguments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::env::Shells;
use clap_mangen::Man;

use crate::output::{Failure, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Bash: loopgate completions bash > ~/.local/share/bash-completion/completions/loopgate\n\
                  Zsh:  loopgate completions zsh > ~/.zfunc/_loopgate   (with ~/.zfunc in fpath)\n\
                  Fish: loopgate completions fish > ~/.config/fish/completions/loopgate.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder, which is made if it is missing
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

/// The variable by which a shell asks the program to complete a command line.
pub(crate) const COMPLETE: &str = "LOOPGATE_COMPLETE";

/// Prints the completion script of a shell. The script asks this program for commands, options, runs, domains and
/// tiers.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let (shells, mut script) = (Shells::builtins(), Vec::new());
    if let Some(shell) = shells.completer(&args.shell.to_string()) {
        shell.write_registration(COMPLETE, "loopgate", "loopgate", "loopgate", &mut script)?;
    }
    print(script)
}

pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result<ExitCode, Failure> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page);
        rendered.map_err(|error| Failure::new(format!("the page cannot be made: {error}")))?;
        return print(page);
    };
    fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
    clap_mangen::generate_to(command, folder).map_err(|error| not_written(folder, &error))?;
    stream::note(format!("the pages are in {}", folder.display()));
    Ok(ExitCode::SUCCESS)
}

fn print(text: Vec<u8>) -> Result<ExitCode, Failure> {
    let text = String::from_utf8(text);
    stream::print_part(&text.map_err(|error| Failure::new(format!("not a text: {error}")))?);
    Ok(ExitCode::SUCCESS)
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: cannot be written: {error}; name another folder with --out", path.display()))
}
