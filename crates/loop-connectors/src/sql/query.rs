//! One query: checked when the tool is made, bound and run in a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_core::Scope;
use loop_tools::CancellationToken;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement};
use serde_json::{Map, Value};

use crate::error::{ConnectorError, one_line};
use crate::sql::database::Database;

/// The most rows that a query hands on.
pub const ROWS_MAX: usize = 200;
/// How many steps of SQLite's machine pass between two looks at whether the query is still wanted.
const STEPS: i32 = 1_000;
/// The names under which a query may use the scope (S0-64, S0-80).
const SCOPE: [&str; 5] = ["scope_account", "scope_account_name", "scope_asset", "scope_item", "scope_person"];

/// A query that prepares, only looks, and names only what it is given.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    sql: Arc<str>,
    columns: Vec<String>,
}

/// What a query brought.
#[derive(Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Value>,
    /// Whether there were more than [`ROWS_MAX`].
    pub(crate) cut: bool,
}

/// Why a query brought nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueryFailure {
    /// It may succeed another time.
    Retryable(String),
    /// It will fail again.
    Permanent(String),
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
        let statement = match connection.prepare(sql) {
            Ok(statement) => statement,
            Err(rusqlite::Error::MultipleStatement) => {
                let message = "it is more than one statement".to_owned();
                return Err(ConnectorError::NotASelect { tool, message });
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
        for at in 1..=statement.parameter_count() {
            let name = statement.parameter_name(at).unwrap_or("?");
            let known =
                name.strip_prefix(':').is_some_and(|name| parameters.contains(name) || SCOPE.contains(&name));
            if !known {
                let given = parameters.iter().map(String::as_str).chain(SCOPE);
                let known = given.map(|name| format!(":{name}")).collect::<Vec<_>>().join(", ");
                return Err(ConnectorError::UnknownName { tool, name: name.to_owned(), known });
            }
        }
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut seen = BTreeSet::new();
        if let Some(column) = columns.iter().find(|column| !seen.insert(column.as_str())) {
            return Err(ConnectorError::DoubledColumn { tool, column: column.clone() });
        }
        Ok(Self { sql: sql.into(), columns })
    }

    /// The columns, in the query's order.
    pub(crate) fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }

    /// The rows. Blocks; ends soon after `cancel` is cancelled.
    pub(crate) fn run(
        &self,
        database: &Database,
        parameters: &Value,
        scope: &Scope,
        cancel: &CancellationToken,
    ) -> Result<Rows, QueryFailure> {
        let read = || -> rusqlite::Result<Rows> {
            let connection = database.connect()?;
            stop_when_cancelled(&connection, cancel)?;
            let mut statement = connection.prepare(&self.sql)?;
            bind(&mut statement, parameters, scope)?;
            let mut found = statement.raw_query();
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                if rows.len() == ROWS_MAX {
                    return Ok(Rows { rows, cut: true });
                }
                let mut members = Map::new();
                for (at, column) in self.columns.iter().enumerate() {
                    members.insert(column.clone(), json_of(row.get_ref(at)?));
                }
                rows.push(Value::Object(members));
            }
            Ok(Rows { rows, cut: false })
        };
        read().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                QueryFailure::Retryable(format!("the database is in use: {}", one_line(error)))
            }
            Some(ErrorCode::OperationInterrupted) => {
                QueryFailure::Retryable("the query was stopped".to_owned())
            }
            _ => QueryFailure::Permanent(one_line(error)),
        })
    }
}

/// Asks the token from inside the query. An interrupt from outside would be lost between two statements.
fn stop_when_cancelled(connection: &Connection, cancel: &CancellationToken) -> rusqlite::Result<()> {
    let cancel = cancel.clone();
    connection.progress_handler(STEPS, Some(move || cancel.is_cancelled()))
}

/// Gives each named value; what is not given is NULL.
fn bind(statement: &mut Statement<'_>, parameters: &Value, scope: &Scope) -> rusqlite::Result<()> {
    for at in 1..=statement.parameter_count() {
        let name = statement.parameter_name(at).and_then(|name| name.strip_prefix(':')).unwrap_or_default();
        let value = if SCOPE.contains(&name) {
            scoped(scope, name).map_or(SqlValue::Null, |text| SqlValue::Text(text.to_string()))
        } else {
            sql_of(parameters.get(name))
        };
        statement.raw_bind_parameter(at, value)?;
    }
    Ok(())
}

fn scoped<'a>(scope: &'a Scope, name: &str) -> Option<&'a Arc<str>> {
    match name {
        "scope_account" => scope.account.as_ref(),
        "scope_account_name" => scope.account_name.as_ref(),
        "scope_asset" => scope.asset.as_ref(),
        "scope_item" => scope.item.as_ref(),
        "scope_person" => scope.person.as_ref(),
        _ => None,
    }
}

fn sql_of(value: Option<&Value>) -> SqlValue {
    match value {
        None | Some(Value::Null) => SqlValue::Null,
        Some(Value::Bool(flag)) => SqlValue::Integer((*flag).into()),
        Some(Value::String(text)) => SqlValue::Text(text.clone()),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => SqlValue::Integer(whole),
            (None, Some(real)) => SqlValue::Real(real),
            (None, None) => SqlValue::Text(number.to_string()),
        },
        Some(nested) => SqlValue::Text(loop_core::canonical(nested)),
    }
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => whole.into(),
        // A number that JSON cannot write, such as infinity, is null there.
        ValueRef::Real(real) => real.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => format!("<{} bytes>", bytes.len()).into(),
    }
}

/// What SQLite says, with the line of the query where it says one.
fn place_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } if *offset >= 0 => {
            let before = sql.bytes().take(usize::try_from(*offset).unwrap_or_default());
            format!("{} in its line {}", one_line(msg), before.filter(|byte| *byte == b'\n').count() + 1)
        }
        rusqlite::Error::SqlInputError { msg, .. } => one_line(msg),
        other => one_line(other),
    }
}
