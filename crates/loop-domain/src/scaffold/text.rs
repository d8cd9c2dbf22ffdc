//! The text of a new domain's file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use loop_tools::connectors::{TableInfo, quoted};

use super::{Scaffold, Template};

/// At most so many tables of a given database get a tool; the file says how to add others.
const MAX_TABLES: usize = 8;

/// What a domain file is made of.
pub(super) struct Parts<'a> {
    pub(super) scaffold: &'a Scaffold,
    pub(super) name: String,
    /// The given folder of documents, as the file names it.
    pub(super) documents: Option<PathBuf>,
    /// The given database, as the file names it.
    pub(super) database: Option<PathBuf>,
    pub(super) tables: Vec<TableInfo>,
}

impl Parts<'_> {
    /// The samples in place of what was not given: names and texts.
    pub(super) fn samples(&self) -> Vec<(&'static str, &'static str)> {
        let mut samples = Vec::new();
        if self.has_documents() && self.documents.is_none() {
            samples.push(("documents/refunds.md", include_str!("samples/refunds.md")));
            samples.push(("documents/delivery.md", include_str!("samples/delivery.md")));
        }
        if self.has_database() && self.database.is_none() {
            samples.push(("customers.sql", include_str!("samples/customers.sql")));
        }
        if self.scaffold.template == Template::Extract {
            samples.push(("value.schema.json", include_str!("samples/value.schema.json")));
        }
        samples
    }

    fn has_documents(&self) -> bool {
        let of_template = matches!(self.scaffold.template, Template::Support | Template::Documents);
        of_template || self.documents.is_some()
    }

    fn has_database(&self) -> bool {
        let of_template = matches!(self.scaffold.template, Template::Support | Template::Agent);
        of_template || self.database.is_some()
    }

    pub(super) fn domain_file(&self) -> String {
        let template = self.scaffold.template;
        let kind = self.scaffold.kind.as_deref().unwrap_or(template.kind());
        let goal = self.scaffold.goal.clone().unwrap_or_else(|| goal(template, kind));
        let mut text = String::new();
        let mut put = |part: &str| {
            text.push_str(part);
            text.push('\n');
        };
        put(HEAD);
        put(&format!("version = 1\nname = {}\ngoal = {}\n", toml(&self.name), toml(&goal)));
        match template {
            Template::Support => put(&SUPPORT.replace("KIND", &toml(kind))),
            Template::Documents => put(&DOCUMENTS.replace("KIND", &toml(kind))),
            Template::Agent => put(&AGENT.replace("KIND", &toml(kind))),
            Template::Extract => put(&EXTRACT.replace("KIND", &toml(kind))),
        }
        if self.has_documents() {
            let folder = self.documents.as_deref().unwrap_or(Path::new("documents"));
            put(&SEARCH.replace("FOLDER", &toml(&folder.to_string_lossy())));
        }
        if matches!(template, Template::Support | Template::Documents) {
            put(SELECTION);
        }
        match &self.database {
            Some(file) => put(&self.given_database(file)),
            None if self.has_database() => put(SAMPLE_DATABASE),
            None => {}
        }
        put(TAIL);
        text
    }

    /// The source, and a tool for each of its tables.
    fn given_database(&self, file: &Path) -> String {
        let mut text =
            format!("[sources.data]\nkind = \"sqlite\"\nfile = {}\n", toml(&file.to_string_lossy()));
        let mut names = Vec::new();
        for table in self.tables.iter().take(MAX_TABLES) {
            let name = unique(format!("fetch_{}", identifier(&table.name)), &names);
            text.push_str(&tool_of(table, &name));
            names.push(name);
        }
        let left = self.tables.len().saturating_sub(MAX_TABLES);
        if left > 0 {
            let _ =
                write!(text, "\n# {left} more tables have no tool. Add one in the form of those above.\n");
        }
        text
    }
}

/// A tool that finds the rows of a table by its key.
fn tool_of(table: &TableInfo, name: &str) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(column)).collect();
    let parameter = identifier(&table.key);
    let query = format!(
        "SELECT {}\nFROM {}\nWHERE lower(trim(CAST({} AS TEXT))) = lower(trim(:{parameter}))\nLIMIT 50",
        columns.join(", "),
        quoted(&table.name),
        quoted(&table.key)
    );
    let described = format!("Fetch rows of {} by {}: {}", table.name, table.key, table.columns.join(", "));
    let when = format!("A {} of {} is named", table.key, table.name);
    let mut text = format!(
        "\n[tools.{name}]\nkind = \"sql\"\nsource = \"data\"\neffect = \"read\"\ndescription = {}\nwhen = {}\nquery = {}\n\n\
         [tools.{name}.parameters.{parameter}]\ndescription = {}\n",
        toml(&described),
        toml(&when),
        toml(&query),
        toml(&format!("The {} to look for", table.key)),
    );
    if let Some(example) = &table.example {
        let _ = writeln!(text, "examples = [{}]", toml(example));
    }
    text.push_str("required = true\nmin_length = 1\n");
    text
}

