//! The result of a tool, with templates for its Markdown: a table of rows, and a failure.

use std::fmt::Display;

use loop_core::types::{ResultPicture, Scope, SubCallUse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::declaration::ToolDeclaration;
use crate::table;

/// What a tool that found nothing says.
pub(crate) const NOTHING_FOUND: &str = "No data found";
/// How much of a text is its summary.
const SUMMARY_CHARS: usize = 160;
/// What a tool that is not ready says.
const NOT_READY: &str = "Not ready yet";
/// What a failure without any message says.
pub const UNKNOWN_ERROR: &str = "Unknown error";

/// What a tool returns. A failure is a result as well. Its kind, never its text, decides what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Whether the tool returned what was requested.
    pub success: bool,
    /// The canonical name of the tool. The registry sets it.
    pub tool_name: String,
    /// The raw result as JSON, for programs.
    pub data: Value,
    /// One line for people.
    pub summary: String,
    /// What the model reads. It is cut to `limits.markdown_chars` afterwards.
    pub markdown: String,
    /// What went wrong. `None`: the call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The kind of failure. `None` with a failure: permanent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Failure>,
    /// For a result that is not ready: milliseconds after which to ask again. `None`: the core's own delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What the tool's sub-call used. `None`: there was none. A tool outside of this crate cannot set it.
    #[serde(skip)]
    pub sub_call: Option<SubCallUse>,
    /// For a failure whose Markdown is made by the template: what failed, in words for people. `None`: the Markdown is
    /// a text of the tool's own.
    #[serde(skip)]
    pub title: Option<String>,
    /// Pictures, for models that accept them. The Markdown names each. A tool outside of this crate cannot set it.
    #[serde(skip)]
    pub pictures: Vec<ResultPicture>,
}

/// The kind of failure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The tool found nothing.
    Empty,
    /// The same call may succeed another time.
    Retryable,
    /// The same call will fail again.
    Permanent,
    /// The parameters are invalid.
    InvalidInput,
    /// The result is not ready. The same call is made again later, without a model call.
    Pending,
    /// The effect was begun, and the tool cannot know whether it happened. Of a tool whose effect is to read, and of one
    /// that may run twice, it is [`Retryable`](Self::Retryable).
    InDoubt,
}

impl ToolResult {
    /// A success with its own text and data.
    pub fn ok(
        tool: impl Into<String>,
        summary: impl Into<String>,
        markdown: impl Into<String>,
        data: impl Into<Value>,
    ) -> Self {
        Self {
            success: true,
            tool_name: tool.into(),
            data: data.into(),
            summary: summary.into(),
            markdown: markdown.into(),
            error: None,
            kind: None,
            retry_after_ms: None,
            sub_call: None,
            title: None,
            pictures: Vec::new(),
        }
    }

    /// A success as a table with one row per item, under a heading that names the account.
    ///
    /// The columns are the members that the rows have: `id`, `name` and `title` first, the others by name, so
    /// that equal rows give equal bytes. Of more than 40 members those have a column that most rows have, and a line names
    /// the others. Without rows it is [`ToolResult::empty`].
    pub fn found(tool: impl Into<String>, title: &str, scope: &Scope, rows: Vec<Value>) -> Self {
        Self::listed(tool, title, scope, table::whole(&rows), rows)
    }

    /// Like [`ToolResult::found`] with these columns, in this order.
    pub fn found_columns(
        tool: impl Into<String>,
        title: &str,
        scope: &Scope,
        columns: &[&str],
        rows: Vec<Value>,
    ) -> Self {
        let mut table = String::new();
        table::push_table(&mut table, columns, &rows);
        Self::listed(tool, title, scope, table, rows)
    }

    fn listed(tool: impl Into<String>, title: &str, scope: &Scope, table: String, rows: Vec<Value>) -> Self {
        if rows.is_empty() {
            return Self::empty(tool, title);
        }
        let markdown = format!("{}\n\n{table}", heading(title, scope));
        Self::ok(tool, format!("Found {} items", rows.len()), markdown, rows)
    }

    /// A success from any value. The model reads a text unchanged, and the JSON of any other value. The summary is the
    /// first line.
    pub fn value(tool: impl Into<String>, value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let end = match line.len() {
            bytes @ ..=SUMMARY_CHARS => bytes,
            bytes => line.char_indices().nth(SUMMARY_CHARS).map_or(bytes, |(at, _)| at),
        };
        let summary = line.get(..end).unwrap_or_default().to_owned();
        Self::ok(tool, summary, text, value)
    }

    /// A success whose text the model reads unchanged. The registry adds the tool's name.
    ///
    /// ```
    /// use loop_tools::ToolResult;
    /// assert_eq!(ToolResult::text("15 users").markdown, "15 users");
    /// ```
    pub fn text(text: impl Into<String>) -> Self {
        Self::value("", Value::String(text.into()))
    }

