//! Tool calls during streaming.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::secrets::{Masker, Secrets};
use loop_core::spec::MAX_REQUESTED_CALLS;
use serde_json::value::RawValue;

use super::names::Aliases;
use loop_core::types::{Arguments, ToolCall};

/// The calls of one reply, in the order in which they began. The first [`MAX_REQUESTED_CALLS`] are parsed, the rest is
/// counted.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<OpenCall>,
    unread: Unread,
    /// Whether an id was missing or repeated, and was replaced.
    pub(crate) has_new_ids: bool,
    /// Whether calls without a tool name were dropped.
    pub(crate) has_nameless: bool,
}

/// The calls above the maximum. Only the last id of each index is kept, which tells a fragment from the next call.
#[derive(Debug, Default)]
struct Unread {
    count: u32,
    /// By the provider's index: the id of the last call.
    last: BTreeMap<Option<u64>, String>,
}

impl Unread {
    /// Counts the call of a fragment, unless an earlier fragment counted it.
    fn add(&mut self, id: &str, index: Option<u64>) {
        let is_known = self.last.get(&index).is_some_and(|last| match (id.is_empty(), last.is_empty()) {
            (false, false) => id == last,
            // The id of a call is sent once, early or late.
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

/// A call that is parsed.
#[derive(Debug)]
pub(crate) struct OpenCall {
    /// Its index among the calls of the reply, as the provider numbers them.
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: String,
    masker: Masker,
    /// Whether its beginning was reported.
    is_reported: bool,
    /// How many bytes of its arguments were passed to the masker.
    masked: usize,
    /// Whether its completion was reported, or must not be, because its arguments were replaced.
    is_settled: bool,
    /// Whether its fragments each begin it again. `None` until one does.
    begins_again: Option<bool>,
}

impl OpenCall {
    /// Whether the tool name is missing: the call is neither reported nor run.
    pub(crate) fn is_nameless(&self) -> bool {
        self.name.chars().all(char::is_whitespace)
    }

    /// Whether no arguments were received, or an empty object in their place.
    fn has_no_arguments(&self) -> bool {
        matches!(self.arguments.trim(), "" | "{}")
    }

    /// Whether a fragment that begins a call of this tool where this one is goes on with it, because its arguments were
    /// not whole when the first such fragment came.
    pub(crate) fn goes_on(&mut self, name: &str) -> bool {
        let is_open = || serde_json::from_str::<&RawValue>(&self.arguments).is_err();
        (name.is_empty() || *name == *self.name) && *self.begins_again.get_or_insert_with(is_open)
    }

    /// Whether its beginning was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// The name in the request of the tool that it calls. A secret in it is masked.
    pub(crate) fn reported_name(&self, aliases: &Aliases, secrets: &Secrets) -> Arc<str> {
        match secrets.mask(&self.name) {
            // Nothing is cut off a text that holds no secret.
            Cow::Borrowed(name) if name.len() == self.name.len() => aliases.shared_name(&self.name),
            name => aliases.name(&name),
        }
    }

    /// Whether its completion is to be reported. It is reported once.
    pub(crate) fn completes(&mut self) -> bool {
        !self.is_nameless() && !std::mem::replace(&mut self.is_settled, true)
    }

    /// The reported fragments are not its arguments, so its completion is not reported.
    pub(crate) fn is_replaced(&mut self) {
        self.is_settled = true;
    }

    /// What can be reported now: whether the call begins, once its name is known, and the next fragment of its arguments.
    ///
    /// Arguments whose names are aliases are reported in one piece: an alias may be cut anywhere.
    pub(crate) fn news(&mut self, is_over: bool, aliases: &Aliases) -> (bool, Cow<'_, str>) {
        if self.is_nameless() {
            return (false, "".into());
        }
        let begins = !std::mem::replace(&mut self.is_reported, true);
        let mut reported = match aliases.parameters(&self.name) {
            None => {
                let from = std::mem::replace(&mut self.masked, self.arguments.len());
                self.masker.push(self.arguments.get(from..).unwrap_or_default())
            }
            Some(names) if is_over && self.masked == 0 => {
                self.masked = self.arguments.len();
                self.masker.push(&names.own(&self.arguments)).into_owned().into()
            }
            Some(_) => Cow::default(),
        };
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

    /// Whether a call has a tool name.
    pub(crate) fn has_named(&self) -> bool {
        self.open.iter().any(|call| !call.is_nameless())
    }

    pub(crate) fn open(&self) -> &[OpenCall] {
        &self.open
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut OpenCall> {
        self.open.get_mut(at)
    }

    /// Whether the maximum number of calls is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() >= MAX_REQUESTED_CALLS as usize
    }

    /// Counts a call above the maximum.
    pub(crate) fn leave(&mut self, id: &str, index: Option<u64>) {
        self.unread.add(id, index);
    }

    /// How many calls are above the maximum.
    pub(crate) fn unread(&self) -> u32 {
        self.unread.count
    }

    /// Adds a call. `None` above the maximum, where `id` and `index` tell it from other calls.
    pub(crate) fn add(&mut self, id: &str, index: Option<u64>, secrets: &Secrets) -> Option<usize> {
        if self.is_full() {
            self.leave(id, index);
            return None;
        }
        self.open.push(OpenCall {
            index,
            id: String::new(),
            name: Arc::default(),
            arguments: String::new(),
            masker: Masker::new(secrets),
            is_reported: false,
            masked: 0,
            is_settled: false,
            begins_again: None,
        });
        Some(self.open.len() - 1)
    }

    /// Gives arguments without a call to the call that began last before them, if it has none. False where such
    /// arguments are left and another call lacks its own, so that they may belong to that one.
    pub(crate) fn adopt(&mut self) -> bool {
        let mut last: Option<usize> = None;
        let mut is_left = false;
        for at in 0..self.open.len() {
            let Some(call) = self.open.get_mut(at) else { break };
            if !call.is_nameless() {
                last = Some(at);
                continue;
            }
            if call.has_no_arguments() {
                continue;
            }
            let arguments = std::mem::take(&mut call.arguments);
            match last.and_then(|last| self.open.get_mut(last)).filter(|call| call.has_no_arguments()) {
                Some(call) => {
                    // Nothing of a placeholder that was reported can be taken back.
                    if !call.arguments.is_empty() {
                        call.is_replaced();
                        call.masked = arguments.len();
                    }
                    call.arguments = arguments;
                }
                None => is_left = true,
            }
        }
        !(is_left && self.open.iter().any(|call| !call.is_nameless() && call.has_no_arguments()))
    }

    /// The calls with a tool name, in the order of their index, each with a unique id. Secrets are masked.
    pub(crate) fn finish(&mut self, aliases: &Aliases, secrets: &Secrets) -> Vec<ToolCall> {
        let mut open = std::mem::take(&mut self.open);
        let all = open.len();
        open.retain(|call| !call.is_nameless());
        self.has_nameless = open.len() < all;
        open.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        let mut calls: Vec<ToolCall> = Vec::with_capacity(open.len());
        // By the id that the provider wrote: the next number to make it unique.
        let mut numbers: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for (nth, call) in open.into_iter().enumerate() {
            self.has_new_ids |= call.id.is_empty();
            let wire = match secrets.mask(&call.id) {
                wire if wire.is_empty() => format!("call_{}", nth + 1).into(),
                wire => wire,
            };
            let mut id: Arc<str> = (*wire).into();
            // There are at most `MAX_REQUESTED_CALLS` of them.
            let is_taken = |id: &Arc<str>| calls.iter().any(|call| call.id == *id);
            if is_taken(&id) {
                self.has_new_ids = true;
                let again = numbers.entry(Arc::clone(&id)).or_insert(2);
                while is_taken(&id) {
                    id = format!("{wire}-{again}").into();
                    *again += 1;
                }
            }
            let own = aliases
                .parameters(&call.name)
                .map_or(Cow::Borrowed(&*call.arguments), |names| names.own(&call.arguments));
            let arguments = Arguments::from(secrets.mask_json(&own));
            calls.push(ToolCall { id, name: call.reported_name(aliases, secrets), arguments });
        }
        calls
    }
}

/// Maximum bytes of a call's arguments. The reply is cut there.
pub(crate) const MAX_ARGUMENTS: usize = 1 << 20;
