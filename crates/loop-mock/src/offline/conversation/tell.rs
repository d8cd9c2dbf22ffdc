//! What is said in the end: what was found, counted; what was changed; what could not be done, and why.

use super::history::{Conversation, Made, Target, Tool, plain};
use super::records::Record;
use super::schema::Role;
use super::user_request::Kind;
use crate::offline::words::parts;
use crate::offline::write::quote;

/// How many records are listed at most.
const LISTED: usize = 5;

/// Past forms that no rule gives.
const PAST: [(&str, &str); 8] = [
    ("set", "Set"),
    ("send", "Sent"),
    ("make", "Made"),
    ("drop", "Dropped"),
    ("cancel", "Cancelled"),
    ("transfer", "Transferred"),
    ("modify", "Modified"),
    ("notify", "Notified"),
];

/// The answer to what was asked, from the results alone.
pub(super) fn answer(conversation: &Conversation<'_>) -> String {
    let done: Vec<String> = conversation
        .made_now()
        .filter(|made| made.is_ok())
        .filter_map(|made| changed(conversation, made))
        .collect();
    let failed =
        conversation.made_now().filter(|made| made.result.is_some_and(|result| result.is_error)).map(failure);
    let failed: Vec<String> = failed.collect();
    let mut lines = done;
    if lines.is_empty() {
        lines.extend(found(conversation));
    }
    lines.extend(failed);
    lines.extend(undone(conversation));
    if lines.is_empty() {
        lines.push(nothing(conversation));
    }
    lines.join("\n")
}

fn nothing(conversation: &Conversation<'_>) -> String {
    let names: Vec<&str> = conversation.tools.iter().map(|tool| tool.name).collect();
    if names.is_empty() {
        return "This is Loopgate's offline stub. It is not an AI, and without tools it has nothing to answer with."
            .to_owned();
    }
    if conversation.made.iter().any(|made| Some(made.tool) == conversation.output && made.is_ok()) {
        return "The result is handed in.".to_owned();
    }
    format!(
        "This is Loopgate's offline stub. It is not an AI: it found nothing in the request that its tools ({}) could \
         do.",
        names.join(", ")
    )
}

/// What the read-only calls returned, a line each; one whose record was looked up again in full is left out.
fn found(conversation: &Conversation<'_>) -> Vec<String> {
    let reads: Vec<&Made<'_>> =
        conversation.made_now().filter(|made| is_look_up(conversation, made) && made.is_ok()).collect();
    let mut lines = Vec::new();
    for (at, made) in reads.iter().enumerate() {
        let is_in_full = made.reported.records.len() == 1
            && reads.iter().skip(at + 1).any(|later| {
                let ids = |made: &Made<'_>| made.reported.records.first().and_then(Record::id).map(plain);
                later.reported.records.len() == 1 && ids(later).is_some() && ids(later) == ids(made)
            });
        // What another tool found for the same name is not missing.
        let is_of_same = |other: &Made<'_>| {
            other.arguments.values().any(|value| made.arguments.values().any(|own| own == value))
        };
        let is_in_vain =
            made.reported.is_empty && reads.iter().any(|other| other.is_found() && is_of_same(other));
        if !is_in_full && !is_in_vain {
            lines.push(reported(conversation, made));
        }
    }
    lines.dedup();
    lines
}

fn is_look_up(conversation: &Conversation<'_>, made: &Made<'_>) -> bool {
    conversation.reads().any(|tool| tool.name == made.tool)
}

fn reported(conversation: &Conversation<'_>, made: &Made<'_>) -> String {
    let tool = conversation.tool(made.tool);
    let noun = tool.map_or("result", |tool| tool.noun.as_str());
    let requested = requested(tool, made);
    match made.reported.records.as_slice() {
        _ if made.reported.is_empty => format!("Found no {noun}{requested}."),
        [] => {
            let words: Vec<&str> = made.result.map_or("", |result| &result.text).split_whitespace().collect();
            let text = quote(&words.join(" "));
            if text.trim().is_empty() { format!("`{}` said nothing.", made.tool) } else { text }
        }
        [record] if made.reported.total == 1 => belonging(conversation, record)
            .unwrap_or_else(|| format!("Found 1 {noun}{requested}: {}.", shown(record))),
        records => {
            let total = made.reported.total;
            let mut lines = vec![format!("Found {total} {}{requested}.", plural(noun)), String::new()];
            lines.extend(records.iter().take(LISTED).map(|record| format!("- {}", shown(record))));
            if total > LISTED {
                lines.push(format!("- and {} more", total - LISTED));
            }
            lines.join("\n")
        }
    }
}

/// ` named Alice`, ` for holiday rules`, ` with id 42`: what a call was asked for.
fn requested(tool: Option<&Tool<'_>>, made: &Made<'_>) -> String {
    let role = |name: &str| {
        tool.and_then(|tool| tool.fields.iter().find(|field| field.name == name))
            .map_or(Role::Other, |field| field.role)
    };
    let mut values = made.arguments.iter().filter(|(_, value)| !value.is_array() && !value.is_object());
    match (values.next(), values.next()) {
        (None, _) => String::new(),
        (Some((name, value)), None) => {
            let word = match role(name) {
                Role::Name => "named",
                Role::Id => "with id",
                _ => "for",
            };
            format!(" {word} {}", quote(&plain(value)))
        }
        (Some(_), Some(_)) => {
            let all: Vec<String> = made.arguments.values().map(plain).collect();
            format!(" for {}", quote(&all.join(", ")))
        }
    }
}

