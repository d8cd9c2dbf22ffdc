//! A tool that reads more of an earlier result than the prompt shows: a page of it, or the lines with a text.
//!
//! The model reads each result cut to `limits.markdown_chars`, and the run keeps the data whole. This tool reads the kept
//! data, so nothing is fetched again.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::{Data, Effect, EvidenceId};
use serde_json::{Value, json};

use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::result::ToolResult;
use crate::text::clean;
use crate::tool::Tool;

/// Characters of a page, so that a page is not cut in turn where `limits.markdown_chars` is the default of 4,000.
pub const PAGE_CHARS: usize = 3_500;

/// A settled result of the run.
#[derive(Clone, Debug)]
pub struct EarlierResult {
    /// Its number, for example `E3`.
    pub id: EvidenceId,
    /// The name of the tool that returned it.
    pub tool: Arc<str>,
    /// What the tool returned, whole.
    pub data: Data,
}

/// The settled results of the run, for a tool that [reads them](Tool::reads_results). Empty for every other tool.
#[derive(Clone, Default)]
pub struct EarlierResults(Arc<[EarlierResult]>);

impl EarlierResults {
    /// The result with this number.
    pub fn find(&self, id: EvidenceId) -> Option<&EarlierResult> {
        self.0.iter().find(|result| result.id == id)
    }
}

impl FromIterator<EarlierResult> for EarlierResults {
    fn from_iter<I: IntoIterator<Item = EarlierResult>>(results: I) -> Self {
        Self(results.into_iter().collect())
    }
}

impl fmt::Debug for EarlierResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|result| result.id)).finish()
    }
}

/// The tool. Its parameters are `evidence` (the number of a result, for example `E3`), `page` (from 1, the first without
/// it) and `search` (a text; only lines that contain it are returned, whatever the case of their letters).
///
/// A result that is one text is read line by line, a list entry by entry, and any other data as JSON with a member a line.
/// What a page holds is untrusted if the result was: declare [`returns_untrusted`](loop_core::ToolPolicy::returns_untrusted)
/// and [`reads_private`](loop_core::ToolPolicy::reads_private) as the strictest tool of the registry does.
#[derive(Clone, Debug)]
pub struct ResultsTool {
    declaration: ToolDeclaration,
}

impl ResultsTool {
    /// The tool with the name, title, texts and policy of `declaration`. Effect and parameters are its own, and a
    /// description where there is none.
    pub fn new(declaration: ToolDeclaration) -> Self {
        let described = match declaration.description.is_empty() {
            true => declaration.description(DESCRIPTION),
            false => declaration,
        };
        let schema = json!({
            "type": "object",
            "properties": {
                "evidence": {
                    "type": "string",
                    "description": "The number of the result",
                    "examples": ["E3"],
                    "minLength": 1,
                },
                "page": { "type": "integer", "description": "The page, from 1. Default: 1", "minimum": 1 },
                "search": {
                    "type": "string",
                    "description": "Only lines that contain this text. Default: all lines",
                    "minLength": 1,
                },
            },
            "required": ["evidence"],
            "additionalProperties": false,
        });
        Self { declaration: described.schema(schema).effect(Effect::Read) }
    }

    fn read(&self, parameters: &Value, results: &EarlierResults) -> Result<ToolResult, String> {
        let text = |name: &str| parameters.get(name).and_then(Value::as_str);
        let number = text("evidence").unwrap_or_default().trim();
        let id = number_of(number)
            .ok_or_else(|| format!("`{number}` is not the number of a result, such as E3"))?;
        let result = results.find(id).ok_or_else(|| absent(id, results))?;
        let title = format!("{id} ({})", result.tool);
        let lines = lines_of(&result.data);
        let lines: Vec<(usize, &str)> = (1..).zip(lines.iter().map(String::as_str)).collect();
        let search = text("search").map(str::to_lowercase);
        let matching: Vec<(usize, &str)> = match &search {
            Some(words) => {
                lines.iter().copied().filter(|(_, line)| line.to_lowercase().contains(words)).collect()
            }
            None => lines.clone(),
        };
        if matching.is_empty() {
            return Ok(ToolResult::empty(&*self.declaration.name, &title));
        }
        let pages = pages(&matching);
        let page = parameters.get("page").and_then(Value::as_u64).unwrap_or(1);
        let at = usize::try_from(page).unwrap_or(usize::MAX).saturating_sub(1);
        let body = pages
            .get(at)
            .ok_or_else(|| format!("there is no page {page} of {title}: it has {}", pages.len()))?;
        let place = format!("page {page} of {}", pages.len());
        let summary = match &search {
            Some(_) => format!("{title}, {} of {} lines, {place}", matching.len(), lines.len()),
            None => format!("{title}, {} lines, {place}", lines.len()),
        };
        Ok(ToolResult::ok(
            &*self.declaration.name,
            &summary,
            format!("## {summary}\n\n{body}"),
            body.as_str(),
        ))
    }
}

#[async_trait]
impl Tool for ResultsTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    fn reads_results(&self) -> bool {
        true
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &self.declaration.title);
        self.read(&parameters, &context.results)
            .unwrap_or_else(|message| ToolResult::invalid_input(name, title, message))
    }
}

/// `E3`, `e3`, `[E3]` and `3` are the number 3.
fn number_of(text: &str) -> Option<EvidenceId> {
    let inner = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
    let digits = inner.strip_prefix(['E', 'e']).unwrap_or(inner);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten().map(EvidenceId)
}

fn absent(id: EvidenceId, results: &EarlierResults) -> String {
    match (results.0.first(), results.0.last()) {
        (Some(first), Some(last)) => {
            format!("there is no result {id}; there are {} to {}", first.id, last.id)
        }
        _ => format!("there is no result {id}; no tool has returned a result yet"),
    }
}

/// The data as lines.
fn lines_of(data: &Data) -> Vec<String> {
    if let Some(text) = data.as_text() {
        return clean(text).0.lines().map(str::to_owned).collect();
    }
    match serde_json::from_str(data) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Array(entries)) => {
            entries.iter().map(|entry| clean(&entry.to_string()).0.into_owned()).collect()
        }
        Ok(other) => {
            let text = serde_json::to_string_pretty(&other).unwrap_or_default();
            clean(&text).0.lines().map(str::to_owned).collect()
        }
        // A tool's own JSON is checked before it is kept.
        Err(_) => clean(data).0.lines().map(str::to_owned).collect(),
    }
}

/// The lines with their numbers, in pages of at most [`PAGE_CHARS`] characters. A longer line begins a page and goes over
/// several.
fn pages(lines: &[(usize, &str)]) -> Vec<String> {
    let mut pages = Vec::new();
    let (mut page, mut left) = (String::new(), PAGE_CHARS);
    for (number, line) in lines {
        let numbered = format!("{number}: {line}\n");
        let chars = numbered.chars().count();
        if chars > left && left < PAGE_CHARS {
            pages.push(std::mem::take(&mut page));
            left = PAGE_CHARS;
        }
        if chars <= left {
            page.push_str(&numbered);
            left -= chars;
            continue;
        }
        for c in numbered.chars() {
            if left == 0 {
                pages.push(std::mem::take(&mut page));
                left = PAGE_CHARS;
            }
            page.push(c);
            left -= 1;
        }
    }
    if !page.is_empty() {
        pages.push(page);
    }
    pages
}

/// What the model reads of it where the declaration says nothing.
const DESCRIPTION: &str = "Read more of an earlier result that was cut, by its number: page by page, or only the lines that \
    contain a text. Nothing is fetched again";

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
