//! A conversation with native tools: which calls come next, and what is said in the end.
//!
//! It is not an AI here either. A request is read for verbs, names, numbers and `field to value`; a tool fits by its name,
//! its description and the forms of its parameters; what a result tells is read as records with an `id`. From that
//! follow read-only calls, then changes, then the tool that takes the result, each call once, and last an answer that counts
//! and quotes.

mod fill;
mod history;
mod records;
mod schema;
mod tell;
mod user_request;

use std::cmp::Reverse;

use loop_llm::{Arguments, Message, ModelRequest, ToolCall, ToolChoice};
use serde_json::{Map, Value};

use crate::offline::words::{overlap, parts};

use fill::{Filled, Filler};
use history::{Conversation, Target, Tool, plain};
use records::Record;
use schema::{Field, Role};
use user_request::Kind;

use super::MAX_CALLS;

/// What the stub says: calls, or a text.
#[derive(Debug, Default)]
pub(super) struct StubReply {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

/// Its turn in a conversation.
pub(super) fn reply(request: &ModelRequest) -> StubReply {
    let conversation = Conversation::of(request);
    let calls = match &request.tool_choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Named(name) => {
            conversation.tool(name).map(|tool| forced(&conversation, tool)).into_iter().collect()
        }
        ToolChoice::Auto => planned(&conversation),
        ToolChoice::Required | ToolChoice::Prefer | ToolChoice::AnyOf(_) => {
            let planned = planned(&conversation);
            if planned.is_empty() { any(&conversation).into_iter().collect() } else { planned }
        }
    };
    let mut once: Vec<Wanted> = Vec::new();
    for call in calls {
        if !once.contains(&call) {
            once.push(call);
        }
    }
    let mut calls = once;
    calls.truncate(if request.one_call_at_a_time { 1 } else { MAX_CALLS });
    if calls.is_empty() {
        return StubReply { text: tell::answer(&conversation), calls: Vec::new() };
    }
    let before: usize = request.messages.iter().map(Message::calls).map(<[ToolCall]>::len).sum();
    let calls = calls.into_iter().zip(before + 1..).map(|(call, nth)| {
        let text: String = Value::Object(call.arguments).to_string();
        ToolCall {
            id: format!("call_{nth}").into(),
            name: call.tool.into(),
            arguments: Arguments::from(text),
        }
    });
    StubReply { text: String::new(), calls: calls.collect() }
}

/// A call that is wanted.
#[derive(Debug, PartialEq)]
struct Wanted {
    tool: String,
    arguments: Map<String, Value>,
}

fn planned(conversation: &Conversation<'_>) -> Vec<Wanted> {
    if let Some(submit) = conversation.submit.filter(|_| conversation.is_to_submit()) {
        return vec![Wanted { tool: submit.to_owned(), arguments: Map::new() }];
    }
    let demanded = conversation.demanded.iter().filter_map(|name| conversation.tool(name));
    let demanded: Vec<Wanted> = demanded
        .map(|tool| undecided(conversation, tool).unwrap_or_else(|| forced(conversation, tool)))
        .filter(|wanted| conversation.same(&wanted.tool, &wanted.arguments).is_none())
        .collect();
    if !demanded.is_empty() {
        return demanded;
    }
    let changes: Vec<Kind> = conversation
        .user_request
        .asks
        .iter()
        .copied()
        .filter(|kind| !matches!(kind, Kind::Look | Kind::Other))
        .collect();
    let looks =
        conversation.user_request.asks_for(Kind::Look) || changes.is_empty() || conversation.output.is_some();
    let mut calls = if looks { reads(conversation) } else { Vec::new() };
    if !calls.is_empty() {
        return calls;
    }
    if let Some(output) = conversation.output.and_then(|name| conversation.tool(name)) {
        let wanted = forced(conversation, output);
        return if conversation.same(&wanted.tool, &wanted.arguments).is_some() {
            Vec::new()
        } else {
            vec![wanted]
        };
    }
    for kind in changes {
        if let Some(tool) = conversation.changing(kind) {
            calls = change(conversation, tool);
        }
        if !calls.is_empty() {
            break;
        }
    }
    calls
}

