//! What a database holds: its tables with their columns and keys, for a domain that is to be made of them.

use rusqlite::types::ValueRef;

use super::Database;
use crate::connectors::error::{ConnectorError, one_line};

/// A table or view of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Its columns, in their order.
    pub columns: Vec<String>,
    /// The column that names a row: the only column of its primary key, else its first column.
    pub key: String,
    /// A value of that column, as text. `None`: the table is empty, or the value is not a number or a text.
    pub example: Option<String>,
}

impl Database {
    /// Its tables and views by name, without those that SQLite keeps for itself.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn tables(&self) -> Result<Vec<TableInfo>, ConnectorError> {
        self.read_tables().map_err(|error| ConnectorError::NotADatabase {
            path: self.path().display().to_string(),
            message: one_line(error),
        })
    }

    fn read_tables(&self) -> rusqlite::Result<Vec<TableInfo>> {
        let connection = self.connect()?;
        let mut list = connection.prepare(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
             ORDER BY name",
        )?;
        let names: Vec<String> = list.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut tables = Vec::new();
        for name in names {
            let mut columns =
                connection.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
            let columns: Vec<(String, u32)> = columns
                .query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut keys = columns.iter().filter(|(_, place)| *place > 0);
            let key = match (keys.next(), keys.next()) {
                (Some(key), None) => Some(key),
                _ => columns.first(),
            };
            let Some((key, _)) = key else { continue };
            let first = format!("SELECT {} FROM {} LIMIT 1", quoted(key), quoted(&name));
            let mut first = connection.prepare(&first)?;
            let mut rows = first.query([])?;
            let example = rows.next()?.and_then(|row| match row.get_ref(0) {
                Ok(ValueRef::Integer(number)) => Some(number.to_string()),
                Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
                _ => None,
            });
            let key = key.clone();
            tables.push(TableInfo {
                columns: columns.into_iter().map(|(name, _)| name).collect(),
                name,
                key,
                example,
            });
        }
        Ok(tables)
    }
}

/// A name as SQL reads it, whatever it holds.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_with_their_keys_and_an_example() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("a.sql");
        let text = "CREATE TABLE orders (day TEXT, number TEXT PRIMARY KEY, \"odd \"\"name\" REAL);
                    INSERT INTO orders VALUES ('2026-01-02', 'O-1', 1.5);
                    CREATE TABLE both (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
                    CREATE VIEW seen AS SELECT day FROM orders;";
        std::fs::write(&script, text).unwrap();
        let tables = Database::made_from(&script, folder.path()).unwrap().tables().unwrap();
        let found: Vec<_> =
            tables.iter().map(|it| (it.name.as_str(), it.key.as_str(), it.example.as_deref())).collect();
        assert_eq!(
            found,
            [("both", "a", None), ("orders", "number", Some("O-1")), ("seen", "day", Some("2026-01-02"))]
        );
        assert_eq!(
            tables.iter().find(|it| it.name == "orders").unwrap().columns.last().unwrap(),
            "odd \"name"
        );
    }
}