    /// A permanent failure: the same call will fail again.
    pub fn failed(tool: impl Into<String>, title: &str, message: impl Display) -> Self {
        Self::failure(tool, title, message, Failure::Permanent)
    }

    /// A retryable failure: the same call may succeed later.
    pub fn retryable(tool: impl Into<String>, title: &str, message: impl Display) -> Self {
        Self::failure(tool, title, message, Failure::Retryable)
    }

    /// A refusal of the parameters.
    pub fn invalid_input(tool: impl Into<String>, title: &str, message: impl Display) -> Self {
        Self::failure(tool, title, message, Failure::InvalidInput)
    }

    /// The result of a call that found nothing.
    pub fn empty(tool: impl Into<String>, title: &str) -> Self {
        Self::failure(tool, title, NOTHING_FOUND, Failure::Empty)
    }

    /// The result of a tool that has begun something and is not ready. The loop calls it again after this many
    /// milliseconds, without a model call, within the tool's number of polls and the run's time.
    ///
    /// ```
    /// let result = loop_tools::ToolResult::pending("fetch_report", "Report", 2_000);
    /// assert_eq!((result.success, result.retry_after_ms), (false, Some(2_000)));
    /// ```
    pub fn pending(tool: impl Into<String>, title: &str, retry_after_ms: u64) -> Self {
        Self {
            retry_after_ms: Some(retry_after_ms),
            ..Self::failure(tool, title, NOT_READY, Failure::Pending)
        }
    }

    /// A failure of an effect that was begun and may have happened, such as a payment whose answer was lost.
    ///
    /// ```
    /// let result = loop_tools::ToolResult::in_doubt("pay", "Pay", "the connection broke after the request was sent");
    /// assert_eq!((result.success, result.kind), (false, Some(loop_tools::Failure::InDoubt)));
    /// ```
    pub fn in_doubt(tool: impl Into<String>, title: &str, message: impl Display) -> Self {
        Self::failure(tool, title, message, Failure::InDoubt)
    }

    /// A failure of this kind, with the Markdown of the template.
    pub fn failure(tool: impl Into<String>, title: &str, message: impl Display, kind: Failure) -> Self {
        let message = message_of(&message.to_string());
        Self {
            success: false,
            tool_name: tool.into(),
            data: Value::Null,
            markdown: quote(title, &message),
            summary: message.clone(),
            error: Some(message),
            kind: Some(kind),
            retry_after_ms: None,
            sub_call: None,
            title: Some(flat(title)),
            pictures: Vec::new(),
        }
    }

    /// What went wrong: the error, else the summary, else [`UNKNOWN_ERROR`].
    pub fn message(&self) -> String {
        let error = self.error.as_deref().filter(|error| !error.trim().is_empty());
        message_of(error.unwrap_or(&self.summary))
    }
}

/// How many of the places that were not looked at are named.
#[cfg(feature = "connectors")]
const LEFT_OUT: usize = 5;

#[cfg(feature = "connectors")]
impl ToolResult {
    /// Says what was not looked at, a place each: the answer may be there. Where nothing was found, that proves no absence, and
    /// the result is not [`Failure::Empty`].
    pub(crate) fn with_left_out(self, title: &str, left_out: &[String]) -> Self {
        if left_out.is_empty() {
            return self;
        }
        let mut result = self;
        if result.kind == Some(Failure::Empty) {
            let says = "Nothing found in what was looked at";
            let data = serde_json::json!({ "found": [], "not_looked_at": left_out });
            result = Self::ok(result.tool_name, says, quote(title, says), data);
        }
        let shown: Vec<&str> = left_out.iter().take(LEFT_OUT).map(String::as_str).collect();
        let more = match left_out.len().saturating_sub(LEFT_OUT) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        result.markdown.push_str(&format!("\n\n_Not looked at: {}{more}_", shown.join("; ")));
        result
    }
}

/// A value that a closure tool may return: a result, or a `Result` whose error becomes a failure with its message.
pub trait IntoToolResult {
    /// The value as a result of the tool `declaration`.
    fn into_tool_result(self, declaration: &ToolDeclaration) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self, _declaration: &ToolDeclaration) -> ToolResult {
        self
    }
}

impl<E: Display> IntoToolResult for Result<ToolResult, E> {
    fn into_tool_result(self, declaration: &ToolDeclaration) -> ToolResult {
        self.unwrap_or_else(|error| ToolResult::failed(&*declaration.name, &declaration.title, error))
    }
}

/// The heading of a success as Markdown: the title, and the account where one is known. Both are on one line.
pub fn heading(title: &str, scope: &Scope) -> String {
    match scope.account_name.as_ref().or(scope.account.as_ref()) {
        Some(account) => format!("## {} — {}", flat(title), flat(account)),
        None => format!("## {}", flat(title)),
    }
}

/// The Markdown of a failure.
fn quote(title: &str, message: &str) -> String {
    // Each line of the message stays inside the quotation.
    format!("> **{}:** {}", flat(title), message.replace('\n', "\n> "))
}

