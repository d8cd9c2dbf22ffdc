//! Actions with their verdicts.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::gate::verdict::Verdict;
use crate::repeats::RepeatRule;
use crate::types::{Action, Arguments, CommandKey, Evidence, EvidenceId, Status, is_default};

/// An action with its verdict: kept for the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JudgedAction {
    /// Fixed when it was proposed.
    pub key: CommandKey,
    /// What was asked for.
    pub action: Action,
    /// The tool's own name, where one was found.
    pub tool: Option<Arc<str>>,
    /// Parameters rebuilt from the fields that the tool declares, as canonical JSON (S4-81).
    pub parameters: Arguments,
    /// What was decided.
    pub verdict: Verdict,
    /// The number of its observation, once it was admitted.
    pub evidence: Option<EvidenceId>,
    /// Whether its tool was found by a part of its name alone (C21).
    #[serde(default, skip_serializing_if = "is_default")]
    pub guessed: bool,
}

impl JudgedAction {
    /// The tool's own name where it is known, else what the model wrote.
    pub fn tool_name(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.action.tool)
    }

    /// The reason of its verdict in one line. Of a repeat it says as well where the earlier call never ran: policy or a person
    /// refused it, or nobody answered in time; and of an unknown tool where none was named. `evidence` is the run's.
    pub fn reason(&self, evidence: &[Evidence]) -> String {
        let (of, earlier, rule) = match &self.verdict {
            Verdict::Duplicate { of, evidence: Some(earlier), rule } => (of, earlier, rule),
            Verdict::UnknownTool { similar } if similar.is_empty() && self.tool_name().trim().is_empty() => {
                return "it names no tool".to_owned();
            }
            verdict => return verdict.reason(),
        };
        match (Evidence::find(evidence, *earlier), rule) {
            (Some(Evidence { id, observation, .. }), _) if observation.status == Status::Denied => {
                format!("already asked for as {of} and denied: {}; see {id}", observation.summary)
            }
            (Some(Evidence { id, .. }), None | Some(RepeatRule::Exact)) => {
                format!("already run as {of}, see {id}")
            }
            _ => self.verdict.reason(),
        }
    }
}
