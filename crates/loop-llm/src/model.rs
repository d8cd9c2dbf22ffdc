//! The trait that every model has, and what comes out of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use loop_core::{FinishReason, PicoUsd, ToolCall, Usage};
use serde::{Deserialize, Serialize};

use crate::call::{Filtered, ReplyEnd};
use crate::cap::OutputCap;
use crate::error::{ErrorPhase, LlmError, LlmErrorKind};
use crate::raw::Raw;
use crate::request::{AssistantTurn, Message, ModelRequest};
use crate::secrets::Secrets;

/// A model that can be talked to. Streaming first: whole replies are drained streams.
///
/// Dropping the stream ends the call.
#[async_trait]
pub trait ChatModel: Send + Sync + fmt::Debug {
    /// Starts a call.
    ///
    /// The stream ends with exactly one [`ModelEvent::Finished`], or with exactly one error.
    ///
    /// # Errors
    /// What failed before the first byte of a reply.
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError>;

    /// The credentials that it uses. A run takes them out of everything that it reads, journals, saves and shows. A model
    /// that wraps another gives those of the other.
    fn secrets(&self) -> Secrets {
        Secrets::default()
    }
}

/// The events of one call, in order.
pub type EventStream = BoxStream<'static, Result<ModelEvent, LlmError>>;

/// Something that a model said while it was replying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ModelEvent {
    /// The provider has begun.
    Started {
        /// The provider's id of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Arc<str>>,
        /// The model that really serves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Arc<str>>,
    },
    /// A piece of visible text.
    TextDelta {
        /// It follows what came before without a gap.
        text: Arc<str>,
    },
    /// A piece of reasoning.
    ReasoningDelta {
        /// It follows what came before without a gap.
        text: Arc<str>,
    },
    /// A call has begun. It may be run once the whole reply is there, and not before.
    ToolCallStarted {
        /// Which one, from 0, in the order in which they began.
        nth: u32,
        /// The tool's name as the request gave it.
        name: Arc<str>,
    },
    /// A piece of a call's arguments.
    ToolArgumentsDelta {
        /// Which call.
        nth: u32,
        /// It follows what came before of this call without a gap.
        text: Arc<str>,
    },
    /// Tokens so far; replaces the one before.
    Usage(Usage),
    /// Nothing but a sign of life.
    KeepAlive,
    /// The whole reply: once, and last.
    Finished(Box<ModelReply>),
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The visible text, without a refusal's words.
    pub text: Arc<str>,
    /// Why the model ended.
    pub finish: FinishReason,
    /// Tokens; `None` where the provider does not say.
    pub usage: Option<Usage>,
    /// The cost where the provider itself reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// The model that really served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// The class of service that really served, in the provider's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_tier: Option<Arc<str>>,
    /// The provider's own turn, where text and calls do not say all that has to go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
    /// What was not as it should be, and was borne.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
    /// The tools that it wants run, in order; complete ones alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// How many tools more it wants run: what comes after the first 128 is counted and not read.
    #[serde(default, skip_serializing_if = "crate::request::is_default")]
    pub unread_calls: u32,
    /// The words of a refusal, where the provider marks them as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Arc<str>>,
    /// What it reasoned, as far as the provider shows it.
    #[serde(default = "nothing", skip_serializing_if = "str::is_empty")]
    pub reasoning: Arc<str>,
    /// Why it ended, more finely than `finish`; `None` where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<ReplyEnd>,
    /// More on why: the category of a refusal or a filter, the text at which it ended, what is wrong with a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_detail: Option<Arc<str>>,
    /// Where a filter stopped it: which side of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<Filtered>,
    /// The provider's own word for why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop: Option<Arc<str>>,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Arc<str>>,
    /// The provider's id of the exchange, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
}

fn nothing() -> Arc<str> {
    Arc::default()
}

