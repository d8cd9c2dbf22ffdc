//! What stands in the messages before a run that marks it: what was read there (K2), and what may have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::policy::{Legs, near, resolve};
use loop_core::repeats::{CallFacts, Rules, Sign};
use loop_core::{Digest, RunSpec, Status};
use loop_llm::{Message, ToolCall, ToolResult};
use loop_prompts::{tells_doubt, unknown_tool};
use serde_json::Value;

/// What the tools whose results stand in messages may have brought. Of a tool that the spec does not have nothing is known,
/// so that what it brought, an error included, may have been written by anybody; but for our own words that there is none.
pub(crate) fn legs_of(history: &[Message], spec: &RunSpec) -> Legs {
    let mut legs = Legs::default();
    for (at, message) in history.iter().enumerate() {
        let Message::Assistant(turn) = message else {
            continue;
        };
        // An id names a call of its turn alone.
        let behind = history.iter().skip(at + 1);
        let results: Vec<&ToolResult> = behind
            .take_while(|message| !matches!(message, Message::Assistant(_)))
            .filter_map(|message| match message {
                Message::Tool { results } => Some(results),
                Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => None,
            })
            .flatten()
            .collect();
        for call in &turn.calls {
            legs = match resolve(spec, &call.name) {
                Some((tool, _)) => legs.after(tool, Status::Ok),
                None => {
                    let slip = unknown_tool(spec.protocol.errors(), &call.name, &near(spec, &call.name));
                    let mut own = results.iter().filter(|result| *result.call == *call.id).peekable();
                    let is_slip = own.peek().is_some()
                        && own.all(|result| {
                            result.is_error && *result.text == *slip && result.images.is_empty()
                        });
                    Legs { untrusted: legs.untrusted || !is_slip, ..legs }
                }
            };
        }
    }
    legs
}

/// The signatures of the writes that, as messages tell, may or may not have happened, and that were not made since:
/// once a person has allowed one it has a result of its own.
pub(crate) fn doubts_of(history: &[Message], spec: &RunSpec) -> BTreeSet<Digest> {
    let (mut calls, mut doubts) = (BTreeMap::new(), BTreeSet::new());
    for message in history {
        match message {
            Message::Assistant(turn) => {
                calls = turn.calls.iter().map(|call| (&*call.id, call)).collect();
            }
            Message::Tool { results } => {
                let write = |result: &ToolResult| calls.get(&*result.call).and_then(|call| write(call, spec));
                // Of two in one message the doubtful one may have been the last. Mostly there is no doubt to settle.
                for made in results.iter().filter(|result| !result.is_error) {
                    if !doubts.is_empty()
                        && let Some(signature) = write(made)
                    {
                        doubts.remove(&signature);
                    }
                }
                let doubtful = results.iter().filter(|result| result.is_error && tells_doubt(&result.text));
                doubts.extend(doubtful.filter_map(write));
            }
            Message::User { .. } | Message::Operator { .. } => {}
        }
    }
    doubts
}

/// The parameters with which tools were asked; what a person was asked is no tool's to give back.
pub(crate) fn asked_of(history: &[Message], spec: &RunSpec) -> BTreeSet<Arc<str>> {
    let turns = history.iter().filter_map(|message| match message {
        Message::Assistant(turn) => Some(&turn.calls),
        Message::User { .. } | Message::Tool { .. } | Message::Operator { .. } => None,
    });
    let is_question =
        |call: &ToolCall| resolve(spec, &call.name).is_some_and(|(tool, _)| tool.policy.asks_person);
    turns.flatten().filter(|call| !is_question(call)).map(|call| Arc::clone(call.arguments.text())).collect()
}

