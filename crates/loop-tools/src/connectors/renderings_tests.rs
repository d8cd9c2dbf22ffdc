//! Whatever data comes from outside, every rendering of it is bounded, and takes time in proportion to the data.
//!
//! Issue 40, H1. Eight times the data may take about eight times the time of this thread; what grows with the square of the
//! data takes 64 times as long.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use crate::smart_rows::RowFilter;
use crate::table::RENDERED_BYTES;
use crate::{Credentials, Registry, Smart, ToolContext, ToolDeclaration, ToolResult};
use loop_core::secrets::Secrets;
use loop_core::types::{Effect, Scope, Status};
use serde_json::{Map, Value, json};

use crate::connectors::command::output::Reader;
use crate::connectors::command::run::ProgramEnd;
use crate::connectors::command::settings::CommandOutput;
use crate::connectors::http::answer::ResultFormat;
use crate::connectors::http::template::Template;
use crate::connectors::mcp::content::{CallContent, of_call};
use crate::connectors::sql::rows::{ChangedRows, Rows, SqlResult, result};

/// Data of about `n` times 20 bytes, in a form of its own.
type Form = (&'static str, fn(usize) -> Value);

fn object(members: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(members.collect::<Map<_, _>>())
}

fn rows(n: usize, row: impl Fn(usize) -> Value) -> Value {
    (0..n).map(row).collect()
}

const FORMS: [Form; 16] = [
    ("rows with a member of their own", |n| rows(n, |at| json!({ format!("key_{at}"): at }))),
    ("rows with one member of their own", |n| {
        rows(n, |at| json!({ "id": at, "k".to_owned() + &at.to_string(): 1 }))
    }),
    ("many rows without members", |n| rows(4 * n, |_| json!({}))),
    ("few rows of many members each", |n| {
        rows(8, |_| object((0..n / 8).map(|at| (format!("k{at}"), at.into()))))
    }),
    ("one object of many members", |n| object((0..n).map(|at| (format!("k{at}"), at.into())))),
    ("members with long names", |n| rows(20, |at| json!({ at.to_string() + &"k".repeat(n): 1 }))),
    ("one long text", |n| json!("x ".repeat(10 * n))),
    ("rows of long texts", |n| rows(20, |_| json!({ "text": "a|b\n".repeat(n / 4) }))),
    ("numbers", |n| rows(8 * n, |_| json!(1))),
    ("deep", |n| (0..100).fold(json!(vec![1; 8 * n]), |inner, _| json!({ "a": [inner] }))),
    ("a list that is alone", |n| json!({ "items": rows(n, |at| json!({ "id": at })) })),
    ("lists within rows", |n| rows(n / 8, |at| json!({ "id": at, "tags": [[at], [{ "a": [at, "|"] }]] }))),
    ("terminal commands", |n| json!("\u{1b}]\u{1b}[1".repeat(4 * n))),
    ("commands without an end", |n| json!(format!("\u{1b}]{}", "\u{9b}1;\u{1b}P".repeat(3 * n)))),
    ("what is not seen", |n| rows(n, |_| json!({ "a": "\u{202e}\u{200b}\u{e0041}\r" }))),
    ("marks of Markdown", |n| rows(n, |_| json!({ "a": "`**|[E1]\r\n```" }))),
];

fn declaration() -> ToolDeclaration {
    ToolDeclaration::new("x").title("Things").effect(Effect::Read)
}

fn mask() -> Secrets {
    Secrets::of(["s3cret-1", "aaaaaaaa"]).with_short()
}

/// What each kind of tool makes of a JSON value that came from outside.
fn renderings(value: &Value) -> Vec<(&'static str, ToolResult)> {
    let (scope, effect) = (Scope::default(), Some(Effect::Read));
    let shown = |line: Option<&str>| {
        let line = line.map(|line| Template::read(line, &mut |_| Ok(())).unwrap());
        let value = mask().mask_value(value.clone());
        ResultFormat { select: None, line }.result("x", "Things", &scope, effect, value, Some("more"))
    };
    let answered =
        |answer: Value| of_call(&declaration(), &scope, CallContent::read(answer).unwrap(), &mask());
    let ended = |output: CommandOutput, stdout: Vec<u8>| {
        let declaration = declaration();
        let reader = Reader {
            declaration: &declaration,
            program: Path::new("/bin/x"),
            output,
            empty_exit: &[],
            retry_exit: &[],
            max_bytes: 64 << 20,
        };
        let ended = ProgramEnd { status: ExitStatus::from_raw(0), stdout, is_cut: false, stderr: Vec::new() };
        reader.result(&ended, &scope, &mask())
    };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let queried = |changed: Option<u64>| {
        let (names, mut found) = ([String::from("a"), String::from("b")], Rows::default());
        for row in value.as_array().unwrap_or(&vec![value.clone()]) {
            if !found.is_full() {
                found.push(names.iter().zip([row.clone(), json!(1)]));
            }
        }
        let done = match changed {
            None => SqlResult::Found(found),
            Some(count) => SqlResult::Changed(ChangedRows { count, rows: found }),
        };
        result(&declaration(), &scope, &names, Ok(done))
    };
    vec![
        ("http", shown(None)),
        ("http with lines", shown(Some("- {/id} {/a}: {}"))),
        ("mcp, structured", answered(json!({ "content": [], "structuredContent": value }))),
        ("mcp, text", answered(json!({ "content": [{ "type": "text", "text": text }] }))),
        ("mcp, failed", answered(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))),
        ("command, JSON", ended(CommandOutput::Json, value.to_string().into())),
        ("command, lines", ended(CommandOutput::Lines, text.clone().into())),
        ("command, text", ended(CommandOutput::Text, text.into())),
        ("sql", queried(None)),
        ("sql, changed", queried(Some(7))),
    ]
}

