//! A tool that reads more of an earlier result than the prompt shows: a page of it, or the lines with a text.
//!
//! The model reads each result cut to `limits.markdown_chars`, and the run keeps the data whole. This tool reads the kept
//! data, so nothing is fetched again.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::types::{Data, Effect, EvidenceId};
use serde_json::{Value, json};

use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::result::ToolResult;
use crate::table::pretty;
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

/// A tool that reads more of an earlier result than the prompt shows. Its parameters are `evidence` (the number of a
/// result, for example `E3`), `page` (from 1, the first without it) and `search` (a text; only lines that contain it
/// are returned, whatever the case of their letters).
///
/// A result that is one text is read line by line, a list entry by entry, and any other data as JSON with a member a line.
/// What a page holds is untrusted if the result was: declare [`returns_untrusted`](loop_core::spec::ToolPolicy::returns_untrusted)
/// and [`reads_private`](loop_core::spec::ToolPolicy::reads_private) as the strictest tool of the registry does.
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
        let search = text("search").map(str::to_lowercase);
        let page = parameters.get("page").and_then(Value::as_u64).unwrap_or(1);
        let mut pages = Pages { wanted: page, count: 0, left: 0, text: String::new() };
        let (mut all, mut matching) = (0_usize, 0_usize);
        for line in text_of(&result.data).lines() {
            all += 1;
            if search.as_ref().is_none_or(|words| line.to_lowercase().contains(words)) {
                matching += 1;
                pages.push(&format!("{all}: {line}\n"));
            }
        }
        if matching == 0 {
            return Ok(ToolResult::empty(&*self.declaration.name, &title));
        }
        let Pages { count, text: body, .. } = pages;
        if body.is_empty() {
            return Err(format!("there is no page {page} of {title}: it has {count}"));
        }
        let place = format!("page {page} of {count}");
        let summary = match &search {
            Some(_) => format!("{title}, {matching} of {all} lines, {place}"),
            None => format!("{title}, {all} lines, {place}"),
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

/// The data as lines, in one text.
fn text_of(data: &Data) -> Cow<'_, str> {
    if let Some(text) = data.as_text() {
        return clean(text).0;
    }
    let text = match serde_json::from_str(data) {
        Ok(Value::Null) => return Cow::default(),
        Ok(Value::Array(entries)) => {
            let mut text = String::new();
            for entry in entries {
                let _ = writeln!(text, "{entry}");
            }
            text
        }
        Ok(other) => pretty(&other, 4 * data.len() + PAGE_CHARS),
        // A tool's own JSON is checked before it is kept.
        Err(_) => return clean(data).0,
    };
    Cow::Owned(clean(&text).0.into_owned())
}

/// Lines in pages of at most [`PAGE_CHARS`] characters, of which one is kept. A longer line begins a page and goes over
/// several.
struct Pages {
    /// The page that is kept, from 1.
    wanted: u64,
    count: u64,
    /// How many characters the last page has room for.
    left: usize,
    text: String,
}

impl Pages {
    fn push(&mut self, line: &str) {
        if self.left < PAGE_CHARS && line.chars().count() > self.left {
            self.left = 0;
        }
        for c in line.chars() {
            if self.left == 0 {
                self.count += 1;
                self.left = PAGE_CHARS;
            }
            if self.count == self.wanted {
                self.text.push(c);
            }
            self.left -= 1;
        }
    }
}

/// What the model reads of it where the declaration says nothing.
const DESCRIPTION: &str = "Read more of an earlier result that was cut, by its number: page by page, or only the lines that \
    contain a text. Nothing is fetched again";

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
