//! The neutral request.

use std::sync::Arc;

use loop_core::policy::ResultOrigin;
use loop_core::secrets::Secrets;
use loop_core::types::{Status, ToolCall, TraceParent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codec::Memory;
use crate::options::{Caching, Effort, OutputFormat, ToolChoice, ToolDefinition, Unsupported};
use crate::scripted::RequestPurpose;

pub use crate::progress::{CallProgress, ProgressListener};
pub use crate::raw::Raw;

/// One call to a model, in terms that are independent of the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelRequest {
    /// The model's id as the provider knows it.
    #[serde(default)]
    pub model: Arc<str>,
    /// The system prompt, the same for all calls of a run.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub system: Arc<str>,
    /// The turns so far, append-only within a run. The last is the user's, or has the results of tools.
    pub messages: Vec<Message>,
    /// Maximum output tokens, reasoning included. `None`: the model's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The tools that the model may call, the same for all calls of a run, so that prefixes stay the same.
    #[serde(default = "no_tools", skip_serializing_if = "<[_]>::is_empty")]
    pub tools: Arc<[ToolDefinition]>,
    /// Which tools may or must be called. Ignored without tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool_choice: ToolChoice,
    /// Whether the model must call one tool at a time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_call_at_a_time: bool,
    /// The form of the visible text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output: OutputFormat,
    /// How long the model should reason. `None`: its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Maximum reasoning tokens, for models that take a number in place of an effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Whether the reply should have the reasoning, or a summary of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub show_reasoning: bool,
    /// The sampling temperature, from 0 to 2. `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling, from 0 to 1. `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How many tokens to sample from. `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// The seed for reproducible sampling, without a guarantee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Stop sequences: texts at which the reply ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<Arc<str>>,
    /// What the provider may cache.
    #[serde(default, skip_serializing_if = "Caching::is_default")]
    pub cache: Caching,
    /// The provider's service tier, by its own name for it, for example `flex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Arc<str>>,
    /// What happens to an option that the model does not support.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unsupported: Unsupported,
    /// Whether the provider should send the reply in one piece.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_stream: bool,
    /// Members of the provider's own request body. They are merged last and replace others.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The run and the purpose of the call. It changes nothing that the model sees.
    #[serde(default)]
    pub meta: RequestMeta,
    /// The cache of encoded turns, so that only new turns are encoded: one for each conversation, of which each request
    /// has a clone. An empty one is always correct.
    #[serde(skip)]
    #[schemars(skip)]
    pub memory: Memory,
    /// A listener that learns what the call waits for before its reply begins.
    #[serde(skip)]
    #[schemars(skip)]
    pub progress: ProgressListener,
    /// The secrets that are masked in the reply, in addition to the model's own credentials.
    #[serde(skip)]
    #[schemars(skip)]
    pub secrets: Secrets,
}

