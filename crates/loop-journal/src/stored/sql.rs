//! The door to the database: the statements of a journal are written once, and run on SQLite or on PostgreSQL.
//!
//! A statement uses what both know, with numbered placeholders (`?1`). Where they differ, a method here has a name for it.

use std::ops::Deref;
use std::sync::Arc;

use loop_core::types::RunId;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};

use super::fault::{self, Fault};
#[cfg(feature = "postgres")]
use super::postgres::{self, Session, SessionError};

/// A connection to the database of a journal.
#[derive(Debug)]
pub(super) enum Connection {
    Sqlite(rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Postgres(Box<Session>),
}

/// What the database says.
#[derive(Debug)]
pub(super) enum Error {
    Sqlite(rusqlite::Error),
    #[cfg(feature = "postgres")]
    Postgres(SessionError),
}

pub(super) type Result<T> = std::result::Result<T, Error>;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

#[cfg(feature = "postgres")]
impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        Self::Postgres(error)
    }
}

/// What a transaction that writes is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose<'a> {
    /// What no other transaction may write meanwhile.
    Alone,
    /// One submission, which one transaction at a time counts. The queue has more afterwards.
    Submits,
    /// Entries of these runs. Others append to other runs meanwhile, where the database can do that.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only a server needs it"))]
    Appends(&'a [&'a RunId]),
    /// Rows of which each statement names one, or locks those that it changes. Others change other rows meanwhile, where the
    /// database can do that.
    Rows,
    /// The same, and a process has to look what is asked of its runs.
    Requests,
    /// The end of the audit log, which one transaction at a time continues.
    Audits,
    /// The shared budgets, which one transaction at a time counts.
    Budgets,
}