fn goal(template: Template, kind: &str) -> String {
    match template {
        Template::Support => {
            format!(
                "Prepare the answer to a {kind} for the person who sends it: what is known, and what to reply."
            )
        }
        Template::Documents => {
            format!("Answer a {kind} from the documents, and say so when they do not answer it.")
        }
        Template::Agent => format!("Answer a {kind} with what the tools return."),
        Template::Extract => format!("Read a {kind} and give what it says as one value."),
    }
}

/// A text as TOML writes it.
fn toml(text: &str) -> String {
    ::toml::Value::String(text.to_owned()).to_string()
}

/// A folder's name as the name of a domain.
pub(super) fn name_of(folder: &Path) -> String {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    match name.trim_matches('-') {
        "" => "domain".to_owned(),
        name => name.to_owned(),
    }
}

/// A name as a tool or a parameter may have it.
fn identifier(name: &str) -> String {
    let name = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    match name.trim_matches('_') {
        "" => "value".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("n{name}"),
        name => name.to_owned(),
    }
}

/// The name, with a number behind it where it is taken.
fn unique(name: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|it| !taken.contains(it)).unwrap_or(name)
}

const HEAD: &str = "\
# Made by `loopgate init`. `loopgate domain check .` reads it and says what it holds.
# Every key is described in docs/reference/domain-file.md of Loopgate.
";

const SUPPORT: &str = r#"[item]
kind = KIND
# JSON pointers: where an item has what.
id = "/id"
title = "/subject"
compact = ["/subject", "/text"]

[item.scope]
account = "/customer"

# The sections of the document. `cite = "evidence"`: a section must cite what a tool returned.
[[section]]
id = "findings"
heading = "Findings"
describe = "What the records and the documents say about it, one line each. Say what was not found."
required = true
cite = "evidence"

[[section]]
id = "reply"
heading = "Reply"
describe = "The answer to the sender, in a few friendly sentences."
required = true
# The sender reads it: each number, day, id and name in it has to be in the records or in the request.
grounding = "demand"
"#;

const DOCUMENTS: &str = r#"[item]
kind = KIND

[[section]]
id = "answer"
heading = "Answer"
describe = "The answer in a few sentences. Say so when the documents do not answer it."
required = true
cite = "evidence"
# Each number, day, id and name in it has to be in the documents that it cites.
grounding = "demand"
"#;

const AGENT: &str = r#"[protocol]
type = "conversation"

[item]
kind = KIND
"#;

const EXTRACT: &str = r#"[protocol]
type = "output"

[item]
kind = KIND

# The run ends with a value that fits this schema.
[output]
name = "save"
description = "Save what the item says"
schema = "value.schema.json"
attempts = 2
"#;

const SEARCH: &str = r#"[tools.search_documents]
kind = "docs"
folder = FOLDER
effect = "read"
description = "Search the documents"
when = "always"

[tools.search_documents.parameters.query]
description = "A few words"
examples = ["lost parcel"]
required = true
min_length = 1
"#;

const SELECTION: &str = r#"# What runs before the first pass where the model's selection of tools fails.
[selection]
defaults = [{ tool = "search_documents", parameters = { query = "overview" } }]
"#;

const SAMPLE_DATABASE: &str = r#"# A database that is made of a script. `file = "data.db"` in its place reads a database of your own.
[sources.data]
kind = "sqlite"
made_from = "customers.sql"

[tools.fetch_customer]
kind = "sql"
source = "data"
effect = "read"
description = "Fetch a customer by number: name, e-mail address, since when, note"
when = "A customer is named by number"
query = """
SELECT number, name, email, since, note
FROM customers
WHERE number = upper(trim(:number))
"""

[tools.fetch_customer.parameters.number]
description = "The number of the customer"
examples = ["CUST-7"]
required = true
min_length = 1
"#;

const TAIL: &str = r#"# What a run may use at most. `loopgate plan .` says what follows from it.
[limits]
cost_usd = 0.10

# The offline stub, which is not an AI and needs no key. Put a model in its place, for example:
#   provider = "anthropic"
#   model = "claude-haiku-4-5"        # with the key in ANTHROPIC_API_KEY
[models.base]
provider = "offline"
"#;
