//! The `output` protocol: tools are called until the output tool is; with a submit tool, until that is called.

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native;
use crate::reply::proposal::{Ending, Proposal};
use crate::spec::OutputSpec;

pub(super) fn read(reply: &Reply, output: &OutputSpec) -> Proposal {
    let mut proposal = native::read(reply);
    if reply.calls.is_empty() && proposal.refused.is_none() {
        // A reply without a call cannot be continued, so the run ends.
        let tool = &output.tool;
        let what = match reply.finish {
            FinishReason::MaxTokens | FinishReason::Capped => {
                format!("the reply was cut at the output limit before it called `{tool}`")
            }
            _ => format!(
                "the reply calls no tool, where `{tool}` had to be called; not every model and server keeps to a forced \
                 call (`tool_choice`)"
            ),
        };
        proposal.ending = Ending::Invalid(what.into());
    }
    proposal
}
