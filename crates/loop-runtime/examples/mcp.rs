//! Tools of a server that speaks the Model Context Protocol.
//!
//! `cargo run -p loop-runtime --features mcp --example mcp` needs no network: the server is `clock.sh`, and the model is a
//! script.

use std::error::Error;
use std::io::{Write, stdout};

use loop_runtime::tools::{Effect, McpServer};
use loop_runtime::{
    Agent,
    models::{Scripted, ScriptedReply},
};
use serde_json::json;

/// The server: a program with its arguments, for example `uvx` and `mcp-server-time`.
fn clock() -> McpServer {
    McpServer::stdio(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/clock.sh"), ["--24-hours"])
}

/// Asks it for the time, and writes the answer.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // Once, and again whenever the server has changed: keep this text in a file, and look at it before you use it.
    let lock = clock().lock().await?;
    writeln!(out, "trusted: {}", lock.lines().filter(|line| line.contains("\"description\"")).count())?;

    let server = clock().trusted(lock).effect("time_in", Effect::Read);
    let model = Scripted::new([
        ScriptedReply::call("time_in", json!({ "city": "Graz" })),
        ScriptedReply::text("It is five past two in Graz."),
    ]);
    let agent = Agent::new(model).mcp(server).build()?;
    let answer = agent.prompt("How late is it in Graz?").await?;
    writeln!(out, "{}", answer.text)?;
    for evidence in &answer.meta.outcome.evidence {
        writeln!(out, "{}: {}", evidence.id, evidence.observation.markdown)?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
