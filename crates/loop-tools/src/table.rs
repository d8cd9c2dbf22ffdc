//! Rows as a Markdown table, and JSON as text: bounded, whatever the data is, with work in proportion to it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use serde::Serialize as _;
use serde_json::{Serializer, Value};

/// The bytes after which a rendering ends. Together with the line in which they are reached it is never longer, so a
/// `limits.markdown_chars` above it cuts nothing more.
pub const RENDERED_BYTES: usize = 1 << 20;

/// The most columns of a table whose columns follow from its rows.
const COLUMNS: usize = 40;
/// How many of the members without a column are named, and the most characters of each name.
const NAMED: usize = 20;
const NAME_CHARS: usize = 40;
/// Members by which people know an item come first.
const LEADING: [&str; 3] = ["id", "name", "title"];
/// The column of rows that are no objects.
const PLAIN: &str = "value";

/// The lines of a list, each behind a line break, and below them how many they are where those are not all.
pub fn push_lines<T>(text: &mut String, all: &[T], mut push: impl FnMut(&mut String, &T)) {
    for (at, one) in all.iter().enumerate() {
        if text.len() > RENDERED_BYTES {
            text.push_str(&format!("\n\n_Only the first {at} of {} are shown._", all.len()));
            return;
        }
        text.push('\n');
        push(text, one);
    }
}

/// JSON with a member a line, or on one line where that would be longer than `max` bytes: indenting what is deep takes a
/// hundred bytes for each byte of it.
pub fn pretty(value: &Value, max: usize) -> String {
    let mut text = BoundedBytes { bytes: Vec::new(), max };
    let written = value.serialize(&mut Serializer::pretty(&mut text)).ok();
    let indented = written.and_then(|()| String::from_utf8(text.bytes).ok());
    indented.unwrap_or_else(|| value.to_string())
}

/// The table of rows with the members that they have, and above it which members have no column.
pub(crate) fn whole(rows: &[Value]) -> String {
    let (columns, others) = columns_of(rows);
    let mut text = String::new();
    if !others.is_empty() {
        text.push_str(&format!("_Without a column, {} members: ", others.len()));
        for (at, name) in others.iter().take(NAMED).enumerate() {
            text.push_str(if at > 0 { ", " } else { "" });
            let end = name.char_indices().nth(NAME_CHARS).map_or(name.len(), |(end, _)| end);
            push_cell(&mut text, name.get(..end).unwrap_or_default());
        }
        text.push_str(if others.len() > NAMED { " and others._\n\n" } else { "._\n\n" });
    }
    push_table(&mut text, &columns, rows);
    text
}

/// The table of rows with these columns: one line a row, a missing member as an empty cell.
pub(crate) fn push_table(text: &mut String, columns: &[&str], rows: &[Value]) {
    push_line(text, columns, push_cell);
    text.push('\n');
    push_line(text, columns, |text, _| text.push_str("---"));
    push_lines(text, rows, |text, row| {
        push_line(text, columns, |text, column| match row {
            Value::Object(members) => {
                members.get(column).into_iter().for_each(|value| push_value(text, value))
            }
            other if column == PLAIN => push_value(text, other),
            _ => {}
        });
    });
}

/// The members that have a column, in an order that follows from the rows alone, and the others, which fewer rows have.
fn columns_of(rows: &[Value]) -> (Vec<&str>, Vec<&str>) {
    // Sorted, because the order of a JSON object's members depends on a feature that any crate may switch on.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        match row {
            Value::Object(members) => members.keys().for_each(|name| *counts.entry(name).or_default() += 1),
            _ => *counts.entry(PLAIN).or_default() += 1,
        }
    }
    let rank = |name: &str| LEADING.iter().position(|leading| *leading == name).unwrap_or(LEADING.len());
    let mut columns: Vec<(&str, usize)> = counts.into_iter().collect();
    columns.sort_by_key(|(name, rows)| (rank(name), Reverse(*rows)));
    let mut columns: Vec<&str> = columns.into_iter().map(|(name, _)| name).collect();
    let others = columns.split_off(columns.len().min(COLUMNS));
    columns.sort_by_key(|name| (rank(name), *name));
    (columns, others)
}

fn push_line(text: &mut String, columns: &[&str], mut push: impl FnMut(&mut String, &str)) {
    for (at, column) in columns.iter().enumerate() {
        text.push_str(if at == 0 { "| " } else { " | " });
        push(text, column);
    }
    text.push_str(if columns.is_empty() { "|  |" } else { " |" });
}

