//! Codecs, transport and wrappers.
//!
//! One program for all, so that it is linked once: `cargo test -p loop-llm --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

mod anthropic_decode;
mod anthropic_encode;
mod common;
mod cross;
mod errors;
mod faults;
mod fit;
mod fuzz;
mod gemini_decode;
mod gemini_encode;
mod gemini_server;
mod http;
mod memory;
mod openai_chat_decode;
mod openai_chat_encode;
mod openai_chat_ordinary;
mod openai_chat_parts;
mod openai_chat_servers;
mod openai_responses_decode;
mod openai_responses_encode;
mod order;
mod over_http;
mod prices;
mod reach;
mod refusals;
mod retry;
mod schema;
mod scripted;
mod scripted_calls;
mod servers;
mod sockets;
#[path = "wrap_common/tape.rs"]
mod tape;
mod wrap_breaker;
mod wrap_common;
mod wrap_compose;
mod wrap_rate;
mod wrap_record;
mod wrap_recorded;
mod wrap_retry;
mod wrap_schema;
