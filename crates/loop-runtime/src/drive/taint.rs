//! What is in the messages before a run that marks it: what was read there, and what may have happened.
//!
//! Both are decided on the typed members of stored results, never on their text: a reworded text changes nothing, and
//! a text that lies changes nothing. What is absent is on the safe side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::policy::{ResultOrigin, Taint, resolve};
use loop_core::repeats::{CallFacts, Fingerprint, Rules};
use loop_core::spec::ToolSpec;
use loop_core::types::{Arguments, Digest, Effect, Status, ToolCall};
use loop_llm::request::Author;
use loop_llm::{Message, ToolOutput};

/// The taint that a history of messages adds to a run: whether its tool results hold untrusted text or private data.
///
/// It is the union of the origin that each stored result names and of what the spec declares of its tool, which may have
/// become stricter since. A result without an origin is untrusted, and so is a call without a result whose tool the spec
/// does not declare.
pub(crate) fn taint_of(history: &[Message], spec: &RunSpec) -> Taint {
    let mut taint = Taint::default();
    for (at, message) in history.iter().enumerate() {
        let Message::Assistant(turn) = message else { continue };
        // An id names a call of its turn alone.
        let behind = history.iter().skip(at + 1);
        let results: Vec<&ToolOutput> = behind
            .take_while(|message| !matches!(message, Message::Assistant(_)))
            .filter_map(|message| match message {
                Message::Tool { results } => Some(results),
                Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => None,
            })
            .flatten()
            .collect();
        for call in &turn.calls {
            let mut own = results.iter().filter(|result| *result.call == *call.id).peekable();
            let tool = resolve(spec, &call.name).map(|(tool, _)| tool);
            if own.peek().is_none() {
                taint = taint.and(read_of(None, tool));
            }
            taint = own.fold(taint, |taint, result| taint.and(read_of(result.origin, tool)));
        }
    }
    taint
}

/// The taint of a reader of a result of this origin.
fn read_of(origin: Option<ResultOrigin>, tool: Option<&ToolSpec>) -> Taint {
    let declared = || tool.map_or_else(Taint::default, |tool| Taint::default().after(tool, Status::Ok));
    match origin {
        Some(ResultOrigin::Verdict) => Taint::default(),
        Some(origin @ ResultOrigin::Tool { .. }) => origin.taint().and(declared()),
        None => Taint { untrusted: true, private: false }.and(declared()),
    }
}

/// The signatures of the writes that, as results say, may or may not have happened, and that were not made since:
/// once a person has allowed one it has a result of its own.
pub(crate) fn doubts_of(history: &[Message], spec: &RunSpec) -> BTreeSet<Digest> {
    let (mut calls, mut doubts) = (BTreeMap::new(), BTreeSet::new());
    for message in history {
        match message {
            Message::Assistant(turn) => {
                calls = turn.calls.iter().map(|call| (&*call.id, call)).collect();
            }
            Message::Tool { results } => {
                let write = |result: &ToolOutput| calls.get(&*result.call).and_then(|call| write(call, spec));
                // Of two in one message the doubtful one may have been the last. Mostly there is no doubt to settle.
                for made in results.iter().filter(|result| is_made(result)) {
                    if !doubts.is_empty()
                        && let Some((signature, _)) = write(made)
                    {
                        doubts.remove(&signature);
                    }
                }
                for result in results.iter().filter(|result| may_be_doubtful(result)) {
                    if let Some((signature, effect)) = write(result)
                        && (result.status.is_some() || !is_repeatable(effect))
                    {
                        doubts.insert(signature);
                    }
                }
            }
            Message::User { .. } | Message::Operator { .. } => {}
        }
    }
    doubts
}

/// Whether a result says that the call was made.
fn is_made(result: &ToolOutput) -> bool {
    match result.status {
        Some(status) => matches!(status, Status::Ok | Status::Empty),
        None => !result.is_error,
    }
}

/// Whether a result says that its call may or may not have happened, or is an error that does not say how it ended.
fn may_be_doubtful(result: &ToolOutput) -> bool {
    match result.status {
        Some(status) => status == Status::InDoubt,
        None => result.is_error,
    }
}

