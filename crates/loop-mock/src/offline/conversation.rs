//! Conversations with native tools: the stub calls the tools that a text names, and quotes their results.
//!
//! A text names a tool by the tool's name, by every word of that name, or by a value in the format of the tool's only
//! required parameter. The stub looks for parameter values after that name, up to the name of another tool, and
//! otherwise in the whole text: a JSON object, `parameter: value`, a permitted value, a value in the parameter's
//! format, its example, a number, a quoted text. It calls one tool a turn, in the order in which they are offered. No
//! rule depends on a human language.

use std::collections::BTreeSet;

use loop_core::spec::{EndCall, PLAN};
use loop_core::types::{Arguments, ToolCall};
use loop_llm::request::Author;
use loop_llm::{Message, ModelRequest, ToolChoice, ToolDefinition, ToolOutput};
use loop_prompts::anchors::{ENDS_WORK, ITEM, NOT_ACCEPTED, WITH_RESULT};
use serde_json::{Map, Value, json};

use crate::offline::look::said;
use crate::offline::read::{fenced, is_id, is_meant, title};
use crate::offline::schema::{Field, Form, fields};
use crate::offline::shape::Candidates;
use crate::offline::words::{parts, stems};
use crate::offline::write::{in_one_line, quote, rows};

/// Quotation marks: the opening and the closing one.
const QUOTES: [(char, char); 6] = [('"', '"'), ('`', '`'), ('“', '”'), ('„', '“'), ('«', '»'), ('「', '」')];

/// The most bytes of a quotation. Without a limit, an unclosed mark would make the search scan the whole text.
const QUOTED_BYTES: usize = 1 << 10;
/// The most bytes of a text that are read.
const TEXT_BYTES: usize = 64 << 10;

/// The reply of the stub: calls, or a text.
#[derive(Debug, Default)]
pub(super) struct StubReply {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

/// The stub's turn in a conversation.
pub(super) fn reply(request: &ModelRequest) -> StubReply {
    let conversation = Conversation::of(request);
    let call = match &request.tool_choice {
        ToolChoice::None => None,
        ToolChoice::Named(name) => conversation.forced(|tool| *tool.name == **name),
        ToolChoice::Auto | ToolChoice::Prefer => conversation.planned(),
        ToolChoice::Required | ToolChoice::AnyOf(_) => {
            conversation.planned().or_else(|| conversation.forced(|_| true))
        }
    };
    let Some(call) = call else { return StubReply { text: conversation.answer(), calls: Vec::new() } };
    let before: usize = request.messages.iter().map(Message::calls).map(<[ToolCall]>::len).sum();
    let call = ToolCall {
        id: format!("call_{}", before + 1).into(),
        name: call.tool.into(),
        arguments: Arguments::from(Value::Object(call.arguments).to_string()),
    };
    StubReply { text: String::new(), calls: vec![call] }
}

/// A call that the text asks for.
#[derive(Debug, PartialEq)]
struct WantedCall {
    tool: String,
    arguments: Map<String, Value>,
}

/// A call that was made for the text, with its result.
#[derive(Debug)]
struct MadeCall<'a> {
    tool: &'a str,
    arguments: &'a Map<String, Value>,
    result: &'a ToolOutput,
}

/// A tool with its fields.
#[derive(Debug)]
struct Tool<'a> {
    name: &'a str,
    fields: Vec<Field<'a>>,
}

/// The content of a request.
#[derive(Debug)]
struct Conversation<'a> {
    /// The last message of the user.
    text: String,
    /// The messages of the loop after that, which may demand tools by name.
    demand: &'a str,
    tools: Vec<Tool<'a>>,
    made: Vec<MadeCall<'a>>,
    /// The name of the tool that takes the result, and of the one that ends the work after it.
    output: Option<&'a str>,
    submit: Option<&'a str>,
}

