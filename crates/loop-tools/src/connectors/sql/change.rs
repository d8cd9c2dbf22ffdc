//! One change: checked when the tool is made, run in a transaction in a call.
//!
//! ```text
//! BEGIN IMMEDIATE ─▶ statement ─▶ wanted still, and rows changed? ─▶ COMMIT
//!                                        │ no
//!                                        ▼
//!                                     rolled back
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CancellationToken;
use loop_core::types::Effect;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode};

use crate::connectors::error::{ConnectorError, one_line};
use crate::connectors::sql::database::{Database, Writer, is_busy};
use crate::connectors::sql::query::{columns_of, place_of, rows_of, stop_when_cancelled};
use crate::connectors::sql::rows::ChangedRows;
use crate::connectors::sql::values::{self, KEY, SqlValues};
use crate::connectors::trouble::Trouble;

/// An INSERT, UPDATE or DELETE that prepares and names only what it is given.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    sql: Arc<str>,
    columns: Vec<String>,
    writer: Writer,
}

impl Change {
    /// The change of `tool`, whose parameters are `parameters`.
    pub(crate) fn check(
        tool: &str,
        effect: Effect,
        database: &Database,
        sql: &str,
        parameters: &BTreeSet<String>,
    ) -> Result<Self, ConnectorError> {
        let (tool, effect_name) = (tool.to_owned(), effect.name());
        let Some(writer) = database.writer() else {
            let path = database.path().display().to_string();
            return Err(ConnectorError::NotWritable { tool, effect: effect_name, path });
        };
        let refused = |message: String| ConnectorError::Query { tool: tool.clone(), message };
        let no_change = |message: &str| ConnectorError::NotAChange {
            tool: tool.clone(),
            effect: effect_name,
            message: message.to_owned(),
        };
        let connection = writer.connect().map_err(|error| refused(one_line(error)))?;
        let changes = allow_changes_only(&connection).map_err(|error| refused(one_line(error)))?;
        let cancel = CancellationToken::new();
        let prepared = writer.patience(&cancel).step(|| connection.prepare(sql));
        let statement = prepared.map_err(|error| match &error {
            rusqlite::Error::MultipleStatement => no_change("it is more than one statement"),
            _ if error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied) => {
                no_change("it does something else")
            }
            _ if is_busy(&error) => ConnectorError::Locked { path: database.path().display().to_string() },
            _ => refused(place_of(&error)),
        })?;
        // VACUUM, EXPLAIN and a blank text ask for no permission at all, and a SELECT only for reading.
        if !changes.load(Ordering::Relaxed) || statement.is_explain() != 0 {
            return Err(no_change("it changes nothing"));
        }
        values::check_names(&tool, &statement, parameters, true)?;
        let key = format!(":{KEY}");
        let has_key = (1..=statement.parameter_count()).any(|at| statement.parameter_name(at) == Some(&key));
        if effect == Effect::WriteKeyed && !has_key {
            return Err(ConnectorError::Unkeyed { tool });
        }
        Ok(Self { sql: sql.into(), columns: columns_of(&tool, &statement)?, writer })
    }

    /// The columns that RETURNING returns, in its order.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Makes the change, whole or not at all. Blocks; ends soon after `cancel` is cancelled, and changes nothing then.
    pub(crate) fn run(
        &self,
        given: &SqlValues<'_>,
        cell_bytes_max: usize,
        cancel: &CancellationToken,
    ) -> Result<ChangedRows, Trouble> {
        // A connection that is dropped takes back what it did not commit.
        let connection = self.writer.connect()?;
        stop_when_cancelled(&connection, cancel)?;
        let patience = self.writer.patience(cancel).at_most(given.time);
        patience.step(|| connection.execute_batch("BEGIN IMMEDIATE"))?;
        let rows = {
            let mut statement = connection.prepare(&self.sql)?;
            given.bind(&mut statement)?;
            // The first step makes the whole change; what follows only hands on what RETURNING names.
            rows_of(&mut statement.raw_query(), &self.columns, cell_bytes_max)?
        };
        // What a view hands on to its triggers counts for them alone.
        let count = match connection.changes() {
            0 => connection.total_changes(),
            count => count,
        };
        if cancel.is_cancelled() {
            return Err(Trouble::stopped());
        }
        if count > 0 {
            patience.step(|| connection.execute_batch("COMMIT"))?;
        }
        Ok(ChangedRows { count, rows })
    }
}

/// Lets the connection prepare nothing but changes of rows; gives whether it prepared one.
fn allow_changes_only(connection: &Connection) -> rusqlite::Result<Arc<AtomicBool>> {
    let changes = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&changes);
    connection.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        // To make, change or drop a table is to write the tables in which SQLite keeps them.
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
            if !table_name.starts_with("sqlite_") =>
        {
            seen.store(true, Ordering::Relaxed);
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    Ok(changes)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
