//! A chat model with fixed events, and fixtures for requests and replies.

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::types::{ToolCall, Usage};
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest, ToolOutput};

use crate::call;

/// A model that streams the same events for every request, including invalid events and errors of any kind.
#[derive(Clone, Debug)]
pub struct EventModel(pub Vec<Result<ModelEvent, LlmError>>);

#[async_trait]
impl ChatModel for EventModel {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        Ok(futures::stream::iter(self.0.clone()).boxed())
    }
}

/// The event that ends a stream with this reply.
pub fn finished(reply: ModelReply) -> Result<ModelEvent, LlmError> {
    Ok(ModelEvent::Finished(Box::new(reply)))
}

/// A reply with all parts: reasoning, text, two calls and every kind of token.
pub fn full_reply() -> ModelReply {
    let usage = Usage {
        input: 50,
        cache_read: 1_800,
        cache_write_short: 150,
        cache_write_long: 50,
        output: 180,
        reasoning: 120,
        estimated: false,
    };
    ModelReply {
        reasoning: "Two cities.".into(),
        finish: FinishReason::ToolUse,
        tool_calls: vec![weather("call_a", "Oslo"), weather("call_b", "Rome")],
        ..ModelReply::text("I will check.", Some(usage))
    }
}

/// A call of the tool `weather` for this city.
pub fn weather(id: &str, city: &str) -> ToolCall {
    call(id, "weather", &format!("{{\"city\":\"{city}\"}}"))
}

/// The result of the call with this id.
pub fn result(call: &str, is_error: bool, text: &str) -> ToolOutput {
    ToolOutput { call: call.into(), is_error, text: text.into(), ..ToolOutput::default() }
}
