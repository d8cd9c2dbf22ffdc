//! Tool calls while they are being written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::MAX_REQUESTED_CALLS;

use super::names::Aliases;
use crate::secrets::{Masker, Secrets};
use loop_core::{Arguments, ToolCall};

/// The calls of one reply, in the order in which they began. The first [`MAX_REQUESTED_CALLS`] are read, the rest is counted.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Open>,
    unread: Unread,
    /// Whether an id had to be made, or made another.
    pub(crate) has_new_ids: bool,
    /// Whether calls that name no tool were left out.
    pub(crate) has_nameless: bool,
}

/// The calls that are not read. Of each only as much is kept as tells its pieces from the next call.
#[derive(Debug, Default)]
struct Unread {
    count: u32,
    /// By the place that the provider gives: the id of the last call there.
    last: BTreeMap<Option<u64>, String>,
}

impl Unread {
    /// Counts the call of a fragment, unless an earlier fragment began it.
    fn add(&mut self, id: &str, index: Option<u64>) {
        let is_known = self.last.get(&index).is_some_and(|last| match (id.is_empty(), last.is_empty()) {
            (false, false) => id == last,
            // The id of a call comes once, early or late.
            (_, true) | (true, false) => index.is_some(),
        });
        if !is_known {
            self.count = self.count.saturating_add(1);
        }
        if !is_known || !id.is_empty() {
            self.last.insert(index, id.to_owned());
        }
    }
}

/// One that is read.
#[derive(Debug)]
pub(crate) struct Open {
    /// Its place among the calls of the reply, as the provider numbers them.
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    masker: Masker,
    /// Whether its beginning was told.
    is_reported: bool,
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
        let begins = !std::mem::replace(&mut self.is_reported, true);
        let mut reported = self.masker.push(self.arguments.get(self.masked..).unwrap_or_default());
        self.masked = self.arguments.len();
        if is_over {
            let held = self.masker.finish();
            if !held.is_empty() {
                reported.to_mut().push_str(&held);
            }
        }
        (begins, reported)
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

    /// Whether no further call is read.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() >= MAX_REQUESTED_CALLS as usize
    }

    /// A call that is not read, of this id and at this place.
    pub(crate) fn leave(&mut self, id: &str, index: Option<u64>) {
        self.unread.add(id, index);
    }

    /// How many calls are not read.
    pub(crate) fn unread(&self) -> u32 {
        self.unread.count
    }

    /// A call that begins; `None` where it is not read. `id` and `index` tell it from the others then.
    pub(crate) fn add(&mut self, id: &str, index: Option<u64>, secrets: &Secrets) -> Option<usize> {
        if self.is_full() {
            self.leave(id, index);
            return None;
        }
        self.open.push(Open {
            index,
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
            masker: Masker::new(secrets),
            is_reported: false,
            masked: 0,
        });
        Some(self.open.len() - 1)
    }

    /// The calls that name a tool, in the order of their index, each with an id of its own. Secrets are masked.
    pub(crate) fn finish(&mut self, aliases: &Aliases, secrets: &Secrets) -> Vec<ToolCall> {
        let mut open = std::mem::take(&mut self.open);
        let all = open.len();
        open.retain(|call| !call.is_nameless());
        self.has_nameless = open.len() < all;
        open.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        let mut calls: Vec<ToolCall> = Vec::with_capacity(open.len());
        let mut taken: BTreeSet<Arc<str>> = BTreeSet::new();
        // By the id that was written: the number that the next call of the same id may have.
        let mut numbers: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for (nth, call) in open.into_iter().enumerate() {
            self.has_new_ids |= call.id.is_empty();
            let wire = match secrets.mask(&call.id) {
                wire if wire.is_empty() => format!("call_{}", nth + 1).into(),
                wire => wire,
            };
            let mut id: Arc<str> = (*wire).into();
            if taken.contains(&id) {
                self.has_new_ids = true;
                let again = numbers.entry(Arc::clone(&id)).or_insert(2);
                while taken.contains(&id) {
                    id = format!("{wire}-{again}").into();
                    *again += 1;
                }
            }
            taken.insert(Arc::clone(&id));
            let arguments = Arguments::from(secrets.mask_json(&call.arguments));
            calls.push(ToolCall { id, name: aliases.name(&secrets.mask(&call.name)), arguments });
        }
        calls
    }
}

/// The most bytes of a call's arguments. A reply that writes more is cut there.
pub(crate) const MAX_ARGUMENTS: usize = 1 << 20;
