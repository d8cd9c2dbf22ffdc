//! The program of `docs/explanation/coming-from.md`: two tools that share a shop, one of which a person approves.
//!
//! `cargo run -p loop-runtime --example coming_from` asks a real model, whose key is in `ANTHROPIC_API_KEY`.

#![expect(clippy::print_stdout)]

use loop_runtime::agent::{AgentModel, BuildError};
use loop_runtime::{Agent, CostLimit, people::PersonAnswer, read, spec::Limits, tools::write};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Part {
    part: String,
}

struct Shop;

impl Shop {
    async fn pieces(&self, _part: &str) -> u32 {
        7
    }

    async fn order(&self, part: &str) -> String {
        format!("1000 of {part} are ordered")
    }
}

fn is_wanted(question: &str) -> bool {
    println!("{question}?");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).is_ok() && line.trim() == "yes"
}

pub(crate) fn keeper(model: impl Into<AgentModel>, is_wanted: fn(&str) -> bool) -> Result<Agent, BuildError> {
    Agent::new(model)
        .instructions("You keep the stock of a shop.")
        .with(Shop)
        .tool(read("stock", "How many pieces of a part there are"), async |shop: &Shop, it: Part| {
            shop.pieces(&it.part).await
        })
        .tool(write("order", "Orders a part"), async |shop: &Shop, it: Part| shop.order(&it.part).await)
        .on_approval(move |request| async move {
            match is_wanted(&format!("{} {}", request.tool, request.parameters)) {
                true => PersonAnswer::Approved,
                false => PersonAnswer::Denied { why: "not today".into() },
            }
        })
        .limits(Limits { passes: 5, ..Limits::agent() })
        .limit(CostLimit::usd("0.10"))
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let answer = keeper("anthropic/claude-haiku-4-5", is_wanted)?.prompt("Are there enough nuts?").await?;
    println!("{}", answer.text);
    Ok(())
}
