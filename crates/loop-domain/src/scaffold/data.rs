//! Generates tools from a database: one for each table, and one for each foreign key.

use std::collections::BTreeSet;

use loop_tools::connectors::{TableInfo, TableLink, quoted};

use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::text::toml;

/// The most tools that are switched on. With more, a model chooses badly. The others are written, but switched off.
const MAX_TOOLS: usize = 24;
/// The most columns that a tool's description names.
const MAX_NAMED: usize = 16;
/// The most characters of a generated name of a tool or parameter.
const MAX_NAME_CHARS: usize = 28;
/// Parts of column names that suggest a secret. The short ones count only as whole words.
const SECRETS: &str = "password passwd passphrase passcode secret token apikey privatekey credential cardnumber \
                       pwd ssn pin cvv cvc otp salt";

/// The tables of a database. Those whose tools are switched on come first.
#[derive(Debug, Default)]
pub(super) struct Data {
    tables: Vec<TableInfo>,
    /// What no tool reads: columns whose names suggest a secret, and tables that have no other columns.
    left_out: Vec<String>,
}

/// A tool over one table.
struct TableTool<'a> {
    table: &'a TableInfo,
    name: String,
    /// The columns that its parameters are compared with, and the names of the parameters.
    parameters: Vec<(&'a str, String)>,
    /// The target of the foreign key. `None`: it is the tool of the table itself.
    of: Option<&'a str>,
}

impl Data {
    pub(super) fn new(mut tables: Vec<TableInfo>) -> Self {
        let mut left_out = Vec::new();
        for table in &mut tables {
            let secret = table.columns.extract_if(.., |column| is_secret(column));
            left_out.extend(secret.map(|column| format!("{}.{column}", table.name)));
            table.row.retain(|(column, _)| !is_secret(column));
            table.links.retain(|link| !link.columns.iter().any(|column| is_secret(column)));
            match table.columns.first() {
                Some(first) if is_secret(&table.key) => table.key = first.clone(),
                Some(_) => {}
                None => left_out.push(table.name.clone()),
            }
        }
        tables.retain(|table| !table.columns.is_empty());
        let links: Vec<&TableLink> = tables.iter().flat_map(|table| &table.links).collect();
        let pointed_at: BTreeSet<String> = links.iter().map(|link| link.table.to_lowercase()).collect();
        tables.sort_by_key(|table| {
            let is_alone = table.links.is_empty() && !pointed_at.contains(&table.name.to_lowercase());
            (table.row.is_empty(), is_alone)
        });
        Self { tables, left_out }
    }

    /// The table of the first work item. Its first row has a key, preferably one that is not a foreign key, and it has the
    /// most links to other tables.
    pub(super) fn main(&self) -> Option<&TableInfo> {
        let links = |table: &TableInfo| {
            let others = self.tables.iter().flat_map(|other| &other.links);
            table.links.len() + others.filter(|link| link.table.eq_ignore_ascii_case(&table.name)).count()
        };
        let is_own_key =
            |table: &TableInfo| !table.links.iter().any(|link| link.columns.contains(&table.key));
        let has_key = |table: &&TableInfo| table.value(&table.key).is_some_and(|it| !it.trim().is_empty());
        // The first of several.
        let named = self.tables.iter().rev().filter(has_key);
        named.max_by_key(|table| (is_own_key(table), links(table)))
    }

