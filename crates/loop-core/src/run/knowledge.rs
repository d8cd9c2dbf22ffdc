//! Knowledge: the evidence that a run has read, its taint, and how much of it is compacted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gate::{JudgedAction, Verdict};
use crate::policy::{EffectPlan, PlannedCall};
use crate::reply::Echoes;
use crate::run::calls::Work;
use crate::run::warning::{MAX_WARNINGS, RunWarning};
use crate::spec::{RunSpec, ToolSpec};
use crate::types::{Arguments, CommandKey, Evidence, EvidenceId, Observation, Status, Taint};

/// The observations, and what follows from having read them.
///
/// Evidence is in the order of its numbers, from 1 without a gap, and is only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Knowledge {
    pub(super) evidence: Vec<Evidence>,
    /// Contract blocks in the texts that were read, so that a reply that echoes one is recognised.
    pub(super) echoes: Echoes,
    /// The taint: whether untrusted text or private data was read.
    pub(super) taint: Taint,
    /// The plan, until one is accepted in its place. `None`: there is none, or it is of another policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<EffectPlan>,
    /// Which part of a conversation is compacted.
    pub(super) compacted: CompactedPart,
    /// What was irregular, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<RunWarning>,
}

/// Which part of a conversation is compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct CompactedPart {
    /// The last compacted pass, from 1. 0: none.
    pub(super) through: u32,
    /// Whether the messages before the run are compacted.
    pub(super) history: bool,
}

impl Knowledge {
    /// Keeps a warning, once.
    pub(super) fn warn(&mut self, warning: RunWarning) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Records that an action which runs under `key` takes the slot of the plan that it fits.
    pub(super) fn take_slot(&mut self, action: &JudgedAction, key: CommandKey, tool: Option<&ToolSpec>) {
        if let (Some(plan), Some(slot), Some(tool)) = (&mut self.plan, action.slot, tool) {
            let parameters = action.parameters.value().unwrap_or(&Value::Null);
            plan.take(slot, PlannedCall { tool, parameters, key });
        }
    }

    /// What a result means for the plan: a call that its tool refused frees its slot, and private data that the plan does
    /// not name, requested after untrusted text was read, ends what sends data out. `before` is the taint at the request.
    pub(super) fn settle_plan(
        &mut self,
        spec: &RunSpec,
        tool: &ToolSpec,
        work: &Work,
        parameters: &Arguments,
        result: &Observation,
        before: Taint,
    ) {
        let Some(plan) = &mut self.plan else { return };
        let is_private = Taint::default().after_result(tool, result).private;
        if result.status.is_unrun() || result.status == Status::InvalidInput {
            plan.free(&work.key);
        } else if is_private && before.untrusted {
            let parameters = parameters.value().unwrap_or(&Value::Null);
            plan.leaked_into(spec, tool, parameters, work.evidence);
        }
    }

    /// The evidence with this number.
    pub(super) fn find(&self, id: EvidenceId) -> Option<&Evidence> {
        Evidence::find(&self.evidence, id)
    }

    /// Whether a call of the output tool was a schema violation, or repeats one.
    pub(super) fn is_violation(&self, judged: &JudgedAction) -> bool {
        let settled = match &judged.verdict {
            Verdict::Duplicate { of, evidence: None, .. } => {
                self.evidence.iter().rev().find(|evidence| evidence.key == *of)
            }
            Verdict::Duplicate { evidence: Some(id), .. } => self.find(*id),
            _ => judged.evidence.and_then(|id| self.find(id)),
        };
        settled.is_some_and(|evidence| evidence.observation.status == Status::InvalidInput)
    }

    /// The number of the next evidence. `waiting` others have a number and have not settled.
    pub(super) fn next_id(&self, waiting: usize) -> EvidenceId {
        EvidenceId((self.evidence.len() + waiting) as u32 + 1)
    }

    /// The required tools without a result. A failure or an empty result is not enough.
    pub(super) fn unobserved<'s>(&self, spec: &'s RunSpec) -> impl Iterator<Item = &'s Arc<str>> {
        let observed = |tool: &Arc<str>| {
            let found = |it: &Evidence| it.tool == *tool && it.observation.status == Status::Ok;
            self.evidence.iter().any(found)
        };
        spec.gate.required_tools.iter().filter(move |tool| !observed(tool))
    }

    /// The evidence that a section may cite, in ascending order: the work item, and results of status `ok` or `empty`.
    pub(super) fn citable(&self) -> Vec<EvidenceId> {
        let found = self.evidence.iter().filter(|it| it.observation.status.is_citable()).map(|it| it.id);
        std::iter::once(EvidenceId::ITEM).chain(found).collect()
    }

    /// Whether evidence after the first `seen` has a content that no earlier evidence had.
    pub(super) fn has_new_since(&self, seen: u32) -> bool {
        let (old, new) = self.evidence.split_at(self.evidence.len().min(seen as usize));
        let content = |it: &Evidence| it.observation.status.is_citable().then_some(it.observation.digest);
        let is_known = |digest| old.iter().any(|it| it.observation.digest == digest && content(it).is_some());
        // Usually the first of them is new, so that earlier evidence is looked through once.
        new.iter().filter_map(content).any(|digest| !is_known(digest))
    }
}
