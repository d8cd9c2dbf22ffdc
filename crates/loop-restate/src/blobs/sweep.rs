//! The results of listing and sweeping a store.

use crate::blobs::id::BlobId;

/// A blob as a store lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its id.
    pub id: BlobId,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What a sweep found and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Blobs that were deleted: not referenced, and old enough.
    pub deleted: u64,
    /// Bytes of the deleted blobs.
    pub deleted_bytes: u64,
    /// Blobs that were kept because they are referenced.
    pub referenced: u64,
    /// Blobs that were kept because they are too young.
    pub young: u64,
}

impl Sweep {
    pub(crate) fn add(&mut self, other: Self) {
        self.deleted += other.deleted;
        self.deleted_bytes += other.deleted_bytes;
        self.referenced += other.referenced;
        self.young += other.young;
    }
}
