//! One statement in one transaction: prepared, given its values, run, and ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use loop_core::types::Scope;
use serde_json::Value;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, RowStream};

use crate::connectors::postgres::bind::{BoundParam, bound};
use crate::connectors::postgres::connection::Connection;
use crate::connectors::postgres::decode::{Raw, is_readable, json_of};
use crate::connectors::postgres::failure::{SentQuery, failure, is_left_behind, is_outdated};
use crate::connectors::postgres::pool::Lease;
use crate::connectors::postgres::settings::{PostgresSettings, SCOPE_PARTS};
use crate::connectors::scope::part_of;
use crate::connectors::sql::rows::{ChangedRows, ROWS_MAX, Rows, SqlResult};
use crate::connectors::sql::values::{KEY, SCOPE};
use crate::connectors::trouble::Trouble;

/// What a reading statement is put into: nothing but a query fits there, and the server makes no more rows than are shown.
const BEFORE: &str = "SELECT * FROM (";
/// Takes away the statements that other clients of a pooler have left in the session.
pub(crate) const CLEAN: &str = "; DEALLOCATE ALL";
/// What a checked statement of a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    Read,
    Change,
}

/// A statement of a tool, as far as it is known without a server.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) work: QueryKind,
    /// As the server gets it. A query is in brackets, so that it can be nothing else.
    pub(crate) sql: Arc<str>,
    /// The same without brackets.
    pub(crate) inner: Arc<str>,
    /// The names of `$1`, `$2`, …
    pub(crate) names: Arc<[String]>,
}

/// A statement that is prepared on a connection.
pub(crate) struct PreparedStatement {
    pub(crate) statement: tokio_postgres::Statement,
    /// What sets the scope before it.
    scope: tokio_postgres::Statement,
    pub(crate) columns: Vec<String>,
}

/// What a call gives a statement.
#[derive(Debug)]
pub(crate) struct Bindings<'a> {
    pub(crate) parameters: &'a Value,
    pub(crate) scope: &'a Scope,
    pub(crate) key: &'a str,
    pub(crate) cell_bytes_max: usize,
    /// How long the server may work.
    pub(crate) time: Duration,
}

/// Whether a change may have been made, for a call that is cut off.
#[derive(Debug, Default)]
pub(crate) struct CommitSent(AtomicBool);

impl CommitSent {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Why a statement did not run.
pub(crate) enum QueryFault {
    Server(tokio_postgres::Error),
    Known(Trouble),
}

impl From<tokio_postgres::Error> for QueryFault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<Trouble> for QueryFault {
    fn from(failure: Trouble) -> Self {
        Self::Known(failure)
    }
}

impl Query {
    pub(crate) fn new(work: QueryKind, sql: &str, names: Vec<String>) -> Self {
        let sent = match work {
            QueryKind::Read => in_brackets(BEFORE, sql),
            QueryKind::Change => sql.to_owned(),
        };
        Self { work, sql: sent.into(), inner: sql.into(), names: names.into() }
    }

    /// What errors of the server are about.
    pub(crate) fn place(&self) -> SentQuery<'_> {
        SentQuery { sql: &self.sql, names: &self.names }
    }

    /// The statement on this connection, with the columns that it returns.
    pub(crate) async fn prepare(
        &self,
        client: &Client,
        settings: &PostgresSettings,
    ) -> Result<PreparedStatement, QueryFault> {
        let mut statement = client.prepare(&self.sql).await?;
        let columns: Vec<String> =
            statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let mut seen = BTreeSet::new();
        if let Some(column) = columns.iter().find(|column| !seen.insert(column.as_str())) {
            let message = format!("the query has two columns `{column}`; rename one with AS");
            return Err(Trouble::Permanent(message).into());
        }
        let unread = |column: &&tokio_postgres::Column| !is_readable(column.type_());
        if let Some(column) = statement.columns().iter().find(unread) {
            if self.work == QueryKind::Change {
                let (name, ty) = (column.name(), column.type_().name());
                let message = format!(
                    "RETURNING returns `{name}` of the type {ty}, which cannot be shown; write `{name}::text AS {name}`"
                );
                return Err(Trouble::Permanent(message).into());
            }
            let list: Vec<String> = statement
                .columns()
                .iter()
                .map(|column| {
                    let name = format!("\"{}\"", column.name().replace('"', "\"\""));
                    if is_readable(column.type_()) { name } else { format!("{name}::text AS {name}") }
                })
                .collect();
            let before = format!("SELECT {} FROM (", list.join(", "));
            statement = client.prepare(&in_brackets(&before, &self.inner)).await?;
        }
        let scope = client.prepare(&set_scope(settings)).await?;
        Ok(PreparedStatement { statement, scope, columns })
    }

