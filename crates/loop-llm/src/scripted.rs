//! A model that replies from a list, for tests and demonstrations.
//!
//! A script is JSON: `{"version": 1, "replies": [{"for": "main", "text": "…"}, …]}`. Replies are used in order. One with
//! `for` waits for a call of that purpose, one without matches any call. `{{nonce}}` in a text becomes the nonce of the
//! prompt. A run that is resumed continues at the reply behind those that its journal has, whichever process received them.
//! A reply with tool calls has `"calls": [{"name": "…", "arguments": {…}}]`. `reasoning` and `raw` are what a
//! provider expects back.

mod reply;
mod requested;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, Slot, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{LlmError, Partial};
use crate::model::{ChatModel, EventStream, ModelReply, Timing, pieces_of, stream_of};
use crate::raw::Raw;
use crate::request::{Message, ModelRequest};

pub use reply::{ScriptedCall, ScriptedReply};
use requested::Requests;

/// The version of the script format that this crate reads.
const VERSION: u32 = 1;

/// A model that replies from a list.
#[derive(Debug)]
pub struct Scripted {
    list: Mutex<List>,
    requested: Mutex<Requests>,
    timing: Timing,
}

/// The replies by their place in the script.
#[derive(Debug, Default)]
struct List {
    left: BTreeMap<usize, ScriptedReply>,
    /// Those that were given, with the run and the purpose of the call.
    given: Vec<(Arc<str>, RequestPurpose, usize, ScriptedReply)>,
}

impl List {
    /// The next reply to a call of this purpose, which `run` makes.
    fn take(&mut self, run: Arc<str>, purpose: RequestPurpose) -> Option<ScriptedReply> {
        let fits = |reply: &ScriptedReply| reply.purpose.is_none_or(|wanted| wanted == purpose);
        let at = *self.left.iter().find(|(_, reply)| fits(reply))?.0;
        let reply = self.left.remove(&at)?;
        self.given.push((run, purpose, at, reply.clone()));
        Some(reply)
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// Selecting tools.
    Select,
    /// Analysing, refining, final pass; any turn of a conversation.
    Main,
    /// Asking for a contract block again.
    Repair,
    /// Filtering a smart tool's results.
    Filter,
    /// Asking a second model about a document.
    Opinion,
}

impl From<Slot> for RequestPurpose {
    fn from(slot: Slot) -> Self {
        match slot {
            Slot::Select => Self::Select,
            Slot::Repair => Self::Repair,
            Slot::Check => Self::Opinion,
            Slot::Main | Slot::Final | Slot::Action(_) | Slot::Save | Slot::Inherited(_) => Self::Main,
        }
    }
}

impl RequestPurpose {
    /// The purpose of a request, as its caller sets it in [`RequestMeta::purpose`](crate::request::RequestMeta). Without
    /// one it is a main call: no wording decides.
    pub fn of(request: &ModelRequest) -> Self {
        request.meta.purpose.unwrap_or(Self::Main)
    }
}

/// A text that is not a script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// Not JSON of the script format.
    #[error("not a script: {0}")]
    Invalid(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("script version {found} cannot be read; this program reads version {VERSION}")]
    OtherVersion {
        /// The version of the script.
        found: u32,
    },
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `version` and `replies`")]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(rename = "version")]
    _version: u32,
    replies: Vec<ScriptedReply>,
}

