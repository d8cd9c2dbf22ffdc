//! A small helpdesk: two tools over made-up rows, four sections.

pub mod world;

use std::sync::Arc;

use loop_core::spec::{Cite, SectionSpec};
use loop_core::types::{Effect, Scope};
use loop_core::{RunSpec, WorkItem};
use loop_runtime::{
    Runner,
    models::{ChatModel, Models},
    tools::{Registry, ToolDeclaration, ToolResult},
};
use loop_testkit::Setup;
use serde_json::{Value, json};

pub fn item() -> WorkItem {
    let text = "Laptop HAR-LT-014 is slow and its backup failed since Monday. Please help.";
    let (account, account_name) = (Some("harbor".into()), Some("Harbor".into()));
    WorkItem {
        scope: Scope { account, account_name, ..Scope::default() },
        ..WorkItem::new("T-1", "ticket", "Backup failed", text)
    }
}

pub fn spec() -> RunSpec {
    let cited = |id, heading| SectionSpec { cite: Cite::Any, ..SectionSpec::new(id, heading) }.required();
    Setup::document("test")
        .goal("Help.")
        .section(SectionSpec::new("situation", "🔍 Situation").required())
        .section(cited("findings", "📋 Findings"))
        .section(SectionSpec::new("cause", "🧠 Cause"))
        .section(cited("next_steps", "✅ Next steps"))
        .selector(&[])
        .limits(|limits| limits.person_ms = Some(600_000))
        .spec
}

pub fn registry() -> Registry {
    let parameters = |example: &str| {
        json!({"type": "object", "required": ["target"], "properties": {
            "target": {"type": "string", "description": "a name", "examples": [example]}}})
    };
    let device = ToolDeclaration::new("fetch_device_info")
        .description("Fetch device details: hardware, OS, status.")
        .when("Use when a laptop or server is named.")
        .schema(parameters("HAR-LT-014"))
        .effect(Effect::Read);
    let backup = ToolDeclaration::new("fetch_backup_status")
        .description("Fetch the last runs of a backup job.")
        .when("Use for backup trouble.")
        .schema(parameters("BJ-HAR-07"))
        .effect(Effect::Read);
    let found = |tool: &'static str, row: Value| ToolResult::found(tool, "Rows", &item().scope, vec![row]);
    Registry::builder()
        .tool_fn(device, move |_, _, _| async move {
            found(
                "fetch_device_info",
                json!({"hostname": "HAR-LT-014", "status": "disk full", "backup": "BJ-HAR-07"}),
            )
        })
        .tool_fn(backup, move |_, _, _| async move {
            found("fetch_backup_status", json!({"job": "BJ-HAR-07", "last_result": "failed: no space"}))
        })
        .build()
        .unwrap()
}

pub fn runner(model: impl ChatModel + 'static) -> Runner {
    Runner::new(spec(), registry(), Models::one(Arc::new(model)))
}