    /// Runs the statement in a transaction of its own and ends that. What fails before COMMIT is sent has changed nothing.
    pub(crate) async fn run(
        &self,
        lease: &mut Lease,
        settings: &PostgresSettings,
        given: &Bindings<'_>,
        commit: &CommitSent,
    ) -> Result<(SqlResult, Vec<String>), Trouble> {
        let (mut may_be_outdated, mut cleans) = (true, false);
        loop {
            let connection = lease.connection()?;
            let kept = connection.prepared(&self.sql);
            may_be_outdated &= kept.is_some();
            let mut begins = begin(self.work, settings, given.time, connection);
            begins.push_str(if cleans { CLEAN } else { "" });
            // Where each transaction may have another session, it begins before anything is prepared.
            let begins = match connection.is_pooled {
                false => begins,
                true => match connection.client.batch_execute(&begins).await {
                    Ok(()) => String::new(),
                    Err(error) => return Err(self.known(error.into(), connection).await),
                },
            };
            let prepared = match kept {
                Some(prepared) => prepared,
                None => match self.prepare(&connection.client, settings).await {
                    Ok(prepared) => {
                        let prepared = Arc::new(prepared);
                        connection.keep(&self.sql, Arc::clone(&prepared));
                        prepared
                    }
                    Err(QueryFault::Server(error))
                        if connection.is_pooled && !cleans && is_left_behind(&error) =>
                    {
                        cleans = true;
                        if let Err(error) = connection.client.batch_execute("ROLLBACK").await {
                            return Err(self.known(error.into(), connection).await);
                        }
                        continue;
                    }
                    Err(fault) => return Err(self.known(fault, connection).await),
                },
            };
            match self.transact(connection, prepared, &begins, settings, given, commit).await {
                Ok(done) => return Ok(done),
                Err(QueryFault::Server(error)) if may_be_outdated && is_outdated(&error) => {
                    connection.forget(&self.sql);
                    if let Err(error) = connection.client.batch_execute("ROLLBACK").await {
                        return Err(self.known(error.into(), connection).await);
                    }
                    may_be_outdated = false;
                }
                Err(fault) => return Err(self.known(fault, connection).await),
            }
        }
    }

    async fn transact(
        &self,
        connection: &Connection,
        prepared: Arc<PreparedStatement>,
        begins: &str,
        settings: &PostgresSettings,
        given: &Bindings<'_>,
        commit: &CommitSent,
    ) -> Result<(SqlResult, Vec<String>), QueryFault> {
        let client = &connection.client;
        let values = self.values(&prepared, given)?;
        let scope = scope_values(settings, given.scope)?;
        let (scope, parameters) = (parameters(&scope), parameters(&values));
        // All three are sent at once, and the server takes them in order. After a failure it refuses what follows.
        let (_, _, rows) = futures::try_join!(
            client.batch_execute(begins),
            client.execute_raw(&prepared.scope, scope),
            client.query_raw(&prepared.statement, parameters),
        )?;
        match self.work {
            QueryKind::Read => {
                let (rows, _) = rows_of(rows, &prepared, given.cell_bytes_max, QueryKind::Read).await?;
                Ok((SqlResult::Found(rows), prepared.columns.clone()))
            }
            QueryKind::Change => {
                let (rows, count) = rows_of(rows, &prepared, given.cell_bytes_max, QueryKind::Change).await?;
                let columns = prepared.columns.clone();
                // Where it is not kept, it is closed in the session that has it.
                drop(prepared);
                if count > 0 {
                    commit.0.store(true, Ordering::Release);
                    if let Err(error) = client.batch_execute("COMMIT").await {
                        return Err(self.commit_failed(&error).into());
                    }
                }
                Ok((SqlResult::Changed(ChangedRows { count, rows }), columns))
            }
        }
    }

    /// What a failed COMMIT means: only where the server says that it failed is it known.
    fn commit_failed(&self, error: &tokio_postgres::Error) -> Trouble {
        let severity = error.as_db_error().and_then(|error| error.parsed_severity());
        match (severity, failure(error, SentQuery::NONE)) {
            (Some(Severity::Error), known) => known,
            (_, Trouble::Retryable(says) | Trouble::Permanent(says)) => Trouble::InDoubt(format!(
                "it may or may not have been changed: the server did not answer to COMMIT: {says}"
            )),
            (_, other) => other,
        }
    }

