//! What stands in the messages before a run that marks it: what was read there (K2), and what may have happened.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::policy::{Legs, resolve};
use loop_core::repeats::{CallFacts, Rules, Sign};
use loop_core::{Digest, RunSpec, Status};
use loop_llm::{Arguments, Message, ToolCall, ToolResult};
use loop_prompts::tells_doubt;
use serde_json::Value;

/// What the tools whose results stand in messages may have brought. Of a tool that the spec does not have nothing is known,
/// so that what it brought may have been written by anybody.
pub(crate) fn legs_of(history: &[Message], spec: &RunSpec) -> Legs {
    let failed: BTreeSet<&str> = history
        .iter()
        .filter_map(|message| match message {
            Message::Tool { results } => Some(results),
            Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => None,
        })
        .flatten()
        .filter(|result| result.is_error)
        .map(|result| &*result.call)
        .collect();
    let calls = history.iter().filter_map(|message| match message {
        Message::Assistant(turn) => Some(&turn.calls),
        Message::User { .. } | Message::Tool { .. } | Message::Operator { .. } => None,
    });
    calls.flatten().fold(Legs::default(), |legs, call| match resolve(spec, &call.name) {
        Some((tool, _)) => legs.after(tool, Status::Ok),
        // An unknown name gave nothing but an error.
        None if failed.contains(&*call.id) => legs,
        None => Legs { untrusted: true, ..legs },
    })
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
                // Of two in one message the doubtful one may have been the last.
                let made = results.iter().filter(|result| !result.is_error).filter_map(write);
                made.for_each(|signature| {
                    doubts.remove(&signature);
                });
                let doubtful = results.iter().filter(|result| result.is_error && tells_doubt(&result.text));
                doubts.extend(doubtful.filter_map(write));
            }
            Message::User { .. } | Message::Operator { .. } => {}
        }
    }
    doubts
}

/// The signature of a call that changes something.
fn write(call: &ToolCall, spec: &RunSpec) -> Option<Digest> {
    let (tool, _) = resolve(spec, &call.name)?;
    let Arguments::Object { value, .. } = &call.arguments else { return None };
    let arguments = tool.args.rebuild(&Value::Object((**value).clone())).ok()?;
    let facts = CallFacts::of(tool, &arguments);
    (!facts.is_read).then(|| Sign::of(&facts, &Rules::of_run(spec)).signature())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

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

    #[track_caller]
    fn check(calls: &[(&str, bool)], expected: (bool, bool)) {
        let calls: Vec<_> = calls.iter().enumerate().collect();
        let turn = json!({"role": "assistant", "calls": calls.iter()
            .map(|(n, (name, _))| json!({"id": n.to_string(), "name": name, "arguments": {}})).collect::<Vec<_>>()});
        let results = json!({"role": "tool", "results": calls.iter()
            .map(|(n, (_, is_error))| json!({"call": n.to_string(), "is_error": is_error, "text": "x"}))
            .collect::<Vec<_>>()});
        let history: Vec<Message> =
            serde_json::from_value(json!([{"role": "user", "text": "hello"}, turn, results])).unwrap();
        let Legs { untrusted, private } = legs_of(&history, &Arc::new(spec()));
        assert_eq!((untrusted, private), expected);
    }

    #[test]
    fn what_was_read_in_earlier_turns_was_read() {
        check(&[], (false, false));
        check(&[("look", false)], (false, false));
        check(&[("look", false), ("web", false)], (true, false));
        check(&[("mail", false)], (false, true));
        check(&[("mail", true), ("web", true)], (true, true));
        // A name that is unknown: what another program's tool brought, or a slip of the model's.
        check(&[("browse", false)], (true, false));
        check(&[("browse", true)], (false, false));
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
