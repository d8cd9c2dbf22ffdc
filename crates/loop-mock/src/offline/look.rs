//! Selects the calls of the stub: names in the item and in results that match a tool's parameter. It also says why a
//! tool is not selected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use crate::offline::conversation::text_of;
use crate::offline::read::{PromptText, Tool, ToolUse, is_id, is_meant};
use crate::offline::schema::{Field, Form};
use crate::offline::words::{count, names, overlap, parts, stem, stems};

/// The most words of a search query.
const QUERY_WORDS: usize = 8;

/// How many words a tool's description must share with the item.
const SHARED: usize = 2;

/// A call that the stub selects.
#[derive(Debug)]
pub(super) struct WantedCall {
    pub(super) tool: String,
    pub(super) parameters: Value,
    pub(super) reason: String,
}

/// Why the stub does not call a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhyNot {
    /// No name in the texts has the format of a parameter.
    NoName { parameter: String, example: Option<String> },
    /// The description shares too few words with the item.
    FewWords { shared: usize, needed: usize },
    /// It requires something that is neither a name nor words to search for.
    TooMuch { parameter: String },
    /// The same call was made before.
    Before,
    /// It asks a person.
    Question,
    /// The item does not ask for the change.
    NotAsked { word: String },
    /// It changes something, and a read-only call is still possible.
    NotYet,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName { parameter, example: Some(example) } => {
                write!(f, "nothing in the item has the form of `{parameter}`, for example {example}")
            }
            Self::NoName { parameter, example: None } => {
                write!(f, "nothing in the item has the form of `{parameter}`")
            }
            Self::FewWords { shared, needed } => write!(
                f,
                "its description shares {} with the item, fewer than {needed}",
                count(*shared, "word")
            ),
            Self::TooMuch { parameter } => write!(
                f,
                "the stub cannot fill `{parameter}`: it has neither examples nor a pattern of a form that names have"
            ),
            Self::Before => f.write_str("the same was called before"),
            Self::Question => f.write_str("it asks a person, and the stub asks none"),
            Self::NotAsked { word } => write!(f, "the item does not say `{word}`, which is in its name"),
            Self::NotYet => f.write_str("it changes something, and something has still to be looked up"),
        }
    }
}

/// The read-only calls that would help and were not made. Names in the item come first, then names in results, then
/// calls that only a tool's description suggests.
pub(super) fn wanted(read: &PromptText<'_>) -> Vec<WantedCall> {
    let mut wanted: Vec<(u8, usize, WantedCall)> = Vec::new();
    for tool in read.tools.iter().filter(|tool| tool.use_of == ToolUse::Read) {
        wanted.extend(calls(read, tool).unwrap_or_default());
    }
    wanted.sort_by_key(|(rank, relevance, _)| Reverse((*rank, *relevance)));
    wanted.into_iter().map(|(_, _, wanted)| wanted).collect()
}

/// The changes that the item asks for and that were not requested yet. None while a read-only call is possible.
pub(super) fn changes(read: &PromptText<'_>) -> Vec<WantedCall> {
    let tools = read.tools.iter().filter(|tool| tool.use_of == ToolUse::Change);
    tools.filter_map(|tool| change(read, tool).ok()).collect()
}

/// Why a tool is not called. `None`: it is called.
pub(super) fn why_not(read: &PromptText<'_>, tool: &Tool<'_>) -> Option<WhyNot> {
    match tool.use_of {
        ToolUse::Read => calls(read, tool).err(),
        ToolUse::Question => Some(WhyNot::Question),
        ToolUse::Change => match change(read, tool) {
            Ok(_) => (!wanted(read).is_empty()).then_some(WhyNot::NotYet),
            Err(why) => Some(why),
        },
    }
}

/// The read-only calls of a tool, each with its rank and its relevance.
///
/// # Errors
/// Why there are none.
fn calls(read: &PromptText<'_>, tool: &Tool<'_>) -> Result<Vec<(u8, usize, WantedCall)>, WhyNot> {
    let relevance = overlap(&stems(tool.hints), read.about());
    let by_words = || format!("its description shares {} with the item", count(relevance, "word"));
    let call = |rank, parameters, reason| {
        (rank, relevance, WantedCall { tool: tool.name.to_owned(), parameters, reason })
    };
    match takes(tool) {
        Input::Name(parameter) => {
            let all = named(read, tool, parameter);
            if all.is_empty() {
                return Err(no_name(parameter));
            }
            let mut calls = Vec::new();
            for found in all {
                let Some(value) = parameter.cast(found.name) else { continue };
                if !read.was_requested(tool.name, Some(found.name)) {
                    let rank = if found.is_in_item() { 2 } else { 1 };
                    let reason = format!("{} names {}, which this tool looks up", found.place(), found.name);
                    calls.push(call(rank, json!({ parameter.name: value }), reason));
                }
            }
            if calls.is_empty() { Err(WhyNot::Before) } else { Ok(calls) }
        }
        Input::Words(_) | Input::Nothing if read.was_requested(tool.name, None) => Err(WhyNot::Before),
        Input::Words(parameter) => {
            let query = keywords(read);
            if query.is_empty() || relevance < SHARED && !serves_all(tool) {
                return Err(WhyNot::FewWords { shared: relevance, needed: SHARED });
            }
            Ok(vec![call(0, json!({ parameter: query }), by_words())])
        }
        Input::Nothing if relevance == 0 => Err(WhyNot::FewWords { shared: 0, needed: 1 }),
        Input::Nothing => Ok(vec![call(0, json!({}), by_words())]),
        Input::Several => {
            let parameters = filled(read, tool, /*with_text*/ false)?;
            match read.was_requested(tool.name, None) {
                true => Err(WhyNot::Before),
                false => Ok(vec![call(1, parameters, "all that it needs is named".to_owned())]),
            }
        }
    }
}

