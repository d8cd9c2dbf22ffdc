//! Rows that excuse a difference because the recording itself is at fault.

use std::path::Path;

use serde_json::Value;

use super::canon::text;
use super::exchange::Exchange;
use crate::workspace::{self, Failure};

/// One excuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// The field of the difference, as it is printed.
    pub(crate) field: String,
    /// What stands in the recording and is at fault.
    pub(crate) bytes: String,
    /// Why it is at fault.
    pub(crate) why: String,
}

/// The rows of `exceptions.json`.
pub(crate) fn load() -> Result<Vec<Row>, Failure> {
    let path = workspace::package().join("exceptions.json");
    parse(&path, &workspace::read(&path)?)
}

fn parse(path: &Path, json: &str) -> Result<Vec<Row>, Failure> {
    let file = workspace::shown(path);
    let failed = |what: &str| Failure::Check(format!("{file}: {what}"));
    let value: Value = serde_json::from_str(json).map_err(|error| failed(&error.to_string()))?;
    let rows = value.as_array().ok_or_else(|| failed("is no list"))?.iter().enumerate().map(|(nth, row)| {
        let member = |key: &str| match text(row, key) {
            "" => Err(failed(&format!("row {} has no `{key}`", nth + 1))),
            text => Ok(text.to_owned()),
        };
        Ok(Row { id: member("id")?, field: member("field")?, bytes: member("bytes")?, why: member("why")? })
    });
    rows.collect()
}

impl Row {
    /// Whether the bytes that are said to be at fault stand in the recording.
    pub(crate) fn is_in(&self, exchange: &Exchange) -> bool {
        let request = exchange.request.as_ref().map(Value::to_string).unwrap_or_default();
        String::from_utf8_lossy(&exchange.body).contains(&self.bytes) || request.contains(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_row_has_all_four_members_and_its_bytes_stand_in_the_recording() {
        let path = workspace::package().join("rows.json");
        let rows = parse(&path, "[{\"id\":\"a#0\",\"field\":\"text\",\"bytes\":\"x\\\"y\",\"why\":\"cut\"}]")
            .unwrap();
        let row = rows.first().unwrap();
        let holds = |body: &str| row.is_in(&Exchange { body: body.into(), ..Exchange::default() });
        assert!(holds("{x\"y}") && !holds("xy"));
        let error = parse(&path, "[{\"id\":\"a\",\"field\":\"text\",\"bytes\":\"x\"}]").unwrap_err();
        assert_eq!(error.to_string(), "crates/loop-wirecheck/rows.json: row 1 has no `why`");
        assert!(parse(&path, "{}").is_err() && parse(&path, "[").is_err());
    }

    #[test]
    fn the_committed_rows_can_be_read() {
        load().unwrap();
    }
}
