//! The `output` protocol: tools are called until the output tool is; with a submit tool, until that is called.

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native;
use crate::reply::proposal::{Ending, Proposal};
use crate::spec::OutputSpec;

pub(super) fn read(reply: &Reply, output: &OutputSpec) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() && proposal.refused.is_none() {
        // A reply without a call cannot be continued, so the run ends.
        let what = match reply.finish {
            FinishReason::MaxTokens | FinishReason::Capped => "was cut at the output limit before it called",
            _ => "calls no tool and not",
        };
        proposal.ending = Ending::Invalid(format!("the reply {what} `{}`", output.tool).into());
    }
    proposal
}
