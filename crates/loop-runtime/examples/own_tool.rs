//! Tools of your own: a function that borrows what the agent depends on, and a value with the trait.
//!
//! `cargo run -p loop-runtime --example own_tool` needs no network: the model is a script.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::{Arc, Mutex};

use loop_runtime::tools::{
    Credentials, Effect, Tool, ToolContext, ToolDeclaration, ToolResult, async_trait, write_keyed,
};
use loop_runtime::{
    Agent,
    models::{Scripted, ScriptedReply},
};
use serde_json::{Value, json};

/// What the tools share: a database, a client, a cache.
#[derive(Default)]
struct Orders {
    placed: Mutex<Vec<(String, String)>>,
}

impl Orders {
    /// Places an order once, however often it is sent under one key.
    async fn place(&self, part: &str, key: &str) -> Result<usize, String> {
        let mut placed = self.placed.lock().map_err(|error| error.to_string())?;
        let order = (part.to_owned(), key.to_owned());
        if !placed.contains(&order) {
            placed.push(order);
        }
        Ok(placed.len())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// The name of a part
    part: String,
}

/// A function as a tool. The key is the same for every try of one call.
async fn order(orders: &Orders, it: Order, context: ToolContext) -> Result<String, String> {
    let number = orders.place(&it.part, &context.key).await?;
    Ok(format!("order {number}"))
}

/// A tool whose parameters are known only when the program runs.
struct Stock {
    declaration: ToolDeclaration,
    pieces: Vec<(String, u32)>,
}

impl Stock {
    fn new(pieces: Vec<(String, u32)>) -> Self {
        let parts: Vec<&str> = pieces.iter().map(|(part, _)| part.as_str()).collect();
        let schema = json!({
            "type": "object",
            "properties": { "part": { "type": "string", "enum": parts } },
            "required": ["part"],
        });
        let declaration = ToolDeclaration::new("stock")
            .description("How many pieces of a part there are")
            .schema(schema)
            .effect(Effect::Read);
        Self { declaration, pieces }
    }
}

#[async_trait]
impl Tool for Stock {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        // Parameters that do not fit the schema do not come here.
        let wanted = parameters.get("part").and_then(Value::as_str);
        match self.pieces.iter().find(|(part, _)| wanted == Some(part)) {
            Some((part, pieces)) => ToolResult::text(format!("{pieces} of {part}")),
            None => ToolResult::failed("stock", "Stock", "the list of parts is not there yet"),
        }
    }
}

/// Orders, and writes the answer and what was placed.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let model = Scripted::new([
        ScriptedReply::call("stock", json!({ "part": "nut" })),
        ScriptedReply::call("order", json!({ "part": "nut" })),
        ScriptedReply::text("There were 7 nuts, so I ordered some."),
    ]);
    let agent = Agent::new(model)
        .with(Orders::default())
        .tool(write_keyed("order", "Orders a part"), order)
        .with_tool(Arc::new(Stock::new(vec![("nut".to_owned(), 7), ("bolt".to_owned(), 900)])))
        .approve("order")
        .build()?;
    let answer = agent.prompt("Are there enough nuts?").await?;
    writeln!(out, "{}", answer.text)?;
    for used in &answer.meta.tools {
        writeln!(out, "{}: {} call, {} failed", used.tool, used.calls, used.failures)?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
