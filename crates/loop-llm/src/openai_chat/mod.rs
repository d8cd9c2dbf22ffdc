//! OpenAI's Chat Completions: a codec without I/O, and the model that uses it.
//!
//! ```text
//! ModelRequest ─ encode ─▶ body ─ POST {base}/chat/completions ─▶ bytes ─ Decoder ─▶ ModelEvent …, one end
//!                                              └─ status other than 2xx ─ classify ─▶ LlmError
//! ```
//!
//! Calls decide, not the word for the end: a reply that holds calls and ended cleanly wants tools run. A stream without
//! a word for its end is an error, with or without `[DONE]`. Unknown fields and words never fail a reply. A turn's
//! `raw` is neither made nor sent here.

mod calls;
mod decode;
mod encode;
mod errors;
mod lean;
mod model;
mod profile;
mod schema;
mod usage;

pub use decode::Decoder;
pub use encode::{Aliases, Encoded, encode};
pub use errors::classify;
pub use model::OpenAiChat;
pub use profile::{Profile, ToolSupport};
