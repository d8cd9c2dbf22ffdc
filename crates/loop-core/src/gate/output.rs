//! Which calls of a reply are an output, once they are judged.

use std::sync::Arc;

use crate::gate::judge::Judged;
use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::Verdict;
use crate::reply::Ending;
use crate::spec::RunSpec;

/// Whether a call of the output tool is an output. With a reflection one that does not fit, by what is known here or by
/// its whole schema, was answered with an error and is none (S2-d2).
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

/// What the calls of a reply end once they are judged, and the last output among them; `stored` is the last output of the
/// attempt before them.
///
/// All of them are processed, whatever their order (S2-73, S2-74); of several outputs the last counts (S2-75).
pub(crate) fn ending(
    ending: Ending,
    judged: &[Judged],
    stored: Option<&Arc<str>>,
    is_violation: impl Fn(&JudgedAction) -> bool + Copy,
    spec: &RunSpec,
) -> (Ending, Option<Arc<str>>) {
    let Some(output) = spec.protocol.output() else { return (ending, None) };
    let is_of = |judged: &&Judged, tool: &str| judged.judged.tool.as_deref() == Some(tool);
    let is_output = |judged: &&Judged| is_of(judged, &output.tool);
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