/// The question to a person, where the results give a value that a tool does not take: the stub does not judge. `None`: they
/// give none, it was asked, or no tool asks.
fn undecided(conversation: &Conversation<'_>, tool: &Tool<'_>) -> Option<Wanted> {
    let given = |field: &Field<'_>| conversation.stated(field.name).map(plain);
    let is_other = |field: &&Field<'_>| {
        let choices = || field.choices.iter().map(|choice| plain(choice));
        given(field).is_some_and(|given| choices().count() > 0 && choices().all(|choice| choice != given))
    };
    let field = tool.fields.iter().find(is_other)?;
    let asks =
        |tool: &&Tool<'_>| parts(tool.name).iter().any(|part| ["escalate", "ask"].contains(&part.as_str()));
    let ask = conversation.tools.iter().find(asks)?;
    let given = given(field)?;
    let text =
        format!("The results give `{given}` as the {}. A person decides: what is it to be?", field.name);
    let first = ask.fields.iter().find(|field| field.required)?;
    let arguments = Map::from_iter([(first.name.to_owned(), Value::String(text))]);
    let wanted = Wanted { tool: ask.name.to_owned(), arguments };
    conversation.same(&wanted.tool, &wanted.arguments).is_none().then_some(wanted)
}

/// What leads to a change: the record that it is of, what else is known of that, and the change.
fn change(conversation: &Conversation<'_>, tool: &Tool<'_>) -> Vec<Wanted> {
    let mut calls = Vec::new();
    let subjects: Vec<Option<&str>> = match tool.kind {
        Kind::Update | Kind::Delete if conversation.user_request.subjects().next().is_some() => {
            conversation.user_request.subjects().map(Some).collect()
        }
        _ => vec![None],
    };
    for subject in subjects {
        let mut filler = Filler { conversation, tool, subject, record: None, is_output: false };
        let is_reported = !tool.needs_id() || filler.fill().missing.is_empty();
        let target = conversation.target(subject);
        if let Target::One { record, tool: source } = target {
            filler.record = Some(record);
            let details = conversation.reads().filter(|detail| detail.needs_id());
            let of_same = details.filter(|detail| is_same_noun(conversation, detail, source));
            let details: Vec<Wanted> =
                of_same.filter_map(|detail| by_id(conversation, detail, record)).collect();
            if !details.is_empty() && !is_reported {
                calls.extend(details);
                continue;
            }
        } else if !is_reported {
            if matches!(target, Target::None) {
                calls.extend(reads(conversation));
            }
            continue;
        }
        let Filled { arguments, missing } = filler.fill();
        let wanted = Wanted { tool: tool.name.to_owned(), arguments };
        let changes = tool.kind != Kind::Update || is_new(tool, &wanted.arguments, filler.record);
        if missing.is_empty() && changes && conversation.same(tool.name, &wanted.arguments).is_none() {
            calls.push(wanted);
        }
    }
    calls
}

/// Whether an update says anything that is not so already.
fn is_new(tool: &Tool<'_>, arguments: &Map<String, Value>, record: Option<&Record>) -> bool {
    let is_id = |name: &str| tool.fields.iter().any(|field| field.name == name && field.role == Role::Id);
    arguments.iter().any(|(name, value)| {
        !is_id(name) && record.and_then(|record| record.get(name)).is_none_or(|known| known != value)
    })
}

/// Read-only calls that would help and were not made: by names and words first, then by the ids that came of them.
fn reads(conversation: &Conversation<'_>) -> Vec<Wanted> {
    let mut calls: Vec<Wanted> = Vec::new();
    let mut want = |wanted: Wanted| {
        if !calls.contains(&wanted) && conversation.same(&wanted.tool, &wanted.arguments).is_none() {
            calls.push(wanted);
        }
    };
    let subjects: Vec<Option<&str>> = match conversation.user_request.subjects().next() {
        Some(_) => conversation.user_request.subjects().map(Some).collect(),
        None => vec![None],
    };
    // What the request itself spells out: an id, or a name of the form that a tool's examples have.
    let is_spelled = |tool: &&Tool<'_>| {
        tool.fields.iter().any(|field| field.required && (field.role == Role::Id || !field.shapes.is_empty()))
    };
    let mut is_spelled_out = false;
    for tool in conversation.reads().filter(is_spelled) {
        let filled = Filler { conversation, tool, subject: None, record: None, is_output: false }.fill();
        if filled.missing.is_empty() {
            is_spelled_out = true;
            want(Wanted { tool: tool.name.to_owned(), arguments: filled.arguments });
        }
    }
    for subject in &subjects {
        if subject.is_none() && is_spelled_out {
            continue;
        }
        for (tool, arguments) in candidates(conversation, *subject) {
            match conversation.same(tool.name, &arguments) {
                // It found nothing, so the next one may.
                Some(made) if !made.is_found() => {}
                Some(_) => break,
                None => {
                    want(Wanted { tool: tool.name.to_owned(), arguments });
                    break;
                }
            }
        }
    }
    if calls.is_empty() {
        for subject in subjects {
            calls.extend(follow_ups(conversation, subject));
        }
    }
    calls
}

