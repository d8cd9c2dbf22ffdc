//! A model of your own: one method.
//!
//! `cargo run -p loop-runtime --example own_model` needs no network.

use std::error::Error;
use std::io::{Write, stdout};

use loop_runtime::models::{
    AgentModel, ChatModel, ErrorPhase, EventStream, FailureKind, FinishReason, LlmError, ModelReply,
    ModelRequest, ModelSpec, Price, ToolCall, Usage, async_trait,
};
use loop_runtime::{Agent, CostLimit, Message, read};
use serde_json::json;

/// In place of a client of yours: an SDK, a server in your network, a model in this process.
#[derive(Debug)]
struct Parrot;

impl Parrot {
    async fn generate(&self, turns: &[&str]) -> Result<String, std::io::Error> {
        turns.last().map(|turn| format!("{turn}, {turn}!")).ok_or_else(|| std::io::Error::other("no turn"))
    }
}

#[async_trait]
impl ChatModel for Parrot {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        // What the user asks is looked up first, where there is a tool for it.
        if let (Some(Message::User { text, .. }), Some(tool)) =
            (request.messages.last(), request.tools.first())
        {
            let arguments = json!({ "word": &**text }).to_string().into();
            let call = ToolCall { id: "call_1".into(), name: tool.name.clone(), arguments };
            let mut reply = ModelReply::text("", None);
            (reply.tool_calls, reply.finish) = (vec![call], FinishReason::ToolUse);
            return Ok(reply.into_stream());
        }
        let turns = request.messages.iter().map(|message| match message {
            Message::Tool { results } => results.first().map_or("", |result| &*result.text),
            other => other.text(),
        });
        // The kind of a failure says whether the call is made again.
        let failed = |error: std::io::Error| {
            LlmError::new(FailureKind::Connection, ErrorPhase::Connect, error.to_string())
        };
        let text = self.generate(&turns.collect::<Vec<_>>()).await.map_err(failed)?;
        let usage =
            Usage { input: request.bytes() as u64 / 4, output: text.len() as u64 / 4, ..Usage::default() };
        Ok(ModelReply::text(text, Some(usage)).into_stream())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Word {
    word: String,
}

/// Asks it, and writes the answer and what it cost.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // 2 and 8 dollars for a million tokens, in pico-dollars a token; what it takes and gives at most.
    let spec =
        ModelSpec { context_tokens: 32_000, max_output_tokens: 1_024, ..ModelSpec::new("house", "parrot-1") };
    let model = AgentModel::new(Parrot, spec.with_price(Price::flat(2_000_000, 8_000_000)));
    let agent = Agent::new(model)
        .limit(CostLimit::usd("0.05"))
        .tool(read("greek", "The Greek word"), |it: Word| async move { format!("kalo {}", it.word) })
        .build()?;
    let answer = agent.prompt("papagalos").await?;
    writeln!(out, "{}", answer.text)?;
    writeln!(out, "{} model calls, {}", answer.meta.totals.model_calls, answer.meta.reason())?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
