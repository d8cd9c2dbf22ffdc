//! What is kept of a conversation's encoded turns.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::turns::Turn;
use crate::request::Message;

/// What encoders keep of the turns of one conversation, so that each turn is encoded once.
///
/// Clones share it. It is no part of a request's value: all memories are equal, and none is written down. A memory of
/// another conversation, profile or model is noticed and not used.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Option<Kept>>>);

/// Turns as one codec wrote them for one model.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What they are kept under.
    pub(crate) key: Arc<str>,
    /// Each turn as it was given.
    pub(crate) messages: Vec<Message>,
    /// What each became.
    pub(crate) turns: Vec<Turn>,
    /// All of them as they stand in a body: from what opens the first on, without what closes the last. A body on its way
    /// holds it too; when that is sent, what comes next is added to it in place.
    pub(crate) json: Arc<Vec<u8>>,
}

impl Memory {
    /// Takes out what is kept under `key`; whoever comes in between finds nothing and encodes anew.
    pub(crate) fn take(&self, key: &str) -> Option<Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|kept| *kept.key == *key)
    }

    /// Keeps turns, unless more of them are kept already.
    pub(crate) fn put(&self, kept: Kept) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_more =
            slot.as_ref().is_none_or(|other| other.key != kept.key || other.turns.len() <= kept.turns.len());
        if is_more {
            *slot = Some(kept);
        }
    }
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
