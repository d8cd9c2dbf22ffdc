//! The loop check: a reply as we decode it, put into the next request of its conversation, has to be the turn that the
//! recorded client sent back there.

use loop_llm::{Api, Codec, Message, ModelReply, ModelRequest, ReasoningBack};
use serde_json::Value;

use super::canon;
use super::judge::Difference;
use super::request::{Neutral, form};

/// An exchange as far as the check needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) api: Api,
    pub(crate) codec: &'a Codec,
    pub(crate) neutral: &'a Neutral,
}

/// What the check gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// The turn that we send is the recorded one, apart from these; and what the client did not send back as it came.
    Compared(Vec<Difference>, Vec<String>),
    /// The client put calls of its own into the turn.
    Mixed,
    /// The next request does not go on with the reply, or not so that its turn can be found.
    NotThere,
}

/// Puts `reply`, which came to `first` in a body of these bytes, into `next`.
pub(crate) fn replay(first: Step<'_>, reply: &ModelReply, body: &[u8], next: Step<'_>) -> Replayed {
    let is_same = first.api == next.api
        && first.codec.profile().name == next.codec.profile().name
        && first.neutral.request.model == next.neutral.request.model;
    let before = turns(&first.neutral.request).count();
    let Some(place) = turns(&next.neutral.request).nth(before).filter(|_| is_same) else {
        return Replayed::NotThere;
    };
    if !goes_on(&first.neutral.request, &next.neutral.request, place) {
        return Replayed::NotThere;
    }
    let form = form(next.api);
    let recorded = form.assistant_turns(&form.canonical(next.neutral.body.clone()));
    // Where a client runs two turns into one, they cannot be told apart.
    if recorded.len() != turns(&next.neutral.request).count() {
        return Replayed::NotThere;
    }
    let Some(expected) = recorded.get(before) else { return Replayed::NotThere };
    if let Some(Message::Assistant(turn)) = next.neutral.request.messages.get(place)
        && turn.calls.len() > reply.tool_calls.len()
        && turn.calls.iter().any(|call| !holds(body, &call.id))
    {
        return Replayed::Mixed;
    }
    let Some(request) = with_turn(&next.neutral.request, place, reply) else {
        return different("another number of calls");
    };
    let encoded = match next.codec.encode(&request) {
        Ok(encoded) => encoded,
        Err(error) => return different(&format!("cannot be encoded: {error}")),
    };
    let ours: Value = serde_json::from_slice(&encoded.body.to_bytes()).unwrap_or_default();
    let ours = form.assistant_turns(&form.canonical(ours));
    let Some(ours) = ours.get(before) else { return different("no such turn") };
    let takes_reasoning =
        next.codec.profile().reasoning_back != ReasoningBack::Never || next.api != Api::OpenaiChat;
    let mut notes = Vec::new();
    let expected = expected.iter().filter_map(|piece| {
        let mut piece = piece.clone();
        given(&mut piece, body, reply, takes_reasoning, &mut notes).then_some(piece)
    });
    let expected: Vec<Value> = expected.collect();
    compare(&expected, ours, next.api, notes)
}

/// Whether a request goes on with the history of another: up to `place` it says the same, the model's turns apart.
fn goes_on(first: &ModelRequest, next: &ModelRequest, place: usize) -> bool {
    let stated = |messages: &[Message]| {
        let ours = messages.iter().filter(|message| !matches!(message, Message::Assistant(_)));
        let texts = ours.map(|message| match message {
            Message::Tool { results } => {
                results.iter().map(|result| result.text.to_string()).collect::<String>()
            }
            other => other.text().to_owned(),
        });
        texts.collect::<Vec<_>>()
    };
    stated(&first.messages) == stated(next.messages.get(..place).unwrap_or_default())
}

