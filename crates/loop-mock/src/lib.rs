//! Models that are not providers.
//!
//! [`offline`] is a stub in place of a model: deterministic, not an AI, and its output says so. With the feature `servers`,
//! [`LoopbackServer`] serves any model on loopback over four protocols, and misbehaves where a behaviour is set.

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
