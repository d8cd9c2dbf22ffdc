//! The `output` protocol: tools are called until an output is; with a reflection, until it is submitted (S2-16).

use std::sync::Arc;

use crate::action::JudgedAction;
use crate::event::{FinishReason, Reply};
use crate::judge::Judged;
use crate::proposal::{Ending, Proposal};
use crate::protocol::native;
use crate::protocol_spec::OutputSpec;
use crate::verdict::Verdict;

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

/// Without a reflection an output is taken as it is, whatever it looks like: validation tells. A submission always is.
pub(super) fn keeps(output: &OutputSpec, tool: &str) -> bool {
    match &output.submit {
        Some(submit) => tool == &**submit,
        None => tool == &*output.tool,
    }
}

/// Whether a call of the output tool is an output. With a reflection one that does not fit, by what is known here or by
/// its whole schema, was answered with an error and is none (S2-d2).
pub(crate) fn counts(judged: &JudgedAction, is_misfit: impl Fn(&JudgedAction) -> bool) -> bool {
    match judged.verdict {
        Verdict::Run | Verdict::Kept | Verdict::Duplicate { .. } => !is_misfit(judged),
        Verdict::UnknownTool { .. }
        | Verdict::InvalidArguments { .. }
        | Verdict::Denied { .. }
        | Verdict::Skipped
        | Verdict::NeedsPerson { .. }
        | Verdict::OverLimit { .. }
        | Verdict::BreakerOpen { .. }
        | Verdict::OneAtATime
        | Verdict::Ended { .. } => false,
    }
}

/// What the calls end, and the last output among them.
///
/// All of them are processed, whatever their order (S2-73, S2-74); of several outputs the last counts (S2-75).
pub(super) fn ending(
    ending: Ending,
    judged: &[Judged],
    stored: Option<&Arc<str>>,
    is_misfit: impl Fn(&JudgedAction) -> bool + Copy,
    output: &OutputSpec,
) -> (Ending, Option<Arc<str>>) {
    let is_of = |judged: &&Judged, tool: &str| judged.judged.tool.as_deref() == Some(tool);
    let is_output = |judged: &&Judged| is_of(judged, &output.tool);
    let last = judged.iter().rev().filter(is_output).find(|judged| counts(&judged.judged, is_misfit));
    let last = last.map(|judged| Arc::clone(&judged.judged.action.parameters));
    let ends = match &output.submit {
        Some(submit) => judged.iter().any(|judged| is_of(&judged, submit)),
        None => last.is_some(),
    };
    let ending = match (ends, last.as_ref().or(stored)) {
        (true, Some(value)) => Ending::Output(Arc::clone(value)),
        (true, None) => Ending::SubmitBeforeOutput,
        (false, _) => ending,
    };
    (ending, last)
}