/// Takes out of a piece what the client did not get from the provider; whether anything is left.
fn given(
    piece: &mut Value,
    body: &[u8],
    reply: &ModelReply,
    takes_reasoning: bool,
    notes: &mut Vec<String>,
) -> bool {
    if piece.get("thought") == Some(&Value::Bool(true)) {
        notes.push("thoughts that need not go back".to_owned());
        return false;
    }
    let members = ["functionCall", "content", "tool_calls"];
    let own =
        members.iter().filter_map(|key| piece.get(*key)).flat_map(ids).chain(ids(piece)).collect::<Vec<_>>();
    for id in own {
        if !holds(body, &id) {
            notes.push("ids that the client made up".to_owned());
            take_id(piece, &id);
        }
    }
    let Some(members) = piece.as_object_mut() else { return true };
    for key in ["reasoning", "reasoning_content", "reasoning_details"] {
        if !takes_reasoning && members.remove(key).is_some() {
            notes.push("reasoning that this endpoint does not want back".to_owned());
        }
    }
    if let Some(parts) = members.get_mut("content").and_then(Value::as_array_mut)
        && let Some(Value::String(text)) = parts.first_mut().and_then(|part| part.get_mut("text"))
        && let Some((thought, stated)) =
            text.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"))
        && thought.trim() == reply.reasoning.trim()
    {
        notes.push("reasoning that the client wrote into the text".to_owned());
        *text = stated.trim_start().to_owned();
        if text.is_empty() {
            parts.remove(0);
        }
    }
    true
}

/// Whether a body holds a text as a value.
fn holds(body: &[u8], text: &str) -> bool {
    let written = Value::String(text.to_owned()).to_string();
    body.windows(written.len()).any(|window| window == written.as_bytes())
}

/// The ids in a piece or in each of its elements.
fn ids(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(ids).collect(),
        other => other.get("id").and_then(Value::as_str).map(str::to_owned).into_iter().collect(),
    }
}

fn take_id(value: &mut Value, id: &str) {
    match value {
        Value::Object(members) => {
            if members.get("id").is_some_and(|it| it == id) {
                members.remove("id");
            }
            members.values_mut().for_each(|value| take_id(value, id));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| take_id(value, id)),
        _ => {}
    }
}

fn different(what: &str) -> Replayed {
    Replayed::Compared(vec![Difference::new("replay", "the recorded turn", what)], Vec::new())
}

/// Where the model's turns stand.
fn turns(request: &ModelRequest) -> impl Iterator<Item = usize> {
    let places = request.messages.iter().enumerate();
    places.filter(|(_, message)| matches!(message, Message::Assistant(_))).map(|(place, _)| place)
}

/// The request with `reply` in place of a turn, and its results under the ids of the reply's calls; `None` where the
/// turn calls more or fewer tools.
fn with_turn(request: &ModelRequest, place: usize, reply: &ModelReply) -> Option<ModelRequest> {
    let mut request = request.clone();
    request.memory = loop_llm::Memory::default();
    let Message::Assistant(turn) = request.messages.get(place)? else { return None };
    if turn.calls.len() != reply.tool_calls.len() {
        return None;
    }
    let ids: Vec<_> = turn.calls.iter().map(|call| call.id.clone()).collect();
    if let Some(Message::Tool { results }) = request.messages.get_mut(place + 1) {
        for result in results {
            let nth = ids.iter().position(|id| *id == result.call)?;
            result.call = reply.tool_calls.get(nth)?.id.clone();
        }
    }
    *request.messages.get_mut(place)? = reply.turn();
    Some(request)
}

/// Every piece that the client sent has to be among ours, in order; what it left out of a piece is noted.
fn compare(expected: &[Value], ours: &[Value], api: Api, mut notes: Vec<String>) -> Replayed {
    let mut found = Vec::new();
    let mut left = ours.iter().peekable();
    for (nth, piece) in expected.iter().enumerate() {
        let mut piece = piece.clone();
        if api == Api::OpenaiResponses
            && let (Some(members), Some(Value::Object(ours))) = (piece.as_object_mut(), left.peek())
        {
            // The ids of items that need no reasoning may be left out, and what says that they are complete.
            for key in ["id", "status"] {
                if !ours.contains_key(key) && members.remove(key).is_some() {
                    notes.push("ids of items, which need not go back".to_owned());
                }
            }
        }
        let signature = piece.get("thoughtSignature").cloned();
        if let (Some(signature), Some(Value::Object(next))) = (signature, left.peek())
            && !next.contains_key("thoughtSignature")
            && ours.iter().any(|ours| ours.get("thoughtSignature") == Some(&signature))
        {
            notes.push("signatures that the client copied".to_owned());
            piece.as_object_mut().map(|piece| piece.remove("thoughtSignature"));
        }
        // What comes before it in our turn and is neither text nor call, the client did not send back.
        while left.peek().is_some_and(|ours| !is_within(&piece, ours) && is_opaque(ours)) {
            notes.push("a piece that the client left out".to_owned());
            left.next();
        }
        match left.next() {
            Some(ours) if is_within(&piece, ours) => {
                if api == Api::OpenaiChat {
                    found.extend(refusable(&format!("replay/{nth}"), &piece, ours));
                }
                if piece != *ours {
                    notes.push("members that the client left out".to_owned());
                }
            }
            Some(ours) => {
                let mut all = Vec::new();
                canon::differences(&format!("replay/{nth}"), &piece, ours, &mut all);
                // What the client left out is no difference.
                all.retain(|difference| difference.expected != "nothing");
                found.extend(all);
            }
            None => found.push(Difference::new(format!("replay/{nth}"), piece, "nothing")),
        }
    }
    for ours in left {
        if is_opaque(ours) {
            notes.push("a piece that the client left out".to_owned());
        } else {
            found.push(Difference::new(format!("replay/{}", expected.len()), "nothing", ours));
        }
    }
    notes.sort();
    notes.dedup();
    Replayed::Compared(found, notes)
}

