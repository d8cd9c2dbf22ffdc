//! The limits of a store.

use std::time::Duration;

/// The limits of a store, and the settings of its bucket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlobOptions {
    /// Maximum bytes of a blob, put or got. At most so many times [`max_parallel`](Self::max_parallel) are in memory.
    pub max_bytes: u64,
    /// Maximum operations at a time. Others wait.
    pub max_parallel: usize,
    /// Maximum time of one operation with its retries, without the wait for its turn. A sweep has it for each blob.
    pub deadline: Duration,
    /// Maximum time of one request to a bucket, with its body.
    pub request_timeout: Duration,
    /// Maximum retries of a request to a bucket that failed for now. The pauses between them grow from 0.1 s to 2 s.
    pub retries: usize,
    /// Where the bucket is, and its keys.
    #[cfg(feature = "s3")]
    pub s3: crate::blobs::S3Settings,
}

impl Default for BlobOptions {
    /// 64 MiB, 16 at a time, a minute, 20 s a request, four retries, and the bucket of the environment.
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
