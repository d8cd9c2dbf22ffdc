//! A report that its writer sees before it is judged: the output tool answers with the report as a person would read it,
//! and the model ends by calling `submit`.
//!
//! `cargo run -p loop-runtime --example reflected_report` needs no network: the model is a script.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::mpsc;

use loop_runtime::models::ScriptedReply;
use loop_runtime::{
    Agent, Message,
    agent::OutputTool,
    models::Scripted,
    observe::{Step, steps},
    read,
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    name: String,
}

#[derive(serde::Serialize)]
struct User {
    id: u32,
    name: &'static str,
    company: &'static str,
    email: &'static str,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Report {
    name: String,
    company: String,
    email: String,
}

impl Report {
    /// The report as it will be read.
    fn to_markdown(&self) -> String {
        format!("# {}\n\n- works for {}\n- writes from {}", self.name, self.company, self.email)
    }
}

/// A register with one person in it.
fn users_named(name: &str) -> Vec<User> {
    let bob = User { id: 42, name: "Bob Brown", company: "Acme", email: "bob@acme.example" };
    [bob].into_iter().filter(|user| user.name.contains(name)).collect()
}

/// Replies of a model, prepared: a search, the report, and its submission once it was shown.
fn model() -> Scripted {
    let report = json!({"name": "Bob Brown", "company": "Acme", "email": "bob@acme.example"});
    Scripted::new([
        ScriptedReply::call("search_user", json!({"name": "Bob"})),
        ScriptedReply::call("report", report),
        ScriptedReply::call("submit", json!({})),
    ])
}

/// Reports on somebody, and writes the tools as they are used, the report, and the history's length.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let search = read("search_user", "Search users by name");
    let report = OutputTool::<Report>::new("report", "Takes the final report").reflect(Report::to_markdown);
    let (instructions, received) = mpsc::channel();
    let watching = steps(move |at, step| {
        let Step::ToolResult { tool, result, .. } = step else { return Ok(()) };
        let first_line = result.lines().next().unwrap_or_default();
        let line = format!("pass {}: {tool} -> {first_line}", at.pass);
        instructions.send(line).map_err(|error| error.to_string())
    });
    let agent = Agent::output(model(), report)
        .helper(search, |search: Search| async move { users_named(&search.name) })
        .with_observer(watching)
        .build()?;

    let mut messages = vec![Message::user("A report on Bob, please")];
    let found = agent.chat(&mut messages).await?;
    for line in received.try_iter() {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\n{}\n", found.value.to_markdown())?;
    writeln!(out, "{} passes, {} messages", found.meta.totals.passes, messages.len())?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
