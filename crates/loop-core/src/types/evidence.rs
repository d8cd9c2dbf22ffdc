//! Evidence: settled observations with their numbers.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::arguments::Arguments;
use crate::types::ids::EvidenceId;
use crate::types::observation::Observation;
use crate::types::slot::CommandKey;

/// A settled observation with its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// In the order in which it was asked for.
    pub id: EvidenceId,
    /// The action that returned it.
    pub key: CommandKey,
    /// The pass that asked for it; 0 for a selected tool.
    pub pass: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Rebuilt parameters, as canonical JSON.
    pub parameters: Arguments,
    /// What came back.
    pub observation: Observation,
    /// Whether prompts show only its summary, because its body no longer fits.
    pub shortened: bool,
}

impl Evidence {
    /// The one of this number, or none. `all` is a run's evidence, in the order of its numbers.
    pub fn find(all: &[Self], id: EvidenceId) -> Option<&Self> {
        all.get(all.binary_search_by_key(&id, |evidence| evidence.id).ok()?)
    }
}
