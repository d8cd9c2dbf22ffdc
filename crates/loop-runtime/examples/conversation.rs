//! A conversation: two questions and one history, the second streamed as it comes.
//!
//! `cargo run -p loop-runtime --example conversation` needs no network: the model is a script.

use std::error::Error;
use std::io::{Write, stdout};

use futures::StreamExt;
use loop_runtime::{Agent, Message, agent::AgentEvent, models::Scripted};

/// Asks twice, and writes both answers and the length of the history.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let agent =
        Agent::new(Scripted::replies(["Bob lives in Graz.", "Graz has about 300,000 people."])).build()?;

    let mut history = vec![Message::user("Where does Bob live?")];
    let answer = agent.chat(&mut history).await?;
    writeln!(out, "{}", answer.text)?;

    history.push(Message::user("How many people live there?"));
    let mut run = agent.chat(&mut history).events().await?;
    while let Some(event) = run.next().await {
        if let AgentEvent::Text { text, .. } = event {
            write!(out, "{text}")?;
        }
    }
    let answer = run.answer().await?;
    writeln!(out, "\n{} pass, {} messages", answer.meta.totals.passes, history.len())?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
