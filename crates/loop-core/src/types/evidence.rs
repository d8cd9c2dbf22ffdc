//! Evidence: settled observations with their numbers.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::arguments::Arguments;
use crate::types::ids::EvidenceId;
use crate::types::observation::Observation;
use crate::types::slot::CommandKey;

/// The settled result of an action, with the number that sections cite.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// Its number, in the order in which the actions were requested, from 1. `E0` is the work item.
    pub id: EvidenceId,
    /// The key of the action that returned it.
    pub key: CommandKey,
    /// The pass that requested the action, from 1; 0 for a tool that was selected before the first pass.
    pub pass: u32,
    /// The tool's own name, never an alias.
    pub tool: Arc<str>,
    /// The parameters that the tool received, as canonical JSON.
    pub parameters: Arguments,
    /// The result: status, summary, text for the model, data. The event that reported it shares it.
    pub observation: Arc<Observation>,
    /// Whether prompts show only its summary, because its body no longer fits. Set by the core, never taken back.
    pub shortened: bool,
}

impl Evidence {
    /// The evidence with this number. `all` is a run's evidence, in the order of its numbers.
    pub fn find(all: &[Self], id: EvidenceId) -> Option<&Self> {
        all.get(all.binary_search_by_key(&id, |evidence| evidence.id).ok()?)
    }
}