/// The member of a record that is asked for.
fn belonging(conversation: &Conversation<'_>, record: &Record) -> Option<String> {
    let wanted = conversation.user_request.belongings();
    let members: Vec<(&str, String)> = wanted
        .iter()
        .filter_map(|wanted| record.about(wanted))
        .map(|(key, value)| (key, quote(&plain(value))))
        .collect();
    let whose = conversation
        .user_request
        .subjects()
        .next()
        .or_else(|| record.title())
        .map(|name| format!("{name}'s "));
    let all: Vec<String> =
        members.iter().map(|(key, value)| format!("{} is {value}", parts(key).join(" "))).collect();
    (!all.is_empty()).then(|| format!("{}{}.", whose.unwrap_or_default(), all.join(", ")))
}

fn shown(record: &Record) -> String {
    let members = record.fields.iter().take(8);
    let members: Vec<String> =
        members.map(|(key, value)| format!("{key} {}", quote(&plain(value)))).collect();
    members.join(", ")
}

fn failure(made: &Made<'_>) -> String {
    let text = made.result.map_or("", |result| &result.text);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given");
    format!("`{}` did not work: {}", made.tool, quote(line))
}

/// `Updated Bob's company to EPAM.`; `None` for a call that changes nothing.
fn changed(conversation: &Conversation<'_>, made: &Made<'_>) -> Option<String> {
    let tool = conversation.tool(made.tool)?;
    if tool.is_read() || conversation.is_end(made.tool) {
        return None;
    }
    let role = |name: &str| {
        tool.fields.iter().find(|field| field.name == name).map_or(Role::Other, |field| field.role)
    };
    let id = made.arguments.iter().find(|(name, _)| role(name) == Role::Id).map(|(_, value)| value);
    // An id says which record; the record says its name.
    let record = id.and_then(|id| conversation.record(id));
    let mut subjects = conversation.user_request.subjects();
    let named =
        subjects.find(|subject| record.is_none_or(|record| record.fits(subject) > 0)).map(str::to_owned);
    let titled = named.or_else(|| record.and_then(Record::title).map(str::to_owned));
    let noun = &tool.noun;
    let whose = titled
        .clone()
        .unwrap_or_else(|| id.map_or_else(|| noun.clone(), |id| format!("{noun} {}", plain(id))));
    let past = past(tool);
    Some(match tool.kind {
        Kind::Update => {
            let is_same = |name: &str, value: &serde_json::Value| {
                record.and_then(|record| record.get(name)).is_some_and(|known| known == value)
            };
            let members = made.arguments.iter().flat_map(|(name, value)| match value.as_object() {
                Some(inner) => inner.iter().collect(),
                None => vec![(name, value)],
            });
            let new = members.filter(|(name, value)| role(name) != Role::Id && !is_same(name, value));
            let new: Vec<String> = new
                .map(|(name, value)| format!("{} to {}", parts(name).join(" "), quote(&plain(value))))
                .collect();
            if new.is_empty() {
                format!("{past} {whose}.")
            } else {
                format!("{past} {whose}'s {}.", new.join(" and "))
            }
        }
        Kind::Send => {
            let is_to = |name: &str| role(name) == Role::Mail || parts(name).iter().any(|part| part == "to");
            let to =
                made.arguments.iter().find(|(name, _)| is_to(name)).map(|(_, value)| quote(&plain(value)));
            to.map_or_else(|| format!("{past} {noun}."), |to| format!("{past} {noun} to {to}."))
        }
        _ => titled.map_or_else(|| format!("{past} {whose}."), |title| format!("{past} {noun} {title}.")),
    })
}

/// Changes that were asked for and not made, and why.
fn undone(conversation: &Conversation<'_>) -> Option<String> {
    if let Some(output) = conversation.output {
        let mut outputs = conversation
            .made
            .iter()
            .filter(|made| Some(made.tool) == conversation.submit || made.tool == output);
        let last = outputs.next_back()?;
        let is_refused = !last.is_ok() || conversation.is_rejected;
        return is_refused.then(|| format!("The stub has nothing else to put into `{output}`."));
    }
    let requested = conversation
        .user_request
        .asks
        .iter()
        .find(|kind| !matches!(kind, Kind::Look | Kind::Other | Kind::Save))?;
    let Some(tool) = conversation.changing(*requested) else {
        return Some("Nothing was changed: no tool here does that.".to_owned());
    };
    if conversation.made_now().any(|made| made.tool == tool.name && made.is_ok()) {
        return None;
    }
    let subject = conversation.user_request.subjects().next();
    if let (true, Target::Many(count)) = (tool.needs_id(), conversation.target(subject)) {
        let whom = subject.map(|subject| format!(" named {subject}")).unwrap_or_default();
        return Some(format!(
            "Nothing was changed: {count} {}{whom} could be meant. Say which one, by its id.",
            plural(&tool.noun)
        ));
    }
    let is_vague = |field: &[String]| field.iter().all(|word| conversation.user_request.is_in_subject(word));
    if let Some(vague) = conversation.user_request.assigned.iter().find(|one| is_vague(&one.field)) {
        let value = quote(&vague.value);
        return Some(format!("Nothing was changed: the request does not say what becomes {value}."));
    }
    Some("Nothing was changed.".to_owned())
}

fn past(tool: &Tool<'_>) -> String {
    let verb = tool.verb.as_deref().unwrap_or("change");
    if let Some((_, past)) = PAST.iter().find(|(irregular, _)| *irregular == verb) {
        return (*past).to_owned();
    }
    let ending = if verb.ends_with('e') { "d" } else { "ed" };
    let mut letters = verb.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}{ending}", letters.as_str())
}

fn plural(noun: &str) -> String {
    match noun {
        "person" => "people".to_owned(),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{noun}es"),
        _ => match noun.strip_suffix('y') {
            Some(short) if !short.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{short}ies"),
            _ => format!("{noun}s"),
        },
    }
}
