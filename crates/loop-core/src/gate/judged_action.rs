//! Actions with their verdicts.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::gate::verdict::Verdict;
use crate::policy::{self, PolicyRule};
use crate::spec::{EndCall, RunSpec};

use crate::repeats::RepeatRule;
use crate::types::{Action, Arguments, CommandKey, Evidence, EvidenceId, Status, is_default};

/// An action with its verdict. The run keeps it until its end.
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
    /// The rules of policy that deny the call or require an approver, each once, even if another rule or a person
    /// decided. Empty: there are none, or policy was not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
    /// The index of the slot of the run's plan that the call fits. `None`: it fits none, or there is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Whether the tool was found by a part of its name. Such a match is a repair.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guessed: bool,
}

impl JudgedAction {
    /// The tool's own name where it is known, else what the model wrote.
    pub fn tool_name(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.action.tool)
    }

    /// The end of the run that the call proposes. `None`: it is a call of a tool, or policy forbids it.
    pub fn end_call(&self) -> Option<EndCall> {
        let is_own = self.verdict == Verdict::Kept && self.tool.is_none();
        EndCall::named(&self.action.tool).filter(|_| is_own)
    }

    /// Whether the call plans effects, whether or not the plan was accepted.
    pub fn is_plan(&self, spec: &RunSpec) -> bool {
        self.tool.is_none() && policy::is_plan(spec, &self.action.tool)
    }

    /// The reason that a call of this kind gives. `None`: it is not such a call.
    pub(crate) fn reason_to(&self, end: EndCall) -> Option<Arc<str>> {
        (self.end_call() == Some(end)).then(|| {
            let given = self.action.parameters.value().ok().and_then(|it| it.get("reason")?.as_str());
            given.map(str::trim).filter(|it| !it.is_empty()).unwrap_or("no reason given").into()
        })
    }

    /// The reason of its verdict in one line. For a repeat of a call that never ran it says so, and for a call without
    /// a tool name as well. `evidence` is the run's.
    pub fn reason(&self, evidence: &[Evidence]) -> String {
        match self.end_call() {
            Some(EndCall::Escalate) => return "hands the work to a person".to_owned(),
            Some(EndCall::Refuse) => return "refuses the work".to_owned(),
            None if self.verdict == Verdict::Kept && self.tool.is_none() => {
                return "taken as the plan".to_owned();
            }
            None => {}
        }
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
