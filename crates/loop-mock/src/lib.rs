//! Mock chat models for tests and demonstrations: an offline stub, and a loopback server that speaks four provider protocols and can
//! misbehave.
//!
//! **What it is not.** No model here is an AI or a provider, and none needs a network or a key. The stub says in its output that it is
//! not an AI. The server is for clients on the same machine only.
//!
//! ```
//! use loop_llm::ModelRequest;
//! use loop_mock::offline::Offline;
//!
//! let request = ModelRequest::new("offline-1", "Be brief.", "Say hello.");
//! let reply = Offline::new().reply(&request);
//! assert_eq!(reply.text, Offline::new().reply(&request).text);
//! ```
//!
//! | module or type | what you find there |
//! |---|---|
//! | [`offline`] | the stub: deterministic replies from the prompt alone |
//! | [`with_purpose`] | infers the purpose of a request that does not state it |
//! | `LoopbackServer`, `Service` (feature `servers`) | the server, with its program as an example, and what it serves |
//! | `Behaviour`, `Chunks` (feature `servers`) | how the server responds to one request, for example with a cut stream |
//! | `Lie`, `LieOn` (feature `servers`) | named misbehaviours, as in `loopgate mock --behaviour` |
//! | `ReceivedRequest`, `ConnectionEnd` (feature `servers`) | the requests that the server received, and how the responses ended |

pub mod offline;
mod purpose;
#[cfg(feature = "servers")]
mod servers;

pub use purpose::with_purpose;
#[cfg(feature = "servers")]
pub use servers::{
    Behaviour, Chunks, ConnectionEnd, Frames, Lie, LieOn, LoopbackServer, ReceivedRequest, RewriteStream,
    Service,
};