/// The call of a tool that changes something.
///
/// # Errors
/// Why there is none.
fn change(read: &PromptText<'_>, tool: &Tool<'_>) -> Result<WantedCall, WhyNot> {
    let about = read.about();
    let words = parts(tool.name);
    let unsaid = words.iter().find(|word| stem(word).is_some_and(|stem| !about.contains(&stem)));
    if let Some(word) = unsaid {
        return Err(WhyNot::NotAsked { word: word.clone() });
    }
    if read.was_requested(tool.name, None) {
        return Err(WhyNot::Before);
    }
    let parameters = filled(read, tool, /*with_text*/ true)?;
    let reason = format!("the item says `{}`", words.join(" "));
    Ok(WantedCall { tool: tool.name.to_owned(), parameters, reason })
}

/// The required parameters of a tool with their values: a name in the parameter's format, a permitted value in the
/// item, or the only number in the item. With `with_text`, the item's title for a text.
///
/// # Errors
/// The first parameter without a value.
fn filled(read: &PromptText<'_>, tool: &Tool<'_>, with_text: bool) -> Result<Value, WhyNot> {
    let mut members = Map::new();
    for parameter in tool.parameters.iter().filter(|parameter| parameter.required) {
        let value = if !parameter.choices.is_empty() {
            let text = format!("{}\n{}", read.title, read.item);
            said(&text, &parameter.choices).ok_or_else(|| no_name(parameter))?
        } else if !parameter.shapes.is_empty() {
            let found = named(read, tool, parameter);
            let value = found.first().and_then(|found| parameter.cast(found.name));
            value.ok_or_else(|| no_name(parameter))?
        } else {
            let too_much = || WhyNot::TooMuch { parameter: parameter.name.to_owned() };
            match parameter.form {
                Form::Text if with_text => json!(crate::offline::write::quote(read.title)),
                Form::Integer | Form::Number if with_text => {
                    only_number(read, tool, parameter).ok_or_else(too_much)?
                }
                _ => return Err(too_much()),
            }
        };
        members.insert(parameter.name.to_owned(), value);
    }
    Ok(Value::Object(members))
}

/// The permitted value that a text contains, the longest of several.
pub(super) fn said(text: &str, choices: &[Value]) -> Option<Value> {
    let text = text.to_lowercase();
    let plain = |value: &Value| {
        value.as_str().map_or_else(|| value.to_string(), str::to_owned).to_lowercase().replace('_', " ")
    };
    let is_said = |value: &&Value| {
        let value = plain(value);
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        !value.is_empty()
            && text.match_indices(&value).any(|(at, _)| {
                let (before, rest) = text.split_at(at);
                ends(before.chars().next_back()) && ends(rest.chars().nth(value.chars().count()))
            })
    };
    choices.iter().filter(is_said).max_by_key(|value| plain(value).len()).cloned()
}

/// The number in the item, if there is only one.
fn only_number(read: &PromptText<'_>, tool: &Tool<'_>, parameter: &Field<'_>) -> Option<Value> {
    let words = read
        .item
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-').trim_start_matches('-'));
    let mut numbers: Vec<&str> = words.filter(|word| word.parse::<f64>().is_ok()).collect();
    numbers.dedup();
    match numbers.as_slice() {
        [one] if is_id(parameter.name) && !is_meant(read.item, one, parameter.name, tool.name) => None,
        [one] => parameter.cast(one),
        _ => None,
    }
}

fn no_name(parameter: &Field<'_>) -> WhyNot {
    WhyNot::NoName { parameter: parameter.name.to_owned(), example: parameter.example.clone() }
}

