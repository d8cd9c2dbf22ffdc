//! Errors of reading or running a case: one line each, with the file and the place in it.

use std::path::PathBuf;

/// Why a case cannot be read or run. Each message is one line: where, what, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// A file or a folder cannot be read.
    #[error("{}: {message}", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The text is not JSON of a case's form.
    #[error("{origin}:{line}:{column}: {message}")]
    NotACase {
        /// The file that it was read from.
        origin: String,
        /// Its line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A member of the case is invalid.
    #[error("{origin}: {pointer}: {message}")]
    Invalid {
        /// The file that it was read from.
        origin: String,
        /// The JSON pointer to the member.
        pointer: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// There is no case at the path.
    #[error("{}: there is no case in it; cases are .json files in folders called `evals`, and files that end with .case.json", .path.display())]
    None {
        /// The path.
        path: PathBuf,
    },
    /// Several files are invalid: one line each.
    #[error("{}", lines(.0))]
    Several(Vec<CaseError>),
}

fn lines(errors: &[CaseError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl CaseError {
    /// One error of all of these: `None` for none, the error itself for one, and [`Several`](Self::Several) otherwise.
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
