//! A first agent: a model by name, a limit of money, one tool, one question.
//!
//! `ANTHROPIC_API_KEY=… cargo run -p loop-runtime --example seven_lines` asks the real model. Its price and its context
//! window are in the table that comes with the program.

use std::error::Error;
use std::io::{Write, stdout};

use loop_runtime::{Agent, CostLimit, agent::AgentModel, read};

/// What the tool takes; the model is shown the schema of this type.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Asks, and writes the answer with what it cost.
pub(crate) async fn show(out: &mut impl Write, model: impl Into<AgentModel>) -> Result<(), Box<dyn Error>> {
    let agent = Agent::new(model)
        .instructions("You calculate with the tools.")
        .limit(CostLimit::usd("0.10"))
        .tool(read("add", "Adds two numbers"), |it: Add| async move { it.a + it.b })
        .build()?;
    let answer = agent.prompt("2 + 5?").await?;
    writeln!(
        out,
        "{} ({} tool call, {})",
        answer.text, answer.meta.totals.tool_calls, answer.meta.totals.cost
    )?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout(), "anthropic/claude-haiku-4-5").await
}