fn push_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(cell) => push_cell(text, cell),
        other => push_cell(text, &loop_core::types::canonical(other)),
    }
}

/// Adds a text that cannot end its cell or its row.
fn push_cell(text: &mut String, cell: &str) {
    let lines = cell.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    for (at, line) in lines.enumerate() {
        text.push_str(if at == 0 { "" } else { " " });
        for (at, part) in line.split('|').enumerate() {
            text.push_str(if at == 0 { "" } else { "\\|" });
            text.push_str(part);
        }
    }
}

/// Takes so many bytes and no more.
struct BoundedBytes {
    bytes: Vec<u8>,
    max: usize,
}

impl io::Write for BoundedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn cells_cannot_break_the_table() {
        // S0-69
        let rows = [json!({ "a|b": "x | y\nnext\r\nlast |" })];
        assert_eq!(whole(&rows), "| a\\|b |\n| --- |\n| x \\| y next last \\| |");
    }

    #[test]
    fn every_kind_of_value_has_a_cell() {
        // S0-69
        let rows = [
            json!({ "list": [1, "|"], "no": null, "yes": true, "n": 1.5, "o": { "b": 1, "a": 2 } }),
            json!("plain"),
        ];
        let table = whole(&rows);
        assert_eq!(table.lines().next().unwrap(), "| list | n | no | o | value | yes |");
        assert_eq!(table.lines().nth(2).unwrap(), r#"| [1,"\|"] | 1.5 |  | {"a":2,"b":1} |  | true |"#);
        assert_eq!(table.lines().nth(3).unwrap(), "|  |  |  |  | plain |  |");
    }

    #[test]
    fn columns_do_not_depend_on_the_order_of_members() {
        let one: Value = serde_json::from_str(r#"{"z": 1, "name": 2, "a": 3, "id": 4}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a": 3, "id": 4, "z": 1, "name": 2}"#).unwrap();
        assert_eq!(columns_of(std::slice::from_ref(&one)), columns_of(std::slice::from_ref(&other)));
        assert_eq!(columns_of(&[one]), (vec!["id", "name", "a", "z"], vec![]));
    }

    // Issue 40, H1
    #[test]
    fn columns_are_bounded_and_the_rest_is_named() {
        let row = |n: usize| json!({ "name": n, "status": "up", format!("k{n:03}"): n });
        let rows: Vec<Value> = (0..100).map(row).collect();
        let table = whole(&rows);
        let mut lines = table.lines();
        let note = lines.next().unwrap();
        assert!(note.starts_with("_Without a column, 62 members: k038, k039,"), "{note}");
        assert!(note.ends_with(" and others._"), "{note}");
        let header = lines.nth(1).unwrap();
        assert!(header.starts_with("| name | k000 |") && header.ends_with("| k037 | status |"), "{header}");
        assert_eq!((header.matches(" | ").count() + 1, lines.count()), (40, 101));
        let one: Map<String, Value> =
            (0..43).map(|n| (format!("{n:02}\n|{}", "x".repeat(90)), json!(n))).collect();
        let table = whole(&[one.into()]);
        let note = table.lines().next().unwrap();
        let name = format!("\\|{}", "x".repeat(36));
        assert_eq!(note, format!("_Without a column, 3 members: 40 {name}, 41 {name}, 42 {name}._"));
    }

    #[test]
    fn a_table_ends_where_a_rendering_does_and_says_so() {
        let rows = vec![json!({ "text": "x".repeat(1_000) }); 5_000];
        let table = whole(&rows);
        assert!(table.len() < RENDERED_BYTES + 2_000, "{}", table.len());
        assert!(table.ends_with("of 5000 are shown._"), "{:?}", table.get(table.len() - 60..));
    }

    #[test]
    fn what_is_deep_is_written_on_one_line() {
        let deep = |n: usize| (0..100).fold(json!(vec![1; n]), |inner, _| json!([inner]));
        assert_eq!(pretty(&json!({ "a": [1] }), 100), "{\n  \"a\": [\n    1\n  ]\n}");
        assert!(pretty(&deep(1), 100_000).lines().count() > 200);
        assert_eq!(pretty(&deep(10_000), 1_000_000), deep(10_000).to_string());
    }
}
