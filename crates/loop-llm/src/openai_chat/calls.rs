//! Tool calls out of fragments, as many kinds of servers send them.

use std::sync::Arc;

use serde_json::Value;

use super::encode::Aliases;
use crate::call::{Arguments, ToolCall};

/// The calls of one reply, while they are being written.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Open>,
    last: Option<usize>,
    /// Bytes of ids, names and arguments that have come.
    pub(super) heard: usize,
    /// Whether two calls came under one id.
    pub(super) has_doubled_id: bool,
}

#[derive(Debug)]
struct Open {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// A reply that calls more, or with more, than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes one fragment.
    pub(super) fn push(&mut self, fragment: &Value) -> Result<(), TooMuch> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let function = fragment.get("function");
        let id = text(fragment.get("id"));
        let name = text(function.and_then(|function| function.get("name")));
        let index = fragment.get("index").and_then(Value::as_u64);
        let Some(at) = self.place(&id, &name, index)? else { return Ok(()) };
        self.heard += id.len() + name.len();
        self.last = Some(at);
        let Some(call) = self.open.get_mut(at) else { return Ok(()) };
        if call.id.is_empty() {
            call.id = id;
        }
        // A name may come late, or again in every fragment.
        if call.name.is_empty() {
            call.name = name;
        }
        let before = call.arguments.len();
        match function.and_then(|function| function.get("arguments")) {
            None | Some(Value::Null) => {}
            Some(Value::String(piece)) => call.arguments.push_str(piece),
            Some(whole) => call.arguments.push_str(&whole.to_string()),
        }
        self.heard += call.arguments.len() - before;
        if call.arguments.len() > MOST_ARGUMENTS {
            return Err(TooMuch);
        }
        Ok(())
    }

    /// The call that a fragment belongs to; a new one where it begins one.
    fn place(&mut self, id: &str, name: &str, index: Option<u64>) -> Result<Option<usize>, TooMuch> {
        let by_index = || index.and_then(|_| self.open.iter().rposition(|call| call.index == index));
        if !id.is_empty() {
            let here =
                self.open.iter().rposition(|call| call.id == id && (index.is_none() || call.index == index));
            if here.is_some() {
                return Ok(here);
            }
            let elsewhere = self.open.iter().rposition(|call| call.id == id);
            if elsewhere.is_some() && name.is_empty() {
                return Ok(elsewhere);
            }
            self.has_doubled_id |= elsewhere.is_some();
            // A call whose id comes after its first fragment.
            let unnamed = by_index().filter(|at| self.open.get(*at).is_some_and(|call| call.id.is_empty()));
            return match unnamed {
                Some(at) => Ok(Some(at)),
                None => self.add(index).map(Some),
            };
        }
        if index.is_some() {
            return match by_index() {
                Some(at) => Ok(Some(at)),
                None => self.add(index).map(Some),
            };
        }
        match self.last {
            Some(at) => Ok(Some(at)),
            None if !name.is_empty() => self.add(None).map(Some),
            None => Ok(None),
        }
    }

    fn add(&mut self, index: Option<u64>) -> Result<usize, TooMuch> {
        if self.open.len() == MOST_CALLS {
            return Err(TooMuch);
        }
        self.open.push(Open { index, id: String::new(), name: String::new(), arguments: String::new() });
        Ok(self.open.len() - 1)
    }

    /// The calls in the order of their index, each with an id of its own.
    pub(super) fn finish(&mut self, aliases: &Aliases) -> Vec<ToolCall> {
        let mut open = std::mem::take(&mut self.open);
        open.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        let mut calls: Vec<ToolCall> = Vec::with_capacity(open.len());
        for (nth, call) in open.into_iter().enumerate() {
            let wire = if call.id.is_empty() { format!("call_{}", nth + 1) } else { call.id };
            let mut id: Arc<str> = wire.as_str().into();
            let mut again = 2;
            while calls.iter().any(|other| other.id == id) {
                id = format!("{wire}-{again}").into();
                again += 1;
            }
            let arguments = Arguments::read(call.arguments);
            calls.push(ToolCall { id, name: aliases.name(&call.name), arguments });
        }
        calls
    }
}

/// The most calls of a reply.
const MOST_CALLS: usize = 128;
/// The most bytes of a call's arguments.
const MOST_ARGUMENTS: usize = 1 << 20;
