//! The guards of a loop: how each is switched off, and how often it fired in a run.

use std::fmt;

use loop_core::policy::PolicyRule;
use loop_core::{
    Breakers, Cite, Condition, Decision, DeniedBy, JudgedAction, Limit, Note, OnDenied, OnInvalid,
    OnToolError, ProtocolSpec, Repeats, RunSpec, Setting, Stale, StopReason, TaintRule, Tier, ToolPolicy,
    Verdict,
};
use loop_runtime::{journal::Entry, tools::ToolDeclaration};

/// A guard of the loop that an ablation can disable.
pub struct AblationGuard {
    /// Its name in reports, for example `repeats`.
    pub name: &'static str,
    /// What it does, in half a sentence.
    pub does: &'static str,
    off: fn(&mut RunSpec),
    redeclare: fn(&mut ToolDeclaration),
    fires: fn(&Seen<'_>) -> u32,
}

impl fmt::Debug for AblationGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AblationGuard {
    /// Takes the guard out of a spec.
    pub(crate) fn switch_off(&self, spec: &mut RunSpec) {
        (self.off)(spec);
    }

    /// Takes out of a tool what the guard goes by.
    pub(crate) fn redeclare(&self, declaration: &mut ToolDeclaration) {
        (self.redeclare)(declaration);
    }

    /// How often it fired in a run.
    pub(crate) fn fired(&self, entries: &[Entry]) -> u32 {
        (self.fires)(&Seen { entries })
    }
}

/// What is seen of a run.
struct Seen<'a> {
    entries: &'a [Entry],
}

impl Seen<'_> {
    fn notes(&self) -> impl Iterator<Item = &Note> {
        self.entries.iter().flat_map(|entry| &entry.notes)
    }

    fn count(&self, is: impl Fn(&Note) -> bool) -> u32 {
        self.notes().filter(|note| is(note)).count() as u32
    }

    fn verdicts(&self, is: impl Fn(&JudgedAction) -> bool) -> u32 {
        self.count(|note| matches!(note, Note::ActionJudged(judged) if is(judged)))
    }

    /// Conditions of the stop.
    fn conditions(&self, is: impl Fn(&Condition) -> bool) -> u32 {
        let stops = self.notes().filter_map(|note| match note {
            Note::Stopped { certificate } => Some(certificate),
            _ => None,
        });
        stops
            .flat_map(|certificate| std::iter::once(&certificate.primary).chain(&certificate.also))
            .filter(|condition| is(condition))
            .count() as u32
    }

    fn reasons(&self, reasons: &[StopReason]) -> u32 {
        self.conditions(|condition| reasons.contains(&condition.reason))
    }
}

/// Whether a condition is one that this setting causes.
fn ends_by(condition: &Condition, setting: Setting) -> bool {
    condition.change.as_ref().is_some_and(|change| change.setting == setting)
}

/// Whether policy refused an action. What a person refused was no guard's doing.
fn is_forbidden(judged: &JudgedAction) -> bool {
    matches!(judged.verdict, Verdict::Denied { by: DeniedBy::Policy, .. })
}

/// Whether policy denied an action, or sent it to an approver, by this rule.
fn ruled_by(judged: &JudgedAction, rule: PolicyRule) -> bool {
    let is_ruled = matches!(judged.verdict, Verdict::NeedsPerson { .. }) || is_forbidden(judged);
    is_ruled && judged.rules.contains(&rule)
}

/// Reasons that are limits.
const LIMITS: [StopReason; 8] = [
    StopReason::MaxPasses,
    StopReason::MaxMessages,
    StopReason::MaxModelCalls,
    StopReason::MaxToolCalls,
    StopReason::BudgetExceeded,
    StopReason::TokenLimit,
    StopReason::OutputLimit,
    StopReason::Timeout,
];
/// What a run without limits still may not pass, so that it ends.
const FAR: u32 = 200;

fn leave(_: &mut ToolDeclaration) {}

