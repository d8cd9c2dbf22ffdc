//! A tool that runs one query, or makes one change.

use std::collections::BTreeSet;

use async_trait::async_trait;
use loop_core::Effect;
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Value, json};

use crate::error::ConnectorError;
use crate::sql::change::{Change, Changed};
use crate::sql::database::Database;
use crate::sql::given::Given;
use crate::sql::query::{CELL_BYTES_MAX, Query, QueryFailure, Rows};

/// A tool over one SELECT, or over one INSERT, UPDATE or DELETE where its effect is to write: its parameters and the scope go
/// in by name, a table comes out.
///
/// `:target` is the parameter `target`; `:scope_account`, `:scope_account_name`, `:scope_asset`, `:scope_item` and
/// `:scope_person` are the scope of the work item, so that a tool can look only at what concerns it (S0-80). A change may also
/// use `:call_key`: every try of one call gets the same, no two calls do. What is not given is NULL.
///
/// A change is made whole or not at all; where it changes no row, the result is empty, as if nothing was found.
#[derive(Debug)]
pub struct SqlTool {
    declaration: ToolDeclaration,
    work: Work,
    cell_bytes_max: usize,
}

/// What the tool does.
#[derive(Clone, Debug)]
enum Work {
    Look(Query, Database),
    Change(Change),
}

/// Its result.
#[derive(Debug)]
enum Done {
    Found(Rows),
    Changed(Changed),
}

impl SqlTool {
    /// The tool over `query`, whose parameters are the properties of the declared schema.
    ///
    /// With the effect `write_idempotent`, `write_keyed` or `write_irreversible` the query must be one INSERT, UPDATE or
    /// DELETE, and the database writable; else it must be one SELECT, and the database may be either.
    ///
    /// # Errors
    /// The query does not prepare, is not a single statement of the kind that the effect asks for, or names a value that it is
    /// not given; or the effect writes, and the database is only read; or the effect is `write_keyed`, and the query does not
    /// name `:call_key`.
    pub fn new(
        declaration: ToolDeclaration,
        database: &Database,
        query: &str,
    ) -> Result<Self, ConnectorError> {
        let properties = declaration.schema.get("properties").and_then(Value::as_object);
        let parameters: BTreeSet<String> =
            properties.into_iter().flat_map(|members| members.keys().cloned()).collect();
        let name = &declaration.name;
        let work = match declaration.effect {
            Some(effect @ (Effect::WriteIdempotent | Effect::WriteKeyed | Effect::WriteIrreversible)) => {
                Work::Change(Change::check(name, effect, database, query, &parameters)?)
            }
            Some(Effect::Read | Effect::Egress | Effect::Exec) | None => {
                Work::Look(Query::check(name, database, query, &parameters)?, database.clone())
            }
        };
        let declaration = declaration.defined_by(&json!({ "kind": "sql", "query": query }));
        Ok(Self { declaration, work, cell_bytes_max: CELL_BYTES_MAX })
    }

    /// The most bytes of one value that it returns, [`CELL_BYTES_MAX`] without this. A longer text is cut, and says so.
    #[must_use]
    pub fn with_cell_bytes_max(mut self, bytes: usize) -> Self {
        self.cell_bytes_max = bytes;
        self
    }

    fn result(&self, context: &ToolContext, outcome: Result<Done, QueryFailure>) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let columns: Vec<&str> = self.work.columns().iter().map(String::as_str).collect();
        let found = |rows| ToolResult::found_columns(name, title, &context.scope, &columns, rows);
        match outcome {
            Err(QueryFailure::Retryable(message)) => ToolResult::retryable(name, title, message),
            Err(QueryFailure::Permanent(message)) => ToolResult::failed(name, title, message),
            Ok(Done::Found(Rows { rows, cut })) => {
                let shown = rows.len();
                let mut result = found(rows);
                if cut {
                    let says = format!("_Only the first {shown} rows are shown; there are more._");
                    result.summary = format!("Found more than {shown} items, shows {shown}");
                    say_below_heading(&mut result, &says);
                }
                result
            }
            // A change that met no row must not pass for a success.
            Ok(Done::Changed(Changed { count: 0, .. })) => ToolResult::empty(name, title),
            Ok(Done::Changed(Changed { count, rows })) => {
                let unit = if count == 1 { "row" } else { "rows" };
                let shows = if rows.cut { format!(", shows {}", rows.rows.len()) } else { String::new() };
                let says = format!("Changed {count} {unit}{shows}");
                let mut result = if rows.rows.is_empty() {
                    let row = json!({ "changed": count });
                    ToolResult::found_columns(name, title, &context.scope, &["changed"], vec![row])
                } else {
                    found(rows.rows)
                };
                say_below_heading(&mut result, &says);
                result.summary = says;
                result
            }
        }
    }
}

impl Work {
    fn columns(&self) -> &[String] {
        match self {
            Self::Look(query, _) => query.columns(),
            Self::Change(change) => change.columns(),
        }
    }
}

/// Below the heading rather than at the end, which may be cut.
fn say_below_heading(result: &mut ToolResult, says: &str) {
    result.markdown = result.markdown.replacen("\n\n", &format!("\n\n{says}\n\n"), 1);
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
        let max = self.cell_bytes_max;
        let (work, scope, key) = (self.work.clone(), context.scope.clone(), context.key.clone());
        let work = move || match work {
            Work::Look(query, database) => {
                let given = Given { parameters: &parameters, scope: &scope, key: None };
                query.run(&database, &given, max, &cancel).map(Done::Found)
            }
            Work::Change(change) => {
                let given = Given { parameters: &parameters, scope: &scope, key: Some(&key) };
                change.run(&given, max, &cancel).map(Done::Changed)
            }
        };
        let outcome = tokio::task::spawn_blocking(work).await;
        self.result(context, outcome.unwrap_or_else(|error| Err(QueryFailure::Permanent(error.to_string()))))
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
