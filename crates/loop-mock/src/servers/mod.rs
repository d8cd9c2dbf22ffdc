//! A loopback server for tests of provider clients, which speaks four protocols and can misbehave.
//!
//! ```text
//! POST /v1/chat/completions                                OpenAI's Chat Completions
//! POST /v1/responses                                       OpenAI's Responses
//! POST /v1/messages                                        Anthropic's Messages
//! POST /v1beta/models/{model}:generateContent              Gemini, as a whole
//! POST /v1beta/models/{model}:streamGenerateContent        Gemini, as a stream: events with ?alt=sse, else an array
//! GET  /v1/models                                          the names
//! ```
//!
//! Every path also works without its version.
//!
//! It serves any [`ChatModel`](loop_llm::ChatModel) over HTTP, for example [`Scripted`](loop_llm::Scripted), so that a
//! client is tested with real sockets. A [`Behaviour`] makes it cut connections, stall, lie or flood. Its only
//! randomness is from a given seed, and its only delays are the configured pauses. It checks no keys and has no TLS, so
//! use it on the local machine only.
//!
//! A [`Lie`] is a named behaviour, for example `html-page` or `huge-usage`. [`Service::lying`] serves it in each
//! protocol, and `loopgate mock --behaviour NAME` on the command line. Tests define their own with [`Lie::new`].
//!
//! It parses requests as strictly as the provider does and reports errors in the provider's format, so it checks the
//! encoders of a client. Reasoning is sent with a sealed part, which the client must return unchanged next to the text
//! that it belongs to.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use loop_llm::Scripted;
//! use loop_mock::{Behaviour, LoopbackServer, Service};
//!
//! let model = Arc::new(Scripted::replies(["Hello."]));
//! let busy = Behaviour::status(503, "").with_header("retry-after", "1");
//! let server = LoopbackServer::start(Service::of(model).first([busy])).unwrap();
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! server.shutdown().await;
//! # });
//! ```

mod anthropic;
mod behaviour;
mod chat;
mod gemini;
mod http;
mod lies;
mod protocol;
mod received;
mod responses;
mod schemas;
mod seal;
mod serve;
mod server;

pub use behaviour::{Behaviour, Chunks, Frames, RewriteStream};
pub use lies::{Lie, LieOn};
pub use server::{ConnectionEnd, LoopbackServer, ReceivedRequest, Service};