    fn values(&self, prepared: &PreparedStatement, given: &Bindings<'_>) -> Result<Vec<BoundParam>, Trouble> {
        let types = prepared.statement.params();
        let values = self.names.iter().zip(types).map(|(name, ty)| {
            if SCOPE.contains(&name.as_str()) {
                let part = part_of(given.scope, name.trim_start_matches("scope_"));
                return bound(name, part.map(|text| Value::String(text.to_string())).as_ref(), ty);
            }
            if name == KEY && self.work == QueryKind::Change {
                return bound(name, Some(&Value::String(given.key.to_owned())), ty);
            }
            bound(name, given.parameters.get(name), ty)
        });
        values.collect()
    }

    /// What a fault means for the call. A broken connection may have said why.
    async fn known(&self, fault: QueryFault, connection: &mut Connection) -> Trouble {
        match fault {
            QueryFault::Known(failure) => failure,
            QueryFault::Server(error) if error.is_closed() => {
                connection.end().await.unwrap_or_else(|| failure(&error, self.place()))
            }
            QueryFault::Server(error) => failure(&error, self.place()),
        }
    }
}

/// The query as a part of one that returns no more rows than are shown, and one more that says that there are more.
fn in_brackets(before: &str, sql: &str) -> String {
    let limit = ROWS_MAX + 1;
    // A comment may end the query.
    format!("{before}{sql}\n) AS loopgate_rows LIMIT {limit}")
}

/// Values as the client takes them.
pub(crate) fn parameters(values: &[BoundParam]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as _).collect()
}

/// What begins a transaction.
pub(crate) fn begin(
    work: QueryKind,
    settings: &PostgresSettings,
    time: Duration,
    connection: &Connection,
) -> String {
    let mode = match work {
        QueryKind::Read => "READ ONLY",
        QueryKind::Change => "READ WRITE",
    };
    let ms = |time: Duration| time.as_millis().clamp(1, 86_400_000);
    let statement = ms(settings.statement_timeout.min(time));
    let mut sql = format!("BEGIN {mode}; SET LOCAL statement_timeout = {statement}");
    if connection.notices_end {
        sql.push_str("; SET LOCAL client_connection_check_interval = 1000");
    }
    if connection.is_pooled {
        for (name, value) in settings.of_sessions() {
            let value = value.replace('\'', "''");
            sql.push_str(&format!("; SELECT pg_catalog.set_config('{name}', '{value}', true)"));
        }
    }
    sql
}

/// The settings of a transaction that hold the scope, with the part of each.
fn scope_settings(settings: &PostgresSettings) -> impl Iterator<Item = (String, &str)> {
    let own = SCOPE_PARTS.iter().map(|part| (format!("loopgate.{part}"), *part));
    own.chain(settings.scope.iter().map(|(setting, part)| (setting.clone(), part.as_str())))
}

/// What sets them, with a placeholder for each value.
fn set_scope(settings: &PostgresSettings) -> String {
    let calls = scope_settings(settings).enumerate();
    let calls =
        calls.map(|(at, (setting, _))| format!("pg_catalog.set_config('{setting}', ${}, true)", at + 1));
    format!("SELECT {}", calls.collect::<Vec<_>>().join(", "))
}

/// The values of them. What is not there is empty: a setting cannot be NULL.
fn scope_values(settings: &PostgresSettings, scope: &Scope) -> Result<Vec<BoundParam>, Trouble> {
    let values = scope_settings(settings).map(|(_, part)| {
        let text = part_of(scope, part).map(ToString::to_string).unwrap_or_default();
        if text.contains('\0') {
            let message =
                format!("the scope's `{part}` holds a NUL character, which PostgreSQL does not take");
            return Err(Trouble::Permanent(message));
        }
        Ok(BoundParam(Some(text)))
    });
    values.collect()
}

/// The rows, as many as a result may hold, and how many the statement made. A change is read to its end, because only there
/// it is known that it was made.
async fn rows_of(
    found: RowStream,
    prepared: &PreparedStatement,
    cell_bytes_max: usize,
    work: QueryKind,
) -> Result<(Rows, u64), QueryFault> {
    let mut found = std::pin::pin!(found);
    let mut rows = Rows::default();
    while let Some(row) = found.try_next().await? {
        if rows.is_full() {
            match work {
                QueryKind::Read => return Ok((rows, 0)),
                QueryKind::Change => continue,
            }
        }
        let mut values = Vec::with_capacity(prepared.columns.len());
        for (at, column) in prepared.statement.columns().iter().enumerate() {
            let raw: Option<Raw<'_>> = row.try_get(at)?;
            let value = json_of(raw, column.type_(), cell_bytes_max).map_err(|_| {
                let (name, ty) = (column.name(), column.type_().name());
                Trouble::Permanent(format!(
                    "the server sent a value of `{name}` that is not of the type {ty}"
                ))
            })?;
            values.push(value);
        }
        rows.push(prepared.columns.iter().zip(values));
    }
    let count = found.rows_affected().unwrap_or_default();
    Ok((rows, count))
}
