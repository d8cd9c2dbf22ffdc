//! A tool that looks for words in a folder of documents.

mod files;
mod passage;
mod rank;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::result::heading;
use crate::smart::{Candidate, Source};
use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use serde_json::{Value, json};

use self::files::Files;
pub use self::files::{FILE_BYTES_MAX, FILES_MAX};
use self::passage::{Passage, WHOLE_CHARS, passages};
use self::rank::Index;
use crate::connectors::error::ConnectorError;

/// The most candidates among which a model chooses.
const CANDIDATES: usize = 12;
/// How many passages are handed on without a model.
const BEST: usize = 3;
/// The words of a passage that a model sees when it chooses.
const FIRST_WORDS: usize = 20;

/// A tool over a folder of Markdown and text files: it takes words, and returns the passages that match them.
///
/// Alone it returns the best three. As the source of a [`Smart`](crate::Smart) tool it offers the best twelve to a
/// model, and falls back to the best three.
#[derive(Clone, Debug)]
pub struct DocsTool {
    declaration: ToolDeclaration,
    query_parameter: Arc<str>,
    files: Arc<Files>,
    library: Arc<OnceLock<Library>>,
}

#[derive(Debug)]
struct Library {
    passages: Vec<Passage>,
    index: Index,
    /// What is not searched, and why: left out of the list, or not read since.
    left_out: Vec<String>,
}

/// The documents below `folder`, as paths below it with `/`, sorted: those that a [`DocsTool`] searches.
///
/// # Errors
/// The folder is missing, cannot be read, or holds no document.
pub fn documents_below(folder: &Path) -> Result<Vec<String>, ConnectorError> {
    Ok(Files::below(folder)?.found.into_iter().map(|(name, _)| name).collect())
}

impl DocsTool {
    /// The tool over `folder`; the declared text parameter `query_parameter` holds the words.
    ///
    /// Files are listed here and read in the first call.
    ///
    /// # Errors
    /// The folder is missing or holds no document, or the parameter is not declared as a text.
    pub fn new(
        declaration: ToolDeclaration,
        folder: &Path,
        query_parameter: impl Into<Arc<str>>,
    ) -> Result<Self, ConnectorError> {
        let query_parameter = query_parameter.into();
        let declared = declaration.schema.get("properties").and_then(|all| all.get(&*query_parameter));
        if declared.and_then(|one| one.get("type")).and_then(Value::as_str) != Some("string") {
            let (tool, name) = (declaration.name.to_string(), query_parameter.to_string());
            return Err(ConnectorError::NoQueryParameter { tool, name });
        }
        let files = Arc::new(Files::below(folder)?);
        let declaration =
            declaration.defined_by(&json!({ "kind": "docs", "query_parameter": query_parameter }));
        Ok(Self { declaration, query_parameter, files, library: Arc::default() })
    }

    /// How many files it searches.
    pub fn documents(&self) -> usize {
        self.files.found.len()
    }

    /// What was left out of the folder, and why, a line each.
    pub fn left_out(&self) -> &[String] {
        &self.files.left_out
    }

    /// The passages that fit, best first.
    async fn find(&self, parameters: &Value, max: usize) -> Result<Vec<Passage>, ToolResult> {
        let question =
            parameters.get(&*self.query_parameter).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (files, library) = (Arc::clone(&self.files), Arc::clone(&self.library));
        let found = tokio::task::spawn_blocking(move || {
            let library = library.get_or_init(|| read(&files));
            let best = library.index.best(&question, max);
            best.into_iter().filter_map(|at| library.passages.get(at).cloned()).collect()
        });
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        found.await.map_err(|error| ToolResult::failed(name, title, error))
    }
}

#[async_trait]
impl Tool for DocsTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _credentials: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let found = match self.find(&parameters, BEST).await {
            Ok(found) => found,
            Err(failure) => return failure,
        };
        let left_out = self.library.get().map_or(&[][..], |library| &library.left_out);
        if found.is_empty() {
            return ToolResult::empty(name, title).with_left_out(title, left_out);
        }
        let bodies: Vec<String> = found.iter().map(markdown).collect();
        let markdown = format!("{}\n\n{}", heading(title, &context.scope), bodies.join("\n\n"));
        let data: Vec<Value> = found.iter().map(data).collect();
        let found = ToolResult::ok(name, format!("Found {} passages", found.len()), markdown, data);
        found.with_left_out(title, left_out)
    }
}

#[async_trait]
impl Source for DocsTool {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn fetch(
        &self,
        parameters: &Value,
        _context: &ToolContext,
        _credentials: &Credentials,
    ) -> Result<Vec<Candidate>, ToolResult> {
        let found = self.find(parameters, CANDIDATES).await?;
        let left_out = self.library.get().map_or(&[][..], |library| &library.left_out);
        if found.is_empty() && !left_out.is_empty() {
            let (name, title) = (&*self.declaration.name, &*self.declaration.title);
            return Err(ToolResult::empty(name, title).with_left_out(title, left_out));
        }
        Ok(found
            .iter()
            .map(|passage| Candidate {
                line: format!("{}: {}", passage.place(), first_words(&passage.text)),
                markdown: markdown(passage),
                data: data(passage),
            })
            .collect())
    }

    fn fallback(&self, _parameters: &Value, candidates: &[Candidate]) -> Vec<usize> {
        // They come ranked.
        (0..candidates.len().min(BEST)).collect()
    }
}

/// Every file that can be read, cut into passages.
fn read(files: &Files) -> Library {
    let mut all = Vec::new();
    let mut left_out = files.left_out.clone();
    for (path, place) in &files.found {
        match files.text(place) {
            Ok(text) => all.extend(passages(path, &text)),
            Err(why) => left_out.push(format!("{path}: {why}")),
        }
    }
    left_out.sort();
    left_out.dedup();
    Library { index: Index::over(&all), passages: all, left_out }
}

fn markdown(passage: &Passage) -> String {
    let count = passage.text.chars().count();
    let text = if count > WHOLE_CHARS {
        let kept: String = passage.text.chars().take(WHOLE_CHARS).collect();
        format!("{}… [cut: {WHOLE_CHARS} of {count} characters]", kept.trim_end())
    } else {
        passage.text.clone()
    };
    format!("### {}\n\n{text}", passage.place())
}

fn data(passage: &Passage) -> Value {
    json!({ "path": passage.path, "heading": passage.heading(), "text": passage.text })
}

fn first_words(text: &str) -> String {
    text.split_whitespace().take(FIRST_WORDS).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