/// Every guard, in the order of reports.
pub const GUARDS: [AblationGuard; 16] = [
    AblationGuard {
        name: "repeats",
        does: "refuses calls that bring nothing new",
        off: |spec| spec.gate.repeats = Some(Repeats::Off),
        redeclare: |declaration| declaration.policy.repeats = ToolPolicy::default().repeats,
        fires: |seen| {
            seen.verdicts(|judged| {
                let Verdict::OverLimit { limit } = &judged.verdict else {
                    return matches!(judged.verdict, Verdict::Duplicate { .. });
                };
                matches!(limit, Limit::OfTool { .. })
            })
        },
    },
    AblationGuard {
        name: "breakers",
        does: "ends repeated trouble",
        off: |spec| spec.gate.breakers = Breakers { tool_failures: 0, denied: 0, bad_arguments: 0 },
        redeclare: leave,
        fires: |seen| {
            let refused = |judged: &JudgedAction| matches!(judged.verdict, Verdict::BreakerOpen { .. });
            let opened = |condition: &Condition| {
                condition.change.as_ref().is_some_and(|change| change.setting.is_breaker())
            };
            seen.verdicts(refused) + seen.conditions(opened)
        },
    },
    AblationGuard {
        name: "forbid",
        does: "keeps tools from running that policy bars",
        off: |spec| {
            spec.gate.forbid.clear();
            spec.gate.allow.clear();
        },
        redeclare: leave,
        fires: |seen| {
            seen.verdicts(|judged| {
                is_forbidden(judged)
                    && !ruled_by(judged, PolicyRule::Taint)
                    && !ruled_by(judged, PolicyRule::Authority)
            })
        },
    },
    AblationGuard {
        name: "consent",
        does: "asks a person before an effect that is not approved",
        off: |spec| spec.gate.approved = vec!["*".into()],
        redeclare: leave,
        fires: |seen| {
            seen.verdicts(|judged| {
                matches!(judged.verdict, Verdict::NeedsPerson { .. })
                    && !ruled_by(judged, PolicyRule::Taint)
                    && !ruled_by(judged, PolicyRule::Authority)
            })
        },
    },
    AblationGuard {
        name: "taint",
        does: "minds what was read before an effect",
        off: |spec| spec.gate.taint = TaintRule::Off,
        redeclare: leave,
        fires: |seen| seen.verdicts(|judged| ruled_by(judged, PolicyRule::Taint)),
    },
    AblationGuard {
        name: "authority",
        does: "minds where recipients and amounts come from",
        off: |_| {},
        redeclare: |declaration| declaration.policy.authority.clear(),
        fires: |seen| seen.verdicts(|judged| ruled_by(judged, PolicyRule::Authority)),
    },
    AblationGuard {
        name: "evidence",
        does: "demands sections, citations and tools before an answer counts",
        off: |spec| {
            spec.gate.required_tools.clear();
            if let ProtocolSpec::Document(document) = &mut spec.protocol {
                for section in &mut document.sections {
                    (section.required, section.cite) = (false, Cite::No);
                }
            }
        },
        redeclare: leave,
        fires: |seen| {
            let revises =
                |note: &Note| matches!(note, Note::GateDecided { decision: Decision::Revise { .. }, .. });
            seen.count(revises) + seen.reasons(&[StopReason::EvidenceMissing])
        },
    },
    AblationGuard {
        name: "revisions",
        does: "grants a pass to revise an answer that lacks what is demanded",
        off: |spec| spec.gate.revision_passes = 0,
        redeclare: leave,
        fires: |seen| {
            seen.count(|note| matches!(note, Note::GateDecided { decision: Decision::Revise { .. }, .. }))
        },
    },
    AblationGuard {
        name: "stale",
        does: "ends runs whose confidence does not improve",
        off: |spec| spec.gate.stale = Stale::Off,
        redeclare: leave,
        fires: |seen| seen.reasons(&[StopReason::StaleConfidence]),
    },
    AblationGuard {
        name: "no_progress",
        does: "ends runs whose passes bring nothing",
        off: |spec| spec.gate.no_progress = 0,
        redeclare: leave,
        fires: |seen| seen.reasons(&[StopReason::NoProgress]),
    },
    AblationGuard {
        name: "escalation",
        does: "brings the more capable model when confidence stays low",
        off: |spec| spec.gate.escalate_after = 0,
        redeclare: leave,
        fires: |seen| seen.count(|note| matches!(note, Note::TierChanged { to: Tier::Escalated, .. })),
    },
    AblationGuard {
        name: "limits",
        does: "holds passes, calls, tokens, money and time",
        off: |spec| {
            let limits = &mut spec.limits;
            (limits.passes, limits.model_calls, limits.tool_calls) = (FAR, FAR, FAR);
            (limits.cost, limits.tokens, limits.messages) = (None, None, None);
        },
        redeclare: leave,
        fires: |seen| {
            let left = |judged: &JudgedAction| match judged.verdict {
                Verdict::OverLimit { limit } => !matches!(limit, Limit::OfTool { .. }),
                Verdict::Ended { reason } => LIMITS.contains(&reason),
                _ => false,
            };
            let reached = |condition: &Condition| LIMITS.contains(&condition.reason);
            seen.verdicts(left) + seen.conditions(reached)
        },
    },
    AblationGuard {
        name: "on_denied",
        does: "ends a run that asks for what policy bars, where policy says so",
        off: |spec| spec.gate.on_denied = OnDenied::FeedBack,
        redeclare: leave,
        fires: |seen| {
            let denied = seen.verdicts(is_forbidden);
            denied.min(seen.reasons(&[StopReason::Refused]))
        },
    },
    AblationGuard {
        name: "on_invalid",
        does: "ends a run whose reply is not valid, where policy says so",
        off: |spec| spec.gate.on_invalid = OnInvalid::FeedBack,
        redeclare: leave,
        fires: |seen| seen.conditions(|condition| ends_by(condition, Setting::OnInvalid)),
    },
    AblationGuard {
        name: "on_tool_error",
        does: "ends a run whose tool fails for good, where policy says so",
        off: |spec| spec.gate.on_tool_error = OnToolError::Continue,
        redeclare: leave,
        fires: |seen| seen.reasons(&[StopReason::ToolFailure]),
    },
    AblationGuard {
        name: "stop_reasons",
        does: "ends a run for what the domain itself declares",
        off: |spec| spec.stop_reasons.clear(),
        redeclare: leave,
        fires: |seen| seen.conditions(|condition| matches!(condition.reason, StopReason::Domain(_))),
    },
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::GUARDS;
    use crate::case::Case;
    use crate::eval::run_case;

    #[tokio::test]
    async fn what_a_person_refuses_is_no_guards_doing() {
        // W7: nothing is forbidden here, and nothing is tainted.
        for (say, why) in [("deny", "person"), ("nothing", "no_answer")] {
            let case = json!({
                "case_id": "no",
                "goal": "Delete order O-104.",
                "spec": {
                    "preset": "step",
                    "gate": { "people": true },
                    "limits": { "person_ms": 20 },
                    "tools": { "delete_order": { "effect": "write_irreversible" } },
                },
                "replies": [
                    { "calls": [{ "name": "delete_order", "arguments": {} }] },
                    { "text": "Nothing was deleted." },
                ],
                "people": [{ "say": say, "text": if say == "deny" { "the run has read untrusted text" } else { "" } }],
                "expected": {},
            });
            let result = run_case(&Case::parse(&case.to_string(), "no.json").unwrap()).await;
            let denied: Vec<_> = result.trace.iter().filter(|line| line.contains(":deny:")).collect();
            assert_eq!(denied, [&format!("step:0:validation:deny:{why}")], "{:#?}", result.trace);
            let fired: Vec<_> = GUARDS
                .iter()
                .filter(|guard| guard.fired(&result.entries) > 0)
                .map(|guard| guard.name)
                .collect();
            assert_eq!(fired, ["consent"]);
        }
    }
}
