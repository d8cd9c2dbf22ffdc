//! A request of a conversation as a model would read it: the command, the tools, the calls so far and what they told.

use std::collections::BTreeSet;

use loop_core::EndCall;
use loop_llm::{Message, ModelRequest, ToolChoice, ToolDefinition, ToolOutput};
use loop_prompts::anchors::{DEMANDED, ITEM, NOT_ACCEPTED};
use serde_json::{Map, Value};

use super::records::{self, Record, Reported};
use super::schema::{Field, Role, fields};
use super::user_request::{Kind, Stands, UserRequest, kind_of};
use crate::offline::read::{fenced, title};
use crate::offline::words::{overlap, parts, stem, stems};

/// Words by which a tool says that it takes the end result, or that it ends.
const FINAL: &str = "output submit final";

/// Words of a tool's name behind which no noun stands.
const BEHIND_NOUN: [&str; 6] = ["by", "for", "with", "to", "from", "in"];

/// What a request says.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub(super) user_request: UserRequest,
    pub(super) tools: Vec<Tool<'a>>,
    pub(super) made: Vec<Made<'a>>,
    /// The name of the tool that takes the result.
    pub(super) output: Option<&'a str>,
    /// The name of the tool that ends, once the result was taken.
    pub(super) submit: Option<&'a str>,
    /// Whether the last that was said is that the result was not accepted.
    pub(super) is_rejected: bool,
    /// The tools whose results the last that was said demands before an answer.
    pub(super) demanded: Vec<&'a str>,
}

/// A tool, and what it can be known to do.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// The verb in its name.
    pub(super) verb: Option<String>,
    /// What it is about, as one word: the `user` of `get_user_by_id`.
    pub(super) noun: String,
    /// The stems of that.
    pub(super) nouns: BTreeSet<String>,
    /// The stems of its description.
    pub(super) about: BTreeSet<String>,
    pub(super) fields: Vec<Field<'a>>,
}

/// A call that was made, and its outcome.
#[derive(Debug)]
pub(super) struct Made<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: Map<String, Value>,
    pub(super) result: Option<&'a ToolOutput>,
    pub(super) reported: Reported,
    /// It was made for this command, not for an earlier one.
    pub(super) is_of_user_request: bool,
}

