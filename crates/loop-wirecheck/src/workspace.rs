//! Files of the workspace, printing, and how the command fails.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Why the command ends with an exit code other than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line was wrong: exit 2.
    Usage(String),
    /// A check failed, or could not be made: exit 1.
    Check(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Check(message) => f.write_str(message),
        }
    }
}

/// The folder of this package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file, or a failure that names it.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::Check(format!("{}: {error}", path.display())))
}

/// A path as people write it: from the root of the workspace.
pub(crate) fn shown(path: &Path) -> String {
    let root = package().ancestors().nth(2).unwrap_or(package());
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Prints lines; who stops reading half-way, as `head` does, misses the rest.
pub(crate) fn print_lines(lines: &[String]) {
    let mut stdout = io::stdout().lock();
    for line in lines {
        if writeln!(stdout, "{line}").is_err() {
            return;
        }
    }
}
