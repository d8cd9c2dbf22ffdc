//! Actions with their verdicts.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::gate::verdict::Verdict;
use crate::policy::PolicyRule;

use crate::repeats::RepeatRule;
use crate::types::{Action, Arguments, CommandKey, Evidence, EvidenceId, Status, is_default};

/// An action with its verdict. It is kept for the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JudgedAction {
    /// The action's key, fixed when the reply was read.
    pub key: CommandKey,
    /// The action as the model requested it.
    pub action: Action,
    /// The tool's own name. `None`: no tool was found.
    pub tool: Option<Arc<str>>,
    /// Parameters rebuilt from the fields that the tool declares, as canonical JSON. This is what runs.
    pub parameters: Arguments,
    /// What the gate decided. An approval or a denial replaces it.
    pub verdict: Verdict,
    /// The number of its result. `None`: the action was not admitted.
    pub evidence: Option<EvidenceId>,
    /// The rules of policy that speak against the call, each once, also where another rule or a person decided in the end.
    /// Empty: none does, or it was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
    /// Whether the tool was found by a part of its name. Such a match is a repair.
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
