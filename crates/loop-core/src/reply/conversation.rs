//! The `conversation` protocol: native calls. A reply without calls is the final answer.

use std::sync::Arc;

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native;
use crate::reply::proposal::{Ending, Proposal};

pub(super) fn read(reply: &Reply) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() {
        proposal.ending = match reply.finish {
            // The reply was cut before any visible text.
            FinishReason::MaxTokens | FinishReason::Capped if native::is_blank(reply) => {
                Ending::Cut("".into())
            }
            FinishReason::MaxTokens | FinishReason::Capped => Ending::Cut(Arc::clone(&reply.text)),
            FinishReason::Refusal | FinishReason::Filtered => Ending::None,
            // A reply that stops for tools and calls none does not arrive here: it is retried.
            FinishReason::EndTurn | FinishReason::ToolUse | FinishReason::Other => {
                Ending::Answer(Arc::clone(&reply.text))
            }
        };
    }
    proposal
}
