//! The cache of a conversation's encoded turns.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::turns::Turn;
use crate::request::Message;

/// The cache of the encoded turns of one conversation, so that each turn is encoded once.
///
/// Clones share it. It is not part of a request's value: all memories are equal, and none is serialized. The cache of
/// another conversation, profile or model is recognised and not used.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Option<EncodedTurns>>>);

/// Turns that one codec encoded for one model.
#[derive(Debug, Default)]
pub(crate) struct EncodedTurns {
    /// The cache key.
    pub(crate) key: Arc<str>,
    /// The turns before encoding.
    pub(crate) messages: Vec<Message>,
    /// The encoded turns.
    pub(crate) turns: Vec<Turn>,
    /// The bytes of all turns, from the text that opens the first, without the text that closes the last. A body that is
    /// being sent shares them; after that, new turns are appended in place.
    pub(crate) json: Arc<Vec<u8>>,
}

impl Memory {
    /// Takes the turns with this `key` out. A concurrent request finds none and encodes all turns.
    pub(crate) fn take(&self, key: &str) -> Option<EncodedTurns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|kept| *kept.key == *key)
    }

    /// Keeps these turns, unless more turns are cached already.
    pub(crate) fn put(&self, kept: EncodedTurns) {
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
