//! What stands in the messages before a run that marks it: they are read like everything else (K2).

use std::collections::BTreeSet;

use loop_core::policy::{Legs, resolve};
use loop_core::{RunSpec, Status};
use loop_llm::Message;

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
}