fn no_tools() -> Arc<[ToolDefinition]> {
    Arc::default()
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ModelRequest {
    /// A request with one user turn and a limit of 4,096 output tokens.
    pub fn new(model: impl Into<Arc<str>>, system: impl Into<Arc<str>>, user: impl Into<Arc<str>>) -> Self {
        Self {
            model: model.into(),
            system: system.into(),
            messages: vec![Message::user(user)],
            max_output_tokens: Some(4_096),
            ..Self::default()
        }
    }

    /// Bytes of the system prompt and all turns.
    pub fn bytes(&self) -> usize {
        self.system.len() + self.messages.iter().map(Message::bytes).sum::<usize>()
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// A message of the user.
    User {
        /// Its text.
        text: Arc<str>,
        /// Its pictures.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// The author. Left out: the user.
        #[serde(default, skip_serializing_if = "is_default")]
        author: Author,
    },
    /// An earlier turn of the model. If it called tools, the next turn has one result for each call.
    Assistant(AssistantTurn),
    /// The results of all calls of the turn before, in any order.
    Tool {
        /// One for each call.
        results: Vec<ToolOutput>,
    },
    /// An instruction of the operator behind the first message. It is not the user's.
    Operator {
        /// Its text.
        text: Arc<str>,
    },
}

/// The author of a message that a model reads as the user's. A provider does not see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The user. Policy takes its text for the user's words.
    #[default]
    User,
    /// The runner, for example to say why an output was rejected. It may repeat what a model or a tool wrote.
    Runner,
}

impl Message {
    /// A message of the user with this text.
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self::User { text: text.into(), images: Vec::new(), author: Author::User }
    }

    /// A turn of the model with this text.
    pub fn assistant(text: impl Into<Arc<str>>) -> Self {
        Self::Assistant(AssistantTurn { text: text.into(), ..AssistantTurn::default() })
    }

    /// The turn's text; empty for results.
    pub fn text(&self) -> &str {
        match self {
            Self::User { text, .. } | Self::Operator { text } => text,
            Self::Assistant(turn) => &turn.text,
            Self::Tool { .. } => "",
        }
    }

    /// Bytes of everything in it that a model reads.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text, images, .. } => text.len() + images.len() * IMAGE_BYTES,
            Self::Operator { text } => text.len(),
            Self::Assistant(turn) => {
                let calls = turn.calls.iter();
                turn.text.len()
                    + calls.map(|call| call.name.len() + call.arguments.text().len()).sum::<usize>()
            }
            Self::Tool { results } => {
                results.iter().map(|result| result.text.len() + result.images.len() * IMAGE_BYTES).sum()
            }
        }
    }

    /// The calls that the next turn has to answer.
    pub fn calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant(turn) => &turn.calls,
            Self::User { .. } | Self::Tool { .. } | Self::Operator { .. } => &[],
        }
    }

    /// Whether both turns are equal. Unlike `==`, this does not compare texts that both share: a request has all turns
    /// of the one before.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |one: &Arc<str>, two: &Arc<str>| Arc::ptr_eq(one, two) || one == two;
        match (self, other) {
            (Self::User { text, images, .. }, Self::User { text: other, images: others, .. }) => {
                same(text, other) && images == others
            }
            (Self::Operator { text }, Self::Operator { text: other }) => same(text, other),
            (Self::Assistant(turn), Self::Assistant(other)) => {
                same(&turn.text, &other.text)
                    && same(&turn.reasoning, &other.reasoning)
                    && turn.calls.len() == other.calls.len()
                    && turn.calls.iter().zip(&other.calls).all(|(one, two)| {
                        same(&one.id, &two.id)
                            && same(&one.name, &two.name)
                            && same(one.arguments.text(), two.arguments.text())
                    })
                    && match (&turn.raw, &other.raw) {
                        (Some(one), Some(two)) => one.is_same(two),
                        (None, None) => true,
                        _ => false,
                    }
            }
            (Self::Tool { results }, Self::Tool { results: others }) => {
                results.len() == others.len()
                    && results.iter().zip(others).all(|(one, two)| {
                        same(&one.call, &two.call)
                            && one.is_error == two.is_error
                            && same(&one.text, &two.text)
                            && one.images == two.images
                    })
            }
            _ => false,
        }
    }
}

/// A turn of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AssistantTurn {
    /// Its visible text.
    pub text: Arc<str>,
    /// The tool calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The reasoning, as far as the provider returned it. It is sent back if a provider requires that, and otherwise as
    /// part of `raw`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reasoning: Arc<str>,
    /// The turn in the provider's own form, which is sent back unchanged to the same provider and model, and to no
    /// other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
}

/// The result of a tool call: what the model reads, and what the loop decides by when it continues a stored
/// conversation.
///
/// `status` and `origin` are sent to no provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolOutput {
    /// The id of the call.
    pub call: Arc<str>,
    /// Whether it is an error that the model should see as one.
    #[serde(default)]
    pub is_error: bool,
    /// Its text.
    pub text: Arc<str>,
    /// Its pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// How the call ended, set by the loop that answered it. Where it is absent, an error of a call that cannot be
    /// repeated (an irreversible write, something sent out, a program) may or may not have happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The origin of the text, set by the loop that answered the call. Without one the text counts as untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ResultOrigin>,
}

/// What a picture counts as among the bytes that a model reads: providers bill it by its area, up to about as many tokens.
const IMAGE_BYTES: usize = 8 << 10;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The media type, for example `image/png`.
    pub media_type: Arc<str>,
    /// Its bytes in Base64.
    pub base64: Arc<str>,
}

impl Image {
    /// The picture as a URL.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

/// What a call belongs to: its run, its key there, its purpose and its try. No model reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestMeta {
    /// The run's id. Empty: the call belongs to no run.
    pub run: Arc<str>,
    /// The call's key within the run, for example `1/main`.
    pub key: Arc<str>,
    /// The purpose of the call, set by the caller. A scripted model or a stub chooses its reply by it. `None`: a main
    /// call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<RequestPurpose>,
    /// The try, from 1.
    pub attempt: u32,
    /// Milliseconds that the caller waits for the whole reply. `None`: not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether a cost limit must never be exceeded (`cost_mode = "strict"`). A wrapper then retries a failed call only
    /// if the provider refused it before a model saw it. The caller retries any other with a new reserve.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict_cost: bool,
    /// The span of the call, sent to the provider in the header `traceparent`. `None`: no header is sent. It is not
    /// recorded.
    #[serde(skip)]
    #[schemars(skip)]
    pub traceparent: Option<TraceParent>,
}