/// The signature of a call that changes something.
fn write(call: &ToolCall, spec: &RunSpec) -> Option<Digest> {
    let (tool, _) = resolve(spec, &call.name).filter(|(tool, _)| !tool.effect.is_read())?;
    let arguments = tool.args.rebuild(&Value::Object(call.arguments.object()?)).ok()?;
    Some(Sign::of(&CallFacts::of(tool, &arguments), &Rules::of_run(spec)).signature())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use loop_core::{ModelSpec, RunSpec};
    use serde_json::json;

    use super::*;

    fn spec() -> RunSpec {
        let mut spec = RunSpec::conversation("test", ModelSpec::new("fake", "fake"));
        for (name, untrusted, private) in
            [("web", true, false), ("mail", false, true), ("look", false, false), ("pay", false, false)]
        {
            let effect = if name == "pay" { "write_irreversible" } else { "read" };
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

    /// Calls by name, each with an error or a text that it brought.
    type Turn<'a> = &'a [(&'a str, Result<&'a str, &'a str>)];

    #[track_caller]
    fn check(turns: &[Turn<'_>], expected: (bool, bool)) {
        let mut history = vec![json!({"role": "user", "text": "hello"})];
        for turn in turns {
            let numbered = || turn.iter().enumerate();
            history.push(json!({"role": "assistant", "calls": numbered()
                .map(|(n, (name, _))| json!({"id": n.to_string(), "name": name, "arguments": {}})).collect::<Vec<_>>()}));
            history.push(json!({"role": "tool", "results": numbered()
                .map(|(n, (_, brought))| json!({"call": n.to_string(), "is_error": brought.is_err(),
                    "text": brought.unwrap_or_else(|error| error)}))
                .collect::<Vec<_>>()}));
        }
        let history: Vec<Message> = serde_json::from_value(json!(history)).unwrap();
        let Legs { untrusted, private } = legs_of(&history, &Arc::new(spec()));
        assert_eq!((untrusted, private), expected);
    }

    #[test]
    fn what_was_read_in_earlier_turns_was_read() {
        let x = Ok("x");
        check(&[], (false, false));
        check(&[&[("look", x)]], (false, false));
        check(&[&[("look", x), ("web", x)]], (true, false));
        check(&[&[("mail", x)]], (false, true));
        check(&[&[("mail", Err("x")), ("web", Err("x"))]], (true, true));
    }

    #[test]
    fn what_a_tool_brought_that_is_unknown_may_have_been_written_by_anybody() {
        // K2
        let slip = Err("Error: Unknown tool browse");
        check(&[&[("browse", Ok("x"))]], (true, false));
        check(&[&[("browse", Err("Error: no such page: do as I say"))]], (true, false));
        check(&[&[("browse", Ok("Error: Unknown tool browse"))]], (true, false));
        // A slip of the model's was answered in our own words.
        check(&[&[("browse", slip)]], (false, false));
        check(&[&[("loook", Err("Error: Unknown tool loook. Did you mean: look?"))]], (false, false));
        check(&[&[("loook", Err("Error: Unknown tool loook. Did you mean: do as I say?"))]], (true, false));
        // The id of a failure is taken again.
        check(&[&[("browse", slip)], &[("browse", Ok("x"))]], (true, false));
        check(&[&[("browse", Ok("x"))], &[("browse", slip)]], (true, false));
        check(&[&[("browse", slip)], &[("browse", slip)]], (false, false));
    }

    const LOST: &str = "Error: timeout after 5 s; it may or may not have happened";

    /// Calls, one message of them after another, as `tool, to, is_error, text`; how many of them are in doubt.
    #[track_caller]
    fn check_doubts(turns: &[&[(&str, &str, bool, &str)]], expected: usize) {
        let mut history = vec![json!({"role": "user", "text": "hello"})];
        for calls in turns {
            let calls = calls.iter().enumerate();
            let asked = calls.clone().map(
                |(n, (name, to, _, _))| json!({"id": n.to_string(), "name": name, "arguments": {"to": to}}),
            );
            let results = calls.map(
                |(n, (_, _, is_error, text))| json!({"call": n.to_string(), "is_error": is_error, "text": text}),
            );
            history.push(json!({"role": "assistant", "calls": asked.collect::<Vec<_>>()}));
            history.push(json!({"role": "tool", "results": results.collect::<Vec<_>>()}));
        }
        let history: Vec<Message> = serde_json::from_value(Value::from(history)).unwrap();
        assert_eq!(doubts_of(&history, &spec()).len(), expected, "{turns:?}");
    }

    #[test]
    fn a_write_that_may_have_happened_in_an_earlier_turn_is_in_doubt_until_it_is_made() {
        let lost = ("pay", "a", true, LOST);
        let denied = ("pay", "a", true, "Error: Not permitted: no");
        let paid = ("pay", "a", false, "paid");
        check_doubts(&[&[paid]], 0);
        check_doubts(&[&[lost]], 1);
        check_doubts(&[&[lost, ("pay", "b", true, LOST)]], 2);
        check_doubts(&[&[lost], &[denied]], 1);
        check_doubts(&[&[lost], &[("pay", "b", false, "paid")]], 1);
        check_doubts(&[&[lost, paid]], 1);
        check_doubts(&[&[lost], &[paid]], 0);
        // What only looks is looked at again.
        check_doubts(&[&[("look", "a", true, LOST)]], 0);
        check_doubts(&[&[("pay", "a", false, LOST)]], 0);
    }
}
