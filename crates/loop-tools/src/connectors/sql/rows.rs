//! What a statement returned, with its limits, and the result that a model reads: for every kind of database.

use crate::{ToolDeclaration, ToolResult};
use loop_core::types::Scope;
use serde_json::{Map, Value, json};

use crate::connectors::charset::{self, REPLACED};
use crate::connectors::trouble::Trouble;

/// The most rows that a query returns.
pub const ROWS_MAX: usize = 200;
/// The most bytes of one value that a query returns, unless its tool says otherwise. The rest is cut off, and the value says so.
pub const CELL_BYTES_MAX: usize = 64 << 10;
/// The most bytes of all values that a query returns: with the row that passes it, the rows end.
pub const RESULT_BYTES_MAX: usize = 4 << 20;

/// What a query returned.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Value>,
    /// Whether there were more than [`ROWS_MAX`], or more than [`RESULT_BYTES_MAX`] holds.
    pub(crate) cut: bool,
    /// Bytes of the values so far.
    bytes: usize,
}

/// What a change did.
#[derive(Debug, PartialEq)]
pub(crate) struct ChangedRows {
    pub(crate) count: u64,
    /// What RETURNING returned.
    pub(crate) rows: Rows,
}

/// What a statement did.
#[derive(Debug)]
pub(crate) enum SqlResult {
    Found(Rows),
    Changed(ChangedRows),
}

impl Rows {
    /// Whether no further row fits. `cut` is then set, because there is one.
    pub(crate) fn is_full(&mut self) -> bool {
        self.cut = self.rows.len() >= ROWS_MAX || self.bytes > RESULT_BYTES_MAX;
        self.cut
    }

    /// Adds a row.
    pub(crate) fn push<'a>(&mut self, row: impl IntoIterator<Item = (&'a String, Value)>) {
        let mut members = Map::new();
        for (column, value) in row {
            self.bytes += column.len() + bytes_of(&value);
            members.insert(column.clone(), value);
        }
        self.rows.push(Value::Object(members));
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// A text as a value of at most so many bytes, which says how much was cut off, and that bytes were replaced.
pub(crate) fn cut_text(text: &[u8], cell_bytes_max: usize) -> Value {
    let kept = text.get(..cell_bytes_max).unwrap_or(text);
    let is_cut = kept.len() < text.len();
    // A database says that it is UTF-8, which comes before what a text declares.
    let (shown, is_replaced, bytes) = match str::from_utf8(kept) {
        Ok(text) => (text.into(), false, kept.len()),
        // A character that the cut goes through is left out.
        Err(error) if is_cut && error.error_len().is_none() => {
            let whole = kept.get(..error.valid_up_to()).unwrap_or(kept);
            (String::from_utf8_lossy(whole), false, whole.len())
        }
        Err(_) => {
            let (shown, why) = charset::shown(kept, is_cut);
            (shown, why.is_some(), kept.len())
        }
    };
    let replaced = if is_replaced { format!(" [{REPLACED}]") } else { String::new() };
    match is_cut {
        true => format!("{shown}{replaced}… [cut: {bytes} of {} bytes]", text.len()).into(),
        false if is_replaced => format!("{shown}{replaced}").into(),
        false => shown.into_owned().into(),
    }
}

/// The result of a tool over a statement with these columns.
pub(crate) fn result(
    declaration: &ToolDeclaration,
    scope: &Scope,
    columns: &[String],
    outcome: Result<SqlResult, Trouble>,
) -> ToolResult {
    let (name, title) = (&*declaration.name, &*declaration.title);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let found = |rows| ToolResult::found_columns(name, title, scope, &columns, rows);
    match outcome {
        Err(trouble) => trouble.result(name, title),
        Ok(SqlResult::Found(Rows { rows, cut, .. })) => {
            let shown = rows.len();
            let mut result = found(rows);
            if cut {
                let says = format!("_Only the first {shown} rows are shown; there are more._");
                result.summary = format!("Found more than {shown} items, shows {shown}");
                say_below_heading(&mut result, &says);
            }
            result
        }
        // A change that met no row must not pass for a success.
        Ok(SqlResult::Changed(ChangedRows { count: 0, .. })) => ToolResult::empty(name, title),
        Ok(SqlResult::Changed(ChangedRows { count, rows })) => {
            let unit = if count == 1 { "row" } else { "rows" };
            let shows = if rows.cut { format!(", shows {}", rows.rows.len()) } else { String::new() };
            let says = format!("Changed {count} {unit}{shows}");
            let mut result = if rows.rows.is_empty() {
                let row = json!({ "changed": count });
                ToolResult::found_columns(name, title, scope, &["changed"], vec![row])
            } else {
                found(rows.rows)
            };
            say_below_heading(&mut result, &says);
            result.summary = says;
            result
        }
    }
}

/// Below the heading rather than at the end, which may be cut.
fn say_below_heading(result: &mut ToolResult, says: &str) {
    result.markdown = result.markdown.replacen("\n\n", &format!("\n\n{says}\n\n"), 1);
}
