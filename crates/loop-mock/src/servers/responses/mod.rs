//! OpenAI's Responses from the server's side.
//!
//! Nothing is stored: what a client wants known it sends again. Reasoning goes out sealed where the request includes
//! `reasoning.encrypted_content`, and has to come back as it went, with the items that followed it.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::ResponsesWriter;

/// What sealed reasoning is bound to: its item and its summary.
fn bound(id: &str, summary: &str) -> String {
    format!("{id}\n{summary}")
}

/// The purpose of its seals.
const SEAL: &str = "encrypted_content";

/// How the id of an item ends that belongs behind reasoning.
const REASONED: &str = "_r";
