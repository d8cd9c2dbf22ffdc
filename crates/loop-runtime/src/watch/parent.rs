//! The run whose work a run continues, and the run that called it, for programs.

use loop_core::run::{ParentEffect, Started};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::watch::report::{TotalsReport, json};

/// The run whose work a run continues.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ParentReport {
    /// Its id.
    pub run: String,
    /// What was taken over: `fork` the state after some entries, `retry` the evidence, `salvage` what could be read.
    pub how: String,
    /// How many of its journal entries were taken over.
    pub entries: u64,
    /// The writes that it started and that this run does not repeat on its own.
    pub effects: Vec<ParentEffectReport>,
    /// Whether it may have started others, so that every write of this run needs an approval.
    pub lost: bool,
    /// Usage and cost that were taken over. They are part of this run's totals and count against its limits.
    pub totals: TotalsReport,
}

/// A write that the parent of a run started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ParentEffectReport {
    /// The idempotency key that the tool received.
    pub key: String,
    /// The tool's own name.
    pub tool: String,
    /// Its parameters.
    pub parameters: Value,
    /// How it ended, for example `ok`. Null if the parent does not say.
    pub status: Option<String>,
    /// The evidence of this run that holds its result. Null if this run does not know of the call.
    pub evidence: Option<String>,
}

/// The run that called a run as a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallerReport {
    /// Its id.
    pub run: String,
    /// The run at the top of the tree.
    pub root: String,
    /// The key of its action, `pass/action-n`.
    pub action: String,
}

impl CallerReport {
    /// The caller in a run's first event. `None`: no run called it.
    pub fn of(started: &Started) -> Option<Self> {
        let by = started.provenance.called_by.as_deref()?;
        Some(Self { run: by.run.to_string(), root: by.root.to_string(), action: by.key.to_string() })
    }
}

impl ParentReport {
    /// The report of the parent in a run's first event. `None`: the run began with its work item alone.
    pub fn of(started: &Started) -> Option<Self> {
        let parent = started.parent.as_deref()?;
        Some(Self {
            run: parent.run.to_string(),
            how: parent.how.name().to_owned(),
            entries: parent.entries,
            effects: parent.effects.iter().map(ParentEffectReport::new).collect(),
            lost: parent.lost,
            totals: TotalsReport::new(&parent.totals()),
        })
    }
}

impl ParentEffectReport {
    fn new(effect: &ParentEffect) -> Self {
        Self {
            key: effect.key.to_string(),
            tool: effect.tool.to_string(),
            parameters: json(&effect.parameters),
            status: effect.status.map(|status| status.name().to_owned()),
            evidence: effect.evidence.map(|evidence| evidence.to_string()),
        }
    }
}
