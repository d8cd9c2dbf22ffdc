//! The `output` protocol: tools are called until an output is; with a reflection, until it is submitted (S2-16).

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native;
use crate::reply::proposal::{Ending, Proposal};
use crate::spec::OutputSpec;

pub(super) fn read(reply: &Reply, output: &OutputSpec) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() && proposal.refused.is_none() {
        // S2-92: without a call there is nothing to go on with.
        let what = match reply.finish {
            FinishReason::MaxTokens | FinishReason::Capped => "was cut at the output limit before it called",
            _ => "calls no tool and not",
        };
        proposal.ending = Ending::Invalid(format!("the reply {what} `{}`", output.tool).into());
    }
    proposal
}
