//! The check of a source and its tools on a server: what no text alone can show.

use std::sync::Arc;
use std::time::Duration;

use crate::Credentials;
use serde_json::Value;
use tokio_postgres::Client;

use crate::connectors::postgres::bind::BoundParam;
use crate::connectors::postgres::failure::{SentQuery, failure, is_left_behind};
use crate::connectors::postgres::pool::Lease;
use crate::connectors::postgres::run::{CLEAN, Query, QueryFault, QueryKind, begin, parameters};
use crate::connectors::postgres::settings::{Postgres, PostgresSettings};
use crate::connectors::postgres::tool::PostgresTool;
use crate::connectors::trouble::Trouble;

/// How long the check of a source takes at most.
const CHECKS_WITHIN: Duration = Duration::from_secs(20);
/// What the role may do beyond what its tools need.
const ROLE: &str = r"
SELECT r.rolsuper, r.rolbypassrls,
  EXISTS (SELECT FROM pg_catalog.pg_roles f WHERE f.rolname IN ('pg_read_server_files', 'pg_write_server_files',
    'pg_execute_server_program') AND pg_catalog.pg_has_role(f.oid, 'USAGE')),
  (SELECT pg_catalog.string_agg(x.name, ', ') FROM (SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\_%' AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    ORDER BY name LIMIT 3) x),
  (SELECT pg_catalog.string_agg(x.name, ', ') FROM (SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relrowsecurity AND NOT c.relforcerowsecurity AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
    ORDER BY name LIMIT 3) x)
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";

/// What a check on a server found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresReport {
    /// Why nothing was checked. `None`: the server was asked.
    pub unreachable: Option<String>,
    /// Warnings for the operator, one line each: rights of the role beyond what its tools need.
    pub warnings: Vec<String>,
    /// The tools whose query is wrong, by their place among those that were given, each with what is wrong.
    pub wrong: Vec<(usize, String)>,
}

impl PostgresReport {
    fn unreachable(why: impl Into<String>) -> Self {
        Self { unreachable: Some(why.into()), ..Self::default() }
    }
}

impl Postgres {
    /// Prepares and explains the query of each tool on the server, and looks at what the role may do. Nothing is changed.
    ///
    /// Blocks until the server has answered, at most 20 s; it has a thread of its own, so that any program may call it.
    pub fn check(&self, tools: &[&PostgresTool], credentials: &Credentials) -> PostgresReport {
        std::thread::scope(|threads| {
            let checked = threads.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => return PostgresReport::unreachable(error.to_string()),
                };
                runtime.block_on(async {
                    let checked = tokio::time::timeout(CHECKS_WITHIN, self.checked(tools, credentials)).await;
                    checked.unwrap_or_else(|_| {
                        let seconds = CHECKS_WITHIN.as_secs();
                        PostgresReport::unreachable(format!("the server did not answer within {seconds} s"))
                    })
                })
            });
            checked.join().unwrap_or_else(|_| PostgresReport::unreachable("the check ended in the middle"))
        })
    }

    async fn checked(&self, tools: &[&PostgresTool], credentials: &Credentials) -> PostgresReport {
        let login = match self.pool.login(credentials) {
            Ok(login) => login,
            Err(failure) => return PostgresReport::unreachable(failure.message()),
        };
        let mask = login.mask(credentials, &self.pool.place);
        let mut report = PostgresReport::default();
        // Connections of this runtime end with it, so none may stay in the pool.
        let pool = Arc::new(self.pool.empty_copy());
        let mut lease = match pool.lease(&login, CHECKS_WITHIN).await {
            Ok(lease) => lease,
            Err(failure) => return PostgresReport::unreachable(mask.mask_message(&failure.message())),
        };
        match role(&mut lease, &self.pool.settings).await {
            Ok(warnings) => report.warnings = warnings,
            Err(failure) => {
                report.warnings.push(format!("what the role may do is not known: {}", failure.message()))
            }
        }
        for (at, tool) in tools.iter().enumerate() {
            if let Err(failure) = explain(&mut lease, &tool.query, &self.pool.settings).await {
                report.wrong.push((at, mask.mask_message(&failure.message())));
            }
        }
        lease.close().await;
        report.warnings = report.warnings.iter().map(|warning| mask.mask_message(warning)).collect();
        report
    }
}