impl Scripted {
    /// A model with these replies, in order.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        reply::number(&mut replies);
        let list = List { left: replies.into_iter().enumerate().collect(), given: Vec::new() };
        Self { list: Mutex::new(list), requested: Mutex::default(), timing: Timing::default() }
    }

    /// A model with these texts, in order, for calls of any purpose.
    pub fn replies<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(texts.into_iter().map(ScriptedReply::text))
    }

    /// The model of a script.
    ///
    /// # Errors
    /// The text is not a script, or its version is unknown.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        // Other versions may have other members: the version is parsed first.
        let Version { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(ScriptError::OtherVersion { found: version });
        }
        let script: Script = serde_json::from_str(text)?;
        Ok(Self::new(script.replies))
    }

    /// The same model with delays between lines.
    pub fn paced(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// All requests in order, including those without a reply.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).requests()
    }

    /// The number of replies that are left.
    pub fn left(&self) -> usize {
        self.list().left.len()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChatModel for Scripted {
    /// Skips what the run received from another process, and takes back what was given to it and is not journaled.
    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        let (mut list, mut open) = (self.list(), answered.to_vec());
        for (of, purpose, at, reply) in std::mem::take(&mut list.given) {
            let journaled = open.iter().position(|of| *of == purpose);
            match journaled {
                _ if *of != *run => list.given.push((of, purpose, at, reply)),
                Some(journaled) => {
                    open.remove(journaled);
                    list.given.push((of, purpose, at, reply));
                }
                None => drop(list.left.insert(at, reply)),
            }
        }
        for purpose in open {
            list.take(run.into(), purpose);
        }
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let purpose = RequestPurpose::of(request);
        let taken = self.list().take(Arc::clone(&request.meta.run), purpose);
        let Some(scripted) = taken else {
            let message = format!("the script has no reply left for a {purpose:?} call").to_lowercase();
            return Err(LlmError::unsendable(FailureKind::ScriptExhausted, message));
        };
        if scripted.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(scripted.delay_ms)).await;
        }
        let text: Arc<str> = scripted.text.replace("{{nonce}}", nonce_of(request).unwrap_or_default()).into();
        let mut reply = ModelReply::text(text, None);
        reply.tool_calls = scripted.tool_calls();
        reply.reasoning = scripted.reasoning.into();
        reply.raw =
            scripted.raw.map(|raw| Raw::new(&format!("scripted/script/{}", request.model), &raw.to_string()));
        let ends = if reply.tool_calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
        reply.finish = scripted.finish.unwrap_or(ends);
        reply.stop = Some(reply.finish.into());
        if !scripted.no_usage {
            reply.usage = Some(scripted.usage.unwrap_or_else(|| estimated(request, &reply)));
        }
        match scripted.fails {
            Some(message) => Ok(broken_off(&reply, message)),
            None => Ok(stream_of(reply, self.timing)),
        }
    }
}

/// All deltas of the reply, and then an error.
fn broken_off(reply: &ModelReply, message: String) -> EventStream {
    let mut error = LlmError::in_stream(FailureKind::StreamInterrupted, message);
    let (text, reasoning) = (Arc::clone(&reply.text), Arc::clone(&reply.reasoning));
    error.partial = Some(Partial { text, reasoning, usage: reply.usage, ..Partial::default() }.into());
    let stated: Vec<_> = pieces_of(reply).map(Ok).chain([Err(error)]).collect();
    futures::stream::iter(stated).boxed()
}

/// Estimated tokens of a call, one for four bytes, as is usual for English text.
pub fn estimated(request: &ModelRequest, reply: &ModelReply) -> Usage {
    let calls = reply.tool_calls.iter().map(|call| call.name.len() + call.arguments.text().len());
    Usage {
        input: request.bytes().div_ceil(4) as u64,
        output: (reply.text.len() + calls.sum::<usize>()).div_ceil(4) as u64,
        reasoning: reply.reasoning.len().div_ceil(4) as u64,
        ..Usage::default()
    }
}

/// Whether a request is a turn of a conversation with native tools: it has tools or their results.
pub fn has_tools(request: &ModelRequest) -> bool {
    let is_result = |message: &Message| matches!(message, Message::Tool { .. });
    !request.tools.is_empty() || request.messages.iter().any(is_result)
}

/// The rules in the system prompt: the text before the evidence, in the layout that puts evidence there.
pub(crate) fn rules_of(request: &ModelRequest) -> &str {
    request.system.split("\n## Evidence\n").next().unwrap_or_default()
}

/// The nonce that a prompt names: a main prompt in its first turn, a repair prompt in its rules. `None` if there is none.
pub fn nonce_of(request: &ModelRequest) -> Option<&str> {
    let first = request.messages.first().map_or("", |message| message.text());
    let (text, before) = match RequestPurpose::of(request) {
        RequestPurpose::Repair => (rules_of(request), "\"nonce\": \""),
        RequestPurpose::Opinion => (rules_of(request), "The line begins with the nonce `"),
        RequestPurpose::Select | RequestPurpose::Main | RequestPurpose::Filter => {
            (first, "The nonce of this run is `")
        }
    };
    let (_, after) = text.split_once(before)?;
    after.split(['`', '"', '\n']).next()
}