impl Connection {
    pub(super) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(match self {
            Self::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Statement::Postgres { session, sql: sql.to_owned() },
        })
    }

    /// Runs statements that return nothing and have no placeholders.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Ok(session.batch(sql)?),
        }
    }

    /// Runs a statement, and returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Runs a statement, and fails where it did not change one row: what the database left out is not written.
    pub(super) fn execute_one(&self, sql: &str, params: impl Params) -> Result<()> {
        changed_all(self.execute(sql, params)?, 1)
    }

    /// What `read` makes of the one row. `None`: there is none.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.prepare_cached(sql)?.query(params)?.next()?.map(|row| read(&row)).transpose()
    }

    /// What `read` makes of the one row that there is.
    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.find(sql, params, read)?.ok_or(Error::Sqlite(rusqlite::Error::QueryReturnedNoRows))
    }

    /// What `read` makes of each row.
    pub(super) fn list<T, All: FromIterator<T>>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<All> {
        let mut statement = self.prepare_cached(sql)?;
        let (mut rows, mut all) = (statement.query(params)?, Vec::new());
        while let Some(row) = rows.next()? {
            all.push(read(&row)?);
        }
        Ok(all.into_iter().collect())
    }

    /// Makes tables that only some journals have. PostgreSQL has them from the start.
    pub(super) fn lay(&self, tables: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(tables)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Whether a journal has a table that only some have.
    pub(super) fn has_table(&self, table: &str) -> Result<bool> {
        match self {
            Self::Sqlite(connection) => {
                let find = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
                Ok(connection.prepare_cached(find)?.exists([table])?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Ok(true),
        }
    }

    /// Fails where nothing can be written, with what to do about it.
    pub(super) fn check_writes(&self) -> std::result::Result<(), Fault> {
        match (self.is_read_only()?, self) {
            (false, _) => Ok(()),
            (true, Self::Sqlite(_)) => Err(Fault::Stated(fault::NOT_WRITABLE.to_owned())),
            #[cfg(feature = "postgres")]
            (true, Self::Postgres(_)) => Err(Fault::Stated(postgres::READ_ONLY.to_owned())),
        }
    }

    /// Whether nothing can be written.
    pub(super) fn is_read_only(&self) -> Result<bool> {
        match self {
            Self::Sqlite(connection) => Ok(connection.is_readonly(rusqlite::MAIN_DB)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Ok(session.is_read_only()?),
        }
    }

    /// A transaction that reads one state of the database, and ends with the value.
    pub(super) fn transaction(&mut self) -> Result<Transaction<'_>> {
        match self {
            Self::Sqlite(connection) => connection.prepare_cached("BEGIN")?.execute([]).map(drop)?,
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.begin_reading()?,
        }
        Ok(Transaction { connection: self })
    }

    /// Begins a transaction that writes.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables))]
    pub(super) fn begin(&self, purpose: Purpose<'_>) -> Result<()> {
        match self {
            Self::Sqlite(connection) => {
                Ok(connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Ok(session.begin_writing(purpose)?),
        }
    }

    /// Commits. Where several processes share the database, they are notified.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables))]
    pub(super) fn commit(&self, purpose: Purpose<'_>) -> Result<()> {
        match self {
            Self::Sqlite(connection) => Ok(connection.prepare_cached("COMMIT")?.execute([]).map(drop)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Ok(session.commit(purpose)?),
        }
    }

    /// Ends the transaction in which the connection is, if it is in one, and takes back what it wrote.
    pub(super) fn roll_back(&self) -> Result<()> {
        match self {
            Self::Sqlite(connection) if connection.is_autocommit() => Ok(()),
            Self::Sqlite(connection) => Ok(connection.execute_batch("ROLLBACK")?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => Ok(session.roll_back()?),
        }
    }

    /// Whether the database is SQLite, in a file that one machine has.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }
}

/// A transaction that reads.
#[derive(Debug)]
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Nothing was written. A connection that fails here fails again where it is used next.
        _ = self.connection.roll_back();
    }
}

/// A statement that is prepared once a connection.
pub(super) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    #[cfg(feature = "postgres")]
    Postgres {
        session: &'c Session,
        sql: String,
    },
}

impl Statement<'_> {
    /// Runs it, and returns how many rows it changed.
    pub(super) fn execute(&mut self, params: impl Params) -> Result<usize> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                Ok(statement.raw_execute()?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { session, sql } => Ok(session.execute(sql, &params)?),
        }
    }

    /// Runs it once for each of these, and returns how many rows they changed. A server gets all of them before it answers
    /// the first.
    pub(super) fn execute_all<P: Params>(&mut self, mut all: impl Iterator<Item = P>) -> Result<usize> {
        match self {
            Self::Sqlite(_) => all.try_fold(0, |changed, params| Ok(changed + self.execute(params)?)),
            #[cfg(feature = "postgres")]
            Self::Postgres { session, sql } => Ok(session.execute_all(sql, all)?),
        }
    }

    pub(super) fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        Ok(match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                Rows::Sqlite(statement.raw_query())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { session, sql } => {
                Rows::Postgres { rest: session.query(sql, &params)?.into_iter(), current: Vec::new() }
            }
        })
    }
}

/// Fails where other than so many rows were changed.
pub(super) fn changed_all(changed: usize, wanted: usize) -> Result<()> {
    if changed == wanted { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed).into()) }
}

fn bind(statement: &mut rusqlite::Statement<'_>, params: &impl Params) -> rusqlite::Result<()> {
    (0..params.count()).try_for_each(|at| statement.raw_bind_parameter(at + 1, params.at(at)))
}

/// The rows of a query, one after the other.
pub(super) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    #[cfg(feature = "postgres")]
    Postgres {
        rest: std::vec::IntoIter<Vec<Cell>>,
        current: Vec<Cell>,
    },
}

impl Rows<'_> {
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self {
            Self::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
            #[cfg(feature = "postgres")]
            Self::Postgres { rest, current } => {
                let Some(next) = rest.next() else { return Ok(None) };
                *current = next;
                Ok(Some(Row::Postgres(current)))
            }
        }
    }
}

/// A row of a result.
pub(super) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    #[cfg(feature = "postgres")]
    Postgres(&'r [Cell]),
}

