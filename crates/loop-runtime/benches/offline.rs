//! What one whole offline run costs: model, tools, gate and a journal in memory; the median of many runs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs)]

use std::sync::Arc;
use std::time::Instant;

use loop_runtime::{
    RunSpec, Runner, WorkItem,
    models::{ModelSpec, Models, Offline},
    spec::SectionSpec,
    tools::{Effect, Registry, ToolContext, ToolDeclaration, ToolResult},
};

const RUNS: usize = 300;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let jobs = ToolDeclaration::new("fetch_backups").description("Fetch backup jobs.").effect(Effect::Read);
    let registry = Registry::builder().tool_fn(jobs, |_, context: ToolContext, _| async move {
        let rows = vec![serde_json::json!({"job": "B-7", "last": "failed"})];
        ToolResult::found("fetch_backups", "Backups", &context.scope, rows)
    });
    let sections = [SectionSpec::new("findings", "Findings").required().cited()];
    let spec = RunSpec::document("help", sections, ModelSpec::new("offline", "offline-1"));
    let looped = Runner::new(spec, registry.build().unwrap(), Models::one(Arc::new(Offline::new())));
    let mut runs: Vec<u128> = (0..RUNS)
        .map(|_| {
            let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
            let began = Instant::now();
            let outcome = runtime.block_on(looped.run(item).into_future()).unwrap();
            assert!(outcome.totals.passes > 0);
            began.elapsed().as_nanos()
        })
        .collect();
    runs.sort_unstable();
    println!("{:12} {:12}", "offline run", runs[RUNS / 2]);
}
