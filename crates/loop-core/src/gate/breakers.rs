//! Circuit breakers: they open after consecutive tool failures, denied calls or invalid arguments.
//!
//! Failures are counted once all calls of a pass have settled, in request order, so that the order of completion does
//! not matter. A success resets the counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::stop::{Condition, Measure};
use crate::gate::stop_reason::StopReason;
use crate::gate::verdict::{Breaker, Verdict};
use crate::spec::Setting;
use crate::spec::{Breakers, OnToolError};
use crate::types::Status;

/// The counts of consecutive failures, up to the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FailureCounts {
    /// Tools whose last call failed.
    failing: BTreeMap<Arc<str>, FailingTool>,
    /// Failures of one kind since a tool that had failed succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_end: Option<DeadEnd>,
    /// Calls that policy denied, since the last success.
    denied: u32,
    /// Calls with an unknown tool or invalid arguments, since the last success.
    bad_arguments: u32,
}

/// A tool whose last call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct FailingTool {
    /// Consecutive failures, from 1.
    times: u32,
    /// Whether the last failure was permanent.
    for_good: bool,
}

/// Failures of one kind, of any tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct DeadEnd {
    /// How each of them ended.
    status: Status,
    /// How many, from 1.
    times: u32,
    /// The pass of the first.
    from_pass: u32,
}

impl FailureCounts {
    /// Counts the verdict of a call.
    pub(crate) fn judged(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Denied { .. } => self.denied = self.denied.saturating_add(1),
            Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => {
                self.bad_arguments = self.bad_arguments.saturating_add(1);
            }
            // The protocol handled the call, which counts as a success.
            Verdict::Kept => (self.denied, self.bad_arguments) = (0, 0),
            Verdict::Run
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::NeedsPerson { .. }
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. } => {}
        }
    }

    /// Counts the status of a settled call of this pass.
    pub(crate) fn settled(&mut self, tool: &str, pass: u32, status: Status) {
        if status.is_citable() {
            if self.failing.remove(tool).is_some() {
                self.dead_end = None;
            }
            (self.denied, self.bad_arguments) = (0, 0);
        } else if status == Status::InvalidInput {
            self.bad_arguments = self.bad_arguments.saturating_add(1);
        } else if status.is_failure() {
            let for_good = status.is_permanent();
            let times = self.failing.get(tool).map_or(0, |failing| failing.times).saturating_add(1);
            self.failing.insert(tool.into(), FailingTool { times, for_good });
            let same = self.dead_end.filter(|before| before.status == status);
            let DeadEnd { times, from_pass, .. } =
                same.unwrap_or(DeadEnd { status, times: 0, from_pass: pass });
            self.dead_end = Some(DeadEnd { status, times: times.saturating_add(1), from_pass });
        }
    }

    /// Whether the breaker of a tool is open.
    pub(crate) fn is_broken(&self, tool: &str, breakers: &Breakers) -> bool {
        let max = breakers.tool_failures;
        max > 0 && self.failing.get(tool).is_some_and(|failing| failing.times >= max)
    }

    /// The condition that the breaker of a tool is open. After a permanent failure the reason is the failure; otherwise
    /// a person may know when the tool works again.
    pub(crate) fn broken(&self, tool: &str, breakers: &Breakers) -> Option<Condition> {
        let failing = self.failing.get(tool).filter(|_| self.is_broken(tool, breakers))?;
        let reason = if failing.for_good { StopReason::ToolFailure } else { StopReason::NeedsHuman };
        let to = failing.times.saturating_add(1).into();
        Some(Condition {
            reason,
            ..failures(tool, failing.times, breakers.tool_failures, Breaker::ToolFailures.setting(), to)
        })
    }

    /// The condition that a tool failed so often in a row that a person has to continue. `None`: it did not.
    pub(crate) fn escalated(&self, tool: &str, setting: OnToolError) -> Option<Condition> {
        let max = setting.escalates_after()?;
        let times = self.failing.get(tool).map(|failing| failing.times).filter(|times| *times >= max)?;
        let more = times.saturating_add(1);
        let to = match setting {
            OnToolError::StopOrEscalateAfter(_) => OnToolError::StopOrEscalateAfter(more),
            OnToolError::Continue | OnToolError::Stop | OnToolError::EscalateAfter(_) => {
                OnToolError::EscalateAfter(more)
            }
        };
        let to = Measure::Text(to.written().into());
        Some(failures(tool, times, max, Setting::OnToolError, to))
    }

    /// The condition that policy denied too many calls in a row.
    pub(crate) fn denied(&self, breakers: &Breakers) -> Option<Condition> {
        opened("calls that policy denied", self.denied, breakers.denied, Breaker::Denied)
    }

    /// The condition that calls of any tools, of more than one pass, fail in one way: twice as many as open the breaker of
    /// one tool. `None`: they do not.
    pub(crate) fn dead_end(&self, pass: u32, breakers: &Breakers) -> Option<Condition> {
        let max = breakers.tool_failures.saturating_mul(2);
        let end = self.dead_end.filter(|end| max > 0 && end.times >= max && end.from_pass < pass)?;
        let what = format!("calls of any tools that ended as {}", end.status.name()).into();
        let to = (end.times / 2 + 1).into();
        Some(in_a_row(what, end.times, breakers.tool_failures, Breaker::ToolFailures.setting(), to))
    }

    /// The condition that too many calls in a row had an unknown tool or invalid arguments.
    pub(crate) fn useless(&self, breakers: &Breakers) -> Option<Condition> {
        let what = "calls with an unknown tool or with arguments that do not fit";
        opened(what, self.bad_arguments, breakers.bad_arguments, Breaker::BadArguments)
    }
}

fn opened(what: &str, times: u32, max: u32, breaker: Breaker) -> Option<Condition> {
    let is_open = max > 0 && times >= max;
    is_open.then(|| in_a_row(what.into(), times, max, breaker.setting(), times.saturating_add(1).into()))
}

fn failures(tool: &str, times: u32, max: u32, setting: Setting, to: Measure) -> Condition {
    in_a_row(format!("failures of {tool}").into(), times, max, setting, to)
}

fn in_a_row(what: Arc<str>, times: u32, max: u32, setting: Setting, to: Measure) -> Condition {
    let value = Measure::InARow { what, times: times.into() };
    Condition::at_limit(StopReason::NeedsHuman, value, max, setting, to)
}