impl<'a> Conversation<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let is_offered = |spec: &&ToolDefinition| match &request.tool_choice {
            ToolChoice::AnyOf(names) => names.contains(&spec.name),
            _ => true,
        };
        // A stub neither refuses the work nor hands it over.
        let is_own = |name: &str| EndCall::named(name).is_some() || name == PLAN;
        let tools = request.tools.iter().filter(|spec| !is_own(&spec.name));
        let tools: Vec<Tool<'_>> = tools
            .filter(is_offered)
            .map(|spec| Tool { name: &spec.name, fields: fields(&spec.parameters) })
            .collect();
        let is_users = |message: &Message| match message {
            Message::User { text, author, .. } => *author == Author::User && !text.contains(NOT_ACCEPTED),
            Message::Assistant(_) | Message::Tool { .. } | Message::Operator { .. } => false,
        };
        let at = request.messages.iter().rposition(is_users).unwrap_or(0);
        let later = request.messages.get(at..).unwrap_or_default();
        let mut demand = later.iter().skip(1).filter(|message| matches!(message, Message::User { .. }));
        let ends = |mark: &str| {
            let is_named = |name: &&str| request.system.contains(&format!("`{name}{mark}"));
            tools.iter().map(|tool| tool.name).find(is_named)
        };
        Self {
            text: later.first().map(|message| stated(message.text())).unwrap_or_default(),
            demand: demand.next_back().map_or("", Message::text),
            made: made(later),
            output: ends(WITH_RESULT),
            submit: ends(ENDS_WORK),
            tools,
        }
    }

    /// The next call: the first one that the text names and that was not made, then the output, then the call that ends
    /// the work.
    fn planned(&self) -> Option<WantedCall> {
        let helpers = self.tools.iter().filter(|tool| ![self.output, self.submit].contains(&Some(tool.name)));
        let is_made = |wanted: &WantedCall| {
            self.made.iter().any(|made| made.tool == wanted.tool && *made.arguments == wanted.arguments)
        };
        let mut named = helpers.filter(|tool| self.names(tool)).filter_map(|tool| self.filled(tool).ok());
        if let Some(wanted) = named.find(|wanted| !is_made(wanted)) {
            return Some(wanted);
        }
        let is_end = |made: &&MadeCall<'_>| [self.output, self.submit].contains(&Some(made.tool));
        let next = match self.made.iter().rfind(is_end) {
            None => self.output,
            Some(made) if Some(made.tool) == self.output && !made.result.is_error => self.submit,
            // It has nothing else to give.
            Some(_) => None,
        };
        next.and_then(|next| self.forced(|tool| tool.name == next))
    }

    /// Whether the text, or a demand of the loop, names a tool.
    fn names(&self, tool: &Tool<'_>) -> bool {
        let by_form = || {
            let mut required = tool.fields.iter().filter(|field| field.required);
            let only = required.next().filter(|_| required.next().is_none());
            only.is_some_and(|field| of_form(&self.text, field, Some(tool.name)).is_some())
        };
        let by_words = || {
            let words: BTreeSet<String> = words(&self.text).map(str::to_lowercase).collect();
            let named = parts(tool.name);
            !named.is_empty() && named.iter().all(|part| words.contains(part))
        };
        behind(&self.text, tool.name).is_some()
            || behind(self.demand, tool.name).is_some()
            || by_words()
            || by_form()
    }

    /// A call of a tool, with empty values for fields that the text does not give.
    fn forced(&self, is_it: impl FnMut(&&Tool<'a>) -> bool) -> Option<WantedCall> {
        let tool = self.tools.iter().find(is_it)?;
        Some(self.filled(tool).unwrap_or_else(|(mut wanted, missing)| {
            wanted.arguments.extend(missing.iter().map(|it| (it.name.to_owned(), it.empty())));
            wanted
        }))
    }

    /// A call of a tool with the values in the text and in the results.
    ///
    /// # Errors
    /// The values that were found, and the required fields without a value.
    fn filled<'t>(&self, tool: &'t Tool<'a>) -> Result<WantedCall, (WantedCall, Vec<&'t Field<'a>>)> {
        let after = self.own_part(tool);
        let text = after.unwrap_or(&self.text);
        let mut wanted = WantedCall { tool: tool.name.to_owned(), arguments: Map::new() };
        let has_all = |written: &Map<String, Value>| {
            tool.fields.iter().all(|field| !field.required || written.contains_key(field.name))
        };
        if let Some(written) = after.and_then(object).filter(has_all) {
            wanted.arguments = written;
            return Ok(wanted);
        }
        // What a result says fills the result of the run, and a tool that is demanded.
        let is_demanded = Some(tool.name) == self.output || behind(self.demand, tool.name).is_some();
        let (mut numbers, quoted) = (numbers(text).into_iter(), quoted(text));
        let mut texts = quoted.iter();
        let mut missing = Vec::new();
        // What is behind the tool's name is meant for it.
        let unnamed = after.is_none().then_some(tool.name);
        for field in &tool.fields {
            let in_order = || match field.form {
                Form::Integer | Form::Number if field.choices.is_empty() => {
                    let is_own = |number: &&str| {
                        !is_id(field.name)
                            || unnamed.is_none_or(|tool| is_meant(text, number, field.name, tool))
                    };
                    numbers.by_ref().filter(is_own).find_map(|number| field.cast(number))
                }
                Form::Text if field.choices.is_empty() => texts.next().map(|text| json!(text)),
                _ => None,
            };
            let known = || self.reported(field).filter(|_| is_demanded).or_else(|| field.default.cloned());
            let value = stands_in(text, field, unnamed);
            match if field.required { value.or_else(in_order).or_else(known) } else { value } {
                Some(value) => _ = wanted.arguments.insert(field.name.to_owned(), value),
                None if field.required => missing.push(field),
                None => {}
            }
        }
        if let [Field { name, form: Form::Text, choices, .. }] = missing.as_slice()
            && let Some(rest) = self.rest(&wanted, after).filter(|_| choices.is_empty() && quoted.is_empty())
        {
            wanted.arguments.insert((*name).to_owned(), json!(rest));
            missing.clear();
        }
        if missing.is_empty() { Ok(wanted) } else { Err((wanted, missing)) }
    }

    /// The text after the name of a tool, up to the name of another one.
    fn own_part(&self, tool: &Tool<'_>) -> Option<&str> {
        let after = behind(&self.text, tool.name)?;
        let others = self.tools.iter().filter_map(|other| behind(after, other.name).map(|it| (other, it)));
        let ends = others.map(|(other, rest)| after.len() - rest.len() - other.name.len());
        after.get(..ends.min().unwrap_or(after.len()))
    }

    /// The value of a field in the results, the latest first.
    fn reported(&self, field: &Field<'_>) -> Option<Value> {
        let results = self.made.iter().rev().filter(|made| !made.result.is_error);
        results.map(|made| fenced(&made.result.text).unwrap_or(&made.result.text)).find_map(|text| {
            let json = serde_json::from_str::<Value>(text.trim()).ok();
            let first = json.as_ref().and_then(|json| json.as_array().map_or(Some(json), |all| all.first()));
            let cell = || {
                let cells = rows(text).into_iter().flatten();
                cells.filter(|(column, _)| column == field.name).map(|(_, cell)| json!(cell)).next()
            };
            first
                .and_then(|first| first.get(field.name))
                .cloned()
                .or_else(cell)
                .and_then(|it| field.takes(&it))
        })
    }

    /// The text for a call without quotation marks: the text after the tool's name, or all words except that name.
    /// Words that are other values are left out.
    fn rest(&self, wanted: &WantedCall, after: Option<&str>) -> Option<String> {
        let mut used: Vec<String> = wanted.arguments.values().map(text_of).collect();
        if after.is_none() {
            used.extend(parts(&wanted.tool));
        }
        let text = after.map_or(&*self.text, |after| after.lines().next().unwrap_or_default());
        let is_free = |word: &&str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            !used.contains(&word)
        };
        let rest = text.split_whitespace().filter(is_free).collect::<Vec<_>>().join(" ");
        let rest = quote(rest.trim_matches(|c: char| c.is_whitespace() || ".,:;!?".contains(c)));
        (!rest.is_empty()).then_some(rest)
    }

    /// The results, a line each, and the tools that lack a value. If there are neither, a description of what the stub
    /// does.
    fn answer(&self) -> String {
        let about = stems(&self.text);
        let results = self.made.iter().map(|made| {
            let text = fenced(&made.result.text).unwrap_or(&made.result.text);
            match (made.result.is_error, in_one_line(text, &about)) {
                (true, line) => format!("`{}` did not work: {line}", made.tool),
                (false, line) if line.trim().is_empty() => format!("`{}` returned nothing.", made.tool),
                (false, line) => format!("`{}`: {line}", made.tool),
            }
        });
        let lacking = self.tools.iter().filter(|tool| self.names(tool)).filter_map(|tool| {
            let (_, missing) = self.filled(tool).err()?;
            let missing: Vec<String> = missing.iter().map(|field| format!("`{}`", field.name)).collect();
            Some(format!("`{}` was not called: the text has no value for {}.", tool.name, missing.join(", ")))
        });
        let lines: Vec<String> = results.chain(lacking).collect();
        if !lines.is_empty() {
            return lines.join("\n");
        }
        let stub = "This is Loopgate's offline stub. It is not an AI: it";
        let Some(first) = self.tools.first() else { return format!("{stub} has nothing to answer with.") };
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name).collect();
        let fields = first.fields.iter().map(|field| (field.name.to_owned(), field.empty()));
        format!(
            "{stub} calls a tool that the text names, with values that the text has, for example `{} {}`. Its tools: \
             {}.",
            first.name,
            Value::Object(fields.collect()),
            names.join(", ")
        )
    }
}

