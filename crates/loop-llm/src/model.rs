//! The trait of all models, with the events and the reply of a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use loop_core::reply::FinishReason;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, PicoUsd, ToolCall, Usage};
use serde::{Deserialize, Serialize};

use crate::cap::OutputCap;
use crate::error::LlmError;
use crate::raw::Raw;
use crate::request::{AssistantTurn, Message, ModelRequest};
use crate::scripted::RequestPurpose;

pub use crate::call::{Filtered, ReplyEnd};
pub use crate::masked::masked;

/// A chat model. Replies are streamed: [`complete`] collects a stream into a whole reply.
///
/// Dropping the stream cancels the call.
#[async_trait]
pub trait ChatModel: Send + Sync + fmt::Debug {
    /// Starts a call.
    ///
    /// The stream ends with exactly one [`ModelEvent::Finished`] or exactly one error.
    ///
    /// # Errors
    /// The call failed before the first byte of a reply.
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError>;

    /// The credentials that it uses. A run masks them in everything that it reads, journals, saves and shows. A wrapper
    /// returns those of the inner model.
    fn secrets(&self) -> Secrets {
        Secrets::default()
    }

    /// Whether it masks the [secrets of the request](ModelRequest::secrets) in what it replies. A reply of any other model
    /// is masked by the caller ([`masked`]). A wrapper returns what the inner model returns.
    fn masks(&self) -> bool {
        false
    }

    /// Called when a run is resumed, with the calls that were answered before, in order. A model that replies from a
    /// list continues after those replies. A wrapper passes the call on to the inner model.
    fn resumes(&self, _run: &str, _answered: &[RequestPurpose]) {}
}

/// The events of one call, in order.
pub type EventStream = BoxStream<'static, Result<ModelEvent, LlmError>>;

/// One event of a streamed reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ModelEvent {
    /// The provider has begun the reply.
    Started {
        /// The provider's id of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Arc<str>>,
        /// The model that actually serves the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Arc<str>>,
    },
    /// A delta of the visible text.
    TextDelta {
        /// Appended to the text so far.
        text: Arc<str>,
    },
    /// A delta of the reasoning.
    ReasoningDelta {
        /// Appended to the reasoning so far.
        text: Arc<str>,
    },
    /// A tool call has begun. A call with an effect must not be run before the reply is complete.
    ToolCallStarted {
        /// The number of the call, from 0, in the order in which the calls began.
        nth: u32,
        /// The name of the tool in the request.
        name: Arc<str>,
    },
    /// A fragment of a call's arguments.
    ToolArgumentsDelta {
        /// The number of the call.
        nth: u32,
        /// Appended to the arguments of this call so far.
        text: Arc<str>,
    },
    /// A call is complete in the stream: its name and the fragments of its arguments are known. The complete reply may
    /// still come without it, for example if it is cut. A protocol may leave the event out.
    ToolCallCompleted {
        /// The number of the call.
        nth: u32,
    },
    /// Tokens so far. Replaces the event of this kind before.
    Usage(Usage),
    /// The connection is alive, without new content.
    KeepAlive,
    /// The complete reply. It is the last event.
    Finished(Box<ModelReply>),
}

/// The complete reply to one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The visible text, without a refusal.
    pub text: Arc<str>,
    /// Why the model ended its reply, in the loop's terms.
    pub finish: FinishReason,
    /// Tokens; `None` if the provider does not report them.
    pub usage: Option<Usage>,
    /// The cost, if the provider reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// The model that actually served the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// The provider's name of the service tier that served the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_tier: Option<Arc<str>>,
    /// The provider's own form of the turn, if text and calls are not enough for later requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
    /// Warnings: irregularities that did not fail the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
    /// The complete tool calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The number of further tool calls, which were counted and not parsed: those after the first 128.
    #[serde(default, skip_serializing_if = "crate::request::is_default")]
    pub unread_calls: u32,
    /// The text of a refusal, if the provider marks it as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Arc<str>>,
    /// The reasoning, as far as the provider shows it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reasoning: Arc<str>,
    /// The stop reason in more detail than `finish`; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<ReplyEnd>,
    /// Details of the stop reason: the category of a refusal or a filter, the stop sequence, the error in a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_detail: Option<Arc<str>>,
    /// Which part of the call a content filter stopped. `None`: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<Filtered>,
    /// The provider's own stop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop: Option<Arc<str>>,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Arc<str>>,
    /// The provider's request id, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
}

impl ModelReply {
    /// A reply with this text that ended normally.
    pub fn text(text: impl Into<Arc<str>>, usage: Option<Usage>) -> Self {
        Self { text: text.into(), usage, ..Self::default() }
    }

    /// The reply as the stream of a model that has all of it at once.
    pub fn into_stream(self) -> EventStream {
        stream_of(self, Timing::default())
    }

    /// The reply as a turn of later requests.
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

    /// The visible text, or the refusal if there is none.
    pub fn shown(&self) -> &Arc<str> {
        self.refusal.as_ref().filter(|_| self.text.is_empty()).unwrap_or(&self.text)
    }
}

/// The pace of a model without network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Delay between two text deltas.
    pub pause: Duration,
}

/// Collects a call's stream into a reply.
///
/// # Errors
/// The call failed. The error contains the partial reply.
pub async fn complete(model: &dyn ChatModel, request: &ModelRequest) -> Result<ModelReply, LlmError> {
    let mut events = model.stream(request).await?;
    while let Some(event) = events.next().await {
        if let ModelEvent::Finished(reply) = event? {
            return Ok(OutputCap::of_request(request).hold(*reply));
        }
    }
    Err(LlmError::in_stream(FailureKind::StreamInterrupted, "the reply ended without its end"))
}

/// Bytes of one fragment of a call's arguments.
const ARGUMENTS_PIECE: usize = 16;

/// A reply as a stream of deltas: text and reasoning split at line ends, arguments after a few bytes.
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

/// The events of a reply, in the order in which providers send them.
pub(crate) fn pieces_of(reply: &ModelReply) -> impl Iterator<Item = ModelEvent> {
    let reasoning = reply.reasoning.split_inclusive('\n');
    let text = reply.text.split_inclusive('\n');
    let calls = reply.tool_calls.iter().zip(0..).flat_map(|(call, nth)| {
        let name = Arc::clone(&call.name);
        let arguments = cut(call.arguments.text(), ARGUMENTS_PIECE);
        let arguments =
            arguments.map(move |piece| ModelEvent::ToolArgumentsDelta { nth, text: piece.into() });
        let completed = std::iter::once(ModelEvent::ToolCallCompleted { nth });
        std::iter::once(ModelEvent::ToolCallStarted { nth, name }).chain(arguments).chain(completed)
    });
    reasoning
        .map(|line| ModelEvent::ReasoningDelta { text: line.into() })
        .chain(text.map(|line| ModelEvent::TextDelta { text: line.into() }))
        .chain(calls)
}

/// A text in pieces of at most `max` bytes, or of one longer character.
fn cut(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(max).max(first))?;
        rest = after;
        Some(piece)
    })
}