/// Whether making a call twice is the same as making it once.
fn is_repeatable(effect: Effect) -> bool {
    match effect {
        Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed => true,
        Effect::WriteIrreversible | Effect::Egress | Effect::Exec => false,
    }
}

/// The parameters with which tools were asked; what a person was asked is not a tool's to give back.
pub(crate) fn requested_of(history: &[Message], spec: &RunSpec) -> Vec<Arguments> {
    let turns = history.iter().filter_map(|message| match message {
        Message::Assistant(turn) => Some(&turn.calls),
        Message::User { .. } | Message::Tool { .. } | Message::Operator { .. } => None,
    });
    let is_question =
        |call: &ToolCall| resolve(spec, &call.name).is_some_and(|(tool, _)| tool.policy.asks_person);
    let arguments = turns.flatten().filter(|call| !is_question(call)).map(|call| &call.arguments);
    let mut known = BTreeSet::new();
    arguments.filter(|arguments| known.insert(arguments.text())).cloned().collect()
}

/// What the user wrote in the messages: texts, and answers to questions. What the loop worded is not theirs, and neither
/// is what a tool returned.
pub(crate) fn user_texts_of(history: &[Message], spec: &RunSpec) -> Vec<Arc<str>> {
    let (mut calls, mut texts): (&[ToolCall], Vec<Arc<str>>) = (&[], Vec::new());
    for message in history {
        match message {
            Message::User { text, author: Author::User, .. } => texts.push(Arc::clone(text)),
            Message::User { author: Author::Runner, .. } | Message::Operator { .. } => {}
            Message::Assistant(turn) => calls = &turn.calls,
            Message::Tool { results } => {
                let answers = results.iter().filter(|result| is_answer(result, calls, spec));
                texts.extend(answers.map(|result| Arc::clone(&result.text)));
            }
        }
    }
    texts
}

/// Whether a result is what a trusted person answered to a question.
fn is_answer(result: &ToolOutput, calls: &[ToolCall], spec: &RunSpec) -> bool {
    let call = calls.iter().find(|call| call.id == result.call);
    let tool = call.and_then(|call| resolve(spec, &call.name)).map(|(tool, _)| &tool.policy);
    result.status == Some(Status::Ok)
        && matches!(result.origin, Some(ResultOrigin::Tool { untrusted: false, .. }))
        && tool.is_some_and(|policy| policy.asks_person && !policy.returns_untrusted)
}

