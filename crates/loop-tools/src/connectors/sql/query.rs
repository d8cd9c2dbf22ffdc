//! One query: checked when the tool is made, bound and run in a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::CancellationToken;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement};
use serde_json::Value;

use crate::connectors::error::{ConnectorError, one_line};
use crate::connectors::sql::database::{Database, VALUE_BYTES_MAX, is_busy};
use crate::connectors::sql::rows::{Rows, cut_text};
use crate::connectors::sql::values::{self, SqlValues};
use crate::connectors::trouble::Trouble;

/// How many steps of SQLite's machine pass between two looks at whether the query is still wanted.
const STEPS: i32 = 1_000;

/// A query that prepares, only reads, and names only what it is given.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    sql: Arc<str>,
    columns: Vec<String>,
}

impl Query {
    /// The query of `tool`, whose parameters are `parameters`.
    pub(crate) fn check(
        tool: &str,
        database: &Database,
        sql: &str,
        parameters: &BTreeSet<String>,
    ) -> Result<Self, ConnectorError> {
        let tool = tool.to_owned();
        let refused = |message: String| ConnectorError::Query { tool: tool.clone(), message };
        let connection = database.connect().map_err(|error| refused(one_line(error)))?;
        let cancel = CancellationToken::new();
        let statement = match database.patience(&cancel).step(|| connection.prepare(sql)) {
            Ok(statement) => statement,
            Err(rusqlite::Error::MultipleStatement) => {
                let message = "it is more than one statement".to_owned();
                return Err(ConnectorError::NotASelect { tool, message });
            }
            Err(error) if is_busy(&error) => {
                return Err(ConnectorError::Locked { path: database.path().display().to_string() });
            }
            Err(error) => return Err(refused(place_of(&error))),
        };
        if !statement.readonly() {
            return Err(ConnectorError::NotASelect { tool, message: "it would write".to_owned() });
        }
        // ATTACH and BEGIN count as reading; what tells them apart is that they bring no columns.
        if statement.column_count() == 0 {
            return Err(ConnectorError::NotASelect { tool, message: "it brings no columns".to_owned() });
        }
        // PRAGMA and EXPLAIN bring columns too, and tell of the database rather than of what is in it.
        let word: String = sql.trim_start().chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        if ["pragma", "explain"].contains(&word.to_ascii_lowercase().as_str()) {
            return Err(ConnectorError::NotASelect { tool, message: format!("it begins with `{word}`") });
        }
        values::check_names(&tool, &statement, parameters, false)?;
        Ok(Self { sql: sql.into(), columns: columns_of(&tool, &statement)? })
    }

    /// The columns, in the query's order.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows. Blocks; ends soon after `cancel` is cancelled.
    pub(crate) fn run(
        &self,
        database: &Database,
        given: &SqlValues<'_>,
        cell_bytes_max: usize,
        cancel: &CancellationToken,
    ) -> Result<Rows, Trouble> {
        let patience = database.patience(cancel).at_most(given.time);
        let connection = database.connect()?;
        stop_when_cancelled(&connection, cancel)?;
        let mut statement = patience.step(|| connection.prepare(&self.sql))?;
        given.bind(&mut statement)?;
        Ok(patience.step(|| rows_of(&mut statement.raw_query(), &self.columns, cell_bytes_max))?)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Retryable(
                "another program holds the database locked; try again later, or raise `busy_timeout_ms` of its source"
                    .to_owned(),
            ),
            Some(ErrorCode::OperationInterrupted) => Self::stopped(),
            Some(ErrorCode::TooBig) => {
                let max = VALUE_BYTES_MAX >> 20;
                Self::Permanent(format!("a value has more than {max} MiB; select a part of it with substr()"))
            }
            _ => Self::Permanent(one_line(error)),
        }
    }
}

/// The names of the columns that the statement returns, each there once.
pub(crate) fn columns_of(tool: &str, statement: &Statement<'_>) -> Result<Vec<String>, ConnectorError> {
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    match columns.iter().find(|column| !seen.insert(column.as_str())) {
        Some(column) => Err(ConnectorError::DoubledColumn { tool: tool.to_owned(), column: column.clone() }),
        None => Ok(columns),
    }
}

/// The rows that are left, as many as a result may hold.
pub(crate) fn rows_of(
    found: &mut rusqlite::Rows<'_>,
    columns: &[String],
    cell_bytes_max: usize,
) -> rusqlite::Result<Rows> {
    let mut rows = Rows::default();
    while let Some(row) = found.next()? {
        if rows.is_full() {
            break;
        }
        let mut values = Vec::with_capacity(columns.len());
        for at in 0..columns.len() {
            values.push(json_of(row.get_ref(at)?, cell_bytes_max));
        }
        rows.push(columns.iter().zip(values));
    }
    Ok(rows)
}

/// Asks the token from inside the query. An interrupt from outside would be lost between two statements.
pub(crate) fn stop_when_cancelled(
    connection: &Connection,
    cancel: &CancellationToken,
) -> rusqlite::Result<()> {
    let cancel = cancel.clone();
    connection.progress_handler(STEPS, Some(move || cancel.is_cancelled()))
}

fn json_of(value: ValueRef<'_>, cell_bytes_max: usize) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => whole.into(),
        // A number that JSON cannot write, such as infinity, is null there.
        ValueRef::Real(real) => real.into(),
        ValueRef::Text(text) => cut_text(text, cell_bytes_max),
        ValueRef::Blob(bytes) => format!("<{} bytes>", bytes.len()).into(),
    }
}

/// What SQLite says, with the line of the query where it says one.
pub(crate) fn place_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } if *offset >= 0 => {
            let before = sql.bytes().take(usize::try_from(*offset).unwrap_or_default());
            format!("{} in its line {}", one_line(msg), before.filter(|byte| *byte == b'\n').count() + 1)
        }
        rusqlite::Error::SqlInputError { msg, .. } => one_line(msg),
        other => one_line(other),
    }
}
