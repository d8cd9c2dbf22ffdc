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
//! details. The codecs of the protocols, in [`codec`], do no I/O: they encode requests to bytes and decode bytes to
//! events. All calls of a process share one client ([`http::http_client`]), which follows no redirects, asks for no compression
//! and uses the proxies of the environment.
//!
//! Wrappers can be combined around any model: [`wrap::Retrying`] retries calls that failed before the first byte of a reply and
//! cost nothing, [`wrap::CircuitBreaker`] stops calling a provider that keeps failing, and [`wrap::RateLimited`] enforces rate
//! limits. [`wrap::RecordedModel`] replays what [`wrap::RecordingModel`] wrote to a file. Credentials are
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
