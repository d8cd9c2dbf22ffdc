//! Why a case cannot be read or run: one line each, with the file and the place in it.

use std::path::PathBuf;

/// Why a case cannot be read or run. Each message is one line: where, what, how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// A file or a folder cannot be read.
    #[error("{}: {message}", .path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// It is no JSON of a case's form.
    #[error("{origin}:{line}:{column}: {message}")]
    NotACase {
        /// Where it came from.
        origin: String,
        /// Its line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// Something that it says is wrong.
    #[error("{origin}: {pointer}: {message}")]
    Invalid {
        /// Where it came from.
        origin: String,
        /// The JSON pointer to it.
        pointer: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// No case was found.
    #[error("{}: there is no case in it; cases are .json files in folders called `evals`, and files that end with .case.json", .path.display())]
    None {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// Several files are wrong: a line each.
    #[error("{}", lines(.0))]
    Several(Vec<CaseError>),
}

fn lines(errors: &[CaseError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl CaseError {
    /// Nothing of no errors, the error of one, and otherwise all of them.
    pub(crate) fn all(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    pub(crate) fn invalid(origin: &str, pointer: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Invalid { origin: origin.to_owned(), pointer: pointer.into(), message }
    }
}
