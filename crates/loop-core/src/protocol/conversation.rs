//! The `conversation` protocol: native calls until there are none; then the text is the final answer (S1-14, S1-19).

use std::sync::Arc;

use crate::event::{FinishReason, Reply};
use crate::proposal::{Ending, Proposal};
use crate::protocol::native;

pub(super) fn read(reply: &Reply) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() {
        proposal.ending = match reply.finish {
            FinishReason::MaxTokens => Ending::Cut(Arc::clone(&reply.text)),
            FinishReason::Refusal => Ending::None,
            FinishReason::EndTurn | FinishReason::ToolUse | FinishReason::Other => {
                Ending::Answer(Arc::clone(&reply.text))
            }
        };
    }
    proposal
}
