//! The actions part of a run's page: each requested action, its verdict, and the rule that decided.

use std::sync::Arc;

use loop_core::Verdict;
use loop_core::gate::JudgedAction;
use loop_core::policy::PolicyRule;
use loop_runtime::report::EffectPlanReport;
use maud::{Markup, html};

use super::AppliedEntry;
use super::shown::{PagePosition, anchor, nothing};
use crate::pages::span::Changing;
use crate::pages::text::{CutText, TextBudget, rest, t};

/// The most bytes of all parameters on a page, and of those of one action.
const ROOM: usize = 1024 * 1024;
const MAX_PARAMETERS: usize = 2 * 1024;

#[derive(Debug)]
pub(super) struct Actions {
    lines: Vec<ActionRow>,
    /// The actions after the previous event, to find out which changed.
    last: Vec<Arc<JudgedAction>>,
    room: TextBudget,
    plan: Changing<EffectPlanReport>,
}

impl Default for Actions {
    fn default() -> Self {
        let room = TextBudget::new(ROOM);
        Self { lines: Vec::new(), last: Vec::new(), room, plan: Changing::default() }
    }
}

#[derive(Debug)]
struct ActionRow {
    from: u64,
    key: loop_core::types::CommandKey,
    tool: String,
    /// The name that the model wrote, if it differs.
    written: Option<Arc<str>>,
    parameters: CutText,
    priority: &'static str,
    reason: Arc<str>,
    verdict: Changing<VerdictLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct VerdictLine {
    name: &'static str,
    look: &'static str,
    rule: String,
    why: String,
    evidence: Option<String>,
}

impl VerdictLine {
    fn of(action: &JudgedAction, evidence: &[loop_core::Evidence]) -> Self {
        let verdict = &action.verdict;
        let look = match verdict {
            Verdict::Run | Verdict::Kept => "good",
            Verdict::NeedsPerson { .. } => "warn",
            Verdict::Skipped | Verdict::Duplicate { .. } | Verdict::OneAtATime => "plain",
            _ => "bad",
        };
        let mut rules: Vec<String> = action.rules.iter().map(|rule| rule_name(*rule).to_owned()).collect();
        rules.extend(verdict.repeat_code().map(|code| format!("repeats: {code}")));
        match verdict {
            Verdict::NeedsPerson { .. } if action.rules.is_empty() => {
                rules.push("the tool's effect".to_owned())
            }
            Verdict::OverLimit { limit } => rules.push(limit.setting().path().to_owned()),
            Verdict::BreakerOpen { breaker } => rules.push(breaker.setting().path().to_owned()),
            Verdict::Denied { by, .. } => rules.push(
                match by {
                    loop_core::gate::DeniedBy::Policy => "policy",
                    loop_core::gate::DeniedBy::Repeat => "gate.on_duplicate",
                    loop_core::gate::DeniedBy::Person => "a person",
                    loop_core::gate::DeniedBy::Silence => "limits.person_ms",
                }
                .to_owned(),
            ),
            _ => {}
        }
        Self {
            name: verdict.name(),
            look,
            rule: rules.join(", "),
            why: action.reason(evidence),
            evidence: action.evidence.map(|id| id.to_string()),
        }
    }
}

/// The setting of a rule.
fn rule_name(rule: PolicyRule) -> &'static str {
    match rule {
        PolicyRule::Forbid => "gate.forbid",
        PolicyRule::Allow => "gate.allow",
        PolicyRule::Question => "a question to a person",
        PolicyRule::Taint => "gate.taint",
        PolicyRule::Authority => "the tool's authority",
    }
}

impl Actions {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        EffectPlanReport::of(seen.run).into_iter().for_each(|plan| self.plan.set(seen.at, plan));
        let now = seen.run.actions();
        let evidence = seen.run.evidence();
        for (n, action) in now.iter().enumerate() {
            if self.last.get(n).is_some_and(|last| Arc::ptr_eq(last, action)) {
                continue;
            }
            if self.lines.len() <= n {
                let written = &action.action.tool;
                self.lines.push(ActionRow {
                    from: seen.at,
                    key: action.key,
                    tool: action.tool_name().to_owned(),
                    written: (**written != *action.tool_name()).then(|| Arc::clone(written)),
                    parameters: self.room.take(&action.parameters, MAX_PARAMETERS),
                    priority: action.action.priority.name(),
                    reason: Arc::clone(&action.action.reason),
                    verdict: Changing::default(),
                });
            }
            if let Some(line) = self.lines.get_mut(n) {
                line.verdict.set(seen.at, VerdictLine::of(action, evidence));
            }
            match self.last.get_mut(n) {
                Some(last) => *last = Arc::clone(action),
                None => self.last.push(Arc::clone(action)),
            }
        }
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            @for (span, plan) in self.plan.iter() {
                div data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] { (plan_html(plan)) }
            }
            (nothing(shown, self.lines.first().map(|line| line.from), "The model has requested nothing."))
            @if !self.lines.is_empty() {
                ol.cards {
                    @for line in &self.lines {
                        li id={ "a" (anchor(line.key)) } data-from=(line.from) hidden[shown.is_before(line.from)] {
                            p.top {
                                code { (t(&line.key.to_string())) } " " strong { (t(&line.tool)) }
                                @if let Some(written) = &line.written { " " span.quiet { "written as " (t(written)) } }
                                " " span.quiet { (line.priority.replace('_', " ")) }
                            }
                            @for (span, it) in line.verdict.iter() {
                                p data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                                    span.pill.(it.look) { (it.name.replace('_', " ")) } " " (t(&it.why))
                                    @if !it.rule.is_empty() { " " span.quiet { "rule: " (t(&it.rule)) } }
                                    @if let Some(evidence) = &it.evidence { " → " a href={ "#" (evidence) } { (evidence) } }
                                }
                            }
                            @if !line.reason.is_empty() { p.quiet { "The model says: " (t(&line.reason)) } }
                            pre tabindex="0" { (t(&line.parameters.text)) }
                            (rest(&line.parameters, &shown.rest))
                        }
                    }
                }
            }
        }
    }
}

/// A run's plan of effects.
pub(in crate::pages) fn plan_html(plan: &EffectPlanReport) -> Markup {
    html! {
        p { (t(&plan.giver())) ":" }
        ul { @for slot in &plan.slots { li { code { (t(&slot.to_string())) } } } }
    }
}
