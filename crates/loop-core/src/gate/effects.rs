//! Counts the requested effects by how they ended.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::Verdict;
use crate::spec::RunSpec;
use crate::types::{CommandKey, Evidence, Status};

/// How many requested effects ended in which way. An effect is a call of a tool that does more than read; each counts
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// They ran, and the tool reports success.
    pub executed: u32,
    /// They ran, and the tool reports failure.
    pub failed: u32,
    /// Policy or an approver denied them.
    pub denied: u32,
    /// They need an approval that was not given, or the tool is not ready yet.
    pub waiting: u32,
    /// They were begun, and whether they happened is unknown.
    pub in_doubt: u32,
    /// They were not begun for another reason: a limit, invalid arguments, a repeat, the end of the run.
    pub not_run: u32,
}

impl Effects {
    /// Counts the effects among `actions`, whose observations are in `evidence`. `is_in_doubt` says whether the call
    /// with a key is in doubt.
    pub(crate) fn of(
        spec: &RunSpec,
        actions: &[Arc<JudgedAction>],
        evidence: &[Evidence],
        is_in_doubt: impl Fn(&CommandKey) -> bool,
    ) -> Self {
        let mut effects = Self::default();
        for action in actions {
            let tool = action.tool.as_deref().and_then(|name| spec.tool(name));
            if tool.is_none_or(|tool| tool.effect.is_read()) {
                continue;
            }
            let found = || Evidence::find(evidence, action.evidence?);
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

    /// Whether no effect was requested.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Effects {
    /// The counts that are not 0, for example `1 executed, 2 denied`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executed, failed, denied, waiting, in_doubt, not_run } = *self;
        let all = [
            (executed, "executed"),
            (failed, "failed"),
            (denied, "denied"),
            (waiting, "waiting"),
            (in_doubt, "in doubt"),
            (not_run, "not run"),
        ];
        let counts = all.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if counts.is_empty() { "none" } else { "" })?;
        f.write_str(&counts.join(", "))
    }
}
