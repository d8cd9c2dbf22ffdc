//! Tool calls while they are being written.

use std::borrow::Cow;
use std::sync::Arc;

use super::names::Aliases;
use crate::call::{Arguments, ToolCall};
use crate::error::LlmError;
use crate::secrets::{Masker, Secrets};

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Open>,
    /// Whether an id had to be made, or made another.
    pub(crate) has_new_ids: bool,
    /// Whether calls that name no tool were left out.
    pub(crate) has_nameless: bool,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Open {
    /// Its place among the calls of the reply, as the provider numbers them.
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    masker: Masker,
    /// Whether its beginning was told.
    is_told: bool,
    /// How many bytes of its arguments went to the masker.
    masked: usize,
}

impl Open {
    /// Whether it names no tool: nothing of it is told, and it is not run.
    pub(crate) fn is_nameless(&self) -> bool {
        self.name.trim().is_empty()
    }

    /// What can be told of it now: whether it begins, once its name is known, and more of its arguments.
    pub(crate) fn news(&mut self, is_over: bool) -> (bool, Cow<'_, str>) {
        if self.is_nameless() {
            return (false, "".into());
        }
        let begins = !std::mem::replace(&mut self.is_told, true);
        let mut told = self.masker.push(self.arguments.get(self.masked..).unwrap_or_default());
        self.masked = self.arguments.len();
        if is_over {
            let held = self.masker.finish();
            if !held.is_empty() {
                told.to_mut().push_str(&held);
            }
        }
        (begins, told)
    }
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether one of them names a tool.
    pub(crate) fn has_named(&self) -> bool {
        self.open.iter().any(|call| !call.is_nameless())
    }

    pub(crate) fn open(&self) -> &[Open] {
        &self.open
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Open> {
        self.open.get_mut(at)
    }

    pub(crate) fn add(&mut self, index: Option<u64>, secrets: &Secrets) -> Result<usize, LlmError> {
        if self.open.len() == MOST_CALLS {
            return Err(too_much());
        }
        self.open.push(Open {
            index,
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
            masker: Masker::new(secrets),
            is_told: false,
            masked: 0,
        });
        Ok(self.open.len() - 1)
    }

    /// The calls that name a tool, in the order of their index, each with an id of its own. Secrets are masked.
    pub(crate) fn finish(&mut self, aliases: &Aliases, secrets: &Secrets) -> Vec<ToolCall> {
        let mut open = std::mem::take(&mut self.open);
        let all = open.len();
        open.retain(|call| !call.is_nameless());
        self.has_nameless = open.len() < all;
        open.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        let mut calls: Vec<ToolCall> = Vec::with_capacity(open.len());
        for (nth, call) in open.into_iter().enumerate() {
            self.has_new_ids |= call.id.is_empty();
            let wire = match secrets.mask(&call.id) {
                wire if wire.is_empty() => format!("call_{}", nth + 1).into(),
                wire => wire,
            };
            let mut id: Arc<str> = (*wire).into();
            let mut again = 2;
            while calls.iter().any(|other| other.id == id) {
                id = format!("{wire}-{again}").into();
                again += 1;
                self.has_new_ids = true;
            }
            let arguments = Arguments::read(secrets.mask_json(&call.arguments));
            calls.push(ToolCall { id, name: aliases.name(&secrets.mask(&call.name)), arguments });
        }
        calls
    }
}

/// A reply that calls more, or with more, than it may.
pub(crate) fn too_much() -> LlmError {
    LlmError::unreadable("the reply calls more than 128 tools, or one with more than 1 MiB")
}

/// The most calls of a reply.
const MOST_CALLS: usize = 128;
/// The most bytes of a call's arguments.
pub(crate) const MOST_ARGUMENTS: usize = 1 << 20;