/// Names in the item for which some tool has a parameter, and which no result contains.
pub(super) fn not_found(read: &PromptText<'_>) -> Vec<String> {
    let mut missing = BTreeSet::new();
    for tool in &read.tools {
        let Input::Name(parameter) = takes(tool) else { continue };
        for found in named(read, tool, parameter).iter().filter(|found| found.is_in_item()) {
            let mut about = read.evidence.iter().filter(|evidence| evidence.is_about(found.name)).peekable();
            if about.peek().is_some() && about.all(|evidence| !evidence.is_ok()) {
                missing.insert(found.name.to_owned());
            }
        }
    }
    missing.into_iter().collect()
}

/// Whether tools look names up, and the item contains none for any of them.
pub(super) fn names_nothing(read: &PromptText<'_>) -> bool {
    let mut parameters = read.tools.iter().filter_map(|tool| match takes(tool) {
        Input::Name(parameter) => Some((tool, parameter)),
        Input::Words(_) | Input::Nothing | Input::Several => None,
    });
    let mut any = false;
    let none = parameters.all(|(tool, parameter)| {
        any = true;
        !named(read, tool, parameter).iter().any(FoundName::is_in_item)
    });
    any && none
}

/// How many words of the title occur in the results, and how many it has.
pub(super) fn spoken_of(read: &PromptText<'_>) -> (usize, usize) {
    let title = stems(read.title);
    let results = read.evidence.iter().filter(|evidence| evidence.is_ok());
    let stated: BTreeSet<String> = results.flat_map(|evidence| stems(evidence.body)).collect();
    (overlap(&title, &stated), title.len())
}

/// The input that a tool requires.
enum Input<'a> {
    /// A name in a certain format.
    Name(&'a Field<'a>),
    /// Free text.
    Words(&'a str),
    Nothing,
    /// More than one thing, or one that is neither a name nor free text.
    Several,
}

fn takes<'a>(tool: &'a Tool<'a>) -> Input<'a> {
    let required: Vec<_> = tool.parameters.iter().filter(|parameter| parameter.required).collect();
    match required.as_slice() {
        [] => Input::Nothing,
        [one] if !one.shapes.is_empty() && one.choices.is_empty() => Input::Name(one),
        [one] if matches!(one.form, Form::Text) && one.choices.is_empty() => Input::Words(one.name),
        [..] => Input::Several,
    }
}

/// A name, and the evidence that it is from. `None`: the item.
struct FoundName<'a> {
    name: &'a str,
    evidence: Option<&'a str>,
}

impl FoundName<'_> {
    fn is_in_item(&self) -> bool {
        self.evidence.is_none()
    }

    fn place(&self) -> String {
        self.evidence.map_or_else(|| "the item".to_owned(), |id| format!("E{id}"))
    }
}

/// Names in a parameter's format, each once: from the item, then from results.
fn named<'a>(read: &PromptText<'a>, tool: &Tool<'_>, parameter: &Field<'_>) -> Vec<FoundName<'a>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (candidates, evidence) in read.candidates() {
        for name in candidates.find(&parameter.shapes) {
            let is_value = evidence.is_some() || is_meant(candidates.text, name, parameter.name, tool.name);
            if is_value && seen.insert(name.to_lowercase()) {
                found.push(FoundName { name, evidence: *evidence });
            }
        }
    }
    found
}

/// Whether a tool's description says that it always helps.
fn serves_all(tool: &Tool<'_>) -> bool {
    tool.hints
        .split_whitespace()
        .any(|word| ["any", "every", "always"].contains(&word.to_lowercase().as_str()))
}

/// An item without the names of its members: the values of JSON, and of a line `name: value` the value.
fn values(item: &str) -> String {
    fn texts(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.values().for_each(|member| texts(member, out)),
            Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
            other => out.push(text_of(other)),
        }
    }
    let mut all = Vec::new();
    match serde_json::from_str(item) {
        Ok(value) => texts(&value, &mut all),
        Err(_) => all.extend(item.lines().map(|line| {
            let member = line.split_once(':').filter(|(name, value)| {
                let name = name.trim().trim_start_matches("- ");
                !name.contains(char::is_whitespace) && (value.is_empty() || value.starts_with(' '))
            });
            member.map_or(line, |(_, value)| value).to_owned()
        })),
    }
    all.join("\n")
}

/// The words of a search query: those of the title, then the most frequent ones in the item's values.
fn keywords(read: &PromptText<'_>) -> String {
    let is_word = |word: &&str| {
        stem(&word.to_lowercase()).is_some()
            && !word.contains(|c: char| c.is_ascii_digit() || "@_".contains(c))
    };
    let title = names(read.title).into_iter().filter(is_word);
    let values = values(read.item);
    let item: Vec<&str> = names(&values).into_iter().filter(is_word).collect();
    let mut often: BTreeMap<String, usize> = BTreeMap::new();
    for word in &item {
        *often.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut common = item.clone();
    common.sort_by_cached_key(|word| Reverse(often.get(&word.to_lowercase()).copied()));
    let mut seen = BTreeSet::new();
    let words = title.chain(common);
    words.filter(|word| seen.insert(word.to_lowercase())).take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
}
