//! What a database holds: its tables with their columns and keys, for a domain that is to be made of them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use super::Database;
use crate::connectors::error::{ConnectorError, one_line};

/// A table or view of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Its columns, in their order. Empty: SQLite cannot read it, for example a view of a table that is gone.
    pub columns: Vec<String>,
    /// The column that names a row: the only column of its primary key, else its first column.
    pub key: String,
    /// The columns with a declared type, by which SQLite converts a text that it compares them with.
    pub typed: Vec<String>,
    /// Those of them that are declared as integers and hold one in the first row, where they hold anything there.
    pub integers: Vec<String>,
    /// Its foreign keys, in order.
    pub links: Vec<TableLink>,
    /// Its first row: the columns that hold a number or a text, each as text. Empty: it has no row.
    pub row: Vec<(String, String)>,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLink {
    /// Its columns, in the table that has it.
    pub columns: Vec<String>,
    /// The table that it points at.
    pub table: String,
}

impl TableInfo {
    /// The value of a column in the first row. `None`: there is none that is a number or a text.
    pub fn value(&self, column: &str) -> Option<&str> {
        self.row.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
    }
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
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
             ORDER BY name",
        )?;
        let names: Vec<String> = list.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut tables = Vec::new();
        for name in names {
            match read_table(&connection, &name) {
                // The statement fails, and not the file: a view of what is gone, a module that is not there.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                    tables.push(TableInfo { name, ..TableInfo::default() });
                }
                read => tables.extend(read?),
            }
        }
        Ok(tables)
    }
}

/// A table with its first row. `None`: it has no column.
fn read_table(connection: &Connection, name: &str) -> rusqlite::Result<Option<TableInfo>> {
    let mut columns = connection.prepare("SELECT name, pk, type FROM pragma_table_info(?1) ORDER BY cid")?;
    let columns: Vec<(String, u32, String)> = columns
        .query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut keys = columns.iter().filter(|(_, place, _)| *place > 0);
    let key = match (keys.next(), keys.next()) {
        (Some(key), None) => Some(key),
        _ => columns.first(),
    };
    let Some((key, ..)) = key else { return Ok(None) };
    // SQLite counts them from the last one.
    let mut of_links = connection
        .prepare("SELECT id, \"table\", \"from\" FROM pragma_foreign_key_list(?1) ORDER BY id DESC, seq")?;
    let of_links = of_links.query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let of_links = of_links.collect::<rusqlite::Result<Vec<(i64, String, String)>>>()?;
    let links = of_links.chunk_by(|a, b| a.0 == b.0).filter_map(|link| {
        let columns = link.iter().map(|(.., column)| column.clone()).collect();
        Some(TableLink { columns, table: link.first()?.1.clone() })
    });
    let mut first = connection.prepare(&format!("SELECT * FROM {} LIMIT 1", quoted(name)))?;
    let mut rows = first.query([])?;
    let is_integer = |declared: &str| declared.to_ascii_uppercase().contains("INT");
    let declared = columns.iter().filter(|(.., declared)| is_integer(declared));
    let mut integers: Vec<String> = declared.map(|(name, ..)| name.clone()).collect();
    let mut row = Vec::new();
    if let Some(found) = rows.next()? {
        for (column, ..) in &columns {
            let value = match found.get_ref(column.as_str())? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => format!("{number:?}"),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Null | ValueRef::Blob(_) => continue,
            };
            integers.retain(|it| it != column || value.parse::<i64>().is_ok());
            row.push((column.clone(), value));
        }
    }
    let typed = columns.iter().filter(|(.., declared)| !declared.is_empty());
    Ok(Some(TableInfo {
        key: key.clone(),
        typed: typed.map(|(name, ..)| name.clone()).collect(),
        integers,
        links: links.collect(),
        columns: columns.into_iter().map(|(name, ..)| name).collect(),
        name: name.to_owned(),
        row,
    }))
}

/// A name as SQL reads it, whatever it holds.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_with_their_keys_and_an_example() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("a.sql");
        let text = "CREATE TABLE orders (day TEXT, number TEXT PRIMARY KEY, \"odd \"\"name\" REAL);
                    INSERT INTO orders VALUES ('2026-01-02', 'O-1', 1.5);
                    CREATE TABLE \"both\" (a INTEGER, b, PRIMARY KEY (a, b)) WITHOUT ROWID;
                    CREATE TABLE lines (number TEXT REFERENCES orders, a INTEGER, b, FOREIGN KEY (a, b) REFERENCES \"both\");
                    CREATE VIEW seen AS SELECT day FROM orders;
                    CREATE VIEW gone AS SELECT x FROM missing;
                    CREATE VIRTUAL TABLE words USING fts5(text);";
        std::fs::write(&script, text).unwrap();
        let tables = Database::made_from(&script, folder.path()).unwrap().tables().unwrap();
        let found: Vec<_> =
            tables.iter().map(|it| (it.name.as_str(), it.key.as_str(), it.value(&it.key))).collect();
        assert_eq!(
            found,
            [
                ("both", "a", None),
                ("gone", "", None),
                ("lines", "number", None),
                ("orders", "number", Some("O-1")),
                ("seen", "day", Some("2026-01-02")),
                ("words", "text", None),
            ]
        );
        let link = |columns: &[&str], table: &str| TableLink {
            columns: columns.iter().map(|it| (*it).to_owned()).collect(),
            table: table.to_owned(),
        };
        assert_eq!(tables[2].links, [link(&["number"], "orders"), link(&["a", "b"], "both")]);
        assert_eq!(
            (tables[0].typed.as_slice(), tables[3].value("odd \"name")),
            (&["a".to_owned()][..], Some("1.5"))
        );
        assert_eq!(
            tables.iter().find(|it| it.name == "orders").unwrap().columns.last().unwrap(),
            "odd \"name"
        );
    }
}
