//! A session with a server: statements one after the other, as on a file's connection.

use std::cell::{Cell as Slot, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::escape::{escaped, unescaped};
use super::fault::{POOLED, SessionError};
use super::listen::telling;
use super::server::{Server, wait, wait_within};
use crate::stored::fault::not_own;
use crate::stored::sql::{Cell, Params, Purpose, Value};

/// A session. It is one thread's at a time.
#[derive(Debug)]
pub(in super::super) struct Session {
    server: Arc<Server>,
    client: Arc<Client>,
    /// The server's process that works for it, and when that one began.
    backend: (i64, String),
    statements: RefCell<HashMap<String, Statement>>,
    is_in_transaction: Slot<bool>,
    /// Whether its connection broke or its server was silent, also where the client has not noticed yet.
    is_broken: Slot<bool>,
}

/// What each session is set to. No session keeps a lock for long where its process is stopped in the middle.
const SETTINGS: &str = "SET search_path = loopgate, pg_catalog; SET lock_timeout = '40s'; SET statement_timeout = '50s'; \
                        SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = warning";
/// How long a new session has for its first answer.
const FIRST: Duration = Duration::from_secs(4);
/// A setting that only a session has that is in use.
const OWN: &str = "loopgate.own_session";
/// A trigger or a rule of the journal's tables that no format made. The view has a rule. The numbers are the events of a trigger.
const OTHERS: &str = "SELECT 'trigger', CAST(tgname AS TEXT), CAST(relname AS TEXT)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE relnamespace = to_regnamespace('loopgate') AND NOT tgisinternal
        AND (relname, tgname, tgtype) NOT IN (('audit', 'audit_is_kept', 58), ('runs', 'runs_are_taken_out', 40))
    UNION ALL SELECT 'rule', CAST(rulename AS TEXT), CAST(relname AS TEXT)
    FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class WHERE relnamespace = to_regnamespace('loopgate') LIMIT 1";
/// The name of the lock that keeps transactions apart. Each has it, and the numbers behind it keep those of one kind apart: a
/// submission waits for no entry.
const TRANSACTIONS: i64 = 0x4c70_4774_0000_0001;
const SUBMISSIONS: i64 = TRANSACTIONS + 1;
const AUDITS: i64 = TRANSACTIONS + 2;
const BUDGETS: i64 = TRANSACTIONS + 3;

impl Session {
    pub(super) fn begin(server: Arc<Server>, client: Arc<Client>) -> Result<Self, SessionError> {
        let mut session = Self {
            server,
            client,
            backend: (0, String::new()),
            statements: RefCell::new(HashMap::new()),
            is_in_transaction: Slot::new(false),
            is_broken: Slot::new(false),
        };
        // A session of the server that another client has set, and nothing has reset since, is not this client's own.
        let shared = session.simple(&format!("SELECT pg_catalog.current_setting('{OWN}', true)"));
        // The login itself a pooler answers from what it knows.
        let shared = shared.map_err(|error| match error {
            SessionError::Silent => SessionError::NoSession,
            other => other,
        })?;
        if shared.is_some_and(|set| !set.is_empty()) {
            return Err(SessionError::Stated(POOLED.to_owned()));
        }
        session.batch(&format!("{SETTINGS}; SET {OWN} = 'on'"))?;
        let who = "SELECT CAST(pid AS BIGINT), CAST(backend_start AS TEXT) FROM pg_stat_activity
                   WHERE pid = pg_backend_pid()";
        if let [Cell::Integer(pid), Cell::Text(since)] = session.one(who, &[""; 0])?.as_slice() {
            session.backend = (*pid, since.clone());
        }
        match session.one(OTHERS, &[""; 0])?.as_slice() {
            [Cell::Text(kind), Cell::Text(name), Cell::Text(table)] => {
                Err(SessionError::Stated(not_own(kind, name, table)))
            }
            _ => Ok(session),
        }
    }

    /// The first value of a query without parameters, which prepares nothing. A new session answers it soon.
    fn simple(&self, sql: &str) -> Result<Option<String>, SessionError> {
        let (client, sql) = (Arc::clone(&self.client), sql.to_owned());
        let said = self.note(wait_within(FIRST, async move { client.simple_query(&sql).await }))?;
        let rows = said.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Ok({ rows }.next())
    }

    /// The server's process that works for this session.
    pub(super) fn backend(&self) -> i64 {
        self.backend.0
    }

    /// Whether it broke.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.is_broken.get() || self.client.is_closed()
    }

    /// Makes a session anew that broke, once the server is there again. Nothing of the old one goes on behind it.
    pub(in super::super) fn revive(&mut self) -> Result<(), SessionError> {
        let (pid, since) = self.backend.clone();
        *self = self.server.connect_again()?;
        // The server may not have noticed, and may still commit for it.
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE pid = ?1 AND CAST(backend_start AS TEXT) = ?2";
        self.query(end, &vec![Cell::Integer(pid), Cell::Text(since)]).map(drop)
    }

    /// Gives a session up whose server is silent, so that it is made anew.
    fn note<T>(&self, came: Result<T, SessionError>) -> Result<T, SessionError> {
        if came.as_ref().is_err_and(SessionError::is_disconnected) {
            self.is_in_transaction.set(false);
            self.is_broken.set(true);
        }
        came
    }

    pub(in super::super) fn batch(&self, sql: &str) -> Result<(), SessionError> {
        let (client, sql) = (Arc::clone(&self.client), sql.to_owned());
        self.note(wait(async move { client.batch_execute(&sql).await }))
    }

    pub(in super::super) fn query(
        &self,
        sql: &str,
        params: &impl Params,
    ) -> Result<Vec<Vec<Cell>>, SessionError> {
        let (statement, values) = (self.statement(sql)?, BoundValue::all(params));
        let client = Arc::clone(&self.client);
        let rows =
            self.note(wait(async move { client.query(&statement, &BoundValue::borrowed(&values)).await }))?;
        rows.iter().map(cells).collect()
    }

    pub(in super::super) fn execute(&self, sql: &str, params: &impl Params) -> Result<usize, SessionError> {
        let (statement, values) = (self.statement(sql)?, BoundValue::all(params));
        let client = Arc::clone(&self.client);
        let changed =
            self.note(wait(async move { client.execute(&statement, &BoundValue::borrowed(&values)).await }))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(in super::super) fn execute_all<P: Params>(
        &self,
        sql: &str,
        all: impl Iterator<Item = P>,
    ) -> Result<usize, SessionError> {
        let (statement, client) = (self.statement(sql)?, Arc::clone(&self.client));
        let all: Vec<Vec<BoundValue>> = all.map(|params| BoundValue::all(&params)).collect();
        let sent = wait(async move {
            // They are sent in their order.
            let each = all.iter().map(|values| {
                let (client, statement) = (&client, &statement);
                async move { client.execute(statement, &BoundValue::borrowed(values)).await }
            });
            futures::future::try_join_all(each).await
        });
        Ok(usize::try_from(self.note(sent)?.into_iter().sum::<u64>()).unwrap_or(usize::MAX))
    }

    /// The one row of a query; nothing where there is none.
    pub(super) fn one(&self, sql: &str, params: &impl Params) -> Result<Vec<Cell>, SessionError> {
        Ok(self.query(sql, params)?.into_iter().next().unwrap_or_default())
    }

    fn statement(&self, sql: &str) -> Result<Statement, SessionError> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let (client, numbered) = (Arc::clone(&self.client), sql.replace('?', "$"));
        let statement = self.note(wait(async move { client.prepare(&numbered).await }))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(in super::super) fn is_read_only(&self) -> Result<bool, SessionError> {
        let found = self.one("SELECT current_setting('transaction_read_only')", &[""; 0])?;
        Ok(found == [Cell::Text("on".to_owned())])
    }

    pub(in super::super) fn begin_reading(&self) -> Result<(), SessionError> {
        // It keeps no lock that another process waits for, and what it reads may be written to a slow reader meanwhile.
        self.begin_with(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = '10min'",
        )
    }

    pub(in super::super) fn begin_writing(&self, purpose: Purpose<'_>) -> Result<(), SessionError> {
        let shared = format!("BEGIN; SELECT pg_advisory_xact_lock_shared({TRANSACTIONS})");
        let one_at_a_time = |lock: i64| format!("{shared}; SELECT pg_advisory_xact_lock({lock})");
        self.begin_with(&match purpose {
            Purpose::Alone => format!("BEGIN; SELECT pg_advisory_xact_lock({TRANSACTIONS})"),
            Purpose::Appends(_) | Purpose::Rows | Purpose::Requests => shared,
            Purpose::Submits => one_at_a_time(SUBMISSIONS),
            Purpose::Audits => one_at_a_time(AUDITS),
            Purpose::Budgets => one_at_a_time(BUDGETS),
        })
    }

    /// Keeps all other transactions away, until [`unlock_alone`](Self::unlock_alone).
    pub(super) fn lock_alone(&self) -> Result<(), SessionError> {
        self.batch(&format!("SELECT pg_advisory_lock({TRANSACTIONS})"))
    }

    pub(super) fn unlock_alone(&self) -> Result<(), SessionError> {
        self.batch(&format!("SELECT pg_advisory_unlock({TRANSACTIONS})"))
    }

    fn begin_with(&self, sql: &str) -> Result<(), SessionError> {
        self.is_in_transaction.set(true);
        self.batch(sql)
    }

    /// Commits, and tells other processes of it.
    pub(in super::super) fn commit(&self, purpose: Purpose<'_>) -> Result<(), SessionError> {
        self.batch(&format!("{}COMMIT", telling(purpose)))?;
        self.is_in_transaction.set(false);
        Ok(())
    }

    pub(in super::super) fn roll_back(&self) -> Result<(), SessionError> {
        if self.is_in_transaction.replace(false) {
            self.batch("ROLLBACK")?;
        }
        Ok(())
    }
}

/// The cells of a row.
fn cells(row: &Row) -> Result<Vec<Cell>, SessionError> {
    let read = |(at, column): (usize, &tokio_postgres::Column)| {
        let wrong = |_| SessionError::Column(at);
        let integer = |number: Option<i64>| number.map_or(Cell::Null, Cell::Integer);
        Ok(match *column.type_() {
            Type::INT8 => integer(row.try_get(at).map_err(wrong)?),
            Type::INT4 => integer(row.try_get::<_, Option<i32>>(at).map_err(wrong)?.map(i64::from)),
            Type::BOOL => integer(row.try_get::<_, Option<bool>>(at).map_err(wrong)?.map(i64::from)),
            Type::VOID => Cell::Null,
            _ => {
                let text: Option<String> = row.try_get(at).map_err(wrong)?;
                text.map_or(Cell::Null, |text| Cell::Text(unescaped(text)))
            }
        })
    };
    row.columns().iter().enumerate().map(read).collect()
}

/// A value of a placeholder, as the type that the server wants.
#[derive(Debug)]
struct BoundValue(Cell);

impl BoundValue {
    fn all(params: &impl Params) -> Vec<Self> {
        let owned = |value: Value<'_>| match value {
            Value::Null => Cell::Null,
            Value::Integer(number) => Cell::Integer(number),
            Value::Text(text) => Cell::Text(escaped(text).into_owned()),
        };
        (0..params.count()).map(|at| Self(owned(params.at(at)))).collect()
    }

    fn borrowed(all: &[Self]) -> Vec<&(dyn ToSql + Sync)> {
        all.iter().map(|given| given as &(dyn ToSql + Sync)).collect()
    }
}

impl ToSql for BoundValue {
    fn to_sql(
        &self,
        wanted: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (&self.0, wanted) {
            (Cell::Null, _) => Ok(IsNull::Yes),
            (Cell::Integer(number), &Type::INT8) => number.to_sql(wanted, out),
            (Cell::Integer(number), &Type::INT4) => i32::try_from(*number)?.to_sql(wanted, out),
            (Cell::Integer(number), &Type::BOOL) => (*number != 0).to_sql(wanted, out),
            (Cell::Integer(number), _) => number.to_string().to_sql(wanted, out),
            (Cell::Text(text), _) => text.to_sql(wanted, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
