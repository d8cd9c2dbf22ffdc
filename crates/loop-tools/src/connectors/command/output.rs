//! From how a program ended and what it said to a result.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use crate::result::heading;
use crate::table::{RENDERED_BYTES, pretty};
use crate::text::clean;
use crate::{ToolDeclaration, ToolResult};
use loop_core::secrets::Secrets;
use loop_core::types::{Effect, Scope};
use serde_json::{Value, json};

use crate::connectors::charset::{self, REPLACED};
use crate::connectors::command::run::ProgramEnd;
use crate::connectors::command::settings::CommandOutput;
use crate::connectors::fence::fenced;

/// How many characters of what a program says of its failure the message contains.
const TAIL_CHARS: usize = 600;
/// How much of a line is a summary.
const SUMMARY_CHARS: usize = 160;

/// What the results of one tool are made with.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) declaration: &'a ToolDeclaration,
    pub(crate) program: &'a Path,
    pub(crate) output: CommandOutput,
    pub(crate) empty_exit: &'a [u8],
    pub(crate) retry_exit: &'a [u8],
    pub(crate) max_bytes: usize,
}

impl Reader<'_> {
    /// The result of a program that has ended.
    pub(crate) fn result(&self, ended: &ProgramEnd, scope: &Scope, mask: &Secrets) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let Some(code) = ended.status.code() else {
            if ended.is_cut && self.only_reads() {
                return self.success(ended, scope, mask);
            }
            let message = self.with_tail(format!("was killed by {}", signal(ended)), ended, mask);
            return if self.only_reads() {
                ToolResult::failed(name, title, message)
            } else {
                ToolResult::in_doubt(name, title, message)
            };
        };
        let is_in = |codes: &[u8]| codes.iter().any(|known| i32::from(*known) == code);
        if code == 0 {
            return self.success(ended, scope, mask);
        }
        if is_in(self.empty_exit) {
            return ToolResult::empty(name, title);
        }
        let message = self.with_tail(format!("ended with exit code {code}"), ended, mask);
        if is_in(self.retry_exit) {
            return ToolResult::retryable(name, title, message);
        }
        ToolResult::failed(name, title, message)
    }

    fn only_reads(&self) -> bool {
        self.declaration.effect == Some(Effect::Read)
    }

    fn success(&self, ended: &ProgramEnd, scope: &Scope, mask: &Secrets) -> ToolResult {
        if self.output == CommandOutput::Json {
            match self.json(ended, scope, mask) {
                Ok(result) => return result,
                // What was done was done, whatever is said about it.
                Err(message) if !self.only_reads() => {
                    let mut result = self.text(ended, scope, mask);
                    result.error = Some(message);
                    return result;
                }
                Err(message) => {
                    return ToolResult::failed(&*self.declaration.name, &self.declaration.title, message);
                }
            }
        }
        self.text(ended, scope, mask)
    }

    fn json(&self, ended: &ProgramEnd, scope: &Scope, mask: &Secrets) -> Result<ToolResult, String> {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        if ended.is_cut {
            return Err(format!(
                "its output is longer than {} bytes, so it is not JSON that can be read",
                self.max_bytes
            ));
        }
        if ended.stdout.trim_ascii().is_empty() {
            return Ok(self.silent());
        }
        let text = charset::text(&ended.stdout, None).map_err(|why| format!("its output is {why}"))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| {
            format!("its output is not JSON: {}", crate::connectors::error::one_line(error))
        })?;
        let value = match mask.mask_value(value) {
            Value::Array(rows) if !rows.is_empty() && rows.iter().all(Value::is_object) => {
                return Ok(ToolResult::found(name, title, scope, rows));
            }
            other => other,
        };
        let is_nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if is_nothing {
            return Ok(self.silent());
        }
        let shown = pretty(&value, RENDERED_BYTES);
        let markdown = format!("{}\n\n{}", heading(title, scope), fenced(&shown, "json"));
        Ok(ToolResult::ok(name, summary(&value.to_string()), markdown, value))
    }

    fn text(&self, ended: &ProgramEnd, scope: &Scope, mask: &Secrets) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        // What was done was done, so that a charset that is not known is no failure.
        let (said, why) = charset::shown(&ended.stdout, ended.is_cut);
        let notice = why.map(|why| format!("{REPLACED}: the output is {why}"));
        let text = if ended.is_cut {
            mask.mask_message_by(&clean(&said).0, "[masked]", /*is_cut*/ true)
        } else {
            mask.mask_message(&clean(&said).0)
        };
        let text = text.trim_matches('\n');
        if text.trim().is_empty() {
            return self.silent();
        }
        let mut note = match ended.is_cut {
            true => format!("_Only the first {} bytes are shown; there is more._\n\n", self.max_bytes),
            false => String::new(),
        };
        if let Some(notice) = &notice {
            note.push_str(&format!("_{notice}_\n\n"));
        }
        let markdown = format!("{}\n\n{note}{}", heading(title, scope), fenced(text, ""));
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let said = match (lines.as_slice(), ended.is_cut) {
            ([line], false) => summary(line),
            (lines, false) => format!("{} lines", lines.len()),
            (lines, true) => format!("More than {} lines", lines.len()),
        };
        let data = match self.output {
            CommandOutput::Lines => json!(lines),
            CommandOutput::Text | CommandOutput::Json => json!(text),
        };
        let mut result = ToolResult::ok(name, said, markdown, data);
        result.error = notice;
        result
    }

    /// The result of a program that succeeded and said nothing.
    fn silent(&self) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        if self.only_reads() {
            return ToolResult::empty(name, title);
        }
        let says = "Done, without any output";
        ToolResult::ok(name, says, says, json!({ "exit_code": 0 }))
    }

    /// What happened to the program, and the end of what it said about it.
    fn with_tail(&self, what: String, ended: &ProgramEnd, mask: &Secrets) -> String {
        let program = self.program.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let (said, why) = charset::shown(&ended.stderr, /*is_cut*/ false);
        let text = mask.mask_message(&clean(&said).0);
        let text = text.trim();
        let beyond = text.chars().count().saturating_sub(TAIL_CHARS);
        let tail: String = text.chars().skip(beyond).collect();
        let replaced = why.map(|_| format!(" ({REPLACED})")).unwrap_or_default();
        match (tail.is_empty(), beyond) {
            (true, _) => format!("`{program}` {what}"),
            (false, 0) => format!("`{program}` {what}: {tail}{replaced}"),
            (false, _) => format!("`{program}` {what}: …{tail}{replaced}"),
        }
    }
}

/// The signal in words.
fn signal(ended: &ProgramEnd) -> String {
    let Some(number) = ended.status.signal() else { return "the system".to_owned() };
    let name = match number {
        2 => " (interrupted)",
        6 => " (it aborted itself)",
        9 => " (killed: by hand, or for want of memory)",
        11 => " (it accessed memory that is not its own)",
        13 => " (nobody reads its output)",
        15 => " (terminated)",
        24 => " (its time of the processor was used up)",
        25 => " (its file became too large)",
        31 => " (it made a system call that is forbidden)",
        _ => "",
    };
    format!("signal {number}{name}")
}

fn summary(line: &str) -> String {
    let line = line.trim();
    let end = line.char_indices().nth(SUMMARY_CHARS).map_or(line.len(), |(at, _)| at);
    line.get(..end).unwrap_or_default().to_owned()
}
