//! A database that is given: a tool for each of its tables, and one for each of its foreign keys.

use std::collections::BTreeSet;

use loop_tools::connectors::{TableInfo, TableLink, quoted};

use super::text::toml;

/// At most so many tools are switched on: a model chooses badly among more. The others are written, switched off.
const MAX_TOOLS: usize = 24;
/// At most so many columns are named in the description of a tool.
const MAX_NAMED: usize = 16;
/// At most so many characters of a name are the name of a tool or a parameter.
const MAX_NAME_CHARS: usize = 28;
/// Names of columns that hold secrets begin or end with these, or hold them between other words.
const SECRETS: [&str; 13] =
    ["password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "privatekey", "credential", "cvv", "otp", "salt"];

/// The tables of a database, those first whose tools are switched on.
#[derive(Debug, Default)]
pub(super) struct Data {
    tables: Vec<TableInfo>,
    /// Columns that no tool reads, each with its table.
    left_out: Vec<String>,
    /// What SQLite cannot read.
    unreadable: Vec<String>,
}

/// A tool over one table.
struct TableTool<'a> {
    table: &'a TableInfo,
    name: String,
    /// The columns that its parameters are compared with, and the names of the parameters.
    parameters: Vec<(&'a str, String)>,
    /// Whether it is that of a foreign key, and where that points.
    of: Option<&'a str>,
}

impl Data {
    pub(super) fn new(found: Vec<TableInfo>) -> Self {
        let mut data = Self::default();
        for mut table in found {
            let name = table.name.clone();
            let (secret, columns) = table.columns.into_iter().partition(|column| is_secret(column));
            table.columns = columns;
            table.row.retain(|(column, _)| !is_secret(column));
            table.links.retain(|link| link.columns.iter().all(|column| !is_secret(column)));
            data.left_out.extend(Vec::<String>::into_iter(secret).map(|column| format!("{name}.{column}")));
            match table.columns.first() {
                Some(first) if is_secret(&table.key) => table.key = first.clone(),
                Some(_) => {}
                None => data.unreadable.push(name),
            }
            data.tables.extend(Some(table).filter(|table| !table.columns.is_empty()));
        }
        let pointed_at: BTreeSet<String> = data
            .tables
            .iter()
            .flat_map(|table| table.links.iter().map(|link| link.table.to_lowercase()))
            .collect();
        let is_pointed_at = |table: &TableInfo| pointed_at.contains(&table.name.to_lowercase());
        data.tables.sort_by_key(|table| {
            (table.row.is_empty(), table.links.is_empty() && !is_pointed_at(table))
        });
        data
    }

    /// The table of the first work item: one with a row, and with the most links to others. Its key names a row by itself.
    pub(super) fn main(&self) -> Option<&TableInfo> {
        let links = |table: &TableInfo| {
            let others = self.tables.iter().flat_map(|other| &other.links);
            table.links.len() + others.filter(|link| link.table.eq_ignore_ascii_case(&table.name)).count()
        };
        let is_own_key =
            |table: &TableInfo| !table.links.iter().any(|link| link.columns.contains(&table.key));
        let named = self.tables.iter().filter(|table| table.value(&table.key).is_some_and(|it| !it.trim().is_empty()));
        // The first of several.
        named.rev().max_by_key(|table| (is_own_key(table), links(table)))
    }

    /// The tool that finds rows of a table, and its parameter.
    pub(super) fn tool_of(&self, table: &TableInfo) -> Option<(String, String)> {
        let tool = self.tools().into_iter().find(|tool| tool.of.is_none() && tool.table.name == table.name)?;
        let parameter = tool.parameters.into_iter().next()?.1;
        Some((tool.name, parameter))
    }

    /// The tool of any table, and its parameter.
    pub(super) fn any_tool(&self) -> Option<(String, String)> {
        self.tables.first().and_then(|table| self.tool_of(table))
    }

    fn tools(&self) -> Vec<TableTool<'_>> {
        let mut tools: Vec<TableTool<'_>> = Vec::new();
        let mut taken = BTreeSet::new();
        for table in &self.tables {
            let of = identifier(&table.name);
            let name = unique(format!("fetch_{of}"), &mut taken);
            tools.push(TableTool { table, name, parameters: parameters([&table.key]), of: None });
            let links = table.links.iter().filter(|link| link.columns != [table.key.as_str()]);
            for TableLink { columns, table: pointed_at } in links {
                let by: Vec<String> = columns.iter().map(|it| identifier(it)).collect();
                let by: String = by.join("_").chars().take(MAX_NAME_CHARS).collect();
                let name = unique(format!("fetch_{of}_by_{by}"), &mut taken);
                tools.push(TableTool { table, name, parameters: parameters(columns), of: Some(pointed_at) });
            }
        }
        tools
    }

    /// The entries of the domain file: the source, and its tools.
    pub(super) fn entries(&self, place: &str) -> String {
        let mut text = format!("[sources.data]\nkind = \"sqlite\"\nfile = {place}\n");
        let mut comment = |about: &str, names: &[String]| {
            if !names.is_empty() {
                // A name may hold what would end the comment.
                let names = names.join(", ").replace(|c: char| c.is_control(), " ");
                text.push_str(&format!("# {about}: {names}\n"));
            }
        };
        comment("No tool reads these columns, because their names look like secrets", &self.left_out);
        comment("These have no tool, because there is nothing in them that SQLite can read", &self.unreadable);
        for (at, tool) in self.tools().iter().enumerate() {
            if at == MAX_TOOLS {
                text.push_str(&format!(
                    "\n# A model chooses badly among more than {MAX_TOOLS} tools, so that those below are off: \
                     take `enabled = false` out of those that\n# you need, and write it into others.\n"
                ));
            }
            tool.entry(at < MAX_TOOLS, &mut text);
        }
        text
    }
}

