//! From what the server or the connection says to what a call returns. Decided on SQLSTATE codes and types.

use tokio_postgres::error::{DbError, ErrorPosition, SqlState};

use crate::connectors::error::short_line;
use crate::connectors::postgres::wire::WireError;
use crate::connectors::trouble::Trouble;

/// The most characters of a server's own message.
const MESSAGE_CHARS: usize = 300;

/// A query as the server got it: what an error may be about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentQuery<'a> {
    /// The whole text that was sent.
    pub(crate) sql: &'a str,
    /// The names of `$1`, `$2`, …
    pub(crate) names: &'a [String],
}

impl SentQuery<'_> {
    /// No query of an operator.
    pub(crate) const NONE: Self = Self { sql: "", names: &[] };
}

/// What an error means for a call.
pub(crate) fn failure(error: &tokio_postgres::Error, place: SentQuery<'_>) -> Trouble {
    if let Some(wire) = WireError::behind(error) {
        return Trouble::Permanent(wire.to_string());
    }
    let Some(db) = error.as_db_error() else {
        return if error.is_closed() || is_io(error) {
            Trouble::Retryable("the connection to the server broke".to_owned())
        } else {
            Trouble::Permanent(format!("the server's answer cannot be read: {}", line(&error.to_string())))
        };
    };
    let class = class_of(db.code());
    // What passes is not about a place in the query.
    let passes = matches!(class, Class::Passes | Class::Stopped | Class::Locked | Class::Pooled);
    let says = message(db, if passes { SentQuery::NONE } else { place });
    match class {
        Class::Passes => Trouble::Retryable(says),
        Class::Stopped => {
            Trouble::Retryable(format!("the server stopped the statement, as it took too long: {says}"))
        }
        Class::Locked => Trouble::Retryable(format!("another transaction holds a lock for too long: {says}")),
        Class::Login => Trouble::Permanent(format!("the server refuses the login: {says}")),
        Class::Data => match parameter_of(db, place) {
            Some(name) => Trouble::Input(format!("`{name}` does not fit the query: {says}")),
            None => Trouble::Permanent(says),
        },
        Class::Forbidden => Trouble::Permanent(format!("the role may not do this: {says}")),
        Class::ReadOnly => Trouble::Permanent(format!("it would write, and this tool only reads: {says}")),
        Class::Pooled => Trouble::Retryable(format!(
            "a pooler gave the statement another session of the server: {says}; set its pool_mode to session, or name the \
             server itself"
        )),
        Class::Other => Trouble::Permanent(says),
    }
}

/// What a code means for another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Passes,
    Stopped,
    Locked,
    Login,
    Data,
    Forbidden,
    ReadOnly,
    Pooled,
    Other,
}

fn class_of(code: &SqlState) -> Class {
    match *code {
        SqlState::QUERY_CANCELED => Class::Stopped,
        SqlState::LOCK_NOT_AVAILABLE => Class::Locked,
        SqlState::INSUFFICIENT_PRIVILEGE => Class::Forbidden,
        SqlState::READ_ONLY_SQL_TRANSACTION => Class::ReadOnly,
        // Names of statements are this connection's own on a server.
        SqlState::DUPLICATE_PSTATEMENT | SqlState::INVALID_SQL_STATEMENT_NAME => Class::Pooled,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Class::Passes,
        _ => match code.code().get(..2) {
            // Connection, resources, and an operator who stops the server.
            Some("08" | "53" | "57") => Class::Passes,
            Some("28" | "3D") => Class::Login,
            Some("22") => Class::Data,
            _ => Class::Other,
        },
    }
}

/// Whether the statement has to be prepared again: a table was changed behind it, or the server has forgotten it.
pub(crate) fn is_outdated(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::FEATURE_NOT_SUPPORTED) || code == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
}

/// Whether another client of a pooler has left a statement of this name behind.
pub(crate) fn is_left_behind(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::DUPLICATE_PSTATEMENT)
}

/// The server's message with the line of the query, and what helps.
pub(crate) fn message(db: &DbError, place: SentQuery<'_>) -> String {
    let mut says = line(db.message());
    if let Some(ErrorPosition::Original(position)) = db.position()
        && !place.sql.is_empty()
    {
        let at = usize::try_from(*position).unwrap_or_default().saturating_sub(1);
        let line = place.sql.chars().take(at).filter(|c| *c == '\n').count() + 1;
        says = format!("{says} in its line {line}");
    }
    // A placeholder by its name rather than by its number.
    for (at, name) in place.names.iter().enumerate().rev() {
        says = says.replace(&format!("${}", at + 1), &format!(":{name}"));
    }
    if [SqlState::INDETERMINATE_DATATYPE, SqlState::AMBIGUOUS_PARAMETER].contains(db.code()) {
        let name = place.names.first().map_or("name", String::as_str);
        says = format!("{says}; name the type of the placeholder, for example `:{name}::text`");
    }
    match db.hint() {
        Some(hint) if *db.code() != SqlState::INDETERMINATE_DATATYPE => format!("{says} ({})", line(hint)),
        _ => says,
    }
}

/// The parameter that an error is about, as far as the server says so.
fn parameter_of<'a>(db: &DbError, place: SentQuery<'a>) -> Option<&'a str> {
    let context = db.where_()?;
    let (_, after) = context.split_once("portal parameter $")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
    place.names.get(at).map(String::as_str)
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A text of the server in one line, visible and short.
pub(crate) fn line(text: &str) -> String {
    short_line(text, MESSAGE_CHARS)
}
