//! The limits and settings of a blob store.

use std::time::Duration;

/// The limits of a store, and the settings of its bucket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlobOptions {
    /// Maximum bytes of a blob. At most this many times [`max_parallel`](Self::max_parallel) are in memory.
    pub max_bytes: u64,
    /// Maximum operations at a time. Others wait.
    pub max_parallel: usize,
    /// Maximum time of one operation with its retries, without the wait for a permit. In a sweep it applies to each
    /// blob.
    pub deadline: Duration,
    /// Maximum time of one request to a bucket, with its body.
    pub request_timeout: Duration,
    /// Maximum retries of a request to a bucket that failed temporarily. The pauses grow from 0.1 s to 2 s.
    pub retries: usize,
    /// The bucket's address and keys.
    #[cfg(feature = "s3")]
    pub s3: crate::blobs::S3Settings,
}

impl Default for BlobOptions {
    /// 64 MiB a blob, 16 operations at a time, a minute for each, 20 s a request, four retries, and the bucket of the
    /// environment.
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
            max_parallel: 16,
            deadline: Duration::from_secs(60),
            request_timeout: Duration::from_secs(20),
            retries: 4,
            #[cfg(feature = "s3")]
            s3: crate::blobs::S3Settings::from_env(),
        }
    }
}
