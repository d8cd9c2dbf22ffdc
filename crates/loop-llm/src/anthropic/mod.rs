//! Anthropic's Messages, and what is compatible with it.
//!
//! A turn is a list of blocks. Thinking goes back to its model as it came, and to nobody else. Only `message_stop` is
//! the end of a stream; all other events may be missing. Unknown events, blocks and words never fail a reply, and
//! unknown blocks go back where they stood.

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