/// Nanoseconds of this thread.
fn ns() -> u64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    ran.split(' ').next().unwrap().parse().unwrap()
}

/// What the model reads of a result, and of its rows where a tool chooses among them.
fn observed(result: &ToolResult) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut shown = 0;
    for is_smart in [false, true] {
        let result = result.clone();
        let tool = Registry::builder()
            .tool_fn(declaration(), move |_, _, _| std::future::ready(result.clone()))
            .build()
            .unwrap();
        let registry = match is_smart {
            false => tool,
            true => {
                let filter = RowFilter { fallback: 1_000_000, ..RowFilter::default() };
                Registry::builder().tool(Smart::rows(tool.tool("x").unwrap(), filter)).build().unwrap()
            }
        };
        let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
        let seen =
            registry.dispatch("x", &json!({}), context, &Credentials::none(), 600_000, 4 * RENDERED_BYTES);
        let seen = runtime.block_on(seen);
        assert!(matches!(seen.status, Status::Ok | Status::Empty | Status::PermanentError), "{seen:?}");
        shown = shown.max(seen.text().len());
    }
    shown
}

#[test]
fn every_rendering_is_bounded_and_takes_time_in_proportion_to_the_data() {
    const N: usize = 160;
    for (form, data) in FORMS {
        let measured = |n: usize| {
            let value = data(n);
            let bytes = value.to_string().len();
            let before = ns();
            let mut times = Vec::new();
            for (kind, result) in renderings(&value) {
                let rendered = ns();
                let shown = observed(&result).max(result.markdown.len());
                // A table has 3 bytes for each of 40 columns, and indented JSON has 4 times its own.
                assert!(
                    shown <= 8 * bytes + 1_000 || shown <= RENDERED_BYTES + 130 + bytes,
                    "{form}, {kind}: {shown} of {bytes}"
                );
                times.push((kind, ns() - rendered));
            }
            (ns() - before, times)
        };
        let _ = measured(N / 4);
        let (few, many) = (measured(N), measured(8 * N));
        assert!(many.0 < 24 * few.0 + 100_000_000, "{form}: {few:?}, then {many:?}");
    }
}

#[test]
fn a_hundred_thousand_bytes_of_distinct_members_become_a_table_of_forty_columns() {
    // Issue 40, H1: it took 643 MB.
    let value = rows(8_000, |at| json!({ format!("k{at:05}"): 1 }));
    for (kind, result) in
        renderings(&value).into_iter().filter(|(kind, _)| !kind.contains("li") && !kind.contains("te"))
    {
        let note = "\n\n_Without a column, 7960 members: k00040, k00041,";
        let named = result.markdown.contains(note) || !result.markdown.contains("k00000 |");
        assert!(
            named && result.markdown.len() < RENDERED_BYTES + 200,
            "{kind}: {:?}",
            result.markdown.get(..300)
        );
    }
}