/// Which record is spoken of.
#[derive(Debug)]
pub(super) enum Target<'t> {
    One {
        record: &'t Record,
        /// The tool that told of it.
        tool: &'t str,
    },
    /// So many could be meant.
    Many(usize),
    None,
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let allowed = |spec: &&ToolDefinition| match &request.tool_choice {
            ToolChoice::AnyOf(names) => names.contains(&spec.name),
            ToolChoice::Auto
            | ToolChoice::None
            | ToolChoice::Required
            | ToolChoice::Prefer
            | ToolChoice::Named(_) => true,
        };
        // A stub neither refuses the work nor hands it over.
        let tools = request.tools.iter().filter(|spec| EndCall::named(&spec.name).is_none());
        let tools: Vec<Tool<'_>> = tools.filter(allowed).map(Tool::of).collect();
        let nouns = tools.iter().flat_map(|tool| tool.nouns.iter().cloned()).collect();
        let stated: Vec<String> = request.messages.iter().filter_map(stated).collect();
        let mut last = stated.last().map_or("", String::as_str);
        let mut demanded = Vec::new();
        if let [before @ .., demand] = stated.as_slice()
            && !before.is_empty()
            && demand.contains(DEMANDED)
        {
            let words: BTreeSet<&str> = demand.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            demanded = tools.iter().map(|tool| tool.name).filter(|name| words.contains(name)).collect();
            // A demand names tools, and is nothing to fill them from.
            last = before.iter().rfind(|text| !text.contains(DEMANDED)).map_or(last, String::as_str);
        }
        let user_request = UserRequest::read(last, &nouns);
        let mut conversation = Conversation {
            user_request,
            tools,
            made: Vec::new(),
            output: None,
            submit: None,
            is_rejected: false,
            demanded,
        };
        let mut ends = conversation.tools.iter().filter(|tool| tool.fields.is_empty());
        conversation.submit =
            ends.find(|tool| tool.is_final() || is_reported(request, tool.name)).map(|tool| tool.name);
        conversation.output = conversation.output_tool(request);
        conversation.made =
            made(&request.messages, conversation.output.is_some() || !conversation.demanded.is_empty());
        let Some(output) = conversation.output else { return conversation };
        // A rejection names the tool, and is nothing to fill it from.
        let is_rejection =
            |text: &&String| text.contains(NOT_ACCEPTED) || text.contains(&format!("`{output}`"));
        conversation.is_rejected = stated.last().is_some_and(|last| stated.len() > 1 && is_rejection(&last));
        if stated.len() > 1 {
            // What came later corrects what was asked for, and does not stand alone.
            let requested: Vec<&str> = stated
                .iter()
                .enumerate()
                .filter(|(at, text)| *at == 0 || !is_rejection(text))
                .map(|(_, text)| text.as_str())
                .collect();
            conversation.user_request = UserRequest::read(&requested.join("\n"), &nouns);
        }
        conversation
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool<'a>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The tool that changes in this way, and is about what is spoken of.
    pub(super) fn changing(&self, kind: Kind) -> Option<&Tool<'a>> {
        let tools = self.tools.iter().filter(|tool| tool.kind == kind && !self.is_end(tool.name));
        // Of equals the first one.
        tools.rev().max_by_key(|tool| self.relevance(tool))
    }

    /// How well a tool's name and description fit what is asked for.
    pub(super) fn relevance(&self, tool: &Tool<'_>) -> usize {
        3 * overlap(&tool.nouns, &self.user_request.stems) + overlap(&tool.about, &self.user_request.stems)
    }

    /// The tools that look something up.
    pub(super) fn reads(&self) -> impl DoubleEndedIterator<Item = &Tool<'a>> {
        self.tools.iter().filter(|tool| tool.is_read() && !self.is_end(tool.name))
    }

    /// Whether a tool takes the result, or ends.
    pub(super) fn is_end(&self, tool: &str) -> bool {
        [self.output, self.submit].contains(&Some(tool))
    }

    /// Calls of this command.
    pub(super) fn made_now(&self) -> impl Iterator<Item = &Made<'a>> {
        self.made.iter().filter(|made| made.is_of_user_request)
    }

    /// The same call, made for this command.
    pub(super) fn same(&self, tool: &str, arguments: &Map<String, Value>) -> Option<&Made<'a>> {
        self.made_now().find(|made| made.tool == tool && made.arguments == *arguments)
    }

    /// The record that is spoken of: by its name, or the only one that was told of last.
    pub(super) fn target(&self, subject: Option<&str>) -> Target<'_> {
        for made in self.made.iter().rev().filter(|made| made.is_ok()) {
            let known: Vec<&Record> =
                made.reported.records.iter().filter(|record| record.id().is_some()).collect();
            let requested =
                subject.is_some_and(|subject| made.arguments.values().any(|value| value == subject));
            let best =
                subject.map(|subject| known.iter().map(|record| record.fits(subject)).max().unwrap_or(0));
            let mut fitting = known.clone();
            match (subject, best) {
                // A result need not repeat what it was asked for.
                (Some(_), Some(0)) if requested && known.len() == 1 => {}
                (Some(subject), Some(best)) => {
                    fitting.retain(|record| best > 0 && record.fits(subject) == best)
                }
                _ => {}
            }
            let others = self
                .user_request
                .names
                .iter()
                .filter(|name| matches!(name.stands, Stands::Belongs | Stands::Place));
            for other in others.map(|name| name.text.as_str()).chain(self.user_request.mail()) {
                let narrowed: Vec<&Record> =
                    fitting.iter().filter(|record| record.fits(other) > 0).copied().collect();
                if !narrowed.is_empty() {
                    fitting = narrowed;
                }
            }
            match fitting.as_slice() {
                [] => {}
                [record] => return Target::One { record, tool: made.tool },
                many => {
                    return Target::Many(many.len().max(if many.len() == known.len() {
                        made.reported.total
                    } else {
                        0
                    }));
                }
            }
        }
        Target::None
    }

    /// The record with this id.
    pub(super) fn record(&self, id: &Value) -> Option<&Record> {
        let mut records = self.made.iter().rev().flat_map(|made| &made.reported.records);
        records.find(|record| record.id().is_some_and(|known| plain(known) == plain(id)))
    }

    /// What a result says under this name, the last that says anything.
    pub(super) fn stated(&self, name: &str) -> Option<&Value> {
        let results = self.made.iter().rev().filter(|made| made.is_ok());
        results.flat_map(|made| &made.reported.records).find_map(|record| record.get(name))
    }

    /// Whether the result was taken, and nothing ended it since.
    pub(super) fn is_to_submit(&self) -> bool {
        let last = self
            .made
            .iter()
            .rev()
            .find(|made| Some(made.tool) == self.output || Some(made.tool) == self.submit);
        last.is_some_and(|made| Some(made.tool) == self.output && made.is_ok())
    }

    fn output_tool(&self, request: &ModelRequest) -> Option<&'a str> {
        let may = |tool: &&Tool<'_>| {
            !tool.fields.is_empty() && matches!(tool.kind, Kind::Save | Kind::Create | Kind::Other)
        };
        let reported = |tool: &&Tool<'_>| is_reported(request, tool.name);
        let named = self.tools.iter().filter(may).find(reported);
        if let Some(tool) = named.or_else(|| self.tools.iter().filter(may).find(|tool| tool.is_final())) {
            return Some(tool.name);
        }
        let mut doing = self
            .tools
            .iter()
            .filter(|tool| Some(tool.name) != self.submit && !matches!(tool.kind, Kind::Look | Kind::Other));
        let only = doing.next().filter(|_| doing.next().is_none())?;
        let only_looks = self.user_request.asks_for(Kind::Look) && !self.user_request.asks_for(Kind::Save);
        (only.kind == Kind::Save && !only.fields.is_empty() && !only_looks).then_some(only.name)
    }
}