impl Row<'_> {
    pub(super) fn get<T: FromCell>(&self, column: usize) -> Result<T> {
        match self {
            Self::Sqlite(row) => Ok(row.get(column)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(cells) => {
                let found = cells.get(column).and_then(T::of);
                Ok(found.ok_or_else(|| SessionError::Column(column))?)
            }
        }
    }

    /// A number of a column that is none below zero, which a changed row may have as one.
    pub(super) fn count(&self, column: usize) -> Result<u64> {
        Ok(u64::try_from(self.get::<i64>(column)?).unwrap_or_default())
    }

    /// The text of a column. `None`: it has none.
    pub(super) fn text(&self, column: usize) -> Option<&str> {
        match self {
            Self::Sqlite(row) => row.get_ref(column).ok()?.as_str().ok(),
            #[cfg(feature = "postgres")]
            Self::Postgres(cells) => match cells.get(column)? {
                Cell::Text(text) => Some(text),
                Cell::Null | Cell::Integer(_) => None,
            },
        }
    }

    /// The text of a column, whatever is in it.
    pub(super) fn lossy(&self, column: usize) -> String {
        match self {
            Self::Sqlite(row) => {
                let bytes = row.get_ref(column).ok().and_then(|value| value.as_bytes().ok());
                String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => self.text(column).unwrap_or_default().to_owned(),
        }
    }
}

/// A value of a result, copied out of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only a server needs it"))]
    Null,
    Integer(i64),
    Text(String),
}

/// What a column is read as.
pub(super) trait FromCell: FromSql {
    /// `None`: the cell holds something else.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only a server needs it"))]
    fn of(cell: &Cell) -> Option<Self>;
}

macro_rules! integers {
    ($($read:ty),*; $($written:ty),*) => {
        $(impl FromCell for $read {
            fn of(cell: &Cell) -> Option<Self> {
                if let Cell::Integer(number) = cell { (*number).try_into().ok() } else { None }
            }
        })*
        $(impl ToValue for $written {
            fn value(&self) -> Value<'_> {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        })*
    };
}

integers!(i64, i32, u32; i64, i32, u32, u64, usize);

impl FromCell for bool {
    fn of(cell: &Cell) -> Option<Self> {
        if let Cell::Integer(number) = cell { Some(*number != 0) } else { None }
    }
}

impl FromCell for String {
    fn of(cell: &Cell) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text.clone()) } else { None }
    }
}

impl FromCell for Arc<str> {
    fn of(cell: &Cell) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text.as_str().into()) } else { None }
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn of(cell: &Cell) -> Option<Self> {
        if *cell == Cell::Null { Some(None) } else { T::of(cell).map(Some) }
    }
}

/// A value of a placeholder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// What can be the value of a placeholder.
pub(super) trait ToValue {
    fn value(&self) -> Value<'_>;
}

impl ToValue for str {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for Arc<str> {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for bool {
    fn value(&self) -> Value<'_> {
        Value::Integer((*self).into())
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl ToValue for Value<'_> {
    fn value(&self) -> Value<'_> {
        *self
    }
}

impl ToValue for Cell {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
        }
    }
}

/// The values of all placeholders.
pub(super) trait Params {
    fn count(&self) -> usize;
    fn at(&self, index: usize) -> Value<'_>;
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, index: usize) -> Value<'_> {
        self.get(index).map_or(Value::Null, T::value)
    }
}

impl<const N: usize> Params for &[&dyn ToValue; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, index: usize) -> Value<'_> {
        self.get(index).map_or(Value::Null, |value| value.value())
    }
}

impl Params for Vec<Cell> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Value<'_> {
        self.get(index).map_or(Value::Null, ToValue::value)
    }
}

/// No placeholder.
pub(super) const NONE: [&str; 0] = [];

/// Values of different types, in the order of the placeholders.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::stored::sql::ToValue),*]
    };
}
pub(super) use params;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => error.fmt(f),
        }
    }
}