/// The text of a user's message: title and text of a work item, or a line for each member of JSON.
fn stated(text: &str) -> String {
    let body = fenced(text).unwrap_or(text);
    let body = body.get(..body.floor_char_boundary(TEXT_BYTES)).unwrap_or(body);
    let title = text.lines().find(|line| line.starts_with(ITEM)).and_then(title);
    let title = title.filter(|title| fenced(text).is_some() && !body.contains(title)).unwrap_or_default();
    let members = serde_json::from_str::<Map<String, Value>>(body).ok().map(|members| {
        let line = |(key, value): (&String, &Value)| format!("{key}: {}", text_of(value));
        members.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    format!("{title}\n{}", members.as_deref().unwrap_or(body))
}

/// The calls in these messages that have a result.
fn made(messages: &[Message]) -> Vec<MadeCall<'_>> {
    let results: Vec<&ToolOutput> = messages
        .iter()
        .flat_map(|message| match message {
            Message::Tool { results } => results.as_slice(),
            Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => &[],
        })
        .collect();
    let calls = messages.iter().flat_map(Message::calls);
    calls
        .filter_map(|call| {
            let result = results.iter().find(|result| result.call == call.id)?;
            Some(MadeCall { tool: &call.name, arguments: call.arguments.object().ok()?, result })
        })
        .collect()
}

/// A value as text, without marks.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The JSON object at the beginning of a text.
fn object(text: &str) -> Option<Map<String, Value>> {
    let text = text.trim_start();
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    values.next().filter(|_| text.starts_with('{'))?.ok()
}

/// The text after a name that occurs as a word.
fn behind<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).filter(|_| !name.is_empty()).find_map(|(at, _)| {
        let (before, after) = (text.get(..at)?, text.get(at + name.len()..)?);
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        is_whole.then_some(after)
    })
}

