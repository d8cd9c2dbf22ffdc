//! A content-addressed store of blobs: large results and transcripts, each under the digest of its content.
//!
//! **What it is.** [`BlobStore`] keeps bytes in a folder (`file:///absolute/folder`) or in a bucket of an S3-compatible server
//! (`s3://bucket/prefix`, feature `s3`). An engine that passes messages of limited size passes a [`BlobId`] instead.
//! **What it does not do.** It does not know which runs refer to a blob: the caller of [`sweep`](BlobStore::sweep)
//! names the blobs that are referenced. It does not encrypt.
//!
//! Guarantees:
//!
//! - A blob whose [`put`](BlobStore::put) returned is durable and complete. A put can be repeated, even by several
//!   processes at once.
//! - A [`get`](BlobStore::get) returns the bytes of the put, or an error. The digest is checked each time.
//! - A failed put, or a killed process, leaves no blob or a complete one.
//! - Every operation ends: requests have a timeout, retries have a maximum, and each operation has a deadline.
//! - Nothing blocks a thread of the async runtime.
//!
//! ```
//! # use std::collections::HashSet;
//! # use std::time::Duration;
//! # use loop_restate::blobs::{BlobErrorKind, BlobStore};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("file://{}", folder.path().display());
//! let store = BlobStore::open(&url).await?;
//! let id = store.put("a large result").await?;
//! assert_eq!(store.get(id).await?, "a large result");
//!
//! // No run refers to it any more, and it is old enough.
//! store.sweep(&HashSet::new(), Duration::ZERO).await?;
//! assert_eq!(store.get(id).await.unwrap_err().kind, BlobErrorKind::Missing);
//! # Ok(())
//! # }
//! ```
//!
//! The guarantees in full, the settings and the limits are in `docs/reference/blobs.md`.

mod address;
mod error;
mod folder;
mod id;
mod options;
#[cfg(feature = "s3")]
mod s3;
mod sweep;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use error::{BlobError, BlobErrorKind};
pub use id::{BlobId, InvalidBlobId};
pub use options::BlobOptions;
#[cfg(feature = "s3")]
pub use s3::S3Settings;
pub use sweep::{StoredBlob, Sweep};

use crate::blobs::address::Address;
use crate::blobs::folder::Folder;

/// A store of blobs. Clones share its connections and its limits.
#[derive(Clone)]
pub struct BlobStore {
    /// As the operator wrote it. It contains no key.
    url: Arc<str>,
    place: Store,
    turns: Arc<Semaphore>,
    max_bytes: u64,
    deadline: Duration,
}

#[derive(Clone)]
enum Store {
    Folder(Arc<Folder>),
    #[cfg(feature = "s3")]
    Bucket(Arc<s3::Bucket>),
}

impl fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlobStore").field(&self.url).finish()
    }
}

impl BlobStore {
    /// Opens a store with the limits and the settings of [`BlobOptions::default`].
    ///
    /// A folder is created if it does not exist. A bucket is not contacted: the first operation shows whether it can be
    /// reached.
    ///
    /// # Errors
    /// The URL has another form, the folder cannot be created, or the keys of the bucket are missing.
    pub async fn open(url: &str) -> Result<Self, BlobError> {
        Self::open_with(url, BlobOptions::default()).await
    }

    /// Like [`open`](Self::open), with other limits and settings.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub async fn open_with(url: &str, options: BlobOptions) -> Result<Self, BlobError> {
        let BlobOptions { max_bytes, max_parallel, deadline, .. } = options;
        let place = match address::parse(url)? {
            Address::Folder(root) => {
                let opened = tokio::task::spawn_blocking(move || Folder::open(root, max_bytes));
                let ended = |_| BlobError::of_store(url, BlobErrorKind::Unavailable(ENDS.to_owned()));
                Store::Folder(Arc::new(opened.await.map_err(ended)??))
            }
            #[cfg(feature = "s3")]
            Address::Bucket { bucket, prefix } => {
                let opened = s3::Bucket::open(&bucket, &prefix, &options);
                Store::Bucket(Arc::new(opened.map_err(|kind| BlobError::of_store(url, kind))?))
            }
            #[cfg(not(feature = "s3"))]
            Address::Bucket { .. } => {
                let message =
                    "this program was built without buckets; build it with the feature `s3` of loop-restate";
                return Err(BlobError::of_store(url, BlobErrorKind::Settings(message.to_owned())));
            }
        };
        let turns = Arc::new(Semaphore::new(max_parallel.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Self { url: url.trim_end_matches('/').into(), place, turns, max_bytes, deadline })
    }

