//! Errors of the blob store.

use std::io::{self, ErrorKind};

use crate::blobs::id::BlobId;

/// A failed operation of a store. It prints as one line: where, what, how to fix it. It contains no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {kind}")]
pub struct BlobError {
    /// The blob's file or object, or the store.
    pub place: String,
    /// The blob. `None`: the error is about the store.
    pub blob: Option<BlobId>,
    /// What went wrong.
    pub kind: BlobErrorKind,
}

/// What went wrong with a blob or its store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobErrorKind {
    /// The store does not have the blob.
    #[error(
        "the blob is missing; check that this is the store that it was put into, or restore it from a backup"
    )]
    Missing,
    /// The blob's content was changed, or it was cut off by a crash.
    #[error(
        "the blob is damaged: its {bytes} bytes have the digest {found}; put its content again, or restore it from a backup"
    )]
    Damaged {
        /// The id of the content that is there.
        found: BlobId,
        /// The number of bytes that are there.
        bytes: u64,
    },
    /// The blob is larger than the store accepts.
    #[error("the blob has {bytes} bytes, and {max} are allowed; raise `max_bytes` of the store")]
    TooLarge {
        /// Bytes of the blob.
        bytes: u64,
        /// [`BlobOptions::max_bytes`](crate::blobs::BlobOptions::max_bytes).
        max: u64,
    },
    /// The disk, or the user's quota, is full.
    #[error("the disk is full; free space, or let a sweep delete what is not referenced")]
    Full,
    /// Access to the store is denied.
    #[error(
        "access is denied ({0}); check the owner and mode of the folder, or the keys and the policy of the bucket"
    )]
    Denied(String),
    /// The bucket does not exist.
    #[error("the bucket does not exist; create it, or correct the name in the URL")]
    NoBucket,
    /// The store cannot be reached now. This is the only kind that may pass without a change.
    #[error("the store cannot be reached: {0}; try again, or check the server")]
    Unavailable(String),
    /// The server refused the request, or the file system the call.
    #[error("the store refused: {0}; correct the settings of the store")]
    Refused(String),
    /// The URL or the settings of a store are wrong.
    #[error("{0}")]
    Settings(String),
}

impl BlobError {
    /// Whether a later try may succeed without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, BlobErrorKind::Unavailable(_))
    }

    /// An error of the store as a whole.
    pub(crate) fn of_store(place: impl Into<String>, kind: BlobErrorKind) -> Self {
        Self { place: place.into(), blob: None, kind }
    }
}

impl From<io::Error> for BlobErrorKind {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied(error.to_string()),
            ErrorKind::Interrupted
            | ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::ResourceBusy
            | ErrorKind::StaleNetworkFileHandle => Self::Unavailable(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}
