//! Progress of a call before its reply begins: rate limits and retries.

use loop_core::types::FailureKind;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Progress of a call that has no reply yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallProgress {
    /// An attempt failed, and the call waits for the next one.
    Retrying {
        /// The number of the next attempt of this request, from 2. Wrappers count by themselves: it is not the attempt of
        /// a run's call.
        next_try: u32,
        /// The delay before it.
        wait: Duration,
        /// The kind of the last error.
        kind: FailureKind,
        /// The HTTP status of the last error. `None`: it had none.
        status: Option<u16>,
        /// The message of the last error.
        message: Arc<str>,
        /// Whether the failed attempt costs nothing.
        is_free: bool,
    },
    /// The call waits for a rate limit.
    Queued {
        /// The minimum wait, if known.
        wait: Option<Duration>,
    },
    /// The wait is over, and the request is sent.
    Sent,
}

/// Listens to the progress of a call. It is not part of a request's value: all listeners are equal, and none is
/// serialized.
#[derive(Clone, Default)]
pub struct ProgressListener(Option<Arc<ProgressFn>>);

type ProgressFn = dyn Fn(&CallProgress) + Send + Sync;

impl ProgressListener {
    /// A listener whose function is called synchronously, on the task of the call: it must not block.
    pub fn new(hear: impl Fn(&CallProgress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Notifies the listener, if there is one. For models and wrappers that wait before they send a request.
    pub fn tell(&self, progress: &CallProgress) {
        if let Some(hear) = &self.0 {
            hear(progress);
        }
    }
}

impl PartialEq for ProgressListener {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for ProgressListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressListener")
    }
}
