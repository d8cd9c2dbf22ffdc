//! A model without a state: its reply follows from the key of the call alone, so a resumed run gets the same.

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use loop_core::reply::FinishReason;
use loop_core::types::{ToolCall, Usage};
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use serde_json::{Value, json};

/// One reply of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Says {
    pub text: String,
    pub calls: Vec<(&'static str, Value)>,
    /// How long the stream stays open behind its calls, so that eager reads run meanwhile.
    pub open_ms: u64,
}

/// Gives the reply to a call by its key, for example `2/main`.
#[derive(Clone, Copy, Debug)]
pub struct Keyed(pub fn(&str) -> Says);

#[async_trait]
impl ChatModel for Keyed {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let said = (self.0)(&request.meta.key);
        let text = said.text.replace("{{nonce}}", &nonce_of(request));
        let usage = Usage {
            input: 100,
            cache_read: 0,
            cache_write_short: 0,
            cache_write_long: 0,
            output: 50,
            reasoning: 0,
            estimated: false,
        };
        let mut events = vec![ModelEvent::TextDelta { text: text.as_str().into() }];
        let mut tool_calls = Vec::new();
        for (nth, (name, arguments)) in (0..).zip(&said.calls) {
            let arguments = arguments.to_string();
            events.push(ModelEvent::ToolCallStarted { nth, name: (*name).into() });
            events.push(ModelEvent::ToolArgumentsDelta { nth, text: arguments.as_str().into() });
            events.push(ModelEvent::ToolCallCompleted { nth });
            let id = format!("{}-{nth}", request.meta.key);
            tool_calls.push(ToolCall {
                id: id.into(),
                name: (*name).into(),
                arguments: arguments.as_str().into(),
            });
        }
        let finish = if tool_calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
        let reply = ModelReply { finish, tool_calls, ..ModelReply::text(text, Some(usage)) };
        let open = Duration::from_millis(said.open_ms);
        let end = futures::stream::once(async move {
            tokio::time::sleep(open).await;
            Ok(ModelEvent::Finished(Box::new(reply)))
        });
        Ok(futures::stream::iter(events.into_iter().map(Ok)).chain(end).boxed())
    }
}

/// The nonce that the prompt names, wherever it does.
fn nonce_of(request: &ModelRequest) -> String {
    let texts = request.messages.iter().map(|message| message.text()).chain([&*request.system]);
    let whole = texts.collect::<Vec<_>>().join("\n");
    let named = whole.split("The nonce of this run is `").nth(1).and_then(|after| after.split('`').next());
    let quoted = whole.split("\"nonce\": \"").nth(1).and_then(|after| after.split('"').next());
    named.or(quoted).unwrap_or_default().to_owned()
}

pub fn text(text: &str) -> Says {
    Says { text: text.to_owned(), ..Says::default() }
}

/// A reply that calls tools with a target each.
pub fn calls(wanted: &[(&'static str, &str)]) -> Says {
    let calls = wanted.iter().map(|(tool, target)| (*tool, json!({"target": target})));
    Says { calls: calls.collect(), ..Says::default() }
}

/// A document of one section with a contract.
pub fn draft(confidence: &str, actions: &[(&str, &str)]) -> Says {
    text(&format!("## Findings\n\nIt is so [E0].\n\n{}", contract(confidence, actions)))
}

pub fn contract(confidence: &str, actions: &[(&str, &str)]) -> String {
    let actions: Vec<Value> = actions
        .iter()
        .map(|(tool, target)| {
            json!({"action_id": format!("{tool}-{target}"), "action_type": tool, "reason": "to know",
                "parameters": {"target": target}, "priority": "required"})
        })
        .collect();
    let contract = json!({"nonce": "{{nonce}}", "analysis_confidence": confidence,
        "confidence_reason": "because", "ai_actions": actions});
    format!("```json\n{contract}\n```\n")
}