    /// A call of the tool that finds rows of a table with this value. `None`: of any table.
    pub(super) fn call(&self, table: Option<&TableInfo>, value: &str) -> Option<(String, Value)> {
        let is_it = |tool: &TableTool<'_>| table.is_none_or(|table| tool.table.name == table.name);
        let tool = self.tools().into_iter().find(|tool| tool.of.is_none() && is_it(tool))?;
        let (column, parameter) = tool.parameters.into_iter().next()?;
        Some((tool.name, json!({ parameter: typed(tool.table, column, value) })))
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

    /// The entries of the domain file: the source and its tools.
    pub(super) fn entries(&self, place: &str) -> String {
        let mut text = format!("[sources.data]\nkind = \"sqlite\"\nfile = {place}\n");
        if !self.left_out.is_empty() {
            // A name may hold what would end the comment.
            let names = self.left_out.join(", ").replace(|c: char| c.is_control(), " ");
            text.push_str(&format!(
                "# No tool reads these: they look like secrets, or cannot be read: {names}\n"
            ));
        }
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
        let Self { table, name, parameters, of } = self;
        let TableInfo { name: rows, columns, typed, .. } = table;
        let condition = |(column, parameter): &(&str, String)| {
            if table.integers.iter().any(|it| it == column) {
                return format!("{} = :{parameter}", quoted(column));
            }
            let column = quoted(column);
            // A text is converted to the declared type of the column that it is compared with.
            let is_typed = typed.iter().any(|it| quoted(it) == column);
            let column = if is_typed { column } else { format!("CAST({column} AS TEXT)") };
            format!("{column} = trim(:{parameter})")
        };
        let conditions: Vec<String> = parameters.iter().map(condition).collect();
        let selected: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let (selected, conditions) = (selected.join(", "), conditions.join(" AND "));
        let query = format!("SELECT {selected}\nFROM {}\nWHERE {conditions}\nLIMIT 50", quoted(rows));
        let by: Vec<&str> = parameters.iter().map(|(column, _)| *column).collect();
        let (by, named) = (by.join(" and "), columns.get(..MAX_NAMED).unwrap_or(columns).join(", "));
        let (described, when) = match of {
            None => (format!("Fetch a row of {rows} by {by}"), format!("The {by} of {rows} is known")),
            Some(of) => (
                format!("Fetch the rows of {rows} that belong to a row of {of}, by {by}"),
                format!("The rows of {rows} that belong to a row of {of} are needed"),
            ),
        };
        let enabled = if is_on { "" } else { "enabled = false\n" };
        let (title, when, query) = (toml(rows), toml(&when), toml(&query));
        let described = toml(&format!("{described}: {named}"));
        text.push_str(&format!(
            "\n[tools.{name}]\n{enabled}kind = \"sql\"\nsource = \"data\"\neffect = \"read\"\ntitle = {title}\n\
             description = {described}\nwhen = {when}\nquery = {query}\n",
        ));
        for (column, parameter) in parameters {
            let described = toml(&format!("The {column} to look for"));
            let is_integer = table.integers.iter().any(|it| it == column);
            let example = table.value(column).map(str::trim).filter(|it| !it.is_empty());
            let shown = |it: &str| if is_integer { it.to_owned() } else { toml(it) };
            let examples = example.map_or_else(String::new, |it| format!("examples = [{}]\n", shown(it)));
            let (kind, least) =
                if is_integer { ("type = \"integer\"\n", "") } else { ("", "min_length = 1\n") };
            text.push_str(&format!(
                "\n[tools.{name}.parameters.{parameter}]\n{kind}description = {described}\n{examples}required = true\n{least}"
            ));
        }
    }
}

/// A value of the first row as JSON, with the type of its column.
pub(super) fn typed(table: &TableInfo, column: &str, value: &str) -> Value {
    let is_integer = table.integers.iter().any(|it| it == column);
    value.parse::<i64>().ok().filter(|_| is_integer).map_or_else(|| json!(value), Value::from)
}

/// The columns, each with the name of its parameter.
fn parameters<'a>(columns: impl IntoIterator<Item = &'a String>) -> Vec<(&'a str, String)> {
    let mut taken = BTreeSet::new();
    let named = |column: &'a String| (column.as_str(), unique(identifier(column), &mut taken));
    columns.into_iter().map(named).collect()
}

/// Whether the name of a column suggests that it contains a secret.
fn is_secret(column: &str) -> bool {
    let lower = column.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let plain = words.concat();
    SECRETS.split(' ').any(|it| words.contains(&it) || it.len() > 4 && plain.contains(it))
}

/// A name converted to a valid name of a tool or a parameter.
pub(super) fn identifier(name: &str) -> String {
    let lower = plain(name);
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("_").chars().take(MAX_NAME_CHARS).collect();
    match name.trim_end_matches('_') {
        "" => "value".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("n{name}"),
        name => name.to_owned(),
    }
}

/// A name in lower case without accents. Letters without a plain form stay.
pub(super) fn plain(name: &str) -> String {
    let mut plain: String = name.nfc().collect::<String>().to_lowercase();
    let spelled = "ä:ae ö:oe ü:ue ß:ss æ:ae œ:oe ø:o ł:l đ:d ð:d þ:th ı:i";
    for (letter, with) in spelled.split(' ').filter_map(|it| it.split_once(':')) {
        plain = plain.replace(letter, with);
    }
    plain.nfd().filter(|it| !is_combining_mark(*it)).collect()
}

/// The name, with a number appended if it is taken.
fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|it| taken.insert(it.clone()));
    free.unwrap_or(name)
}
