//! The first work item of a new domain, and the eval case that runs it.

use std::path::Path;

use loop_tools::connectors::TableInfo;
use serde_json::{Map, Value, json};

use super::data::{Data, identifier};
use super::{Scaffold, Template};

/// At most so many characters of a value are in the item.
const MAX_VALUE_CHARS: usize = 400;
/// At most so many values of a row are in the item.
const MAX_VALUES: usize = 40;

/// The first work item.
pub(super) struct FirstItem {
    /// Its file, below the domain's folder.
    pub(super) file: String,
    pub(super) text: String,
    /// The schema of the value that a run ends with. `None`: it ends with something else.
    pub(super) schema: Option<String>,
    /// The headings of the document's sections. Empty: it has no document.
    headings: &'static [&'static str],
    /// A call that finds something for it: the tool and its parameters. `None`: there is no tool.
    call: Option<(String, Value)>,
    /// The value that the run ends with.
    value: Value,
}

impl FirstItem {
    /// The item: a row of the data, a question about a document, or the sample of the template.
    pub(super) fn new(scaffold: &Scaffold, documents: &[String], data: &Data) -> Self {
        let template = scaffold.template;
        let item = Self {
            file: String::new(),
            text: String::new(),
            schema: None,
            headings: match template {
                Template::Support if scaffold.has_own() => &["Findings", "Summary"],
                Template::Support => &["Findings", "Reply"],
                Template::Documents => &["Answer"],
                Template::Agent | Template::Turn | Template::Step | Template::Extract => &[],
            },
            call: None,
            value: Value::Null,
        };
        let item = match (data.main(), documents.first(), &scaffold.documents) {
            (Some(table), ..) => item.of_row(template, table, data),
            (None, Some(document), Some(folder)) => item.of_document(folder, document),
            _ if scaffold.has_own() => item.of_nothing(data),
            _ => item.of_sample(template),
        };
        // A value that nothing is known of yet is a text.
        let text = json!({ "text": item.text.trim() });
        match template {
            Template::Extract if item.schema.is_none() => item.with_value(text),
            _ => item,
        }
    }

    fn of_row(self, template: Template, table: &TableInfo, data: &Data) -> Self {
        let (name, key) = (&table.name, table.value(&table.key).unwrap_or_default().trim());
        let cut = |text: &str| text.chars().take(MAX_VALUE_CHARS).collect::<String>();
        let row = table.row.iter().take(MAX_VALUES).map(|(column, value)| (column.clone(), json!(cut(value))));
        let row: Map<String, Value> = row.collect();
        let call = data.tool_of(table).map(|(tool, parameter)| (tool, json!({ parameter: key })));
        let slug = identifier(&format!("{name}-{key}")).replace('_', "-");
        let item = Self { call, ..self };
        match template {
            Template::Support | Template::Documents => {
                let text = json!({ "id": key, "title": format!("{name} {key}"), "record": row });
                Self { file: format!("items/{slug}.json"), text: format!("{text:#}\n"), ..item }
            }
            Template::Agent | Template::Turn | Template::Step => {
                let text = format!("What do we know of {} {key} of {name}?\n", table.key);
                Self { file: format!("items/{slug}.md"), text, ..item }
            }
            Template::Extract => {
                let line = |(column, value): (&String, &Value)| {
                    format!("{column}: {}\n", value.as_str().unwrap_or_default().replace('\n', " "))
                };
                let text = row.iter().map(line).collect();
                Self { file: format!("items/{slug}.md"), text, ..item }.with_value(Value::Object(row))
            }
        }
    }

    fn of_document(self, folder: &Path, document: &str) -> Self {
        let text = std::fs::read(folder.join(document)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let heading = text.lines().find_map(|line| line.strip_prefix("# ").map(str::trim));
        let stem = Path::new(document).file_stem().unwrap_or_default().to_string_lossy();
        let title = heading.filter(|heading| !heading.is_empty()).unwrap_or(&stem);
        let call = ("search_documents".to_owned(), json!({ "query": title }));
        let text = format!("What do the documents say about \"{title}\"?\n");
        Self { file: "items/question.md".to_owned(), text, call: Some(call), ..self }
    }

    /// Of tables without rows.
    fn of_nothing(self, data: &Data) -> Self {
        let call = data.any_tool().map(|(tool, parameter)| (tool, json!({ parameter: "1" })));
        Self { file: "items/first.md".to_owned(), text: "What do the records say about 1?\n".to_owned(), call, ..self }
    }

    fn of_sample(self, template: Template) -> Self {
        let customer = Some(("fetch_customer".to_owned(), json!({ "number": "CUST-7" })));
        let (file, text, call) = match template {
            Template::Support => ("T-1.json", include_str!("samples/ticket.json"), customer),
            Template::Documents => (
                "question.md",
                include_str!("samples/question.md"),
                Some(("search_documents".to_owned(), json!({ "query": "lost parcel" }))),
            ),
            Template::Agent | Template::Turn | Template::Step => {
                ("request.md", include_str!("samples/request.md"), customer)
            }
            Template::Extract => ("message.md", include_str!("samples/message.md"), None),
        };
        let item = Self { file: format!("items/{file}"), text: text.to_owned(), call, ..self };
        match template {
            Template::Extract => Self {
                schema: Some(include_str!("samples/value.schema.json").to_owned()),
                value: json!({ "name": "Ada Brown", "email": "ada@brown.example" }),
                ..item
            },
            _ => item,
        }
    }

    /// The item with a value that the run is to end with, and the schema of such values.
    fn with_value(self, value: Value) -> Self {
        let members = value.as_object().into_iter().flatten();
        let property = |(name, value): (&String, &Value)| {
            (name.clone(), json!({ "type": "string", "description": format!("The {name}"), "examples": [value] }))
        };
        let properties: Map<String, Value> = members.map(property).collect();
        let schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        Self { schema: Some(format!("{schema:#}\n")), value, ..self }
    }

    /// The eval case that runs the item with replies that are written here, so that it passes whatever the model is.
    pub(super) fn case(&self) -> String {
        let (mut replies, mut expected) = (Vec::new(), json!({ "class": "answered" }));
        if let Some((tool, parameters)) = &self.call {
            expected["required_tools"] = json!([tool]);
            replies.push(match self.headings {
                [] => json!({ "calls": [{ "name": tool, "arguments": parameters }] }),
                _ => {
                    let call = json!([{ "tool": tool, "params": parameters, "reason": "the item names it" }]);
                    json!({ "for": "select", "text": call.to_string() })
                }
            });
        }
        let section = |heading: &&str| format!("## {heading}\n\nThe tool returned it [E1].\n\n");
        let sections: String = self.headings.iter().map(section).collect();
        let end = "```json\n{\"nonce\": \"{{nonce}}\", \"analysis_confidence\": \"high\", \"confidence_reason\": \"it was found\", \"ai_actions\": []}\n```\n";
        replies.push(match (self.headings, &self.schema) {
            ([], Some(_)) => json!({ "calls": [{ "name": "save", "arguments": self.value }] }),
            ([], None) => json!({ "text": "The tool returned what is known." }),
            _ => json!({ "for": "main", "text": format!("{sections}{end}") }),
        });
        let case = json!({
            "version": 1,
            "case_id": "first",
            "shows": "The first item is answered from what the tools return.",
            "domain": "..",
            "item": format!("../{}", self.file),
            "replies": replies,
            "expected": expected,
        });
        format!("{case:#}\n")
    }
}
