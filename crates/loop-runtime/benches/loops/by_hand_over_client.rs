//! The least that a loop can be over our own model client: no gate, no limits, no journal.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::StreamExt;
use loop_llm::codec::Memory;
use loop_llm::options::Strictness;
use loop_llm::{
    ChatModel, HttpModel, LlmError, Message, ModelEvent, ModelReply, ModelRequest, Profile, ToolDefinition,
    ToolOutput,
};
use serde_json::json;

use crate::meter::{Ended, TOOL_CALLS, Work, measure};

pub fn run(base_url: &str, work: Work) -> ExitCode {
    let profile = Profile::named("compatible").unwrap();
    let model =
        HttpModel::new(profile, Some(base_url)).unwrap().with_key("unused".to_owned().into()).unwrap();
    let model = Arc::new(model);
    let lookup = ToolDefinition {
        name: "lookup".into(),
        description: "Look up an entry of the register.".into(),
        parameters: json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}),
        strict: Strictness::default(),
    };
    let tools: Arc<[ToolDefinition]> = [lookup].into();
    let text = "The pump P-7 stands in hall 3, and was last serviced in March.\n".repeat(32);
    measure(work, move || one(Arc::clone(&model), Arc::clone(&tools), text.clone()))
}

async fn one(model: Arc<HttpModel>, tools: Arc<[ToolDefinition]>, text: String) -> Ended {
    let began = Instant::now();
    let mut ended = Ended::default();
    let mut request = ModelRequest::new("bench-1", "Be brief.", "Where is the pump?");
    request.tools = tools;
    request.memory = Memory::default();
    loop {
        let reply = match exchange(&model, &request, began, &mut ended).await {
            Ok(reply) => reply,
            Err(error) => {
                ended.wrong = Some(error.to_string());
                return ended;
            }
        };
        if reply.tool_calls.is_empty() {
            return ended;
        }
        request.messages.push(reply.turn());
        let results = reply.tool_calls.iter().map(|call| {
            TOOL_CALLS.fetch_add(1, Ordering::Relaxed);
            let text: Arc<str> = text.clone().into();
            ToolOutput { call: Arc::clone(&call.id), is_error: false, text, ..ToolOutput::default() }
        });
        request.messages.push(Message::Tool { results: results.collect() });
    }
}

async fn exchange(
    model: &HttpModel,
    request: &ModelRequest,
    began: Instant,
    ended: &mut Ended,
) -> Result<ModelReply, LlmError> {
    let mut events = model.stream(request).await?;
    let mut last = None;
    while let Some(event) = events.next().await {
        match event? {
            ModelEvent::TextDelta { .. } => {
                ended.first_text.get_or_insert_with(|| began.elapsed());
            }
            ModelEvent::Finished(reply) => last = Some(reply),
            _ => {}
        }
    }
    Ok(*last.unwrap())
}
