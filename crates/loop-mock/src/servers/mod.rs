//! A server on loopback that speaks four protocols, and that can misbehave.
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
//! Every path is known without its version too.
//!
//! It serves any [`ChatModel`](loop_llm::ChatModel) over HTTP, so that a client is tried against real sockets with the
//! replies of [`Scripted`](loop_llm::Scripted) or of any other model; and it breaks off, stalls, lies and
//! floods where a [`Behaviour`] says so. There is no chance in it but a seed that is given, and no time but the pauses
//! that are asked for. It knows no keys and no TLS, and it is not meant to face anybody but its own machine.
//!
//! A [`Lie`] is a named behaviour, for example `html-page` or `huge-usage`: [`Service::lying`] serves it in each of the
//! protocols, and `loopgate mock --behaviour NAME` from the command line. Tests make their own with [`Lie::new`].
//!
//! Requests are read as strictly as the provider reads them, and what is wrong is said in the provider's own form: so
//! it is what encoders are checked against. Reasoning goes out with an opaque part that only the server can make, and
//! has to come back unchanged beside what it was issued for.
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