/// Tools that look up a subject, or without one what the words say, the most fitting first.
fn candidates<'t>(
    conversation: &'t Conversation<'_>,
    subject: Option<&'t str>,
) -> Vec<(&'t Tool<'t>, Map<String, Value>)> {
    let mut scored: Vec<(usize, &Tool<'_>, Map<String, Value>)> = Vec::new();
    for tool in conversation.reads().filter(|tool| !tool.needs_id()) {
        let Filled { arguments, missing } =
            Filler { conversation, tool, subject, record: None, is_output: false }.fill();
        let takes = |role: Role| {
            tool.fields.iter().any(|field| field.role == role && arguments.contains_key(field.name))
        };
        let names = [Role::Name, Role::Company, Role::Mail, Role::Place].into_iter().any(takes);
        let relevance = conversation.relevance(tool);
        let fits = match (subject, tool.kind) {
            (_, Kind::Other) => relevance > 0,
            (Some(_), _) => names || takes(Role::Query) || relevance > 0,
            (None, _) => relevance > 0 || (names && conversation.user_request.asks_for(Kind::Look)),
        };
        if missing.is_empty() && fits {
            let score = relevance + if names { 2 } else { usize::from(takes(Role::Query)) };
            scored.push((score, tool, arguments));
        }
    }
    scored.sort_by_key(|(score, _, _)| Reverse(*score));
    scored.into_iter().map(|(_, tool, arguments)| (tool, arguments)).collect()
}

/// What can be looked up of a record that was found: things of it that are asked for, or all of it.
fn follow_ups(conversation: &Conversation<'_>, subject: Option<&str>) -> Vec<Wanted> {
    let Target::One { record, tool: source } = conversation.target(subject) else {
        return Vec::new();
    };
    let details = conversation.output.is_some()
        || ["detail", "details", "profile", "everything", "full"]
            .iter()
            .any(|word| conversation.user_request.says(word))
        || conversation.user_request.belongings().iter().any(|wanted| record.about(wanted).is_none());
    let tools = conversation.reads().filter(|tool| tool.needs_id());
    let fitting = tools.filter(|tool| {
        if is_same_noun(conversation, tool, source) {
            details
        } else {
            overlap(&tool.nouns, &conversation.user_request.stems) > 0
        }
    });
    fitting.filter_map(|tool| by_id(conversation, tool, record)).collect()
}

/// The call of a tool for one record; `None` where it was made, or needs more.
fn by_id(conversation: &Conversation<'_>, tool: &Tool<'_>, record: &Record) -> Option<Wanted> {
    let filled = Filler { conversation, tool, subject: None, record: Some(record), is_output: false }.fill();
    let is_open = filled.missing.is_empty() && conversation.same(tool.name, &filled.arguments).is_none();
    is_open.then(|| Wanted { tool: tool.name.to_owned(), arguments: filled.arguments })
}

fn is_same_noun(conversation: &Conversation<'_>, tool: &Tool<'_>, source: &str) -> bool {
    conversation.tool(source).is_some_and(|source| source.noun == tool.noun)
}

/// A call that has to be made, with empty values for what nothing says.
fn forced(conversation: &Conversation<'_>, tool: &Tool<'_>) -> Wanted {
    let subject = conversation.user_request.subjects().next();
    let record = match conversation.target(subject) {
        Target::One { record, .. } => Some(record),
        Target::Many(_) | Target::None => None,
    };
    let is_demanded = conversation.demanded.contains(&tool.name);
    let is_output = Some(tool.name) == conversation.output || !tool.is_read() || is_demanded;
    let arguments = Filler { conversation, tool, subject, record, is_output }.forced();
    Wanted { tool: tool.name.to_owned(), arguments }
}

/// The call that is made where one has to be: the result, or the most fitting read-only call.
fn any(conversation: &Conversation<'_>) -> Option<Wanted> {
    let output = conversation.output.and_then(|name| conversation.tool(name));
    // Of equals the first one.
    let look_up = || conversation.reads().rev().max_by_key(|tool| conversation.relevance(tool));
    let tool = output.or_else(look_up).or_else(|| conversation.tools.first())?;
    Some(forced(conversation, tool))
}