impl ModelReply {
    /// A reply that ended by itself.
    pub fn text(text: impl Into<Arc<str>>, usage: Option<Usage>) -> Self {
        Self {
            text: text.into(),
            finish: FinishReason::EndTurn,
            usage,
            cost: None,
            served_model: None,
            served_tier: None,
            raw: None,
            warnings: Vec::new(),
            tool_calls: Vec::new(),
            unread_calls: 0,
            refusal: None,
            reasoning: Arc::default(),
            stop: None,
            stop_detail: None,
            filtered: None,
            raw_stop: None,
            reply: None,
            request: None,
        }
    }

    /// The reply as a turn of the history.
    pub fn turn(&self) -> Message {
        Message::Assistant(AssistantTurn {
            text: Arc::clone(&self.text),
            calls: self.tool_calls.clone(),
            reasoning: Arc::clone(&self.reasoning),
            raw: self.raw.clone(),
        })
    }

    /// Bytes of text, reasoning and calls.
    pub fn bytes(&self) -> u64 {
        let calls = self.tool_calls.iter().map(|call| call.name.len() + call.arguments.text().len());
        let refusal = self.refusal.as_ref().map_or(0, |refusal| refusal.len());
        (self.text.len() + refusal + self.reasoning.len() + calls.sum::<usize>()) as u64
    }

    /// The visible text, or the words of a refusal where there is no other.
    pub fn shown(&self) -> &Arc<str> {
        self.refusal.as_ref().filter(|_| self.text.is_empty()).unwrap_or(&self.text)
    }
}

/// How a model that needs no network paces its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Between two pieces of text.
    pub pause: Duration,
}

/// Drains a call.
///
/// # Errors
/// What failed, with what had come until then.
pub async fn complete(model: &dyn ChatModel, request: &ModelRequest) -> Result<ModelReply, LlmError> {
    let mut events = model.stream(request).await?;
    while let Some(event) = events.next().await {
        if let ModelEvent::Finished(reply) = event? {
            return Ok(OutputCap::of(request.max_output_tokens).hold(*reply));
        }
    }
    Err(LlmError::new(LlmErrorKind::StreamInterrupted, ErrorPhase::Stream, "the reply ended without its end"))
}

/// How many bytes of a call's arguments come in one piece.
const ARGUMENTS_PIECE: usize = 16;

/// A reply as a stream of pieces: text and reasoning cut at line ends, arguments after a few bytes.
pub fn stream_of(reply: ModelReply, timing: Timing) -> EventStream {
    let mut events = vec![Ok(ModelEvent::Started { reply: None, model: reply.served_model.clone() })];
    events.extend(pieces_of(&reply).map(Ok));
    events.extend(reply.usage.map(|usage| Ok(ModelEvent::Usage(usage))));
    events.push(Ok(ModelEvent::Finished(Box::new(reply))));
    let events = futures::stream::iter(events);
    if timing.pause.is_zero() {
        return events.boxed();
    }
    events
        .then(move |event| async move {
            tokio::time::sleep(timing.pause).await;
            event
        })
        .boxed()
}

/// What a reply says, piece by piece and in the order in which providers say it.
pub(crate) fn pieces_of(reply: &ModelReply) -> impl Iterator<Item = ModelEvent> {
    let reasoning = reply.reasoning.split_inclusive('\n');
    let text = reply.text.split_inclusive('\n');
    let calls = reply.tool_calls.iter().zip(0..).flat_map(|(call, nth)| {
        let name = Arc::clone(&call.name);
        let arguments = cut(call.arguments.text(), ARGUMENTS_PIECE);
        let arguments =
            arguments.map(move |piece| ModelEvent::ToolArgumentsDelta { nth, text: piece.into() });
        std::iter::once(ModelEvent::ToolCallStarted { nth, name }).chain(arguments)
    });
    reasoning
        .map(|line| ModelEvent::ReasoningDelta { text: line.into() })
        .chain(text.map(|line| ModelEvent::TextDelta { text: line.into() }))
        .chain(calls)
}

/// A text in pieces of at most so many bytes, but for a character that is longer.
fn cut(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(max).max(first))?;
        rest = after;
        Some(piece)
    })
}