    /// Stores the bytes, and returns their id once they are durable.
    ///
    /// The age of a blob that exists already is reset, and a damaged one is replaced.
    ///
    /// # Errors
    /// There are more bytes than the store accepts, it is full, access is denied, or it cannot be reached.
    pub async fn put(&self, bytes: impl Into<Bytes>) -> Result<BlobId, BlobError> {
        let bytes = bytes.into();
        let turn = self.turn().await?;
        let hashed = bytes.clone();
        let id = blocking(move || Ok(BlobId::of(&hashed))).await.map_err(|kind| self.error(None, kind))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > self.max_bytes {
            let kind = BlobErrorKind::TooLarge { bytes: length, max: self.max_bytes };
            return Err(self.error(Some(id), kind));
        }
        let put = async {
            match &self.place {
                Store::Folder(folder) => in_folder(folder, turn, move |it| it.put(id, &bytes)).await,
                #[cfg(feature = "s3")]
                Store::Bucket(bucket) => {
                    let _turn = turn;
                    bucket.put(id, bytes).await
                }
            }
        };
        self.within(Some(id), put).await?;
        Ok(id)
    }

    /// Returns the blob's content, after its digest was checked.
    ///
    /// # Errors
    /// The blob is missing, damaged or too large, access is denied, or the store cannot be reached.
    pub async fn get(&self, id: BlobId) -> Result<Bytes, BlobError> {
        let turn = self.turn().await?;
        let get = async {
            match &self.place {
                Store::Folder(folder) => in_folder(folder, turn, move |it| it.get(id)).await,
                #[cfg(feature = "s3")]
                Store::Bucket(bucket) => {
                    let _turn = turn;
                    let content = bucket.get(id, self.max_bytes).await?;
                    blocking(move || folder::check(id, &content).map(|()| content)).await
                }
            }
        };
        self.within(Some(id), get).await
    }

    /// Deletes the blob if it exists, and temporary files of a crash. It does not check references.
    ///
    /// Copies that the storage system keeps stay: versions and replicas of a bucket, snapshots of a file system,
    /// backups.
    ///
    /// # Errors
    /// Access is denied, or the store cannot be reached.
    pub async fn delete(&self, id: BlobId) -> Result<(), BlobError> {
        let turn = self.turn().await?;
        let delete = async {
            match &self.place {
                Store::Folder(folder) => in_folder(folder, turn, move |it| it.delete(id)).await,
                #[cfg(feature = "s3")]
                Store::Bucket(bucket) => {
                    let _turn = turn;
                    bucket.delete(id).await
                }
            }
        };
        self.within(Some(id), delete).await
    }

    /// Blobs that were last put longer ago than `older_than`, at most `max`.
    ///
    /// # Errors
    /// Access is denied, or the store cannot be reached.
    pub async fn older(&self, older_than: Duration, max: usize) -> Result<Vec<StoredBlob>, BlobError> {
        let before = before(older_than);
        match &self.place {
            Store::Folder(folder) => {
                let listed = Arc::clone(folder);
                let folders = self.within(None, blocking(move || listed.folders())).await?;
                let mut found = Vec::new();
                for name in folders {
                    let folder = Arc::clone(folder);
                    let older = blocking(move || folder.older(&name, before)).await;
                    found.extend(older.map_err(|kind| self.error(None, kind))?);
                    if found.len() >= max {
                        break;
                    }
                }
                found.truncate(max);
                Ok(found)
            }
            #[cfg(feature = "s3")]
            Store::Bucket(bucket) => {
                bucket.older(before, max, self.deadline).await.map_err(|kind| self.error(None, kind))
            }
        }
    }

    /// The first bytes of a blob, at most `max`, which must not exceed its length. They are not checked, since the
    /// digest is that of all bytes.
    ///
    /// # Errors
    /// The blob is missing, access is denied, or the store cannot be reached.
    pub async fn beginning(&self, id: BlobId, max: u64) -> Result<Bytes, BlobError> {
        // S3 has no range of no bytes.
        if max == 0 {
            return Ok(Bytes::new());
        }
        let turn = self.turn().await?;
        let get = async {
            match &self.place {
                Store::Folder(folder) => in_folder(folder, turn, move |it| it.beginning(id, max)).await,
                #[cfg(feature = "s3")]
                Store::Bucket(bucket) => {
                    let _turn = turn;
                    bucket.beginning(id, max).await
                }
            }
        };
        self.within(Some(id), get).await
    }

