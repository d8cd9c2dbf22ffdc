//! The tool selection of a run: which tools were called before the first pass, and why the others were not.

use std::sync::Arc;

use loop_core::policy::{is_forbidden, is_selectable};
use loop_core::types::{CommandKey, Slot};
use loop_core::{Run, Verdict};
use loop_llm::ModelRequest;
use loop_prompts::Dialogue;
use loop_runtime::models::not_selected;

use crate::domain::Domain;

/// A tool of the domain, and the result of the selection for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSelection {
    /// The tool's name.
    pub tool: Arc<str>,
    /// Its selected calls: the parameters as JSON, the model's reason, and the outcome. Empty: it was not selected.
    pub calls: Vec<String>,
    /// Why it was not selected. `None`: it was selected, or the model gave no reason.
    pub why_not: Option<String>,
}

impl Domain {
    /// The result of a run's tool selection for each tool, in the order of the domain. Empty if the run had no
    /// selection.
    ///
    /// Only the offline stub gives reasons for the tools that it does not select.
    pub fn selection(&self, run: &Run) -> Vec<ToolSelection> {
        let spec = run.spec();
        if !spec.protocol.properties().has_contract {
            return Vec::new();
        }
        let unselected = if self.selects_offline() { self.unselected(run) } else { Vec::new() };
        spec.tools
            .iter()
            .map(|tool| {
                let selected = run.actions().iter().filter(|action| action.key.pass == 0);
                let calls: Vec<String> = selected
                    .filter(|action| *action.tool_name() == *tool.name)
                    .map(|action| {
                        let why = &action.action.reason;
                        match &action.verdict {
                            Verdict::Run => format!("{}: {why}", action.parameters),
                            verdict => format!("{}: {why}; not run: {}", action.parameters, verdict.reason()),
                        }
                    })
                    .collect();
                let by_stub = || unselected.iter().find(|(name, _)| **name == *tool.name).map(|(_, why)| why.clone());
                let why_not = match calls.is_empty() {
                    false => None,
                    true if is_forbidden(spec, tool) => Some("the policy forbids it".to_owned()),
                    true if !is_selectable(tool) => {
                        Some("it may change something or asks a person, so it is not offered before the first pass".to_owned())
                    }
                    true => by_stub(),
                };
                ToolSelection { tool: Arc::clone(&tool.name), calls, why_not }
            })
            .collect()
    }

    /// The tools that the stub does not select for this run, with its reasons.
    fn unselected(&self, run: &Run) -> Vec<(String, String)> {
        let key = CommandKey::new(0, Slot::Select);
        let Some(prompt) = Dialogue::default().prompt(&self.prompts, run, key) else { return Vec::new() };
        let user = prompt.turns.last().map_or("", |turn| turn.text());
        let request = ModelRequest::new("offline", prompt.system, user);
        not_selected(&request).into_iter().map(|it| (it.tool, it.why)).collect()
    }
}