/// What the role may do beyond what its tools need, a line each.
async fn role(lease: &mut Lease, settings: &PostgresSettings) -> Result<Vec<String>, Trouble> {
    let client = &lease.connection()?.client;
    let wrong = |error: tokio_postgres::Error| failure(&error, SentQuery::NONE);
    // In one transaction, so that it is in one session also behind a pooler.
    client.batch_execute("BEGIN READ ONLY").await.map_err(wrong)?;
    let row = client.query_one(ROLE, &[]).await;
    client.batch_execute("ROLLBACK").await.map_err(wrong)?;
    let row = row.map_err(wrong)?;
    let flag = |at: usize| row.try_get::<_, bool>(at).map_err(wrong);
    let names = |at: usize| row.try_get::<_, Option<String>>(at).map_err(wrong);
    let mut warnings = Vec::new();
    if flag(0)? {
        warnings.push(
            "its role is a superuser: its tools can read the server's files and run programs there; make a role with the rights \
             that they need"
                .to_owned(),
        );
        return Ok(warnings);
    }
    if flag(1)? {
        warnings.push("its role has BYPASSRLS: row level security does not restrict it".to_owned());
    }
    if flag(2)? {
        warnings.push("its role may use the server's files or programs; take that right from it".to_owned());
    }
    if let Some(tables) = names(3)?
        && !settings.writable
    {
        warnings.push(format!(
            "its role may write ({tables}), and the source only reads; give it a role that has SELECT alone"
        ));
    }
    if let Some(tables) = names(4)? {
        warnings.push(format!(
            "its role owns {tables}, so row level security does not restrict it there; use another role, or FORCE ROW LEVEL \
             SECURITY"
        ));
    }
    Ok(warnings)
}

/// Prepares and explains a query, which shows that it can run and that the role may run it.
async fn explain(lease: &mut Lease, query: &Query, settings: &PostgresSettings) -> Result<(), Trouble> {
    let connection = lease.connection()?;
    let begin = begin(query.work, settings, CHECKS_WITHIN, connection);
    let client = &connection.client;
    let wrong = |fault: QueryFault| match fault {
        QueryFault::Known(failure) => failure,
        QueryFault::Server(error) => failure(&error, query.place()),
    };
    client.batch_execute(&begin).await.map_err(|error| wrong(error.into()))?;
    let mut explained = explained_in(client, query, settings).await;
    if let Err(QueryFault::Server(error)) = &explained
        && is_left_behind(error)
    {
        let again = format!("ROLLBACK; {begin}{CLEAN}");
        client.batch_execute(&again).await.map_err(|error| wrong(error.into()))?;
        explained = explained_in(client, query, settings).await;
    }
    let rolled_back = client.batch_execute("ROLLBACK").await.map_err(|error| wrong(error.into()));
    explained.map_err(wrong).and(rolled_back)
}

/// The same in a transaction that has begun.
async fn explained_in(client: &Client, query: &Query, settings: &PostgresSettings) -> Result<(), QueryFault> {
    let prepared = query.prepare(client, settings).await?;
    // In one line with the query, so that the lines of its errors are those of the query.
    let explain = client.prepare(&format!("EXPLAIN (FORMAT JSON) {}", query.sql)).await?;
    let nothing = vec![BoundParam(None); explain.params().len()];
    let plan = client.query_one(&explain, &parameters(&nothing)).await?.try_get::<_, Plan>(0)?;
    drop((prepared, explain));
    if query.work == QueryKind::Change && !plan.changes() {
        let message = "with an effect that writes it must be one INSERT, UPDATE, DELETE or MERGE, and it changes nothing; \
                           correct the query or the effect";
        return Err(QueryFault::Known(Trouble::Permanent(message.to_owned())));
    }
    Ok(())
}

/// A plan of the server.
struct Plan(Value);

impl Plan {
    /// Whether its outermost step changes rows.
    fn changes(&self) -> bool {
        self.0.pointer("/0/Plan/Node Type").and_then(Value::as_str) == Some("ModifyTable")
    }
}

impl<'a> tokio_postgres::types::FromSql<'a> for Plan {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(serde_json::from_slice(raw)?))
    }

    fn accepts(ty: &tokio_postgres::types::Type) -> bool {
        *ty == tokio_postgres::types::Type::JSON
    }
}
