//! A tool that runs one query, or makes one change, in a PostgreSQL database.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::Effect;
use serde_json::{Value, json};

use crate::connectors::error::ConnectorError;
use crate::connectors::postgres::login::Login;
use crate::connectors::postgres::pool::TransactionEnd;
use crate::connectors::postgres::run::{Bindings, CommitSent, Query, QueryKind};
use crate::connectors::postgres::settings::Postgres;
use crate::connectors::postgres::statement::{ScanError, Statement};
use crate::connectors::sql::rows::{CELL_BYTES_MAX, SqlResult, result};
use crate::connectors::sql::values::{KEY, check_name};
use crate::connectors::trouble::Trouble;

/// How long a call takes at most outside of a dispatcher.
const TIME_ALONE: Duration = Duration::from_secs(30);
/// How much earlier than the call the server stops, so that it is the server that says so.
const EARLY: Duration = Duration::from_millis(150);
/// How long a call that is cut off still waits for the answer to COMMIT.
const GRACE: Duration = Duration::from_secs(1);

/// A tool over one query, or over one INSERT, UPDATE, DELETE or MERGE where its effect is to write: its parameters and the
/// scope go in by name, a table comes out.
///
/// `:target` is the parameter `target`; `:scope_account`, `:scope_account_name`, `:scope_asset`, `:scope_item` and
/// `:scope_person` are the scope of the work item. A change may also use `:call_key`, which all tries of one call share. What
/// is not given is NULL. The same scope is in the settings `loopgate.account`, `loopgate.account_name`, `loopgate.asset`,
/// `loopgate.item` and `loopgate.person` of the transaction, for row level security.
///
/// A query runs in a read-only transaction, which is rolled back. A change is made whole or not at all, and one that changes no
/// row is empty. A change whose COMMIT is not answered may be tried again where its effect says so, and is else
/// [`in_doubt`](ToolResult::in_doubt). A call that is cut off stops its statement on the server and closes its connection.
#[derive(Debug)]
pub struct PostgresTool {
    declaration: ToolDeclaration,
    pub(crate) source: Postgres,
    pub(crate) query: Query,
    cell_bytes_max: usize,
}

impl PostgresTool {
    /// The tool over `query`, whose parameters are the properties of the declared schema. No server is asked.
    ///
    /// # Errors
    /// The query is not one statement of the kind that the effect asks for, as far as its text shows, or names a value that it
    /// is not given; or the effect writes, and the source is not writable; or the effect is `write_keyed`, and the query does
    /// not name `:call_key`.
    pub fn new(declaration: ToolDeclaration, source: &Postgres, query: &str) -> Result<Self, ConnectorError> {
        let properties = declaration.schema.get("properties").and_then(Value::as_object);
        let parameters: BTreeSet<String> =
            properties.into_iter().flat_map(|members| members.keys().cloned()).collect();
        let tool = declaration.name.to_string();
        let change = declaration.effect.filter(|effect| {
            matches!(effect, Effect::WriteIdempotent | Effect::WriteKeyed | Effect::WriteIrreversible)
        });
        if let Some(effect) = change
            && !source.pool.settings.writable
        {
            let path = format!("the source `{}`", source.name());
            return Err(ConnectorError::NotWritable { tool, effect: effect.name(), path });
        }
        let other = |message: String| match change {
            Some(effect) => ConnectorError::NotAChange { tool: tool.clone(), effect: effect.name(), message },
            None => ConnectorError::NotASelect { tool: tool.clone(), message },
        };
        let statement = Statement::scan(query).map_err(|error| match error {
            ScanError::MoreThanOne => other("it is more than one statement".to_owned()),
            ScanError::Nothing => other("it is empty".to_owned()),
            ScanError::Malformed(message) => ConnectorError::Query { tool: tool.clone(), message },
            ScanError::Numbered(name) => {
                let message = format!("`{name}` has no name; write the placeholder as `:name`");
                ConnectorError::Query { tool: tool.clone(), message }
            }
        })?;
        let words: &[&str] = match change {
            Some(_) => &["insert", "update", "delete", "merge", "with"],
            None => &["select", "with", "values", "table"],
        };
        if !words.contains(&statement.first_word.as_str()) {
            return Err(other(format!("it begins with `{}`", statement.first_word)));
        }
        for name in &statement.names {
            check_name(&tool, &format!(":{name}"), &parameters, change.is_some())?;
        }
        if change == Some(Effect::WriteKeyed) && !statement.names.iter().any(|name| name == KEY) {
            return Err(ConnectorError::Unkeyed { tool });
        }
        let work = if change.is_some() { QueryKind::Change } else { QueryKind::Read };
        Ok(Self {
            declaration: declaration.defined_by(&json!({ "kind": "sql", "query": query })),
            source: source.clone(),
            query: Query::new(work, &statement.sql, statement.names),
            cell_bytes_max: CELL_BYTES_MAX,
        })
    }

