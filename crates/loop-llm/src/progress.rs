//! What a call does before its reply begins: it waits for its turn, or for another try.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LlmErrorKind;

/// What happens to a call that has no reply yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallProgress {
    /// A try failed, and the call waits for the next one.
    Retrying {
        /// The next try of this request, from 2. Wrappers count by themselves: it is not the attempt of a run's call.
        next_try: u32,
        /// How long it waits.
        wait: Duration,
        /// How the last try failed.
        kind: LlmErrorKind,
        /// The failure in the provider's words.
        message: Arc<str>,
        /// Whether the failed try costs nothing.
        is_free: bool,
    },
    /// It waits for its turn behind a rate limit.
    Queued {
        /// How long at least, where that is known.
        wait: Option<Duration>,
    },
    /// The wait is over, and the request is sent.
    Sent,
}

/// Hears what a call waits for. It is not part of a request's value: all listeners are equal, and none is written.
#[derive(Clone, Default)]
pub struct ProgressListener(Option<Arc<Hear>>);

type Hear = dyn Fn(&CallProgress) + Send + Sync;

impl ProgressListener {
    /// A listener that calls `hear` at once, on the task of the call: `hear` must not block.
    pub fn new(hear: impl Fn(&CallProgress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Tells the listener, where there is one. For models and wrappers that wait before they send a request.
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