    /// Deletes the blob if it was last put longer ago than `older_than`, and returns its size in bytes. `None`: it is
    /// younger, or does not exist. A concurrent put keeps it, as in a [`sweep`](Self::sweep).
    ///
    /// # Errors
    /// Access is denied, or the store cannot be reached.
    pub async fn delete_older(&self, id: BlobId, older_than: Duration) -> Result<Option<u64>, BlobError> {
        let (turn, before) = (self.turn().await?, before(older_than));
        let delete = async {
            match &self.place {
                Store::Folder(folder) => in_folder(folder, turn, move |it| it.delete_older(id, before)).await,
                #[cfg(feature = "s3")]
                Store::Bucket(bucket) => {
                    let _turn = turn;
                    bucket.delete_older(id, before).await
                }
            }
        };
        self.within(Some(id), delete).await
    }

    /// Deletes each blob that is not in `referenced` and was last put longer ago than `older_than`.
    ///
    /// `referenced` must contain the blobs of all runs that use the store, including runs in progress. A blob that a
    /// run has put and does not refer to yet is only kept by its age, so `older_than` must exceed the time between the
    /// two. Collect `referenced` before the sweep.
    ///
    /// # Errors
    /// Access is denied, or the store cannot be reached. Deleted blobs stay deleted, and a sweep can be repeated.
    pub async fn sweep(
        &self,
        referenced: &HashSet<BlobId>,
        older_than: Duration,
    ) -> Result<Sweep, BlobError> {
        let before = before(older_than);
        match &self.place {
            Store::Folder(folder) => {
                let referenced = Arc::new(referenced.clone());
                let listed = Arc::clone(folder);
                let folders = self.within(None, blocking(move || listed.folders())).await?;
                let mut sweep = Sweep::default();
                // A future that is dropped ends the sweep after the folder.
                for name in folders {
                    let (folder, referenced) = (Arc::clone(folder), Arc::clone(&referenced));
                    let swept = blocking(move || folder.sweep(&name, &referenced, before)).await;
                    sweep.add(swept.map_err(|kind| self.error(None, kind))?);
                }
                Ok(sweep)
            }
            #[cfg(feature = "s3")]
            Store::Bucket(bucket) => {
                let swept = bucket.sweep(referenced, before, self.deadline).await;
                swept.map_err(|kind| self.error(None, kind))
            }
        }
    }

    /// Waits for a permit to start another operation.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, BlobError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.map_err(|_| self.error(None, BlobErrorKind::Unavailable(ENDS.to_owned())))
    }

    async fn within<T>(
        &self,
        id: Option<BlobId>,
        work: impl Future<Output = Result<T, BlobErrorKind>>,
    ) -> Result<T, BlobError> {
        let done = tokio::time::timeout(self.deadline, work).await.unwrap_or_else(|_| {
            let message = format!("no result within {} s", self.deadline.as_secs_f32());
            Err(BlobErrorKind::Unavailable(message))
        });
        done.map_err(|kind| self.error(id, kind))
    }

    fn error(&self, blob: Option<BlobId>, kind: BlobErrorKind) -> BlobError {
        let place = match blob.map(|id| id.place()) {
            Some((folder, name)) => format!("{}/{folder}/{name}", self.url),
            None => self.url.to_string(),
        };
        BlobError { place, blob, kind }
    }
}

fn before(older_than: Duration) -> SystemTime {
    SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Runs work on the folder on a blocking thread. It holds its permit until it ends, even if the caller no longer awaits
/// it.
async fn in_folder<T: Send + 'static>(
    folder: &Arc<Folder>,
    turn: OwnedSemaphorePermit,
    work: impl FnOnce(&Folder) -> Result<T, BlobErrorKind> + Send + 'static,
) -> Result<T, BlobErrorKind> {
    let folder = Arc::clone(folder);
    blocking(move || {
        let _turn = turn;
        work(&folder)
    })
    .await
}

/// Runs blocking work on a thread for such work. Work that has begun runs to its end, even if the caller no longer
/// awaits it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobErrorKind> + Send + 'static,
) -> Result<T, BlobErrorKind> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(BlobErrorKind::Unavailable(ENDS.to_owned())))
}

const ENDS: &str = "the program ends";
