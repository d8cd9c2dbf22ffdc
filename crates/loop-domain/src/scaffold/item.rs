//! The first work item of a new domain, and the eval case that runs it.

use std::fs;
use std::path::Path;

use loop_tools::connectors::TableInfo;
use serde_json::{Map, Value, json};

use super::data::{Data, identifier, typed};
use super::{Scaffold, Template};

/// The most characters of a value in the item.
const MAX_VALUE_CHARS: usize = 400;
/// The most values of a row in the item.
const MAX_VALUES: usize = 40;

/// The first work item.
#[derive(Debug, Default)]
pub(super) struct FirstItem {
    /// Its file, below the domain's folder.
    pub(super) file: String,
    pub(super) text: String,
    /// A call that finds something for the item: the tool and its parameters. `None`: there is no tool.
    call: Option<(String, Value)>,
    /// The value that a run of the protocol `output` ends with.
    value: Value,
}

impl FirstItem {
    /// The item: a row of the data, a question about a document, or the sample of the template.
    pub(super) fn new(scaffold: &Scaffold, documents: &[String], data: &Data) -> Self {
        let template = scaffold.template;
        let item = match (data.main(), documents.first(), &scaffold.documents) {
            (Some(table), ..) => Self::of_row(template, table, data),
            (None, Some(document), Some(folder)) => Self::of_document(folder, document),
            _ if scaffold.has_own() => {
                // The tables have no row yet.
                let call = data.call(None, "1");
                let text = "What do the records say about 1?\n".to_owned();
                Self { file: "items/first.md".to_owned(), text, call, ..Self::default() }
            }
            _ => return Self::sample(template),
        };
        let value = if item.value.is_null() { json!({ "text": item.text.trim() }) } else { item.value };
        Self { value, ..item }
    }

    fn of_row(template: Template, table: &TableInfo, data: &Data) -> Self {
        let (name, key) = (&table.name, table.value(&table.key).unwrap_or_default().trim());
        let cut = |text: &str| text.chars().take(MAX_VALUE_CHARS).collect::<String>();
        let row = table.row.iter().take(MAX_VALUES);
        let row = row.map(|(column, value)| (column.clone(), typed(table, column, &cut(value))));
        let row: Map<String, Value> = row.collect();
        let (form, text) = match template {
            Template::Support | Template::Documents => (
                "json",
                format!(
                    "{:#}\n",
                    json!({ "id": typed(table, &table.key, key), "title": format!("{name} {key}"), "record": row })
                ),
            ),
            Template::Agent | Template::Turn | Template::Step => {
                ("md", format!("What do we know of {} {key} of {name}?\n", table.key))
            }
            Template::Extract => {
                let line = |(column, value): (&String, &Value)| {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    format!("{column}: {}\n", value.replace('\n', " "))
                };
                ("md", row.iter().map(line).collect())
            }
        };
        let slug = identifier(&format!("{name}-{key}")).replace('_', "-");
        let call = data.call(Some(table), key);
        Self { file: format!("items/{slug}.{form}"), text, call, value: Value::Object(row) }
    }

    fn of_document(folder: &Path, document: &str) -> Self {
        let text = fs::read(folder.join(document)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let heading = text.lines().find_map(|line| line.strip_prefix("# ").map(str::trim));
        let stem = Path::new(document).file_stem().unwrap_or_default().to_string_lossy();
        let title = heading.filter(|heading| !heading.is_empty()).unwrap_or(&stem);
        let call = Some(("search_documents".to_owned(), json!({ "query": title })));
        let text = format!("What do the documents say about \"{title}\"?\n");
        Self { file: "items/question.md".to_owned(), text, call, value: Value::Null }
    }

    fn sample(template: Template) -> Self {
        let customer = Some(("fetch_customer", json!({ "number": "CUST-7" })));
        let (file, text, call) = match template {
            Template::Support => ("T-1.json", include_str!("samples/ticket.json"), customer),
            Template::Documents => (
                "question.md",
                include_str!("samples/question.md"),
                Some(("search_documents", json!({ "query": "lost parcel" }))),
            ),
            Template::Agent | Template::Turn | Template::Step => {
                ("request.md", include_str!("samples/request.md"), customer)
            }
            Template::Extract => ("message.md", include_str!("samples/message.md"), None),
        };
        Self {
            file: format!("items/{file}"),
            text: text.to_owned(),
            call: call.map(|(tool, parameters)| (tool.to_owned(), parameters)),
            value: json!({ "name": "Ada Brown", "email": "ada@brown.example" }),
        }
    }

    /// The schema of the value: every member is a text or an integer, and all are optional.
    pub(super) fn schema(&self) -> String {
        let members = self.value.as_object().into_iter().flatten();
        let property = |(name, value): (&String, &Value)| {
            let kind = if value.is_i64() { "integer" } else { "string" };
            (name.clone(), json!({ "type": kind, "description": format!("The {name}"), "examples": [value] }))
        };
        let properties: Map<String, Value> = members.map(property).collect();
        format!(
            "{:#}\n",
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        )
    }

    /// The eval case of the item. Its replies are scripted, so that it passes with every model.
    pub(super) fn case(&self, scaffold: &Scaffold) -> String {
        let headings: &[&str] = match scaffold.template {
            _ if scaffold.reports() => &["Findings", "Summary"],
            Template::Support => &["Findings", "Reply"],
            Template::Documents => &["Answer"],
            Template::Agent | Template::Turn | Template::Step | Template::Extract => &[],
        };
        let mut replies = Vec::new();
        let tools: Vec<&String> = self.call.iter().map(|(tool, _)| tool).collect();
        if let Some((tool, parameters)) = &self.call {
            replies.push(if headings.is_empty() {
                json!({ "calls": [{ "name": tool, "arguments": parameters }] })
            } else {
                let call = json!([{ "tool": tool, "params": parameters, "reason": "the item names it" }]);
                json!({ "for": "select", "text": call.to_string() })
            });
        }
        let section = |heading: &&str| format!("## {heading}\n\nThe tool returned it [E1].\n\n");
        let sections: String = headings.iter().map(section).collect();
        replies.push(match (headings, scaffold.template) {
            ([], Template::Extract) => json!({ "calls": [{ "name": "save", "arguments": self.value }] }),
            ([], _) => json!({ "text": "The tool returned what is known." }),
            _ => {
                json!({ "for": "main", "text": format!("{sections}{}", include_str!("samples/contract.md")) })
            }
        });
        let case = json!({
            "version": 1,
            "case_id": "first",
            "shows": "The first item is answered from what the tools return.",
            "domain": "..",
            "item": format!("../{}", self.file),
            "replies": replies,
            "expected": { "class": "answered", "required_tools": tools },
        });
        format!("{case:#}\n")
    }
}
