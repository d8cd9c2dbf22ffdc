//! Shared by the commands: the root and the crates of the workspace, files, and failures.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a command ends with an exit code other than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Invalid arguments: exit code 2.
    Usage(String),
    /// A check failed or could not run: exit code 1.
    Check(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Check(message) => f.write_str(message),
        }
    }
}

impl From<xshell::Error> for Failure {
    fn from(error: xshell::Error) -> Failure {
        Failure::Check(error.to_string())
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The names of our own packages: the folders of `crates/` in their order, then `xtask`.
pub(crate) fn packages(root: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for folder in entries(&root.join("crates"))? {
        if folder.join("Cargo.toml").is_file()
            && let Some(name) = folder.file_name()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.push("xtask".to_owned());
    Ok(names)
}

/// All files below a folder whose name ends with `.<extension>`, sorted; none if the folder is not there.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in entries(&next)? {
            let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if entry.is_dir() && !hidden && !entry.ends_with("target") {
                waiting.push(entry);
            } else if entry.extension().is_some_and(|it| it == extension) {
                found.push(entry);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file, or a failure that names it.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::Check(format!("{}: {error}", path.display())))
}

/// A path as people write it: from the root of the workspace.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Prints lines. A reader that stops early, as `head` does, is not an error.
pub(crate) fn print_lines(lines: &[String]) {
    let mut stdout = io::stdout().lock();
    for line in lines {
        if writeln!(stdout, "{line}").is_err() {
            return;
        }
    }
}

/// Prints the problems that a check found, and returns its result.
pub(crate) fn report(check: &str, problems: &[String]) -> Result<(), Failure> {
    print_lines(problems);
    match problems.len() {
        0 => Ok(()),
        1 => Err(Failure::Check(format!("{check}: 1 problem"))),
        n => Err(Failure::Check(format!("{check}: {n} problems"))),
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::Check(format!("{}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