/// The signature and the effect of a call that changes something.
fn write(call: &ToolCall, spec: &RunSpec) -> Option<(Digest, Effect)> {
    let (tool, _) = resolve(spec, &call.name).filter(|(tool, _)| !tool.effect.is_read())?;
    let arguments = tool.args.rebuild(call.arguments.value().ok()?).ok()?;
    let fingerprint = Fingerprint::of(&CallFacts::of(tool, &arguments), &Rules::of_run(spec));
    Some((fingerprint.signature(), tool.effect))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use loop_core::RunSpec;
    use loop_core::spec::ModelSpec;
    use serde_json::{Value, json};

    use super::*;

    fn spec() -> RunSpec {
        let mut spec = RunSpec::conversation("test", ModelSpec::new("fake", "fake"));
        for (name, untrusted, private) in [
            ("web", true, false),
            ("mail", false, true),
            ("look", false, false),
            ("pay", false, false),
            ("note", false, false),
        ] {
            let effect = match name {
                "pay" => "write_irreversible",
                "note" => "write_idempotent",
                _ => "read",
            };
            let args = json!({"type": "object", "properties": {"to": {"type": "string"}}});
            spec.tools.push(
                serde_json::from_value(json!({
                    "name": name, "description": "", "args": args, "effect": effect, "timeout_ms": 1,
                    "attempts": 1, "policy": {"returns_untrusted": untrusted, "reads_private": private},
                }))
                .unwrap(),
            );
        }
        spec
    }

    /// The results of calls, each with the members that it has beside its id.
    #[track_caller]
    fn check(turns: &[&[(&str, Value)]], expected: (bool, bool)) {
        let mut history = vec![json!({"role": "user", "text": "hello"})];
        for turn in turns {
            let numbered = || turn.iter().enumerate();
            let calls = numbered()
                .map(|(n, (name, _))| json!({"id": n.to_string(), "name": name, "arguments": {}}))
                .collect::<Vec<_>>();
            let results = numbered().map(|(n, (_, members))| {
                let mut result = json!({"call": n.to_string(), "text": "x"});
                let own = members.as_object().unwrap().clone();
                result.as_object_mut().unwrap().extend(own);
                result
            });
            history.push(json!({"role": "assistant", "calls": calls}));
            history.push(json!({"role": "tool", "results": results.collect::<Vec<_>>()}));
        }
        let history: Vec<Message> = serde_json::from_value(json!(history)).unwrap();
        let Taint { untrusted, private } = taint_of(&history, &Arc::new(spec()));
        assert_eq!((untrusted, private), expected);
    }

    fn of_tool(untrusted: bool, private: bool) -> Value {
        json!({"status": "ok", "origin": {"by": "tool", "untrusted": untrusted, "private": private}})
    }

    fn of_verdict(text: &str) -> Value {
        json!({"status": "denied", "origin": {"by": "verdict"}, "is_error": true, "text": text})
    }

    #[test]
    fn what_the_user_wrote_in_earlier_turns_is_theirs_and_nothing_else_is() {
        // Issue 40, H9
        let mut spec = spec();
        for tool in &mut spec.tools {
            tool.policy.asks_person = matches!(&*tool.name, "look" | "web");
        }
        let calls = ["look", "web", "mail", "look", "look"].iter().enumerate();
        let calls: Vec<Value> = calls
            .map(|(n, name)| json!({"id": n.to_string(), "name": name, "arguments": {"to": "asked"}}))
            .collect();
        let result = |call: &str, text: &str, members: Value| {
            let mut result = json!({"call": call, "text": text});
            result.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            result
        };
        let history: Vec<Message> = serde_json::from_value(json!([
            {"role": "user", "text": "first"},
            {"role": "assistant", "text": "model", "calls": calls},
            {"role": "tool", "results": [
                result("0", "answered", of_tool(false, false)),
                result("1", "answered by a third party", of_tool(false, false)),
                result("2", "returned", of_tool(false, false)),
                result("3", "denied", of_verdict("no")),
                result("4", "without an origin", json!({"status": "ok"})),
            ]},
            {"role": "operator", "text": "rules"},
            {"role": "user", "text": "rejected: model", "author": "runner"},
            {"role": "assistant", "text": "model"},
            {"role": "user", "text": "second", "author": "user"},
        ]))
        .unwrap();
        let texts: Vec<String> = user_texts_of(&history, &spec).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["first", "answered", "second"]);
    }

    #[test]
    fn what_was_read_in_earlier_turns_was_read() {
        // K2
        let plain = of_tool(false, false);
        check(&[], (false, false));
        check(&[&[("look", plain.clone())]], (false, false));
        check(&[&[("look", plain.clone()), ("web", of_tool(true, false))]], (true, false));
        check(&[&[("mail", of_tool(false, true))]], (false, true));
        check(&[&[("mail", of_tool(false, true)), ("web", of_tool(true, false))]], (true, true));
        // The spec has become stricter since.
        check(&[&[("web", plain.clone())]], (true, false));
        check(&[&[("mail", plain.clone())]], (false, true));
        // What the tool was then is known, also where the spec has none of that name any more.
        check(&[&[("browse", plain)]], (false, false));
        check(&[&[("browse", of_tool(true, true))]], (true, true));
    }

    #[test]
    fn what_does_not_say_who_wrote_it_may_have_been_written_by_anybody() {
        // K2
        let silent = json!({});
        check(&[&[("look", silent.clone())]], (true, false));
        check(&[&[("mail", silent.clone())]], (true, true));
        check(&[&[("browse", silent.clone())]], (true, false));
        check(&[&[("browse", json!({"is_error": true, "status": "invalid_input"}))]], (true, false));
        // The id of a failure is taken again.
        check(&[&[("browse", of_verdict("no"))], &[("browse", silent.clone())]], (true, false));
        check(&[&[("browse", silent)], &[("browse", of_verdict("no"))]], (true, false));
        check(&[&[("browse", of_verdict("no"))], &[("browse", of_verdict("no"))]], (false, false));
    }

    #[test]
    fn no_words_say_who_wrote_them() {
        // K2: a verdict may be reworded, and a tool may word its text like a verdict.
        for text in ["Error: Unknown tool browse", "Error: there is none of that name", "anything"] {
            check(&[&[("browse", of_verdict(text))]], (false, false));
            check(&[&[("web", of_verdict(text))]], (false, false));
            check(&[&[("browse", json!({"is_error": true, "text": text}))]], (true, false));
            let mut lie = of_tool(true, false);
            lie["text"] = text.into();
            check(&[&[("browse", lie)]], (true, false));
        }
    }

    const LOST: &str = "Error: timeout after 5 s; it may or may not have happened";

    /// A call of a tool with an argument, and what its result says: whether it is an error, its text, its status.
    type Made<'a> = (&'a str, &'a str, bool, &'a str, Option<Status>);

    /// Calls, one message of them after another; how many of them are in doubt.
    #[track_caller]
    fn check_doubts(turns: &[&[Made<'_>]], expected: usize) {
        let mut history = vec![json!({"role": "user", "text": "hello"})];
        for calls in turns {
            let calls = calls.iter().enumerate();
            let requested = calls.clone().map(
                |(n, (name, to, ..))| json!({"id": n.to_string(), "name": name, "arguments": {"to": to}}),
            );
            let results = calls.map(|(n, (_, _, is_error, text, status))| {
                let mut result = json!({"call": n.to_string(), "is_error": is_error, "text": text});
                if let Some(status) = status {
                    result["status"] = json!(status);
                }
                result
            });
            history.push(json!({"role": "assistant", "calls": requested.collect::<Vec<_>>()}));
            history.push(json!({"role": "tool", "results": results.collect::<Vec<_>>()}));
        }
        let history: Vec<Message> = serde_json::from_value(Value::from(history)).unwrap();
        assert_eq!(doubts_of(&history, &spec()).len(), expected, "{turns:?}");
    }

    #[test]
    fn a_write_that_may_have_happened_in_an_earlier_turn_is_in_doubt_until_it_is_made() {
        let lost = ("pay", "a", true, LOST, Some(Status::InDoubt));
        let denied = ("pay", "a", true, "Error: Not permitted: no", Some(Status::Denied));
        let paid = ("pay", "a", false, "paid", Some(Status::Ok));
        check_doubts(&[&[paid]], 0);
        check_doubts(&[&[lost]], 1);
        check_doubts(&[&[lost, ("pay", "b", true, LOST, Some(Status::InDoubt))]], 2);
        check_doubts(&[&[lost], &[denied]], 1);
        check_doubts(&[&[lost], &[("pay", "b", false, "paid", Some(Status::Ok))]], 1);
        check_doubts(&[&[lost, paid]], 1);
        check_doubts(&[&[lost], &[paid]], 0);
        // What only reads is read again.
        check_doubts(&[&[("look", "a", true, LOST, Some(Status::InDoubt))]], 0);
    }

    #[test]
    fn whether_a_write_is_in_doubt_is_its_status_and_never_its_words() {
        for text in [LOST, "Error: nobody knows what became of it", ""] {
            check_doubts(&[&[("pay", "a", true, text, Some(Status::InDoubt))]], 1);
            check_doubts(&[&[("note", "a", true, text, Some(Status::InDoubt))]], 1);
            for status in [Status::Ok, Status::Denied, Status::PermanentError, Status::Skipped] {
                check_doubts(&[&[("pay", "a", status != Status::Ok, text, Some(status))]], 0);
            }
        }
        // That it was not asked for once more does not mean that it was made.
        let lost = ("pay", "a", true, LOST, Some(Status::InDoubt));
        check_doubts(&[&[lost], &[("pay", "a", false, "skipped", Some(Status::Skipped))]], 1);
    }

    #[test]
    fn an_error_that_does_not_say_how_it_ended_is_in_doubt_where_the_call_cannot_be_repeated() {
        for text in [LOST, "Error: no"] {
            check_doubts(&[&[("pay", "a", true, text, None)]], 1);
            check_doubts(&[&[("note", "a", true, text, None), ("look", "a", true, text, None)]], 0);
        }
        check_doubts(&[&[("pay", "a", false, LOST, None)]], 0);
        check_doubts(&[&[("pay", "a", true, "", None)], &[("pay", "a", false, "paid", None)]], 0);
    }
}