impl TableTool<'_> {
    fn entry(&self, is_on: bool, text: &mut String) {
        let TableInfo { name: table, columns, .. } = self.table;
        let condition = |(column, parameter): &(&str, String)| match self.table.typed.iter().any(|it| it == column) {
            true => format!("{} = trim(:{parameter})", quoted(column)),
            false => format!("CAST({} AS TEXT) = trim(:{parameter})", quoted(column)),
        };
        let conditions: Vec<String> = self.parameters.iter().map(condition).collect();
        let selected: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let query = format!(
            "SELECT {}\nFROM {}\nWHERE {}\nLIMIT 50",
            selected.join(", "),
            quoted(table),
            conditions.join(" AND ")
        );
        let by: Vec<&str> = self.parameters.iter().map(|(column, _)| *column).collect();
        let by = by.join(" and ");
        let mut named = columns.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = columns.len().checked_sub(MAX_NAMED) {
            named.push_str(&format!(" and {more} more"));
        }
        let (described, when) = match self.of {
            None => (format!("Fetch a row of {table} by {by}: {named}"), format!("The {by} of {table} is known")),
            Some(of) => (
                format!("Fetch the rows of {table} that belong to one of {of}, by {by}: {named}"),
                format!("The {table} of one of {of} are needed"),
            ),
        };
        let name = &self.name;
        text.push_str(&format!("\n[tools.{name}]\n"));
        if !is_on {
            text.push_str("enabled = false\n");
        }
        text.push_str(&format!(
            "kind = \"sql\"\nsource = \"data\"\neffect = \"read\"\ndescription = {}\nwhen = {}\nquery = {}\n",
            toml(&described),
            toml(&when),
            toml(&query),
        ));
        for (column, parameter) in &self.parameters {
            let described = toml(&format!("The {column} to look for"));
            text.push_str(&format!("\n[tools.{name}.parameters.{parameter}]\ndescription = {described}\n"));
            if let Some(example) = self.table.value(column).filter(|it| !it.trim().is_empty()) {
                text.push_str(&format!("examples = [{}]\n", toml(example.trim())));
            }
            text.push_str("required = true\nmin_length = 1\n");
        }
    }
}

/// The columns, each with the name of its parameter.
fn parameters<'a>(columns: impl IntoIterator<Item = &'a String>) -> Vec<(&'a str, String)> {
    let mut taken = BTreeSet::new();
    let named = |column: &'a String| (column.as_str(), unique(identifier(column), &mut taken));
    columns.into_iter().map(named).collect()
}

/// Whether the name of a column says that it holds a secret.
fn is_secret(column: &str) -> bool {
    let plain: String = column.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let is_word = |secret: &str| column.to_lowercase().split(|c: char| !c.is_ascii_alphanumeric()).any(|it| it == secret);
    SECRETS.iter().any(|secret| if secret.len() > 4 { plain.contains(secret) } else { is_word(secret) })
}

/// A name as a tool or a parameter may have it.
pub(super) fn identifier(name: &str) -> String {
    let name = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let name: String = name.trim_matches('_').chars().take(MAX_NAME_CHARS).collect();
    match name.trim_end_matches('_') {
        "" => "value".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("n{name}"),
        name => name.to_owned(),
    }
}

/// The name, with a number behind it where it is taken.
fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|it| taken.insert(it.clone()));
    free.unwrap_or(name)
}
