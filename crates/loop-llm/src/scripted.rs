//! A model that replies from a list: for tests and demonstrations.
//!
//! A script is JSON: `{"version": 1, "replies": [{"for": "main", "text": "…"}, …]}`. Replies are taken in order;
//! one with `for` waits for a call of that purpose, one without serves any. `{{nonce}}` in a text becomes the nonce
//! that the prompt names.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::{FinishReason, Usage};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorPhase, LlmError, LlmErrorKind, Partial};
use crate::model::{ChatModel, EventStream, ModelEvent, ModelReply, Timing, stream_of};
use crate::request::ModelRequest;

/// The version of the script format that this crate reads.
const VERSION: u32 = 1;

/// A model that replies from a list.
#[derive(Debug)]
pub struct Scripted {
    replies: Mutex<Vec<ScriptedReply>>,
    timing: Timing,
}

/// One scripted reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    /// The purpose that it waits for; any where it is not given.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// What it says.
    pub text: String,
    /// Why it ends; `end_turn` where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
    /// Tokens as reported; a quarter of the bytes where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the provider says nothing of tokens.
    pub no_usage: bool,
    /// It fails after its text, with this message, as a stream that breaks off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// Milliseconds before it begins.
    pub delay_ms: u64,
}

/// What a call is for, as its prompt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Picking tools.
    Pick,
    /// Analysing, refining, landing.
    Main,
    /// Asking for a contract block again.
    Repair,
    /// Filtering a smart tool's results.
    Filter,
}

impl Purpose {
    /// The purpose of a request, by the words that the built-in system prompts begin with.
    ///
    /// Evidence in a system prompt is not read: a tool's text does not decide what a call is for.
    pub fn of(request: &ModelRequest) -> Self {
        let system = rules_of(request);
        if system.contains("You select data-gathering tools") {
            Self::Pick
        } else if system.contains("You are filtering results") {
            Self::Filter
        } else if system.contains("came without a readable contract block") {
            Self::Repair
        } else {
            Self::Main
        }
    }
}

/// A text that is no script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It is not JSON of the agreed form.
    #[error("not a script: {0}")]
    Invalid(#[from] serde_json::Error),
    /// It is of another version.
    #[error("script version {found} cannot be read; this program reads version {VERSION}")]
    OtherVersion {
        /// What it says.
        found: u32,
    },
}

#[derive(Deserialize)]
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
    /// A model that gives `replies` in order.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self { replies: Mutex::new(replies.into_iter().collect()), timing: Timing::default() }
    }

    /// A model that gives texts in order, to calls of any purpose.
    pub fn replies<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(
            texts.into_iter().map(|text| ScriptedReply { text: text.into(), ..ScriptedReply::default() }),
        )
    }

    /// The model that a script describes.
    ///
    /// # Errors
    /// When the text is no script, or one of another version.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        // A later version may have other members: its number is read first.
        let Version { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(ScriptError::OtherVersion { found: version });
        }
        let script: Script = serde_json::from_str(text)?;
        Ok(Self::new(script.replies))
    }

    /// The same model with pauses between lines.
    pub fn paced(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    fn take(&self, purpose: Purpose) -> Option<ScriptedReply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let at = replies.iter().position(|reply| reply.purpose.is_none_or(|wanted| wanted == purpose))?;
        Some(replies.remove(at))
    }
}

#[async_trait]
impl ChatModel for Scripted {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let purpose = Purpose::of(request);
        let Some(scripted) = self.take(purpose) else {
            let message = format!("the script has no reply left for a {purpose:?} call").to_lowercase();
            return Err(LlmError::new(LlmErrorKind::ScriptExhausted, ErrorPhase::Encode, message));
        };
        if scripted.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(scripted.delay_ms)).await;
        }
        let text: Arc<str> = scripted.text.replace("{{nonce}}", nonce_of(request).unwrap_or_default()).into();
        let estimated = Usage {
            input: request.bytes().div_ceil(4) as u64,
            output: text.len().div_ceil(4) as u64,
            ..Usage::default()
        };
        let usage = if scripted.no_usage { None } else { Some(scripted.usage.unwrap_or(estimated)) };
        if let Some(message) = scripted.fails {
            let mut error = LlmError::new(LlmErrorKind::StreamInterrupted, ErrorPhase::Stream, message);
            error.partial = Some(Partial { text: Arc::clone(&text), usage, ..Partial::default() }.into());
            let delta = Ok(ModelEvent::TextDelta { text });
            return Ok(futures::stream::iter([delta, Err(error)]).boxed());
        }
        let mut reply = ModelReply::text(text, usage);
        reply.finish = scripted.finish.unwrap_or(FinishReason::EndTurn);
        Ok(stream_of(reply, self.timing))
    }
}

/// The rules in the system prompt: what stands before the evidence, in the layout that puts evidence there.
pub(crate) fn rules_of(request: &ModelRequest) -> &str {
    request.system.split("\n## Evidence\n").next().unwrap_or_default()
}

/// The nonce that the prompt names: a main prompt in its first turn, a repair prompt in its rules.
pub(crate) fn nonce_of(request: &ModelRequest) -> Option<&str> {
    let first = request.messages.first().map_or("", |message| message.text());
    let (text, before) = match Purpose::of(request) {
        Purpose::Repair => (rules_of(request), "\"nonce\": \""),
        Purpose::Pick | Purpose::Main | Purpose::Filter => (first, "The nonce of this run is `"),
    };
    let (_, after) = text.split_once(before)?;
    after.split(['`', '"', '\n']).next()
}
