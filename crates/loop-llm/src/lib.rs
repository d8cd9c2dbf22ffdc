//! Chat models behind one streaming trait.
//!
//! **What it is.** A neutral request, the events of a streamed reply, the reply, and errors that say whether the same
//! call may succeed later, with the trait [`ChatModel`]. **What it does not do.** It decides nothing about a loop: no
//! retries of calls that may be billed, no limits, no prompts. **The nouns.** [`ModelRequest`], [`ModelEvent`],
//! [`ModelReply`], [`LlmError`].
//!
//! [`Scripted`] needs no network: it replies from a list, for tests and demonstrations.
//!
//! [`HttpModel`] calls a provider over HTTP. Its [`Profile`], a row of data, selects one of four wire protocols and its
//! details. The codecs of the protocols, in [`Codec`], do no I/O: they encode requests to bytes and decode bytes to
//! events. All calls of a process share one client ([`http_client`]), which follows no redirects, asks for no compression
//! and uses the proxies of the environment.
//!
//! Wrappers can be combined around any model: [`Retrying`] retries calls that failed before the first byte of a reply and
//! cost nothing, [`CircuitBreaker`] stops calling a provider that keeps failing, and [`RateLimited`] enforces rate
//! limits. [`RecordedModel`] replays what [`RecordingModel`] wrote to a file. Credentials are
//! never shown, logged or included in messages.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use loop_llm::{ChatModel, ModelRequest, Scripted, complete};
//!
//! let model = Scripted::replies(["Hello."]);
//! let reply = complete(&model, &ModelRequest::new("scripted", "Be brief.", "Say hello.")).await.unwrap();
//! assert_eq!(&*reply.text, "Hello.");
//! # });
//! ```

mod anthropic;
mod call;
mod cap;
mod codec;
mod defaults;
mod delay;
mod error;
mod exchange;
mod gemini;
mod http;
mod http_model;
mod mask;
mod model;
mod openai;
mod openai_chat;
mod openai_responses;
mod options;
pub mod prices;
mod profile;
mod progress;
mod raw;
mod report;
mod request;
mod scripted;
mod sse;
mod transport;
mod warnings;
mod wrap;

pub use call::{Filtered, ReplyEnd};
pub use cap::{OutputCap, line as short_line};
pub use codec::{Aliases, Api, Body, Codec, Decoder, Encoded, Memory, classify};
pub use defaults::Defaults;
pub use delay::retry_after;
pub use error::{ErrorDetail, ErrorPhase, LlmError, Partial, RequestChange, RetryAdvice};
pub use http::{
    http_client, http_client_for, http_error, is_exposed, is_loopback, own_http_client_for,
    own_http_client_trusting,
};
pub use http_model::{HttpModel, holds_url_secret};
pub use loop_core::secrets::{Masker, Secrets};
pub use loop_core::types::{Arguments, FailureKind, ToolCall};
pub use model::{ChatModel, EventStream, ModelEvent, ModelReply, Timing, complete, stream_of};
pub use options::{Caching, Effort, OutputFormat, Strictness, ToolChoice, ToolDefinition, Unsupported};
pub use profile::{
    Auth, CacheMarks, EffortRow, LateInstructions, MaxTokensField, NullContent, Profile, ReasoningBack,
    SystemRole, ToolIds,
};
pub use progress::{CallProgress, ProgressListener};
pub use raw::Raw;
pub use report::{ModelReport, ReportedError};
pub use report::{report_schema, request_schema};
pub use request::{AssistantTurn, Author, Image, Message, ModelRequest, RequestMeta, ToolOutput};
pub use scripted::{
    RequestPurpose, ScriptError, Scripted, ScriptedCall, ScriptedReply, estimated as estimated_usage,
    has_tools, nonce_of,
};
pub use transport::Timers;
pub use wrap::{
    BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker, RateGate, RateLimited, RateLimits,
    RetryPolicy, Retrying,
};
pub use wrap::{RECORDING_VERSION, RecordedError, RecordedModel, Recorder, RecordingError, RecordingModel};
