//! OpenAI's Chat Completions, and what is compatible with it.
//!
//! Calls decide, not the word for the end: a reply that holds calls and ended cleanly wants tools run. A stream without
//! a word for its end is an error, with or without `[DONE]`. Unknown fields and words never fail a reply.

mod calls;
mod decode;
mod encode;
mod ordinary;
mod think;
mod turn;
mod usage;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
