//! A small desk whose model answers by what it reads alone, and whose effects are counted in a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use loop_core::reply::FinishReason;
use loop_core::spec::ModelSpec;
use loop_core::types::{Effect, ToolCall, Usage};
use loop_core::{RunSpec, WorkItem};
use loop_llm::{ChatModel, LlmError, Message, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::Runner;
use loop_runtime::models::Models;
use loop_runtime::tools::{Registry, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Value, json};

/// The domain whose runs end by themselves.
pub const DESK: &str = "desk";
/// The domain whose keyed write a person approves first.
pub const ASKING: &str = "asking";

pub fn item(n: usize) -> WorkItem {
    WorkItem::new(format!("T-{n}"), "ticket", format!("Ticket {n}"), &format!("Please book seat {n}."))
}

/// The domain whose reads return more than travels in a message of the engine, and whose keyed write a person approves first.
pub const LARGE: &str = "large";

/// The loops of the world. Each effect is a line of the file `effects`: the tool and its idempotency key.
pub fn runners(effects: &Path) -> [Runner; 3] {
    [runner(DESK, effects, false), runner(ASKING, effects, true), runner(LARGE, effects, true)]
}

pub fn runner(name: &str, effects: &Path, asks: bool) -> Runner {
    let mut spec = RunSpec::conversation(name, ModelSpec::new("scripted", "s"));
    let approved: &[&str] = if asks { &["print"] } else { &["book", "print"] };
    spec.gate.approved = approved.iter().map(|tool| (*tool).into()).collect();
    let size = if name == LARGE { 100_000 } else { 4 };
    spec.limits.markdown_chars = spec.limits.markdown_chars.max(size);
    let runner = Runner::new(spec, registry(effects, size), Models::one(Arc::new(Desk)));
    if asks { runner.with_people() } else { runner }
}

fn registry(effects: &Path, size: u32) -> Registry {
    let declare = |name: &str, effect| {
        ToolDeclaration::new(name)
            .description("Does it.")
            .schema(
                json!({"type": "object", "required": ["seat"], "properties": {"seat": {"type": "string"}}}),
            )
            .effect(effect)
    };
    let tool = |name: &'static str, ms: u64| {
        let effects = effects.to_owned();
        move |parameters: Value, context: ToolContext, _| {
            let effects = effects.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                let mut file = File::options().create(true).append(true).open(&effects).unwrap();
                // One write a line, so that lines of several processes do not mix.
                file.write_all(format!("{name} {}\n", context.key).as_bytes()).unwrap();
                let markdown = "Done ".repeat(usize::try_from(size / 5).unwrap().max(1));
                ToolResult::ok(name, format!("did {name}"), markdown, parameters)
            }
        }
    };
    Registry::builder()
        .tool_fn(declare("look", Effect::Read), tool("look", 5))
        .tool_fn(declare("book", Effect::WriteKeyed), tool("book", 20))
        .tool_fn(declare("print", Effect::WriteIrreversible), tool("print", 20))
        .build()
        .unwrap()
}

/// Two reads at once, a keyed write, an irreversible write, an answer.
#[derive(Debug)]
struct Desk;

#[async_trait::async_trait]
impl ChatModel for Desk {
    async fn stream(
        &self,
        request: &ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, LlmError>>, LlmError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let turn = request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let call = |name: &str, seat: &str| ToolCall {
            id: format!("{name}-{seat}").into(),
            name: name.into(),
            arguments: json!({"seat": seat}).to_string().into(),
        };
        let tool_calls = match turn {
            0 => vec![call("look", "a"), call("look", "b")],
            1 => vec![call("book", "a")],
            2 => vec![call("print", "a")],
            _ => Vec::new(),
        };
        let usage = Usage { input: 100, output: 20, ..Usage::default() };
        let text = if tool_calls.is_empty() { "It is booked." } else { "" };
        let finish = if tool_calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
        let reply = ModelReply { tool_calls, finish, ..ModelReply::text(text, Some(usage)) };
        Ok(futures::stream::iter([Ok(ModelEvent::Finished(Box::new(reply)))]).boxed())
    }
}
