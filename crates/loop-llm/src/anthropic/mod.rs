//! Anthropic's Messages, and compatible servers.
//!
//! A turn is a list of content blocks. Thinking is sent back unchanged, and only to the model that wrote it. A stream
//! ends only with `message_stop`; any other event may be missing. Unknown events, blocks and values never fail a reply,
//! and unknown blocks are sent back in their position.

mod block;
mod cache;
mod decode;
mod encode;
mod models;
mod schema;
mod think;
mod tools;
mod turn;
mod usage;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
