//! Rows as a Markdown table.

use std::collections::BTreeSet;

use serde_json::Value;

/// Members by which people know an item stand first.
const LEADING: [&str; 3] = ["id", "name", "title"];
/// The column of rows that are no objects.
const PLAIN: &str = "value";

/// The members that the rows have, in an order that follows from the rows alone.
pub(crate) fn columns_of(rows: &[Value]) -> Vec<String> {
    // Sorted, because the order of a JSON object's members depends on a feature that any crate may switch on.
    let mut rest: BTreeSet<&str> = BTreeSet::new();
    for row in rows {
        match row {
            Value::Object(members) => rest.extend(members.keys().map(String::as_str)),
            _ => _ = rest.insert(PLAIN),
        }
    }
    let leading = LEADING.into_iter().filter(|name| rest.contains(name));
    let others = rest.iter().copied().filter(|name| !LEADING.contains(name));
    leading.chain(others).map(str::to_owned).collect()
}

/// The table: one line a row, a missing member as an empty cell.
pub(crate) fn render(columns: &[&str], rows: &[Value]) -> String {
    let mut lines =
        vec![line(columns.iter().map(|column| cell(column))), line(columns.iter().map(|_| "---".to_owned()))];
    for row in rows {
        lines.push(line(columns.iter().map(|column| match row {
            Value::Object(members) => members.get(*column).map(text).unwrap_or_default(),
            other if *column == PLAIN => text(other),
            _ => String::new(),
        })));
    }
    lines.join("\n")
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        other => cell(&loop_core::canonical(other)),
    }
}

/// A text that cannot end its cell or its row.
fn cell(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_cannot_break_the_table() {
        // S0-69
        let rows = [json!({ "a|b": "x | y\nnext\r\nlast |" })];
        let columns = columns_of(&rows);
        assert_eq!(columns, ["a|b"]);
        assert_eq!(render(&["a|b"], &rows), "| a\\|b |\n| --- |\n| x \\| y next last \\| |");
    }

    #[test]
    fn every_kind_of_value_has_a_cell() {
        // S0-69
        let rows = [
            json!({ "list": [1, "|"], "no": null, "yes": true, "n": 1.5, "o": { "b": 1, "a": 2 } }),
            json!("plain"),
        ];
        let columns = columns_of(&rows);
        assert_eq!(columns, ["list", "n", "no", "o", "value", "yes"]);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let table = render(&columns, &rows);
        assert_eq!(table.lines().nth(2).unwrap(), r#"| [1,"\|"] | 1.5 |  | {"a":2,"b":1} |  | true |"#);
        assert_eq!(table.lines().nth(3).unwrap(), "|  |  |  |  | plain |  |");
    }

    #[test]
    fn columns_do_not_depend_on_the_order_of_members() {
        let one: Value = serde_json::from_str(r#"{"z": 1, "name": 2, "a": 3, "id": 4}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a": 3, "id": 4, "z": 1, "name": 2}"#).unwrap();
        assert_eq!(columns_of(std::slice::from_ref(&one)), columns_of(std::slice::from_ref(&other)));
        assert_eq!(columns_of(&[one]), ["id", "name", "a", "z"]);
    }
}