impl Made<'_> {
    pub(super) fn is_ok(&self) -> bool {
        self.result.is_some_and(|result| !result.is_error)
    }

    /// Whether it returned something.
    pub(super) fn is_found(&self) -> bool {
        self.is_ok() && !self.reported.is_empty
    }
}

impl<'a> Tool<'a> {
    fn of(spec: &'a ToolDefinition) -> Self {
        let words = parts(&spec.name);
        let verb = words.iter().find(|word| kind_of(word).is_some());
        let first = spec.description.split_whitespace().next().unwrap_or_default();
        let kind = verb.and_then(|verb| kind_of(verb)).or_else(|| kind_of(first)).unwrap_or(Kind::Other);
        let nouns: Vec<&String> = words
            .iter()
            .filter(|word| Some(*word) != verb)
            .take_while(|word| !BEHIND_NOUN.contains(&word.as_str()))
            .collect();
        Tool {
            name: &spec.name,
            kind,
            verb: verb.cloned(),
            noun: nouns.last().map_or_else(|| "result".to_owned(), |noun| singular(noun)),
            nouns: nouns.iter().filter_map(|noun| stem(noun)).collect(),
            about: stems(&spec.description),
            fields: fields(&spec.parameters),
        }
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self.kind, Kind::Look | Kind::Other)
    }

    /// Whether it has to be told which one.
    pub(super) fn needs_id(&self) -> bool {
        self.fields.iter().any(|field| field.required && field.role == Role::Id)
    }

    fn is_final(&self) -> bool {
        let words = parts(self.name);
        let named = FINAL.split_whitespace().any(|word| words.iter().any(|part| part == word));
        named || overlap(&self.about, &stems(FINAL)) > 0
    }
}

/// Whether the rules say that the result goes into this tool.
fn is_reported(request: &ModelRequest, tool: &str) -> bool {
    let wanted = stems(&format!("{FINAL} result"));
    let mut lines = request.system.lines().filter(|line| line.contains(&format!("`{tool}`")));
    lines.any(|line| overlap(&stems(line), &wanted) > 0)
}

/// What a person says: of a work item its title and its text.
fn stated(message: &Message) -> Option<String> {
    let Message::User { text, .. } = message else { return None };
    let Some(body) = fenced(text) else { return Some(text.to_string()) };
    let title = text.lines().find(|line| line.starts_with(ITEM)).and_then(title);
    let title = title.filter(|title| !body.contains(title));
    Some(title.map_or_else(|| body.to_owned(), |title| format!("{title}\n{body}")))
}

/// Calls and their results. In search of one result all of them count for the command.
fn made<'a>(messages: &'a [Message], is_one_user_request: bool) -> Vec<Made<'a>> {
    let user_request =
        messages.iter().rposition(|message| matches!(message, Message::User { .. })).unwrap_or(0);
    let mut all: Vec<Made<'a>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let results = match messages.get(at + 1) {
            Some(Message::Tool { results }) => results.as_slice(),
            _ => &[],
        };
        for call in message.calls() {
            let Ok(value) = call.arguments.object() else { continue };
            let result = results.iter().find(|result| result.call == call.id);
            let reported = result.map(|result| records::read(&result.text)).unwrap_or_default();
            let is_of_user_request = is_one_user_request || at >= user_request;
            all.push(Made {
                tool: &call.name,
                arguments: value.clone(),
                result,
                reported,
                is_of_user_request,
            });
        }
    }
    all
}

/// A value as text, without marks.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn singular(noun: &str) -> String {
    if noun == "people" {
        return "person".to_owned();
    }
    match (noun.strip_suffix("ies"), noun.strip_suffix('s')) {
        (Some(short), _) => format!("{short}y"),
        (_, Some(short)) if !short.ends_with(['s', 'u']) => short.to_owned(),
        _ => noun.to_owned(),
    }
}
