//! The values that a statement is given by name: parameters, the scope, and for a change the key of its call.

use std::collections::BTreeSet;
use std::time::Duration;

use loop_core::types::Scope;
use rusqlite::Statement;
use rusqlite::types::Value as SqlValue;
use serde_json::Value;

use crate::connectors::error::ConnectorError;
use crate::connectors::scope::part_of;
use crate::connectors::trouble::Trouble;

/// The name of the key that all tries of one call share, and no two calls.
pub(crate) const KEY: &str = "call_key";
/// The names under which a query may use the scope.
pub(crate) const SCOPE: [&str; 5] =
    ["scope_account", "scope_account_name", "scope_asset", "scope_item", "scope_person"];

/// What a statement is given. What is not there is NULL.
#[derive(Debug)]
pub(crate) struct SqlValues<'a> {
    pub(crate) parameters: &'a Value,
    pub(crate) scope: &'a Scope,
    /// Only a change gets it.
    pub(crate) key: Option<&'a str>,
    /// How long a lock of another program may be waited for, if that is less than its own time. `None`: no less.
    pub(crate) time: Option<Duration>,
}

impl SqlValues<'_> {
    /// Gives each named value.
    pub(crate) fn bind(&self, statement: &mut Statement<'_>) -> Result<(), Trouble> {
        for at in 1..=statement.parameter_count() {
            let name =
                statement.parameter_name(at).and_then(|name| name.strip_prefix(':')).unwrap_or_default();
            let value = match self.key {
                Some(key) if name == KEY => SqlValue::Text(key.to_owned()),
                _ if SCOPE.contains(&name) => {
                    let part = name.trim_start_matches("scope_");
                    part_of(self.scope, part).map_or(SqlValue::Null, |text| SqlValue::Text(text.to_string()))
                }
                _ => sql_of(name, self.parameters.get(name))?,
            };
            statement.raw_bind_parameter(at, value)?;
        }
        Ok(())
    }
}

/// Refuses a name in the statement for which a call gives no value.
pub(crate) fn check_names(
    tool: &str,
    statement: &Statement<'_>,
    parameters: &BTreeSet<String>,
    with_key: bool,
) -> Result<(), ConnectorError> {
    for at in 1..=statement.parameter_count() {
        let name = statement.parameter_name(at).unwrap_or("?");
        check_name(tool, name, parameters, with_key)?;
    }
    Ok(())
}

/// Refuses a name, as it is written with its colon, that the statement is not given.
pub(crate) fn check_name(
    tool: &str,
    name: &str,
    parameters: &BTreeSet<String>,
    with_key: bool,
) -> Result<(), ConnectorError> {
    let given: Vec<&str> =
        parameters.iter().map(String::as_str).chain(SCOPE).chain(with_key.then_some(KEY)).collect();
    if name.strip_prefix(':').is_some_and(|name| given.contains(&name)) {
        return Ok(());
    }
    let known = given.iter().map(|name| format!(":{name}")).collect::<Vec<_>>().join(", ");
    Err(ConnectorError::UnknownName { tool: tool.to_owned(), name: name.to_owned(), known })
}

fn sql_of(name: &str, value: Option<&Value>) -> Result<SqlValue, Trouble> {
    Ok(match value {
        None | Some(Value::Null) => SqlValue::Null,
        Some(Value::Bool(flag)) => SqlValue::Integer((*flag).into()),
        Some(Value::String(text)) => SqlValue::Text(text.clone()),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => SqlValue::Integer(whole),
            // What was shown to a person must be what is stored.
            (None, real) if number.is_u64() || real.is_some_and(may_be_rounded) => {
                let (least, max) = (i64::MIN, i64::MAX);
                let says = format!(
                    "`{name}` is {number}, and whole numbers of SQLite are from {least} to {max}; give it as a text, for a \
                     column of type TEXT"
                );
                return Err(Trouble::Permanent(says));
            }
            (None, Some(real)) => SqlValue::Real(real),
            (None, None) => SqlValue::Text(number.to_string()),
        },
        Some(nested) => SqlValue::Text(loop_core::types::canonical(nested)),
    })
}

/// Whether a real may represent a whole number that was too large to be read exactly. It cannot be distinguished from
/// one that was written with an exponent.
fn may_be_rounded(real: f64) -> bool {
    // -2^63 is a whole number of its own where it was read exactly.
    real.abs() >= 9_223_372_036_854_775_808.0
}
