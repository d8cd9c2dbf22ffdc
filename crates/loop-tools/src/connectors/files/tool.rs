//! The tool over a folder of files.

use std::sync::Arc;

use crate::result::heading;
use crate::{CancellationToken, Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::types::Scope;
use serde_json::{Value, json};

use crate::connectors::charset::REPLACED;
use crate::connectors::error::ConnectorError;
use crate::connectors::fence::fenced;
use crate::connectors::files::folder::{Folder, Refusal};
use crate::connectors::files::list::{self, ListedFiles};
use crate::connectors::files::read::{self, Lines};
use crate::connectors::files::search::{self, Matches};
use crate::connectors::files::settings::{FilesSettings, FilesWork};
use crate::connectors::files::write::{self, FileChange};

/// A tool over the files of one folder: it lists, reads, searches, writes or patches, one of them.
///
/// Nothing outside of the folder is reached, by no path and through no link. Devices, pipes and sockets are not opened, names
/// that begin with `.` are not there, and only files that the settings include are.
#[derive(Clone, Debug)]
pub struct FilesTool {
    declaration: ToolDeclaration,
    folder: Arc<Folder>,
    work: FilesWork,
    max_bytes: usize,
    max_results: usize,
}

/// What a piece of work came to.
enum FileResult {
    Listed(ListedFiles),
    Lines(Lines),
    Matches(Matches),
    Written(FileChange),
}

impl FilesTool {
    /// The tool over the folder of `settings`; the declared schema is [`FilesWork::schema`], or one with the same parameters.
    ///
    /// # Errors
    /// The folder is not there, a glob or a number is wrong, the effect is not that of the work, or a parameter is not one of
    /// the work.
    pub fn new(declaration: ToolDeclaration, settings: &FilesSettings) -> Result<Self, ConnectorError> {
        let FilesSettings { folder, work, include, max_bytes, max_results } = settings;
        work.check_effect(declaration.effect)?;
        work.check_schema(&declaration.schema, declaration.target.as_deref())?;
        for (key, number) in [("max_bytes", max_bytes), ("max_results", max_results)] {
            if *number == 0 {
                let message = "nothing could be returned; write at least 1".to_owned();
                return Err(ConnectorError::Setting { key, message });
            }
        }
        let folder = Arc::new(Folder::open(folder, include)?);
        let made = json!({ "kind": "files", "do": work.name(), "include": include });
        let declaration = declaration.defined_by(&made);
        Ok(Self { declaration, folder, work: *work, max_bytes: *max_bytes, max_results: *max_results })
    }

    fn work(&self, parameters: &Value, cancel: &CancellationToken) -> Result<FileResult, Refusal> {
        let (folder, max_bytes, max_results) = (&*self.folder, self.max_bytes, self.max_results);
        match self.work {
            FilesWork::List => list::list(folder, parameters, max_results, cancel).map(FileResult::Listed),
            FilesWork::Read => read::read(folder, parameters, max_bytes, cancel).map(FileResult::Lines),
            FilesWork::Search => {
                search::search(folder, parameters, max_results, max_bytes, cancel).map(FileResult::Matches)
            }
            FilesWork::Write => write::write(folder, parameters, max_bytes, cancel).map(FileResult::Written),
            FilesWork::Patch => write::patch(folder, parameters, max_bytes, cancel).map(FileResult::Written),
        }
    }

    fn result(&self, done: Result<FileResult, Refusal>, scope: &Scope) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        match done {
            Err(Refusal::Input(message)) => ToolResult::invalid_input(name, title, message),
            Err(Refusal::Failed(message)) => ToolResult::failed(name, title, message),
            Err(Refusal::Cancelled) => ToolResult::failed(name, title, "cancelled"),
            Ok(FileResult::Listed(listed)) => self.listed(listed, scope),
            Ok(FileResult::Lines(lines)) => self.lines(&lines, scope),
            Ok(FileResult::Matches(matches)) => self.matches(&matches, scope),
            Ok(FileResult::Written(written)) => self.written(&written, scope),
        }
    }

    fn listed(&self, listed: ListedFiles, scope: &Scope) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let count = listed.rows.len();
        let mut result =
            ToolResult::found_columns(name, title, scope, &["path", "bytes", "modified"], listed.rows);
        if listed.is_cut {
            let note =
                format!("_Only the first {count} files are shown; there are more. Give `path` or `glob`._");
            result.markdown = result.markdown.replacen("\n\n", &format!("\n\n{note}\n\n"), 1);
            result.summary = format!("Found more than {count} files");
        }
        result.with_left_out(title, &listed.left_out)
    }

    fn lines(&self, lines: &Lines, scope: &Scope) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        if lines.lines.is_empty() {
            return ToolResult::empty(name, title);
        }
        let last = lines.first + (lines.lines.len() as u64).saturating_sub(1);
        let numbered =
            lines.lines.iter().zip(lines.first..).map(|(line, number)| format!("{number:>6}\t{line}"));
        let shown: Vec<String> = numbered.collect();
        let span = format!("lines {} to {last} of `{}`", lines.first, lines.path);
        let note = match (lines.is_cut, lines.has_more) {
            (true, _) => {
                format!("_{span}; there is more, which is beyond the {} bytes of one call._", self.max_bytes)
            }
            (false, true) => format!("_{span}; there is more._"),
            (false, false) => format!("_{span}, its end._"),
        };
        let replaced = if lines.is_replaced { format!(" _({REPLACED})_") } else { String::new() };
        let markdown =
            format!("{}\n\n{note}{replaced}\n\n{}", heading(title, scope), fenced(&shown.join("\n"), ""));
        let data = json!({
            "path": lines.path, "from": lines.first, "to": last, "has_more": lines.has_more,
            "text": lines.lines.join("\n"),
        });
        let mut result = ToolResult::ok(name, span, markdown, data);
        result.error = lines.is_replaced.then(|| REPLACED.to_owned());
        result
    }

    fn matches(&self, matches: &Matches, scope: &Scope) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let count = matches.found.len();
        if count == 0 && !matches.is_cut {
            return ToolResult::empty(name, title).with_left_out(title, &matches.left_out);
        }
        let lines: Vec<String> =
            matches.found.iter().map(|one| format!("{}:{}: {}", one.path, one.line, one.text)).collect();
        let data: Vec<Value> = matches
            .found
            .iter()
            .map(|one| json!({ "path": one.path, "line": one.line, "text": one.text }))
            .collect();
        let (note, summary) = if matches.is_cut {
            let note = format!(
                "_Only the first {count} lines are shown; there are more. Give `path` or `glob`._\n\n"
            );
            (note, format!("Found more than {count} lines"))
        } else {
            (String::new(), format!("Found {count} lines"))
        };
        let markdown = format!("{}\n\n{note}{}", heading(title, scope), fenced(&lines.join("\n"), ""));
        ToolResult::ok(name, summary, markdown, data).with_left_out(title, &matches.left_out)
    }

    fn written(&self, written: &FileChange, scope: &Scope) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let FileChange { path, bytes, is_new, lines_removed, lines_added, line } = written;
        let says = match (line, is_new) {
            (Some(line), _) => {
                format!(
                    "Patched `{path}` at line {line}: {lines_removed} lines out, {lines_added} in; it has {bytes} bytes"
                )
            }
            (None, true) => format!("Created `{path}`: {lines_added} lines, {bytes} bytes"),
            (None, false) => format!("Replaced `{path}`: {lines_added} lines, {bytes} bytes"),
        };
        let data = json!({
            "path": path, "bytes": bytes, "created": is_new, "line": line,
            "lines_removed": lines_removed, "lines_added": lines_added,
        });
        ToolResult::ok(name, says.clone(), format!("{}\n\n{says}", heading(title, scope)), data)
    }
}

#[async_trait]
impl Tool for FilesTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _credentials: &Credentials) -> ToolResult {
        // A child with a guard: the work ends when the call is cancelled, and also when it is merely dropped.
        let cancel = context.cancel.child_token();
        let _stop_on_leaving = cancel.clone().drop_guard();
        let tool = self.clone();
        let done = tokio::task::spawn_blocking(move || tool.work(&parameters, &cancel)).await;
        self.result(done.unwrap_or_else(|error| Err(Refusal::Failed(error.to_string()))), &context.scope)
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
