//! Whether a run is continued with what it was started with.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::run::Started;
use serde_json::Value;

use crate::drive::parts::RunParts;
use crate::drive::start_error::StartError;

impl RunParts {
    /// An error if a run was started with other tools, settings or prompts. With its manifest the error names the tools.
    pub(crate) fn check_unchanged(
        &self,
        started: &Started,
        manifest: Option<&str>,
    ) -> Result<(), StartError> {
        let changed = |what, tools| StartError::Changed { run: started.run.clone(), what, tools };
        // The settings hold a part of what the tools say about themselves, so the tools come first.
        if started.tools != self.registry.manifest_hash() {
            let tools = manifest.map(|before| changed_tools(before, self.registry.manifest()));
            return Err(changed("tools", tools.unwrap_or_default()));
        }
        if started.spec != self.names().spec {
            return Err(changed("settings", Vec::new()));
        }
        if started.prompts != self.prompts.hash() {
            return Err(changed("prompts", Vec::new()));
        }
        Ok(())
    }
}

/// The tools of which two manifests say different things, by name.
fn changed_tools(before: &str, now: &str) -> Vec<String> {
    let read = |manifest: &str| -> BTreeMap<String, Value> {
        let tools: Vec<Value> = serde_json::from_str(manifest).unwrap_or_default();
        let name = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        tools.into_iter().map(|tool| (name(&tool), tool)).collect()
    };
    let (before, now) = (read(before), read(now));
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != now.get(*name)).cloned().collect()
}
