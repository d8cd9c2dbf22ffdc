//! Runners for tests, and the spans that their calls are told of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loop_core::types::{Price, TraceParent};
use loop_llm::{ChatModel, EventStream, LlmError, ModelRequest};
use loop_otel::{Telemetry, TelemetryConfig};
use loop_runtime::models::{ModelSpec, Models, Scripted};
use loop_runtime::tools::{Effect, Registry, ToolContext, ToolDeclaration, ToolResult};
use loop_runtime::{RunSpec, Runner, WorkItem};

/// The spans that calls were told of.
#[derive(Clone, Debug, Default)]
pub struct Noted(Arc<Mutex<Vec<Call>>>);

/// What was called, and its span.
type Call = (String, Option<TraceParent>);

impl Noted {
    fn note(&self, what: &str, traceparent: Option<TraceParent>) {
        self.0.lock().unwrap().push((what.to_owned(), traceparent));
    }

    pub fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }
}

/// A model that notes the span of each call.
#[derive(Debug)]
struct Noting {
    inner: Scripted,
    noted: Noted,
}

#[async_trait]
impl ChatModel for Noting {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.noted.note("model", request.meta.traceparent);
        self.inner.stream(request).await
    }
}

pub const CALLS: &str = r#"{"version": 1, "replies": [
    {"text": "I look.", "calls": [{"id": "call-a", "name": "look_up", "arguments": "{\"of\": \"MARK-ARGUMENT\"}"}],
     "usage": {"input": 100, "cache_read": 40, "output": 20, "reasoning": 5}},
    {"text": "It is MARK-REPLY.", "usage": {"input": 200, "output": 10}}]}"#;

/// A reply that wants something written, and one after it.
pub const WRITES: &str = r#"{"version": 1, "replies": [
    {"calls": [{"id": "call-w", "name": "reboot", "arguments": "{}"}], "usage": {"input": 10, "output": 5}},
    {"text": "Done.", "usage": {"input": 20, "output": 2}}]}"#;

/// A runner of a conversation with a tool that reads and one that writes.
pub fn runner(replies: &str, noted: &Noted) -> Runner {
    let schema = serde_json::json!({"type": "object", "properties": {"of": {"type": "string"}}});
    let look =
        ToolDeclaration::new("look_up").description("Looks it up.").effect(Effect::Read).schema(schema);
    let reboot = ToolDeclaration::new("reboot").description("Reboots it.").effect(Effect::WriteKeyed);
    let (of_look, of_reboot) = (noted.clone(), noted.clone());
    let tools = Registry::builder()
        .tool_fn(look, move |_, context: ToolContext, _| {
            of_look.note("look_up", context.traceparent);
            async move { ToolResult::ok("look_up", "found", "MARK-RESULT", serde_json::json!({"found": 1})) }
        })
        .tool_fn(reboot, move |_, context: ToolContext, _| {
            of_reboot.note("reboot", context.traceparent);
            async move { ToolResult::ok("reboot", "rebooted", "It is rebooted.", serde_json::json!({})) }
        })
        .build()
        .unwrap();
    let price = Price {
        input: 1_000_000,
        output: 2_000_000,
        cache_read: None,
        cache_write: None,
        cache_write_long: None,
        above: Vec::new(),
    };
    let spec = RunSpec::conversation("desk", ModelSpec::new("openai", "gpt-test").with_price(price));
    let model = Noting { inner: Scripted::from_json(replies).unwrap(), noted: noted.clone() };
    Runner::new(spec, tools, Models::one(Arc::new(model)))
}

pub fn item() -> WorkItem {
    WorkItem::new("T-1", "ticket", "It hangs", "MARK-ITEM hangs.")
}

/// Telemetry that goes to `url`, with more variables, and the lines that it reports.
pub fn telemetry(url: &str, more: &[(&str, &str)]) -> (Telemetry, Arc<Mutex<Vec<String>>>) {
    // Nothing is sent before it is flushed, unless a test says otherwise.
    let calm = [("OTEL_BSP_SCHEDULE_DELAY", "600000"), ("OTEL_METRIC_EXPORT_INTERVAL", "86400000")];
    let known: BTreeMap<String, String> = [("OTEL_EXPORTER_OTLP_ENDPOINT", url)]
        .iter()
        .chain(&calm)
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let config = TelemetryConfig::from_variables(|name| known.get(name).cloned()).unwrap();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    (Telemetry::start(config, move |line| kept.lock().unwrap().push(line.to_owned())).unwrap(), lines)
}
