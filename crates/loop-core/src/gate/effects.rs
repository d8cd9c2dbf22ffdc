//! Counts the requested effects by how they ended.

use std::sync::Arc;

use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::Verdict;
use crate::spec::RunSpec;
use crate::types::{CommandKey, Effects, Evidence, Status};

impl Effects {
    /// Counts the effects among `actions` and those of the runs that they called, whose observations are in `evidence`. `is_in_doubt` says
    /// whether the call with a key is in doubt.
    pub(crate) fn of(
        spec: &RunSpec,
        actions: &[Arc<JudgedAction>],
        evidence: &[Evidence],
        is_in_doubt: impl Fn(&CommandKey) -> bool,
    ) -> Self {
        let mut effects = Self::default();
        for action in actions {
            let found = || Evidence::find(evidence, action.evidence?);
            let below = found().filter(|_| action.verdict == Verdict::Run);
            if let Some(child) = below.and_then(|found| found.observation.child.as_deref()) {
                effects = effects.plus(child.effects);
            }
            let tool = action.tool.as_deref().and_then(|name| spec.tool(name));
            if tool.is_none_or(|tool| tool.effect.is_read()) {
                continue;
            }
            *match &action.verdict {
                Verdict::Run => {
                    match found().map(|found| (found.observation.status, is_in_doubt(&found.key))) {
                        Some((_, true)) => &mut effects.in_doubt,
                        Some((status, false)) => match status {
                            Status::Ok | Status::Empty => &mut effects.executed,
                            Status::Pending => &mut effects.waiting,
                            Status::Denied => &mut effects.denied,
                            // A later try under the same key has resolved the doubt of this one.
                            Status::InDoubt
                            | Status::Timeout
                            | Status::RetryableError
                            | Status::PermanentError
                            | Status::InvalidInput
                            | Status::MalformedResult => &mut effects.failed,
                            Status::Cancelled | Status::Duplicate | Status::Skipped => &mut effects.not_run,
                        },
                        None => &mut effects.not_run,
                    }
                }
                Verdict::Denied { .. } => &mut effects.denied,
                Verdict::NeedsPerson { .. } => &mut effects.waiting,
                Verdict::UnknownTool { .. }
                | Verdict::InvalidArguments { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::OverLimit { .. }
                | Verdict::BreakerOpen { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. } => &mut effects.not_run,
                Verdict::Kept => continue,
            } += 1;
        }
        effects
    }
}
