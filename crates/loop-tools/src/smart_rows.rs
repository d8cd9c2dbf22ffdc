//! Any tool whose data is a list, made smart: a model may choose among its rows.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::result::ToolResult;
use crate::selection::KEPT;
use crate::smart::{AI_FILTER_THRESHOLD, Candidate, Smart, Source, best_by_words};
use crate::table;
use crate::text::one_line;
use crate::tool::Tool;

/// How the rows of a tool's result are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFilter {
    /// The fewest rows about which a model is asked. A result with fewer is returned as it is. Default: 5.
    pub threshold: usize,
    /// What makes a row relevant, for the model. `None`: the title of the work item and the target alone. Default: `None`.
    pub instruction: Option<String>,
    /// The most rows that code keeps where no model chooses. Default: 3.
    pub fallback: usize,
    /// The parameter that says what a call looks for. Code keeps the rows that hold most of its words. Default: `target`.
    pub target: String,
}

impl Default for RowFilter {
    fn default() -> Self {
        Self {
            threshold: AI_FILTER_THRESHOLD,
            instruction: None,
            fallback: KEPT,
            target: "target".to_owned(),
        }
    }
}

/// The rows of another tool's results: see [`Smart::rows`].
///
/// A result that is not a list of `threshold` rows or more is returned as the tool gave it: a failure, a text, one object, a few
/// rows. Otherwise the rows that are kept become a table, in place of the tool's own Markdown.
pub struct SmartRows {
    tool: Arc<dyn Tool>,
    filter: RowFilter,
}

impl Smart<SmartRows> {
    /// This tool, with its rows chosen in this way.
    pub fn rows(tool: Arc<dyn Tool>, filter: RowFilter) -> Self {
        let threshold = filter.threshold;
        Self::new(SmartRows { tool, filter }).threshold(threshold)
    }
}

impl fmt::Debug for SmartRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmartRows")
            .field("tool", &self.tool.spec().name)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for SmartRows {
    fn declaration(&self) -> &ToolDeclaration {
        self.tool.spec()
    }

    async fn fetch(
        &self,
        parameters: &Value,
        context: &ToolContext,
        credentials: &Credentials,
    ) -> Result<Vec<Candidate>, ToolResult> {
        let mut result = self.tool.call(parameters.clone(), context, credentials).await;
        match result.data.take() {
            Value::Array(rows) if result.success && rows.len() >= self.filter.threshold.max(1) => {
                Ok(rows.into_iter().map(candidate).collect())
            }
            data => Err(ToolResult { data, ..result }),
        }
    }

    fn instruction(&self) -> Option<&str> {
        self.filter.instruction.as_deref()
    }

    fn target<'a>(&self, parameters: &'a Value) -> Option<&'a str> {
        parameters.get(&self.filter.target).and_then(Value::as_str)
    }

    fn fallback(&self, parameters: &Value, candidates: &[Candidate]) -> Vec<usize> {
        best_by_words(self.target(parameters), candidates, self.filter.fallback)
    }

    fn markdown(&self, kept: &[&Candidate]) -> String {
        if kept.iter().all(|candidate| candidate.data.is_object()) {
            let rows: Vec<Value> = kept.iter().map(|candidate| candidate.data.clone()).collect();
            return table::whole(&rows);
        }
        let lines: Vec<String> = kept.iter().map(|candidate| format!("- {}", candidate.markdown)).collect();
        lines.join("\n")
    }
}

fn candidate(data: Value) -> Candidate {
    let markdown = match &data {
        Value::String(text) => text.trim().replace('\n', "\n  "),
        other => other.to_string(),
    };
    Candidate { line: one_line(&markdown), markdown, data }
}

#[cfg(test)]
#[path = "smart_rows_tests.rs"]
mod tests;
