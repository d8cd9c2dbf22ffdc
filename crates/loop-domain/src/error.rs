//! Why a domain or a work item could not be read: for the operator, one line each.

use std::path::PathBuf;

/// Why a domain could not be read. Each message is one line: where, what, how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// There is no `loopgate.toml`.
    #[error("{}: there is no such file; make it, or name a folder that holds a loopgate.toml", .path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// A file is there and cannot be read.
    #[error("{}: cannot be read: {message}; check what it is and who may read it", .path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// What the system says.
        message: String,
    },
    /// Something in `loopgate.toml` is wrong.
    #[error("{}:{line}:{column}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// Something that was given beside the file is wrong.
    #[error("{option}: {message}")]
    Option {
        /// What was given, for example `--set limits.passes=x`.
        option: String,
        /// What is wrong and how to fix it.
        message: String,
    },
}

impl DomainError {
    /// The same error, of something that is wrong with this profile alone.
    pub(crate) fn of_profile(mut self, profile: &str) -> Self {
        match &mut self {
            Self::Invalid { message, .. }
            | Self::Option { message, .. }
            | Self::Unreadable { message, .. } => {
                *message = format!("with the profile `{profile}`: {message}");
            }
            Self::Missing { .. } => {}
        }
        self
    }
}

/// Why a work item could not be read. Each message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// There is nothing in it.
    #[error("{origin}: the work item is empty; give a JSON object or a text")]
    Empty {
        /// Where it came from.
        origin: String,
    },
    /// It has more bytes than the domain takes.
    #[error(
        "{origin}: the work item has more than {max} bytes, which is the domain's limit; shorten it, or raise `item.max_bytes` in loopgate.toml"
    )]
    TooLong {
        /// Where it came from.
        origin: String,
        /// The limit, in bytes.
        max: u64,
    },
    /// It begins like JSON and is none.
    #[error("{origin}:{line}:{column}: the work item is no JSON: {message}; correct it there")]
    NotJson {
        /// Where it came from.
        origin: String,
        /// Its line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// What the reader says.
        message: String,
    },
    /// What must be there is not.
    #[error(
        "{origin}: the work item has no text at `{pointer}` for its {what}; add it, or correct `item.{what}` in loopgate.toml"
    )]
    MissingPart {
        /// Where it came from.
        origin: String,
        /// The JSON pointer.
        pointer: String,
        /// What it is for.
        what: &'static str,
    },
}
