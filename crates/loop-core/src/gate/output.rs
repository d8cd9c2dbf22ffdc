//! Finds the outputs among the judged calls of a reply.

use std::sync::Arc;

use crate::gate::judge::JudgedCall;
use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::Verdict;
use crate::reply::Ending;
use crate::spec::RunSpec;

/// Whether a call of the output tool is an output. With a submit tool, a call with a schema violation is not: the model
/// has read an error as its result.
pub(crate) fn counts(judged: &JudgedAction, is_violation: impl Fn(&JudgedAction) -> bool) -> bool {
    match judged.verdict {
        Verdict::Run | Verdict::Kept | Verdict::Duplicate { .. } => !is_violation(judged),
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

/// The end that the calls of a reply state once they are judged, and the last output among them. `stored` is the
/// attempt's last output before them.
///
/// All calls are processed, in any order. Of several outputs the last counts.
pub(crate) fn ending(
    ending: Ending,
    judged: &[JudgedCall],
    stored: Option<&Arc<str>>,
    is_violation: impl Fn(&JudgedAction) -> bool + Copy,
    spec: &RunSpec,
) -> (Ending, Option<Arc<str>>) {
    let Some(output) = spec.protocol.output() else { return (ending, None) };
    let is_of = |judged: &&JudgedCall, tool: &str| judged.judged.tool.as_deref() == Some(tool);
    let is_output = |judged: &&JudgedCall| is_of(judged, &output.tool);
    let last = judged.iter().rev().filter(is_output).find(|judged| counts(&judged.judged, is_violation));
    let last = last.map(|judged| Arc::clone(judged.judged.action.parameters.text()));
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