    /// The most bytes of one value that it returns, [`CELL_BYTES_MAX`] without this. A longer text is cut, and says so.
    #[must_use]
    pub fn with_cell_bytes_max(mut self, bytes: usize) -> Self {
        self.cell_bytes_max = bytes;
        self
    }

    async fn run(
        &self,
        parameters: &Value,
        context: &ToolContext,
        login: &Login,
        commit: &CommitSent,
    ) -> (Vec<String>, Result<SqlResult, Trouble>) {
        let pool = &self.source.pool;
        let mut has_retried = false;
        loop {
            let left = context.remaining().unwrap_or(TIME_ALONE);
            let mut lease = match pool.lease(login, left).await {
                Ok(lease) => lease,
                Err(failure) => return (Vec::new(), Err(failure)),
            };
            let left = context.remaining().unwrap_or(TIME_ALONE);
            let given = Bindings {
                parameters,
                scope: &context.scope,
                key: &context.key,
                cell_bytes_max: self.cell_bytes_max,
                time: left.saturating_sub(EARLY),
            };
            let was_used = lease.was_used();
            match self.query.run(&mut lease, &pool.settings, &given, commit).await {
                Ok((done, columns)) => {
                    let left = if commit.get() { TransactionEnd::Committed } else { TransactionEnd::Open };
                    lease.give_back(left).await;
                    return (columns, Ok(done));
                }
                // A connection that the server had closed while it was idle. Nothing was done, as no COMMIT was sent.
                Err(Trouble::Retryable(_))
                    if was_used && lease.is_closed() && !commit.get() && !has_retried =>
                {
                    has_retried = true;
                }
                Err(failure) => {
                    if !lease.is_closed() {
                        lease.give_back(TransactionEnd::Open).await;
                    }
                    return (Vec::new(), Err(failure));
                }
            }
        }
    }

    /// What a call is whose COMMIT is not answered.
    fn settled(&self, failure: Trouble, mask: &Secrets) -> Trouble {
        let is_repeatable = self.declaration.effect.is_none_or(Effect::is_repeatable);
        match failure.masked(mask) {
            Trouble::InDoubt(says) if is_repeatable => Trouble::Retryable(says),
            known => known,
        }
    }
}

#[async_trait]
impl Tool for PostgresTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let scope = &context.scope;
        let login = match self.source.pool.login(credentials) {
            Ok(login) => login,
            Err(failure) => return result(&self.declaration, scope, &[], Err(failure)),
        };
        let mask = login.mask(credentials, &self.source.pool.place);
        let commit = CommitSent::default();
        // A dispatcher has a clock of its own.
        let alone = async {
            match context.remaining() {
                Some(_) => std::future::pending().await,
                None => tokio::time::sleep(TIME_ALONE).await,
            }
        };
        let mut work = Box::pin(self.run(&parameters, context, &login, &commit));
        let done = tokio::select! {
            biased;
            () = context.cancel.cancelled() => None,
            done = &mut work => Some(done),
            () = alone => None,
        };
        let (columns, outcome) = match done {
            Some(done) => done,
            // What was sent cannot be taken back, so its answer is worth a moment.
            None if commit.get() => {
                let says = "it may or may not have been changed: the call was stopped before the server answered to COMMIT";
                let in_doubt = (Vec::new(), Err(Trouble::InDoubt(says.to_owned())));
                tokio::time::timeout(GRACE, &mut work).await.unwrap_or(in_doubt)
            }
            None => (Vec::new(), Err(Trouble::stopped())),
        };
        // What was not finished is stopped on the server.
        drop(work);
        let outcome = outcome.map_err(|failure| self.settled(failure, &mask)).map(|done| masked(done, &mask));
        result(&self.declaration, scope, &columns, outcome)
    }
}

/// The rows without secrets.
fn masked(mut done: SqlResult, mask: &Secrets) -> SqlResult {
    let rows = match &mut done {
        SqlResult::Found(rows) => rows,
        SqlResult::Changed(changed) => &mut changed.rows,
    };
    for row in &mut rows.rows {
        *row = mask.mask_value(row.take());
    }
    done
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
