//! Verdicts on actions, and the one place that words each of them.
//!
//! Programs decide by the variant, never by the text, which is for people and for the model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::VariantNames;

use crate::gate::stop_reason::StopReason;
use crate::policy::{self, PolicyAsk};
use crate::repeats::RepeatRule;
use crate::spec::Setting;
use crate::types::{CommandKey, Effect, EvidenceId, is_default};

/// What was decided about an action, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Run,
    /// The protocol handles the call itself: an output, its submission, or an [`EndCall`](crate::spec::EndCall).
    Kept,
    /// No tool has this name or alias.
    UnknownTool {
        /// Similar names of tools, the nearest first. Empty if none is near.
        similar: Vec<Arc<str>>,
    },
    /// The parameters do not match the tool's schema.
    InvalidArguments {
        /// JSON pointer to the invalid part. Empty: the parameters as a whole.
        pointer: Arc<str>,
        /// What the schema expects there.
        message: Arc<str>,
    },
    /// Policy or an approver denied it.
    Denied {
        /// The reason, for the model and for people.
        why: Arc<str>,
        /// Who denied it. Policy if absent.
        #[serde(default, skip_serializing_if = "is_default")]
        by: DeniedBy,
    },
    /// The same call has been run, or is earlier in the same reply.
    Duplicate {
        /// The key of the earlier call.
        of: CommandKey,
        /// The earlier call's evidence. `None`: it has not settled.
        evidence: Option<EvidenceId>,
        /// The rule that found it. `None`: the policy has only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RepeatRule>,
    },
    /// Its priority is `nice_to_have`.
    Skipped,
    /// It needs an approver.
    NeedsPerson {
        /// The tool's effect.
        effect: Effect,
        /// The reason. `None`: the effect alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    /// A limit of calls was reached before it.
    OverLimit {
        /// The limit.
        limit: Limit,
    },
    /// Its breaker is open: after several failures in a row it does not run again in this run.
    BreakerOpen {
        /// What failed in a row.
        breaker: Breaker,
    },
    /// The protocol runs one call at a time, and another call of the same reply comes first.
    OneAtATime,
    /// The run was stopping when the call was judged.
    Ended {
        /// Why the run stops.
        reason: StopReason,
    },
}

/// Who denied an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// A rule of the domain's policy, before an approver was asked.
    #[default]
    Policy,
    /// The rule against repeats, with `gate.on_duplicate = "deny"`.
    Repeat,
    /// The approver.
    Person,
    /// The approver did not answer in time.
    Silence,
}

/// The limit of calls that leaves an action undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `limits.tool_calls`, of the run.
    ToolCalls,
    /// `limits.selected`, before the first pass.
    Selected,
    /// The tool's own limit, within its scope of repeats.
    OfTool {
        /// The limit, in calls.
        calls: u32,
    },
}

impl Limit {
    /// The setting of the limit. The limit of a tool is in the tool's own settings, or in a table of the policy.
    pub fn setting(self) -> Setting {
        match self {
            Self::ToolCalls => Setting::ToolCalls,
            Self::Selected => Setting::Selected,
            Self::OfTool { .. } => Setting::MaxCalls,
        }
    }

    /// The limit as a code, for a model that reads the code alone.
    pub fn code(self) -> &'static str {
        match self {
            Self::ToolCalls => "max_tool_calls",
            Self::Selected => "max_selected",
            Self::OfTool { .. } => "limit_exceeded",
        }
    }
}

/// What opens a breaker when it happens several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// The tool failed.
    ToolFailures,
    /// Policy denied calls.
    Denied,
    /// Calls named an unknown tool, or had arguments that do not match.
    BadArguments,
}

impl Breaker {
    /// The setting that says after how many of them it opens.
    pub fn setting(self) -> Setting {
        match self {
            Self::ToolFailures => Setting::ToolFailuresBreaker,
            Self::Denied => Setting::DeniedBreaker,
            Self::BadArguments => Setting::BadArgumentsBreaker,
        }
    }
}

