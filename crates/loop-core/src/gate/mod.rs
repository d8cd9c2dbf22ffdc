//! Gate: the verdict on each call, and whether the run continues after a pass.
//!
//! This module gives a [`Verdict`] to every call that a model requests, counts repeated failures, and decides after
//! each pass: stop and why, act, revise or validate. It decides from a view of the run: limits and totals, the
//! proposal, verdicts, what is missing, what the passes before returned. A stop carries a [`Certificate`] with every
//! condition that was true.
//!
//! It does not read prompts, phases or a clock, and it changes nothing but its own counts.

mod breakers;
mod change;
mod decide;
mod effects;
mod judge;
mod judged_action;
mod not_done;
mod output;
mod stop;
mod stop_names;
mod stop_reason;
mod verdict;

pub use crate::types::Effects;
pub use judged_action::JudgedAction;
pub use not_done::{NotDone, WhyNotDone};
pub use stop::{Certificate, Condition, CutExtent, Measure, Remedy, TierCause, TierChange};
pub use stop_reason::StopReason;
pub use verdict::{Breaker, DeniedBy, Limit, Verdict, policy_verdict};

pub(crate) use breakers::FailureCounts;
pub(crate) use decide::{
    Candidates, EndConditions, GateInput, History, NativeReply, Ruling, decide, declared, evidence_missing,
    limits_reached, manual_stop, no_tool_calls, not_valid, over_time, split, submit_before_output,
};
pub(crate) use judge::{JudgeContext, JudgedCall, ParentRun, Quota, judge, planned};
pub(crate) use not_done::not_done;
pub(crate) use output::{counts, ending};
