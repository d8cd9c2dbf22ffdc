//! Finds a user: a question, one search, an answer.
//!
//! `cargo run -p loop-runtime --example find_user` needs no network: the model is a script.
//! With a model of your own in its place the rest stays as it is.

use std::error::Error;
use std::io::{Write, stdout};

use loop_runtime::models::ScriptedReply;
use loop_runtime::{Agent, Message, models::Scripted, read};
use serde_json::json;

/// What the tool takes; the model is shown the schema of this type.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// A name, or the beginning of one
    name: String,
}

/// What it gives, as JSON.
#[derive(serde::Serialize)]
struct User {
    id: u32,
    name: String,
}

/// A search that needs no database.
fn users_named(name: &str) -> Vec<User> {
    let all = (1..=15).map(|id| User { id, name: format!("Alice {id}") });
    all.filter(|user| user.name.starts_with(name)).collect()
}

/// Replies of a model, prepared: one search, then the answer.
fn model() -> Scripted {
    Scripted::new([
        ScriptedReply::call("search_user", json!({"name": "Alice"})),
        ScriptedReply::text("Found 15 users named Alice"),
    ])
}

/// Asks, and writes the answer, the cost and the history.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let search = read("search_user", "Search users by name");
    let agent = Agent::new(model())
        .instructions("You answer questions about the people in our register.")
        .tool(search, |search: Search| async move { users_named(&search.name) })
        .build()?;

    let mut messages = vec![Message::user("Find user named Alice")];
    let answer = agent.chat(&mut messages).await?;
    writeln!(out, "{}\n", answer.text)?;

    let totals = answer.meta.totals;
    writeln!(out, "{} passes, {} tool call, {}", totals.passes, totals.tool_calls, answer.meta.reason())?;
    for message in &messages {
        match message {
            Message::User { text, .. } | Message::Operator { text } => writeln!(out, "user: {text}")?,
            Message::Assistant(turn) if turn.calls.is_empty() => writeln!(out, "assistant: the answer")?,
            Message::Assistant(turn) => {
                for call in &turn.calls {
                    writeln!(out, "assistant: {} {}", call.name, call.arguments.text())?;
                }
            }
            Message::Tool { results } => writeln!(out, "tool: {} result", results.len())?,
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