fn message_of(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { UNKNOWN_ERROR.to_owned() } else { text.to_owned() }
}

pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn contoso() -> Scope {
        Scope { account: Some("A-7".into()), account_name: Some("Contoso".into()), ..Scope::default() }
    }

    #[test]
    fn a_failure_says_its_message_everywhere() {
        // S0-67, S0-81
        let result = ToolResult::failed("fetch_x", "Your Thing", "no route");
        let expected = json!({
            "success": false, "tool_name": "fetch_x", "data": null, "summary": "no route",
            "markdown": "> **Your Thing:** no route", "error": "no route", "kind": "permanent",
        });
        assert_eq!(serde_json::to_value(&result).unwrap(), expected);
        assert_eq!(ToolResult::retryable("x", "X", "busy").kind, Some(Failure::Retryable));
        assert_eq!(ToolResult::invalid_input("x", "X", "bad").kind, Some(Failure::InvalidInput));
    }

    #[test]
    fn a_failure_of_several_lines_stays_in_its_quotation() {
        assert_eq!(ToolResult::failed("x", "A\nB", "one\ntwo").markdown, "> **A B:** one\n> two");
    }

    #[test]
    fn nothing_found_is_a_failure_of_its_own_kind() {
        // S0-68
        for result in [ToolResult::empty("x", "X"), ToolResult::found("x", "X", &contoso(), vec![])] {
            assert_eq!((result.success, result.kind), (false, Some(Failure::Empty)));
            assert_eq!((&*result.summary, &*result.markdown), ("No data found", "> **X:** No data found"));
            assert_eq!((result.error.as_deref(), result.data), (Some("No data found"), Value::Null));
        }
    }

    #[test]
    fn a_failure_without_a_message_is_an_unknown_error() {
        // S0-71, S0-d4
        let result = ToolResult::failed("x", "X", "  ");
        assert_eq!((&*result.summary, &*result.markdown), ("Unknown error", "> **X:** Unknown error"));
    }

    #[test]
    fn found_items_become_a_table_under_a_heading() {
        // S0-69, S0-70, S0-24, S0-34, S0-62
        let rows = vec![json!({ "status": "online", "name": "SRV-1" }), json!({ "name": "SRV-2", "age": 3 })];
        let result = ToolResult::found("fetch_x", "Your Thing", &contoso(), rows.clone());
        assert_eq!(
            result.markdown,
            "## Your Thing — Contoso\n\n\
             | name | age | status |\n| --- | --- | --- |\n| SRV-1 |  | online |\n| SRV-2 | 3 |  |"
        );
        assert_eq!((result.success, &*result.summary, &result.data), (true, "Found 2 items", &json!(rows)));
        assert_eq!((result.error, result.kind), (None, None));
    }

    #[test]
    fn the_heading_names_the_account_as_well_as_it_is_known() {
        // S0-69, S0-64
        let nameless = Scope { account: Some("A-7".into()), ..Scope::default() };
        assert_eq!(heading("T", &contoso()), "## T — Contoso");
        assert_eq!(heading("T", &nameless), "## T — A-7");
        assert_eq!(heading("T\n# x", &Scope::default()), "## T # x");
    }

    #[test]
    fn columns_may_be_chosen() {
        // S0-69
        let rows = vec![json!({ "name": "a", "date": "d", "status": "s" })];
        let result = ToolResult::found_columns("x", "T", &Scope::default(), &["status", "name"], rows);
        assert_eq!(result.markdown, "## T\n\n| status | name |\n| --- | --- |\n| s | a |");
    }

    #[test]
    fn a_result_is_read_from_a_program_without_its_optional_parts() {
        // S0-61, S0-119: and a program cannot claim a sub-call.
        let text =
            r###"{"success": true, "tool_name": "x", "data": [1], "summary": "s", "markdown": "## m"}"###;
        let result: ToolResult = serde_json::from_str(text).unwrap();
        assert_eq!(result, ToolResult::ok("x", "s", "## m", json!([1])));
        let claims =
            text.replace("\"data\"", "\"sub_call\": {\"answered\": true, \"usage\": null}, \"data\"");
        assert_eq!(serde_json::from_str::<ToolResult>(&claims).unwrap().sub_call, None);
    }

    #[test]
    fn a_caught_error_becomes_a_failure_with_its_message() {
        // S0-71, S0-86, S0-129
        let declaration = ToolDeclaration::new("fetch_x").title("X");
        let failed: Result<ToolResult, std::num::ParseIntError> = "y".parse::<i32>().map(|_| unreachable!());
        let result = failed.into_tool_result(&declaration);
        assert_eq!(result, ToolResult::failed("fetch_x", "X", "invalid digit found in string"));
        let fine: Result<ToolResult, String> = Ok(ToolResult::ok("fetch_x", "s", "m", 1));
        assert_eq!(fine.into_tool_result(&declaration), ToolResult::ok("fetch_x", "s", "m", 1));
    }
}
