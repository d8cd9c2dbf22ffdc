//! Knowledge: what a run has read, and how it is shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{JudgedAction, Verdict};
use crate::reply::Echoes;
use crate::spec::RunSpec;
use crate::types::{Digest, Evidence, EvidenceId, Status, Taint};

/// What was observed, and what follows from having read it.
///
/// Evidence is in the order of its numbers, from 1 on without a gap, and is only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Knowledge {
    pub(super) evidence: Vec<Evidence>,
    /// Contracts that stand in what was read, so that an echo of one is known.
    pub(super) echoes: Echoes,
    /// Whether something untrusted, or something private, was read.
    pub(super) taint: Taint,
    /// What of a conversation is shown in short.
    pub(super) compacted: Compacted,
}

/// What of a conversation is shown in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Compacted {
    /// The last pass that is; 0 for none.
    pub(super) through: u32,
    /// Whether the messages before the run are.
    pub(super) history: bool,
}

impl Knowledge {
    /// The evidence of this number.
    pub(super) fn find(&self, id: EvidenceId) -> Option<&Evidence> {
        Evidence::find(&self.evidence, id)
    }

    /// Whether a call of the output tool was answered by its schema that it does not fit, or repeats one that was.
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

    /// The number that the next evidence gets, after `waiting` others that have one and have not settled.
    pub(super) fn next_id(&self, waiting: usize) -> EvidenceId {
        EvidenceId((self.evidence.len() + waiting) as u32 + 1)
    }

    /// The required tools that returned nothing: neither a failure nor an empty result is what was demanded.
    pub(super) fn unobserved<'s>(&self, spec: &'s RunSpec) -> impl Iterator<Item = &'s Arc<str>> {
        let observed = |tool: &Arc<str>| {
            let found = |it: &Evidence| it.tool == *tool && it.observation.status == Status::Ok;
            self.evidence.iter().any(found)
        };
        spec.gate.required_tools.iter().filter(move |tool| !observed(tool))
    }

    /// What a section may cite, in ascending order: the work item, and what was found or found to be absent.
    pub(super) fn citable(&self) -> Vec<EvidenceId> {
        let found = self.evidence.iter().filter(|it| it.observation.status.is_citable()).map(|it| it.id);
        std::iter::once(EvidenceId::ITEM).chain(found).collect()
    }

    /// Whether evidence with a content that none before had has come after the first `seen`.
    pub(super) fn has_new_since(&self, seen: u32) -> bool {
        let (old, new) = self.evidence.split_at(self.evidence.len().min(seen as usize));
        let content = |it: &Evidence| it.observation.status.is_citable().then_some(it.observation.digest);
        if new.is_empty() {
            return false;
        }
        let known: BTreeSet<Digest> = old.iter().filter_map(content).collect();
        new.iter().filter_map(content).any(|digest| !known.contains(&digest))
    }
}
