//! What stands in the messages before a run that marks it: they are read like everything else (K2).

use loop_core::policy::{Legs, near, resolve};
use loop_core::{RunSpec, Status};
use loop_llm::{Message, ToolResult};
use loop_prompts::unknown_tool;

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
            [("web", true, false), ("mail", false, true), ("look", false, false)]
        {
            spec.tools.push(
                serde_json::from_value(json!({
                    "name": name, "description": "", "args": {"type": "object"}, "effect": "read", "timeout_ms": 1,
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
}
