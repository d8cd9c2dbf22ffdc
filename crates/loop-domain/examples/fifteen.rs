//! The README's program: a ticket in; a document, a reason and a cost out.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use loop_domain::{Domain, LoadOptions};
use loop_runtime::report::explain;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ticket = "examples/helpdesk/tickets/T-1042.json";
    let domain = Domain::load("examples/helpdesk", &LoadOptions::default())?;
    let item = domain.item(&std::fs::read_to_string(ticket)?, ticket)?;
    let outcome = domain.to_loop().run(item).await?;
    println!("{}", outcome.document.to_markdown());
    println!("{}", explain(&outcome.stop));
    println!("{} in {} model calls", outcome.totals.cost, outcome.totals.model_calls);
    Ok(())
}
