//! Chat models behind one streaming trait: neutral requests, streamed replies, errors that say whether a retry may help.
//!
//! A [`ChatModel`] takes a [`ModelRequest`] and gives a stream of [`ModelEvent`]s, which ends with a [`ModelReply`] or an
//! [`LlmError`]. [`HttpModel`] speaks four wire protocols: OpenAI Chat Completions, OpenAI Responses, Anthropic Messages
//! and Gemini.
//!
//! # What it is not
//!
//! It is not an agent loop: it runs no tools, has no limits, writes no prompts. A model by itself does not retry. A
//! wrapper does, and only for calls that failed before a reply began and cost nothing. Credentials are never shown,
//! logged or included in messages.
//!
//! # A call
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
//!
//! [`Scripted`] needs no network. [`HttpModel`] shows the same for a provider.
//!
//! # The modules
//!
//! | module | what you find there |
//! |---|---|
//! | [`model`] | the trait [`ChatModel`], the events of a stream, the reply |
//! | [`request`] | a request: turns, tool results, pictures, what the call belongs to |
//! | [`options`] | options of a request: tools, output format, reasoning effort, caching |
//! | [`error`] | [`LlmError`]: the kind, the phase, and whether a retry may succeed |
//! | [`profile`] | the known endpoints, and how their APIs differ, as rows of data |
//! | [`http`] | the HTTP client that all calls of a process share, timeouts, checks of URLs |
//! | [`wrap`] | wrappers around any model: retries, circuit breaker, rate limits, recording and replay |
//! | [`prices`] | the prices of known models, by date and class of service |
//! | [`scripted`] | a model that replies from a list, for tests and demonstrations |
//! | [`report`] | the result of a call as one JSON object, and the JSON Schemas |
//! | [`codec`] | the wire protocols without I/O: encodes requests to bytes, decodes bytes to events |

mod anthropic;
mod call;
mod cap;
pub mod codec;
mod defaults;
mod delay;
pub mod error;
mod exchange;
mod fit;
mod gemini;
pub mod http;
mod http_model;
mod mask;
mod masked;
pub mod model;
mod openai;
mod openai_chat;
mod openai_responses;
pub mod options;
pub mod prices;
pub mod profile;
mod progress;
mod raw;
mod reach;
pub mod report;
pub mod request;
pub mod scripted;
mod sse;
mod transport;
mod warnings;
pub mod wrap;

pub use error::{ErrorPhase, LlmError};
pub use http_model::HttpModel;
pub use model::{ChatModel, EventStream, ModelEvent, ModelReply, complete};
pub use options::{ToolChoice, ToolDefinition};
pub use profile::Profile;
pub use request::{Message, ModelRequest, ToolOutput};
pub use scripted::Scripted;
