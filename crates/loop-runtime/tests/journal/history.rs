//! A small real run, and what a journal is asked to keep of it.

use std::sync::Arc;

use loop_core::{
    ArgSpec, Command, Digest, DocumentSpec, Effect, Event, EventKind, Facts, FinishReason, GateSettings,
    Limits, Millis, ModelSpec, ModelSpecs, NonceMode, Observation, Price, PromptSize, ProtocolSpec, Reply,
    Run, RunId, RunSpec, SPEC_VERSION, Scope, SectionSpec, Selection, Status, ToolSpec, Usage, WorkItem,
};
use loop_runtime::journal::{Entry, Header};
use serde_json::json;

pub(crate) const MANIFEST: &str = r#"[{"name":"fetch_device"}]"#;

/// A run that asks for a tool, reads what it brings, and is confident: its entries in order.
pub(crate) fn history(id: &str) -> (Header, Vec<Entry>) {
    let spec = Arc::new(spec());
    let item = item();
    let unix_ms = 1_700_000_000_000;
    let manifest_hash = Digest::of("manifest", MANIFEST.as_bytes());
    let header = Header {
        run: RunId::new(id),
        unix_ms,
        item: Arc::clone(&item.id),
        title: Arc::clone(&item.title),
        spec: Arc::clone(&spec),
        manifest_hash,
        manifest: MANIFEST.into(),
        origin: None,
    };
    let prompts = Digest::of("prompts", b"");
    let facts = Facts {
        unix_ms,
        nonce: "n-7f3a".into(),
        prompts,
        tools: manifest_hash,
        history: None,
        provenance: loop_core::Provenance::default(),
    };
    let (mut run, first, notes) = Run::start(header.run.clone(), spec, item, facts);
    let mut entries = vec![Entry { seq: 0, event: first, notes }];
    let mut activity = [
        activity(
            "medium",
            json!([{"action_id": "a-1", "action_type": "fetch_device", "reason": "r",
                               "parameters": {"target": "srv-1"}, "priority": "required"}]),
        ),
        activity("high", json!([])),
    ]
    .into_iter();
    while !run.is_done() {
        let kind = match run.commands().first().expect("a live run commands something") {
            Command::CallModel(call) if call.granted.is_none() => {
                let prompt = PromptSize { bytes: 2_000, shared_bytes: 0 };
                let quote = run.quote(&call.key, prompt).expect("the limits leave room for two calls");
                EventKind::CallStarted {
                    key: call.key,
                    attempt: call.attempt,
                    tier: quote.tier,
                    prompt_bytes: prompt.bytes,
                    shared_bytes: prompt.shared_bytes,
                    prompt_hash: prompts,
                    max_output_tokens: quote.max_output_tokens,
                    reserve: quote.reserve,
                }
            }
            Command::CallModel(call) => EventKind::ModelReplied {
                key: call.key,
                attempt: call.attempt,
                reply: activity.next().expect("two replies are enough"),
            },
            Command::RunTool(tool) => EventKind::ToolFinished {
                key: tool.key,
                attempt: tool.attempt,
                observation: Observation::new(Status::Ok, "found", "srv-1: disk 97 %", r#"{"disk":97}"#),
            },
            other => panic!("{other:?} is not part of this run"),
        };
        let seq = entries.len() as u64;
        let event = Event { at: Millis(seq * 10), kind };
        let notes = run.apply(&event).expect("the event is what was commanded");
        entries.push(Entry { seq, event, notes });
    }
    (header, entries)
}

/// An entry that says nothing: for tests that count.
pub(crate) fn blank(seq: u64) -> Entry {
    Entry { seq, event: Event { at: Millis(seq), kind: EventKind::StopWithdrawn }, notes: Vec::new() }
}

fn activity(confidence: &str, actions: serde_json::Value) -> Reply {
    let contract =
        json!({"analysis_confidence": confidence, "confidence_reason": "r", "ai_actions": actions});
    Reply {
        unread_calls: 0,
        received: loop_core::Received::ended(),
        text: format!("## Situation\n\nThe disk is full.\n\n```json\n{contract}\n```\n").into(),
        calls: Vec::new(),
        reasoning: None,
        finish: FinishReason::EndTurn,
        usage: Some(Usage { input: 100, output: 50, ..Usage::default() }),
        cost: None,
        raw: None,
        served_model: None,
        warnings: Vec::new(),
    }
}

fn item() -> WorkItem {
    WorkItem {
        id: "T-1".into(),
        kind: "ticket".into(),
        title: "Disk full".into(),
        full: "The server's disk is full.".into(),
        compact: "Disk full on server.".into(),
        scope: Scope::default(),
        form: Default::default(),
        caller: None,
        trace: None,
    }
}

fn spec() -> RunSpec {
    let situation = SectionSpec {
        id: "situation".into(),
        heading: "Situation".into(),
        describe: "".into(),
        required: true,
        cite: loop_core::Cite::No,
    };
    let device = ToolSpec {
        name: "fetch_device".into(),
        aliases: Vec::new(),
        description: "Looks up a device.".into(),
        when: "".into(),
        args: ArgSpec::from_schema(&json!({
            "type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"],
        })),
        effect: Effect::Read,
        timeout_ms: 12_000,
        attempts: 2,
        smart: false,
        policy: loop_core::ToolPolicy::default(),
    };
    let base = ModelSpec {
        provider: "offline".into(),
        model: "m".into(),
        base_model: None,
        price: Some(Price::flat(100_000, 400_000)),
        context_tokens: 100_000,
        max_output_tokens: 8_192,
        timeout_ms: 60_000,
    };
    RunSpec {
        version: SPEC_VERSION,
        domain: "helpdesk".into(),
        goal: "Help.".into(),
        profile: None,
        protocol: ProtocolSpec::Document(DocumentSpec {
            sections: vec![situation],
            nonce: NonceMode::Prefer,
        }),
        tools: vec![device],
        selection: Selection { enabled: false, defaults: Vec::new() },
        models: ModelSpecs { selector: None, base, escalated: None, fallback: None },
        limits: Limits::default(),
        gate: GateSettings::default(),
        save: false,
        stop_reasons: Vec::new(),
    }
}
