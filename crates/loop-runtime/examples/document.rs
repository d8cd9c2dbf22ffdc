//! A work item becomes a document with cited evidence: one run of a loop.
//!
//! `cargo run -p loop-runtime --example document` needs no network: the model is the offline stub, which is not an AI.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;

use loop_runtime::{
    RunSpec, Runner, WorkItem,
    models::{ModelSpec, Models, Offline},
    read,
    spec::SectionSpec,
    tools::{Registry, ToolContext, ToolResult},
};

/// Runs a ticket, and writes its document, why it stopped and what it took.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let jobs = read("fetch_backups", "Fetch backup jobs.");
    let tools = Registry::builder().tool_fn(jobs, |_, context: ToolContext, _| async move {
        let found = serde_json::json!({"job": "B-7", "last": "failed"});
        ToolResult::found("fetch_backups", "Backups", &context.scope, vec![found])
    });
    let sections = [SectionSpec::new("findings", "Findings").required().cited()];
    let spec = RunSpec::document("help", sections, ModelSpec::new("offline", "offline-1"));
    let runner = Runner::new(spec, tools.build()?, Models::one(Arc::new(Offline::new())));

    let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    let outcome = runner.run(item).await?;
    writeln!(out, "{}", outcome.document.to_markdown())?;
    writeln!(
        out,
        "{}: {} passes, {} piece of evidence",
        outcome.stop.reason(),
        outcome.totals.passes,
        outcome.evidence.len()
    )?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}
