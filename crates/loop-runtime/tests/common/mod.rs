//! A small helpdesk: two tools over made-up rows, four sections.

pub mod world;

use std::sync::Arc;

use loop_core::{
    Cite, DocumentSpec, Effect, GateSettings, Limits, ModelSpec, ModelSpecs, NonceMode, Price, ProtocolSpec,
    RunSpec, SPEC_VERSION, Scope, SectionSpec, Selection, WorkItem,
};
use loop_runtime::{
    Runner,
    models::{ChatModel, Models},
    tools::{Registry, ToolDeclaration, ToolResult},
};
use serde_json::{Value, json};

pub fn item() -> WorkItem {
    let text = "Laptop HAR-LT-014 is slow and its backup failed since Monday. Please help.";
    WorkItem {
        id: "T-1".into(),
        kind: "ticket".into(),
        title: "Backup failed".into(),
        full: text.into(),
        compact: text.into(),
        scope: Scope {
            account: Some("harbor".into()),
            account_name: Some("Harbor".into()),
            ..Scope::default()
        },
        form: Default::default(),
        caller: None,
        trace: None,
    }
}

pub fn spec() -> RunSpec {
    let section = |id: &str, heading: &str, required, cite: bool| SectionSpec {
        id: id.into(),
        heading: heading.into(),
        describe: "".into(),
        required,
        cite: if cite { Cite::Any } else { Cite::No },
    };
    let model = ModelSpec {
        provider: "offline".into(),
        model: "offline-1".into(),
        base_model: None,
        price: Some(Price::flat(100_000, 400_000)),
        context_tokens: 128_000,
        max_output_tokens: 8_192,
        timeout_ms: 60_000,
    };
    RunSpec {
        version: SPEC_VERSION,
        domain: "test".into(),
        goal: "Help.".into(),
        profile: None,
        protocol: ProtocolSpec::Document(DocumentSpec {
            sections: vec![
                section("situation", "🔍 Situation", true, false),
                section("findings", "📋 Findings", true, true),
                section("cause", "🧠 Cause", false, false),
                section("next_steps", "✅ Next steps", true, true),
            ],
            nonce: NonceMode::Prefer,
        }),
        tools: Vec::new(),
        selection: Selection::default(),
        models: ModelSpecs { selector: None, base: model, escalated: None, fallback: None },
        limits: Limits::default(),
        gate: GateSettings::default(),
        save: false,
        stop_reasons: Vec::new(),
    }
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
