//! A value out of a text: the type gives the schema, a rule of the program says what the schema cannot.
//!
//! `cargo run -p loop-runtime --example extract` needs no network. The model here is a script: its first output breaks
//! the rule and its second keeps it, so that the way a rejection takes can be seen.

use std::error::Error;
use std::io::{Write, stdout};

use loop_runtime::models::ScriptedReply;
use loop_runtime::{Agent, agent::OutputTool, models::Scripted};
use serde_json::json;

/// What is wanted; the comments are part of what the model is shown.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Lead {
    /// The person who asks
    name: String,
    /// The company as our register writes it
    company: String,
    /// What can be spent, in US dollars
    budget_usd: u32,
}

/// The companies in the register; a real program asks its database, and may wait for it.
async fn is_known(lead: Lead) -> Result<(), String> {
    let known = ["Acme Roofing Ltd", "Contoso"];
    if known.contains(&&*lead.company) {
        return Ok(());
    }
    Err(format!("`{}` is not in the register; the nearest there is `{}`", lead.company, known[0]))
}

/// Replies of a model, prepared: a schema error, a broken rule, and what was wanted.
fn model() -> Scripted {
    let lead = |company: &str, budget: serde_json::Value| {
        ScriptedReply::call("save_lead", json!({"name": "Ann Lee", "company": company, "budget_usd": budget}))
    };
    Scripted::new([
        lead("Acme", json!("5000 USD")),
        lead("Acme", json!(5000)),
        lead("Acme Roofing Ltd", json!(5000)),
    ])
}

/// Extracts a lead, and writes it with what it took.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead").validator("known_company", is_known);
    let agent = Agent::output(model(), save).instructions("You read mails and record leads.").build()?;

    let found = agent.prompt("Ann Lee of Acme has 5000 USD for a new roof").await?;
    writeln!(out, "{} of {}: ${}", found.value.name, found.value.company, found.value.budget_usd)?;
    writeln!(out, "{} attempts, {} passes", found.meta.attempts, found.meta.totals.passes)?;
    if let Some(rejection) = &found.meta.outcome.rejection {
        writeln!(out, "the last rejection: {rejection}")?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