impl Verdict {
    /// Every name of a verdict, in order of declaration.
    pub const NAMES: &'static [&'static str] = Self::VARIANTS;

    /// The verdict's name in JSON, for example `unknown_tool`.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The code of the rule that refused a repeat. `None`: the call is not a repeat.
    pub fn repeat_code(&self) -> Option<&'static str> {
        match self {
            Self::Duplicate { rule, .. } => Some(rule.as_ref().unwrap_or(&RepeatRule::Exact).code()),
            Self::OverLimit { limit: limit @ Limit::OfTool { .. } } => Some(limit.code()),
            Self::Run
            | Self::Kept
            | Self::UnknownTool { .. }
            | Self::InvalidArguments { .. }
            | Self::Denied { .. }
            | Self::Skipped
            | Self::NeedsPerson { .. }
            | Self::OverLimit { .. }
            | Self::BreakerOpen { .. }
            | Self::OneAtATime
            | Self::Ended { .. } => None,
        }
    }

    /// The reason in one line, for people and for the model.
    pub fn reason(&self) -> String {
        match self {
            Self::Run => "admitted".to_owned(),
            Self::Kept => "taken as the output".to_owned(),
            Self::UnknownTool { similar } if similar.is_empty() => "no tool has this name".to_owned(),
            Self::UnknownTool { similar } => {
                let similar: Vec<&str> = similar.iter().map(AsRef::as_ref).collect();
                format!("no tool has this name; similar names: {}", similar.join(", "))
            }
            Self::InvalidArguments { pointer, message } if pointer.is_empty() => message.to_string(),
            Self::InvalidArguments { pointer, message } => format!("{pointer}: {message}"),
            Self::Denied { why, .. } => why.to_string(),
            Self::Duplicate { of, evidence, rule } => repeat(*of, *evidence, rule.as_ref()),
            Self::Skipped => "nice_to_have actions are not run".to_owned(),
            Self::NeedsPerson { why: Some(why), .. } => why.to_string(),
            Self::NeedsPerson { effect, why: None } => {
                format!("its effect `{}` needs a person's consent", effect.name())
            }
            Self::OverLimit { limit: Limit::ToolCalls } => {
                format!("no tool call is left ({})", Limit::ToolCalls.setting())
            }
            Self::OverLimit { limit: Limit::Selected } => {
                format!("no more tools are run before the first pass ({})", Limit::Selected.setting())
            }
            Self::OverLimit { limit: Limit::OfTool { calls } } => over_tool_limit(*calls),
            Self::BreakerOpen { breaker } => match breaker {
                Breaker::ToolFailures => {
                    format!(
                        "it failed too often in a row, and is not run any more in this run ({})",
                        breaker.setting()
                    )
                }
                Breaker::Denied => format!("too many calls in a row were denied ({})", breaker.setting()),
                Breaker::BadArguments => {
                    format!("too many calls in a row could not be used ({})", breaker.setting())
                }
            },
            Self::OneAtATime => {
                "one call is run at a time, and another call of the same reply comes first".to_owned()
            }
            Self::Ended { reason } => format!("the run was ending ({})", reason.name()),
        }
    }
}

/// Why a repeat was refused. The earlier call is named only if it is the same call.
fn repeat(of: CommandKey, evidence: Option<EvidenceId>, rule: Option<&RepeatRule>) -> String {
    let see = evidence.map_or_else(String::new, |evidence| format!(", see {evidence}"));
    match rule {
        // The earlier call may have been denied. Its evidence says so.
        None | Some(RepeatRule::Exact) => format!("already asked for as {of}{see}"),
        Some(RepeatRule::SameResult { times, .. }) => {
            format!(
                "already returned the same result {times} times, last as {of}{see}; nothing was changed since"
            )
        }
        Some(RepeatRule::Failed) => format!("already failed as {of}{see}"),
        Some(RepeatRule::Cycle { length, times }) => format!(
            "already part of a cycle: the last {length} calls returned the same results {times} times"
        ),
        Some(RepeatRule::Limit { limit }) => over_tool_limit(*limit),
        Some(RepeatRule::Similar { query, .. }) => {
            format!("already run with a similar search text as {of} (`{query}`){see}")
        }
    }
}

fn over_tool_limit(calls: u32) -> String {
    match calls {
        0 => "its tool is not to be run (its limit is 0 calls)".to_owned(),
        1 => "its tool has reached its limit of 1 call".to_owned(),
        calls => format!("its tool has reached its limit of {calls} calls"),
    }
}

/// The verdict of policy on a call. `None`: it may run, and its effect needs no approval.
pub fn policy_verdict(ask: &PolicyAsk<'_>) -> Option<Verdict> {
    ruled(&policy::ruling(ask), ask.tool.effect)
}

/// A decision of policy about a call of this effect, as a verdict. `None`: it may run.
pub(crate) fn ruled(ruling: &policy::Ruling, effect: Effect) -> Option<Verdict> {
    match ruling {
        policy::Ruling::Runs => None,
        policy::Ruling::NeedsPerson(reasons) => {
            Some(Verdict::NeedsPerson { effect, why: policy::rendered(reasons) })
        }
        policy::Ruling::Denied(reasons) => {
            Some(Verdict::Denied { why: policy::rendered(reasons).unwrap_or_default(), by: DeniedBy::Policy })
        }
    }
}
