//! A server on loopback that speaks OpenAI's Chat Completions, and that can misbehave.
//!
//! It serves any [`ChatModel`](crate::ChatModel) over HTTP, so that a client is tried against real sockets with the
//! replies of [`Offline`](crate::Offline) or [`Scripted`](crate::Scripted); and it breaks off, stalls, lies and
//! floods where a [`Behaviour`] says so. There is no chance in it but a seed that is given, and no time but the pauses
//! that are asked for. It knows no tools, no pictures, no keys and no TLS, and it is not meant to face anybody but its
//! own machine.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use loop_llm::Scripted;
//! use loop_llm::testing::{Behaviour, Server, Service};
//!
//! let model = Arc::new(Scripted::replies(["Hello."]));
//! let busy = Behaviour::status(503, "").with_header("retry-after", "1");
//! let server = Server::start(Service::of(model).first([busy])).unwrap();
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! server.shutdown().await;
//! # });
//! ```

mod behaviour;
mod chat;
mod http;
mod server;

pub use behaviour::{Behaviour, Chunks};
pub use server::{Ending, Received, Server, Service};