/// The value of a field in a text, unless another field could have it too.
fn stands_in(text: &str, field: &Field<'_>, tool: Option<&str>) -> Option<Value> {
    let example = || field.example.as_ref().filter(|example| behind(text, example).is_some());
    labelled(text, field)
        .or_else(|| said(text, &field.choices))
        .or_else(|| of_form(text, field, tool))
        .or_else(|| field.cast(example()?))
}

/// The first value in a text that has the format of a field. If a tool is given, the value must be meant for it.
fn of_form(text: &str, field: &Field<'_>, tool: Option<&str>) -> Option<Value> {
    let found = Candidates::of(text, /*with_paths*/ true).find(&field.shapes);
    let is_own = |name: &&&str| tool.is_none_or(|tool| is_meant(text, name, field.name, tool));
    found.iter().find(is_own).and_then(|name| field.cast(name))
}

/// The value after `parameter:` or `parameter =`: a quotation, or the text up to the next comma, semicolon or line.
fn labelled(text: &str, field: &Field<'_>) -> Option<Value> {
    let after = behind(text, field.name)?.trim_start_matches(' ');
    let value = after.strip_prefix([':', '='])?.trim_start_matches(' ');
    let value = match value.chars().next().and_then(|open| quotation(value, open)) {
        Some((inner, _)) => inner,
        None => value.split([',', ';', '\n']).next()?.trim(),
    };
    field.takes(&json!(value)).filter(|_| !value.is_empty())
}

/// The quotation at the beginning of a text, and the rest.
fn quotation(text: &str, open: char) -> Option<(&str, &str)> {
    QUOTES.iter().filter(|(mark, _)| *mark == open).find_map(|(open, close)| {
        let near = text.get(open.len_utf8()..text.floor_char_boundary(QUOTED_BYTES))?;
        let (inner, _) = near.split_once(*close)?;
        let after = text.get(open.len_utf8() + inner.len() + close.len_utf8()..)?;
        (!inner.trim().is_empty()).then_some((inner.trim(), after))
    })
}

fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.chars().next() {
        let next = quotation(rest, open);
        found.extend(next.map(|(inner, _)| inner));
        rest = next.map_or_else(|| rest.get(open.len_utf8()..).unwrap_or_default(), |(_, after)| after);
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The words of a text that are numbers.
fn numbers(text: &str) -> Vec<&str> {
    let bare =
        text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-'));
    bare.filter(|word| word.parse::<f64>().is_ok_and(f64::is_finite)).collect()
}
