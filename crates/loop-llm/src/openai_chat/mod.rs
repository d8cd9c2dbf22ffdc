//! OpenAI's Chat Completions, and compatible servers.
//!
//! Tool calls decide, not the finish reason: a reply with calls that ended normally wants tools run. A stream without a
//! finish reason is an error, with or without `[DONE]`. Unknown members and values never fail a reply.

mod calls;
mod decode;
mod encode;
mod ordinary;
pub(crate) mod think;
mod turn;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
