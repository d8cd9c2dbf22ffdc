//! A tool that runs one query, or makes one change.

use std::collections::BTreeSet;

use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::types::Effect;
use serde_json::{Value, json};

use crate::connectors::error::ConnectorError;
use crate::connectors::sql::change::Change;
use crate::connectors::sql::database::{Database, LEFT};
use crate::connectors::sql::query::Query;
use crate::connectors::sql::rows::{CELL_BYTES_MAX, SqlResult, result};
use crate::connectors::sql::values::SqlValues;
use crate::connectors::trouble::Trouble;

/// A tool over one SELECT, or over one INSERT, UPDATE or DELETE where its effect is to write: its parameters and the scope go
/// in by name, a table comes out.
///
/// `:target` is the parameter `target`; `:scope_account`, `:scope_account_name`, `:scope_asset`, `:scope_item` and
/// `:scope_person` are the scope of the work item, so that a tool can look only at what concerns it. A change may also
/// use `:call_key`: every try of one call gets the same, no two calls do. What is not given is NULL.
///
/// A change is made whole or not at all; where it changes no row, the result is empty, as if nothing was found.
#[derive(Debug)]
pub struct SqlTool {
    declaration: ToolDeclaration,
    work: SqlWork,
    cell_bytes_max: usize,
}

/// What the tool does.
#[derive(Clone, Debug)]
enum SqlWork {
    Look(Query, Database),
    Change(Change),
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
                SqlWork::Change(Change::check(name, effect, database, query, &parameters)?)
            }
            Some(Effect::Read | Effect::Egress | Effect::Exec) | None => {
                SqlWork::Look(Query::check(name, database, query, &parameters)?, database.clone())
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
}

impl SqlWork {
    fn columns(&self) -> &[String] {
        match self {
            Self::Look(query, _) => query.columns(),
            Self::Change(change) => change.columns(),
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
        let max = self.cell_bytes_max;
        let time = context.remaining().and_then(|time| time.checked_sub(LEFT)).filter(|time| *time > LEFT);
        let (work, scope, key) = (self.work.clone(), context.scope.clone(), context.key.clone());
        let work = move || match work {
            SqlWork::Look(query, database) => {
                let given = SqlValues { parameters: &parameters, scope: &scope, key: None, time };
                query.run(&database, &given, max, &cancel).map(SqlResult::Found)
            }
            SqlWork::Change(change) => {
                let given = SqlValues { parameters: &parameters, scope: &scope, key: Some(&key), time };
                change.run(&given, max, &cancel).map(SqlResult::Changed)
            }
        };
        let outcome = tokio::task::spawn_blocking(work).await;
        let outcome = outcome.unwrap_or_else(|error| Err(Trouble::Permanent(error.to_string())));
        result(&self.declaration, &context.scope, self.work.columns(), outcome)
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
