//! Errors of loading a domain and of reading a work item: one line each, for the operator.

use std::path::PathBuf;

/// Why a domain could not be loaded. Each message is one line: where, what, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// The folder has no `loopgate.toml`.
    #[error("{}: there is no such file; make it, or name a folder that holds a loopgate.toml", .path.display())]
    Missing {
        /// The path that it should have.
        path: PathBuf,
    },
    /// The file that is named as a domain does not have the name of a domain file.
    #[error("{}: not a domain; name a folder that holds a loopgate.toml, or that file", .path.display())]
    NotADomain {
        /// The path.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read: {message}; check what it is and who may read it", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {message}; make its folder writable", .path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
    /// The folder of a new domain exists and is not empty.
    #[error("{}: something is there already, and nothing is overwritten; name a new or an empty folder", .path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// `loopgate.toml`, or a file that belongs to it, is invalid.
    #[error("{}:{line}:{column}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// An option given besides the file is invalid.
    #[error("{option}: {message}")]
    Option {
        /// The option as given, for example `--set limits.passes=x`.
        option: String,
        /// What is wrong and how to fix it.
        message: String,
    },
}

impl DomainError {
    /// The same error, for a setting that is wrong only with this profile.
    pub(crate) fn of_profile(mut self, profile: &str) -> Self {
        match &mut self {
            Self::Invalid { message, .. }
            | Self::Option { message, .. }
            | Self::Unreadable { message, .. }
            | Self::Unwritable { message, .. } => {
                *message = format!("with the profile `{profile}`: {message}");
            }
            Self::Missing { .. } | Self::NotADomain { .. } | Self::Taken { .. } => {}
        }
        self
    }
}

/// Why a work item could not be read. Each message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// The item is empty.
    #[error("{origin}: the work item is empty; give a JSON object or a text")]
    Empty {
        /// The file or stream that it was read from.
        origin: String,
    },
    /// The item has more bytes than the domain allows.
    #[error(
        "{origin}: the work item has more than {max} bytes, which is the domain's limit; shorten it, or raise `item.max_bytes` in loopgate.toml"
    )]
    TooLong {
        /// The file or stream that it was read from.
        origin: String,
        /// The limit, in bytes.
        max: u64,
    },
    /// The item begins with `{` and is not valid JSON.
    #[error("{origin}:{line}:{column}: the work item is not JSON: {message}; correct it there")]
    NotJson {
        /// The file or stream that it was read from.
        origin: String,
        /// The line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A required part of the item is missing.
    #[error(
        "{origin}: the work item has no text at `{pointer}` for its {what}; add it, or correct `item.{what}` in loopgate.toml"
    )]
    MissingPart {
        /// The file or stream that it was read from.
        origin: String,
        /// The JSON pointer to the missing part.
        pointer: String,
        /// What the part is for.
        what: &'static str,
    },
    /// The item is JSON that does not fit the domain's item schema.
    #[error("{origin}: the work item does not fit `item.schema`: {violations}; correct the item")]
    Unfit {
        /// The file or stream that it was read from.
        origin: String,
        /// What does not fit: at most three violations, each with its JSON pointer.
        violations: String,
    },
}
