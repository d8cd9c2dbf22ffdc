//! The Responses API of OpenAI, on the server side.
//!
//! The server stores nothing, so the client sends the whole history. If the request includes
//! `reasoning.encrypted_content`, reasoning is sent sealed, and the client must return it unchanged with the items that
//! followed it.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::ResponsesWriter;

/// The content that sealed reasoning is bound to: its item id and its summary.
fn bound(id: &str, summary: &str) -> String {
    format!("{id}\n{summary}")
}

/// The purpose of the seals.
const SEAL: &str = "encrypted_content";

/// The suffix of ids of items that belong to reasoning.
const REASONED: &str = "_r";
