//! The `conversation` protocol: native calls until there are none; then the text is the final answer (S1-14, S1-19).

use std::sync::Arc;

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native;
use crate::reply::proposal::{Ending, Proposal};

pub(super) fn read(reply: &Reply) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() {
        proposal.ending = match reply.finish {
            // Cut in what nobody sees.
            FinishReason::MaxTokens | FinishReason::Capped if native::is_blank(reply) => {
                Ending::Cut("".into())
            }
            FinishReason::MaxTokens | FinishReason::Capped => Ending::Cut(Arc::clone(&reply.text)),
            FinishReason::Refusal | FinishReason::Filtered => Ending::None,
            // Version 2 takes an end for tools without any call for an answer; from 3 on it does not come here.
            FinishReason::EndTurn | FinishReason::ToolUse | FinishReason::Other => {
                Ending::Answer(Arc::clone(&reply.text))
            }
        };
    }
    proposal
}