/// What we would send that the client did not, and that no server is documented to take: some refuse what they do not know.
fn refusable(place: &str, expected: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut check = |place: &str, expected: Option<&Value>, ours: &Value, known: &[&str]| {
        for (key, value) in ours.as_object().into_iter().flatten() {
            let is_sent = expected.is_some_and(|expected| expected.get(key).is_some());
            if !is_sent && !known.contains(&key.as_str()) {
                found.push(Difference::new(format!("{place}/{key}"), "nothing", value));
            }
        }
    };
    check(place, Some(expected), ours, &OF_A_MESSAGE);
    for (nth, call) in canon::list(ours, "tool_calls").iter().enumerate() {
        let place = format!("{place}/tool_calls/{nth}");
        check(&place, canon::list(expected, "tool_calls").get(nth), call, &OF_A_CALL);
    }
    found
}

/// Members of an assistant's message of Chat Completions that some server documents, and of its calls in canonical form.
const OF_A_MESSAGE: [&str; 7] =
    ["role", "content", "tool_calls", "refusal", "reasoning", "reasoning_content", "reasoning_details"];
const OF_A_CALL: [&str; 4] = ["id", "name", "arguments", "extra_content"];

/// Whether a piece is neither text nor a call.
fn is_opaque(piece: &Value) -> bool {
    let kind = canon::text(piece, "type");
    let is_call = matches!(kind, "function_call" | "tool_use") || piece.get("functionCall").is_some();
    let is_text = !canon::text(piece, "text").is_empty() && piece.get("thought").is_none();
    !is_call && !is_text && canon::text(piece, "role") != "assistant"
}

/// Whether everything in `expected` stands in `ours` too.
fn is_within(expected: &Value, ours: &Value) -> bool {
    match (expected, ours) {
        (Value::Object(one), Value::Object(two)) => {
            one.iter().all(|(key, value)| two.get(key).is_some_and(|ours| is_within(value, ours)))
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| is_within(one, two))
        }
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::String(one), Value::String(two)) => one == two || canon::is_elided(one, two),
        _ => expected == ours,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(expected: &[Value], ours: &[Value]) -> (Vec<String>, usize) {
        match compare(expected, ours, Api::Anthropic, Vec::new()) {
            Replayed::Compared(found, notes) => (found.into_iter().map(|it| it.field).collect(), notes.len()),
            Replayed::Mixed | Replayed::NotThere => (vec!["not there".to_owned()], 0),
        }
    }

    #[test]
    fn a_client_may_leave_out_what_is_opaque_and_nothing_else() {
        let text = || json!({"text": "a"});
        let call = || json!({"type": "tool_use", "name": "x"});
        let thought = || json!({"type": "thinking", "signature": "s"});
        assert_eq!(compared(&[text(), call()], &[thought(), text(), call()]), (vec![], 1));
        assert_eq!(compared(&[text()], &[json!({"text": "a", "id": 1})]), (vec![], 1));
        assert_eq!(compared(&[text()], &[text(), call()]).0, ["replay/1"]);
        assert_eq!(compared(&[text(), call()], &[text()]).0, ["replay/1"]);
        assert_eq!(compared(&[thought()], &[text()]).0, ["replay/0/signature", "replay/0/type"]);
        assert_eq!(compared(&[json!({"text": "b"})], &[text()]).0, ["replay/0/text"]);
    }
}
