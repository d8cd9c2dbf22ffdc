//! Chat models behind one streaming trait.
//!
//! **What it is.** A neutral request, the events of a streamed reply, the reply, and errors that say whether the same
//! call may succeed later; the trait [`ChatModel`] between them. **What it does not do.** It decides nothing about a
//! loop: no retries after the first byte, no limits, no prompts. **The nouns.** [`ModelRequest`], [`ModelEvent`],
//! [`ModelReply`], [`LlmError`].
//!
//! Two models need no network: [`Scripted`] replies from a list, for tests and demonstrations; [`Offline`] is an
//! honest stand-in without AI, which reads the same prompts as a model would.
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

mod error;
mod http;
mod model;
mod offline;
mod request;
mod scripted;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::{ErrorPhase, LlmError, LlmErrorKind, Partial, RetryAdvice};
pub use model::{ChatModel, EventStream, ModelEvent, ModelReply, Timing, complete};
pub use http::http_client;
pub use offline::Offline;
pub use request::{Message, ModelRequest, RequestMeta};
pub use scripted::{Purpose, ScriptError, Scripted, ScriptedReply};
