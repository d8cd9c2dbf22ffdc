//! A tool that runs one query.

use std::collections::BTreeSet;

use async_trait::async_trait;
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::Value;

use crate::error::ConnectorError;
use crate::sql::database::Database;
use crate::sql::query::{Query, QueryFailure, ROWS_MAX, Rows};

/// A tool over one SELECT: its parameters and the scope go in by name, a table comes out.
///
/// `:target` is the parameter `target`; `:scope_account`, `:scope_account_name`, `:scope_asset`, `:scope_item` and
/// `:scope_person` are the scope of the work item, so that a tool can look only at what concerns it (S0-80). What is not
/// given is NULL.
#[derive(Debug)]
pub struct SqlTool {
    declaration: ToolDeclaration,
    database: Database,
    query: Query,
}

impl SqlTool {
    /// The tool over `query`, whose parameters are the properties of the declared schema.
    ///
    /// # Errors
    /// The query does not prepare, is not a single statement that only looks, or names a value that it is not given.
    pub fn new(
        declaration: ToolDeclaration,
        database: &Database,
        query: &str,
    ) -> Result<Self, ConnectorError> {
        let properties = declaration.schema.get("properties").and_then(Value::as_object);
        let parameters: BTreeSet<String> =
            properties.into_iter().flat_map(|members| members.keys().cloned()).collect();
        let query = Query::check(&declaration.name, database, query, &parameters)?;
        Ok(Self { declaration, database: database.clone(), query })
    }

    fn result(&self, context: &ToolContext, outcome: Result<Rows, QueryFailure>) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        match outcome {
            Err(QueryFailure::Retryable(message)) => ToolResult::retryable(name, title, message),
            Err(QueryFailure::Permanent(message)) => ToolResult::failed(name, title, message),
            Ok(Rows { rows, cut }) => {
                let mut result =
                    ToolResult::found_columns(name, title, &context.scope, &self.query.columns(), rows);
                if cut {
                    // Below the heading rather than at the end, which may be cut itself.
                    let says = format!("_Only the first {ROWS_MAX} rows are shown; there are more._");
                    result.summary = format!("Found more than {ROWS_MAX} items, shows {ROWS_MAX}");
                    result.markdown = result.markdown.replacen("\n\n", &format!("\n\n{says}\n\n"), 1);
                }
                result
            }
        }
    }
}

#[async_trait]
impl Tool for SqlTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _credentials: &Credentials) -> ToolResult {
        // A child with a guard: the query ends when the call is cancelled, and also when it is merely dropped.
        let cancel = context.cancel.child_token();
        let _stop_on_leaving = cancel.clone().drop_guard();
        let (query, database, scope) = (self.query.clone(), self.database.clone(), context.scope.clone());
        let work = move || query.run(&database, &parameters, &scope, &cancel);
        let outcome = tokio::task::spawn_blocking(work).await;
        self.result(context, outcome.unwrap_or_else(|error| Err(QueryFailure::Permanent(error.to_string()))))
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
