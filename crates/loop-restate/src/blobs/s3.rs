//! A blob store in a bucket of an S3-compatible server.
//!
//! `object_store` signs and retries the requests. It uses our HTTP client, which verifies certificates as our other
//! clients do, and which turns each failed response into a typed error: see [`answers`].

mod answers;
mod settings;

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutPayload, RetryConfig,
};

pub use settings::S3Settings;

use self::answers::{Connector, kind_of};
use crate::blobs::error::BlobErrorKind;
use crate::blobs::id::BlobId;
use crate::blobs::options::BlobOptions;
use crate::blobs::sweep::{StoredBlob, Sweep};

/// The bucket of a store, and the prefix of its blobs.
pub(crate) struct Bucket {
    objects: AmazonS3,
    prefix: Path,
}

impl Bucket {
    pub(crate) fn open(bucket: &str, prefix: &str, options: &BlobOptions) -> Result<Self, BlobErrorKind> {
        let account = options.s3.checked()?;
        let wrong = |what: String| BlobErrorKind::Settings(what);
        let prefix = Path::parse(prefix).map_err(|_| {
            wrong("the prefix has an empty or a relative part; write s3://bucket/prefix".to_owned())
        })?;
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: MAX_PAUSE, base: 2.0 },
            max_retries: options.retries,
            retry_timeout: options.deadline,
        };
        let connector = Connector::new(&account, options.request_timeout)?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(account.region)
            .with_access_key_id(account.key)
            .with_secret_access_key(account.secret)
            // Not every S3-compatible server deletes in bulk.
            .with_disable_bulk_delete(true)
            .with_retry(retry)
            .with_http_connector(connector);
        if let Some(token) = account.token {
            builder = builder.with_token(token);
        }
        if let Some(endpoint) = account.endpoint {
            // Whether it may be http:// was checked with the settings.
            builder = builder.with_endpoint(endpoint).with_allow_http(true);
        }
        let objects = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok(Self { objects, prefix })
    }

    /// Writes the object even if it exists, which resets its age and repairs it.
    pub(crate) async fn put(&self, id: BlobId, bytes: Bytes) -> Result<(), BlobErrorKind> {
        let put = self.objects.put(&self.path(id), PutPayload::from(bytes)).await;
        put.map(|_| ()).map_err(|error| kind_of(&error))
    }

    /// The object's bytes, without a check.
    pub(crate) async fn get(&self, id: BlobId, max: u64) -> Result<Bytes, BlobErrorKind> {
        let got = self.objects.get(&self.path(id)).await.map_err(|error| kind_of(&error))?;
        let bytes = got.meta.size;
        if bytes > max {
            return Err(BlobErrorKind::TooLarge { bytes, max });
        }
        got.bytes().await.map_err(|error| kind_of(&error))
    }

    pub(crate) async fn delete(&self, id: BlobId) -> Result<(), BlobErrorKind> {
        let deleted = self.objects.delete(&self.path(id)).await.map_err(|error| kind_of(&error));
        // Some servers say that it is not there, and S3 does not.
        if deleted == Err(BlobErrorKind::Missing) { Ok(()) } else { deleted }
    }

    /// The objects that were not put since `before`, at most `max`. Each page of the list has the deadline.
    pub(crate) async fn older(
        &self,
        before: SystemTime,
        max: usize,
        deadline: Duration,
    ) -> Result<Vec<StoredBlob>, BlobErrorKind> {
        let mut listed = self.objects.list(Some(&self.prefix)).map_err(|error| kind_of(&error));
        let mut found = Vec::new();
        while found.len() < max {
            let next = tokio::time::timeout(deadline, listed.try_next()).await;
            let Some(object) = next.unwrap_or_else(|_| Err(late(deadline)))? else { break };
            match self.id(&object.location) {
                Some(id) if !is_young(&object, before) => found.push(StoredBlob { id, bytes: object.size }),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The first bytes of an object.
    pub(crate) async fn beginning(&self, id: BlobId, max: u64) -> Result<Bytes, BlobErrorKind> {
        self.objects.get_range(&self.path(id), 0..max).await.map_err(|error| kind_of(&error))
    }

    /// Deletes an object that was not put since `before`. Returns its size in bytes.
    pub(crate) async fn delete_older(
        &self,
        id: BlobId,
        before: SystemTime,
    ) -> Result<Option<u64>, BlobErrorKind> {
        Ok(match self.delete_if_old(id, before).await? {
            Removal::Now(bytes) => Some(bytes),
            Removal::Young | Removal::Missing => None,
        })
    }

    /// Deletes an object unless it is young. Its age is read directly before the deletion, since a put may have reset
    /// it after it was listed, and S3 deletes by name only.
    async fn delete_if_old(&self, id: BlobId, before: SystemTime) -> Result<Removal, BlobErrorKind> {
        let bytes = match self.objects.head(&self.path(id)).await.map_err(|error| kind_of(&error)) {
            Ok(now) if is_young(&now, before) => return Ok(Removal::Young),
            Ok(now) => now.size,
            Err(BlobErrorKind::Missing) => return Ok(Removal::Missing),
            Err(kind) => return Err(kind),
        };
        self.delete(id).await?;
        Ok(Removal::Now(bytes))
    }

    /// Deletes the objects that are not referenced and were not put since `before`, each within the deadline.
    pub(crate) async fn sweep(
        &self,
        referenced: &HashSet<BlobId>,
        before: SystemTime,
        deadline: Duration,
    ) -> Result<Sweep, BlobErrorKind> {
        let mut sweep = Sweep::default();
        let listed = self.objects.list(Some(&self.prefix)).map_err(|error| kind_of(&error));
        let mut looked_at = listed
            .map_ok(|object| async move {
                let Some(id) = self.id(&object.location) else { return Ok(Sweep::default()) };
                if referenced.contains(&id) {
                    return Ok(Sweep { referenced: 1, ..Sweep::default() });
                }
                let young = Sweep { young: 1, ..Sweep::default() };
                if is_young(&object, before) {
                    return Ok(young);
                }
                let delete = async {
                    Ok(match self.delete_if_old(id, before).await? {
                        Removal::Now(bytes) => Sweep { deleted: 1, deleted_bytes: bytes, ..Sweep::default() },
                        Removal::Young => young,
                        Removal::Missing => Sweep::default(),
                    })
                };
                tokio::time::timeout(deadline, delete).await.unwrap_or_else(|_| Err(late(deadline)))
            })
            .try_buffer_unordered(DELETED_AT_ONCE);
        while let Some(one) = looked_at.try_next().await? {
            sweep.add(one);
        }
        Ok(sweep)
    }

    fn path(&self, id: BlobId) -> Path {
        let (folder, name) = id.place();
        self.prefix.clone().join(folder).join(name)
    }

    /// The blob id of an object. `None`: another program put the object below the prefix.
    fn id(&self, location: &Path) -> Option<BlobId> {
        let mut parts = location.prefix_match(&self.prefix)?;
        let (folder, name) = (parts.next()?, parts.next()?);
        BlobId::at(folder.as_ref(), name.as_ref()).filter(|_| parts.next().is_none())
    }
}

/// The result of deleting an object.
enum Removal {
    /// It was deleted, and had this many bytes.
    Now(u64),
    Young,
    Missing,
}

fn is_young(object: &ObjectMeta, before: SystemTime) -> bool {
    SystemTime::from(object.last_modified) >= before
}

fn late(deadline: Duration) -> BlobErrorKind {
    BlobErrorKind::Unavailable(format!("no result within {} s", deadline.as_secs_f32()))
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);
const DELETED_AT_ONCE: usize = 8;
