//! Limits on requests that stream events: for one caller, and in total.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most event streams of one caller at a time.
pub(super) const MAX_READERS_OF_ONE: usize = 64;
/// The most event streams at a time. It is half of the connections of one address, so that short requests get through
/// even if all callers have one address.
pub(super) const MAX_READERS: usize = 256;

/// The number of open event streams of each caller.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<HashMap<Arc<str>, usize>>);

/// The permit of one event stream.
#[derive(Debug)]
pub(super) struct ReaderPlace {
    readers: Arc<Readers>,
    of: Arc<str>,
}

impl Readers {
    /// A permit for another stream of this caller. `None`: there are too many.
    pub(super) fn take(readers: &Arc<Self>, of: &Arc<str>) -> Option<ReaderPlace> {
        let mut taken = readers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(of).copied().unwrap_or_default();
        if own >= MAX_READERS_OF_ONE || taken.values().sum::<usize>() >= MAX_READERS {
            return None;
        }
        taken.insert(Arc::clone(of), own + 1);
        drop(taken);
        Some(ReaderPlace { readers: Arc::clone(readers), of: Arc::clone(of) })
    }
}

impl Drop for ReaderPlace {
    fn drop(&mut self) {
        let mut taken = self.readers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}
