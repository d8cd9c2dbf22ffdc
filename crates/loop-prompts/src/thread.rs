//! The conversation of a run with native calls, as turns: all of them, or those added since the last call.
//!
//! The instructions of people are user turns before the reply of the pass that they are for.

use std::sync::Arc;

use loop_core::Run;
use loop_core::gate::JudgedAction;
use loop_core::run::{AttemptState, PassRecord};
use loop_core::types::{CommandKey, Digest, ItemForm, Slot, ToolCall, cleaned};
use loop_llm::Message;
use loop_llm::request::{AssistantTurn, Raw};
use minijinja::Value;

use crate::anchors::DEMANDED;
use crate::dialogue::{last_call, offered};
use crate::results::{short_result, with_digest};
use crate::template::{AGENT, ITEM, LAST_REPLY, REJECTION};
use crate::text::{line, line_without};
use crate::{Prompts, parts};

/// Renders the turns of one run. Turns are only appended, until the run compacts them.
///
/// It stores its position, not the turns, so that a call costs only what is new. It can be dropped and rebuilt at any
/// time: the same run gives the same turns and the same [`hash`](Self::hash).
#[derive(Debug, Default)]
pub struct Thread {
    /// Which part of the run is compacted. `None` before the first turn.
    shape: Option<CompactedShape>,
    passes: usize,
    /// The number of actions in the rendered passes.
    actions: usize,
    /// The number of rejected attempts whose rejection is rendered.
    rejected: usize,
    /// The number of instructions that are rendered.
    instruction: usize,
    /// The operator turn at the end, until its reply is received. `None`: there is none.
    last_reply: Option<Arc<str>>,
    hash: Option<Digest>,
    /// Of each result that is not hashed yet, the digest of its text where it is known already.
    digests: Vec<Option<Digest>>,
}

/// The turns that a thread added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTurns {
    /// Whether `turns` are all turns of the thread. False: they follow the turns returned before.
    pub anew: bool,
    /// The turns, in order.
    pub turns: Vec<Message>,
}

/// Which part of a run is compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CompactedShape {
    /// The last compacted pass, from 1. 0: none.
    through: u32,
    /// Whether the messages before the run are compacted.
    history: bool,
}

impl Thread {
    /// The system prompt of a run with native calls. It is byte-identical for every run of a domain.
    pub fn system(prompts: &Prompts, run: &Run) -> Arc<str> {
        let spec = run.spec();
        let output = spec.protocol.output();
        let tools: Vec<String> = offered(spec)
            .filter(|tool| !spec.protocol.is_output(&tool.name))
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        let variables = [
            ("kind", Value::from(line(&run.started().item.kind))),
            ("goal", Value::from(spec.goal.trim())),
            ("ending", Value::from(parts::ending(&spec.protocol, !tools.is_empty()))),
            ("output", Value::from(output.map_or("", |output| &*output.tool))),
            ("tools", Value::from(tools.join(", "))),
        ];
        prompts.templates().system(&AGENT, &variables).into()
    }

    /// The turns for the main call `key`, as far as they were not returned before.
    ///
    /// All calls of earlier passes have settled by then. Where the run continues earlier messages, the driver renders
    /// those, and the thread begins after them.
    pub fn grow(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) -> AddedTurns {
        let done = key.pass.saturating_sub(1) as usize;
        let last_reply: Option<Arc<str>> = (key.slot == Slot::Final).then(|| last_reply(prompts, run));
        let shape = CompactedShape { through: run.compacted_through(), history: run.is_history_compacted() };
        let anew = self.shape != Some(shape)
            || self.passes > done
            || self.last_reply.is_some() && (self.passes < done || self.last_reply != last_reply);
        let mut turns = Vec::new();
        if anew {
            *self = Self { shape: Some(shape), ..Self::default() };
            turns.extend(first(prompts, run));
        }
        for record in run.passes().get(self.passes..done).unwrap_or_default() {
            self.pass(prompts, run, record, &mut turns);
        }
        self.instruction(run, key.pass, &mut turns);
        if let (Some(text), None) = (last_reply, &self.last_reply) {
            turns.push(Message::Operator { text: Arc::clone(&text) });
            self.last_reply = Some(text);
        }
        let mut known = std::mem::take(&mut self.digests).into_iter();
        let hash = turns.iter().fold(self.hash(), |before, turn| named_after(turn, &before, &mut known));
        self.hash = Some(hash);
        AddedTurns { anew, turns }
    }

    /// The digest of all turns so far. It is chained, so that its cost is that of the new turns.
    pub fn hash(&self) -> Digest {
        self.hash.unwrap_or_else(|| Digest::of("thread", b""))
    }

    /// All turns of a run in full, to be stored as the conversation. Every call has a result, a cancelled call's result
    /// says so, and the last text is at the end, even if only a part of it was received. Operator turns are left out.
    pub fn whole(prompts: &Prompts, run: &Run) -> Vec<Message> {
        let mut thread = Self { shape: Some(CompactedShape::default()), ..Self::default() };
        let mut turns: Vec<Message> = first(prompts, run).into_iter().collect();
        for record in run.passes() {
            thread.pass(prompts, run, record, &mut turns);
        }
        turns.retain(|turn| !matches!(turn, Message::Operator { .. }));
        turns.extend(run.broken_off().map(|text| Message::assistant(Arc::clone(text))));
        turns
    }

    /// Adds a pass: its reply, the results of its calls, and the rejection of the output that it ended with.
    fn pass(&mut self, prompts: &Prompts, run: &Run, record: &PassRecord, turns: &mut Vec<Message>) {
        self.instruction(run, record.pass, turns);
        if record.final_pass && self.last_reply.take().is_none() {
            turns.push(Message::Operator { text: last_reply(prompts, run) });
        }
        let rest = run.actions().get(self.actions..).unwrap_or_default();
        let actions = rest.partition_point(|action| action.key.pass <= record.pass);
        let actions = rest.get(..actions).unwrap_or_default();
        let is_short = self.shape.is_some_and(|shape| record.pass <= shape.through);
        // Providers refuse an empty turn.
        if !actions.is_empty() || !record.reply.trim().is_empty() {
            let calls = actions.iter().map(|action| ToolCall {
                id: Arc::clone(&action.action.id),
                name: Arc::clone(&action.action.tool),
                arguments: action.action.parameters.clone(),
            });
            turns.push(Message::Assistant(AssistantTurn {
                text: Arc::clone(&record.reply),
                raw: record.raw.clone().filter(|_| !is_short).map(Raw::from_text),
                calls: calls.collect(),
                reasoning: record.reasoning.clone().filter(|_| !is_short).unwrap_or_default(),
            }));
        }
        if !actions.is_empty() {
            let result = |action: &Arc<JudgedAction>| match is_short {
                true => (short_result(run, action), None),
                false => with_digest(run, action),
            };
            let (results, digests): (Vec<_>, Vec<_>) = actions.iter().map(result).unzip();
            self.digests.extend(digests);
            turns.push(Message::Tool { results });
        }
        turns.extend(parts::unread(run, record.pass).map(Message::user));
        self.passes += 1;
        self.actions += actions.len();
        turns.extend(self.rejection(prompts, run));
        turns.extend(unrevised(prompts, run, record.pass + 1));
    }

    /// Adds the instructions of people for this pass or an earlier one.
    fn instruction(&mut self, run: &Run, pass: u32, turns: &mut Vec<Message>) {
        let rest = run.instructions().get(self.instruction..).unwrap_or_default();
        let new = rest.iter().take_while(|instruction| instruction.from_pass <= pass);
        let before = turns.len();
        turns.extend(new.map(|instruction| Message::user(cleaned(&instruction.text))));
        self.instruction += turns.len() - before;
    }

    /// The rejection of the output that the last pass ended with, if another attempt followed.
    fn rejection(&mut self, prompts: &Prompts, run: &Run) -> Option<Message> {
        let attempt = run.attempts().get(self.rejected)?;
        let next = run.attempts().get(self.rejected + 1)?;
        let AttemptState::Rejected(loop_core::run::Rejection { by, message }) = &attempt.state else {
            return None;
        };
        if next.from_pass as usize != self.passes + 1 {
            return None;
        }
        self.rejected += 1;
        let output = run.spec().protocol.output().map_or("", |output| &*output.tool);
        let variables = [
            ("by", Value::from(line(by))),
            ("message", Value::from(cleaned(message).trim())),
            ("output", Value::from(output)),
        ];
        Some(Message::user(prompts.templates().user(&REJECTION, &variables)))
    }
}

/// The turn with the work item: a message unchanged, any other item fenced and with its title. `None` where the
/// messages before the run hold it.
fn first(prompts: &Prompts, run: &Run) -> Option<Message> {
    let started = run.started();
    if started.history.is_some() {
        return None;
    }
    let item = &started.item;
    match item.form {
        ItemForm::Message => return Some(Message::user(Arc::clone(&item.full))),
        ItemForm::Data => {}
    }
    let nonce = &started.nonce;
    let variables = [
        ("kind", Value::from(line(&item.kind))),
        ("title", Value::from(line_without(nonce, &item.title))),
        ("nonce", Value::from(&**nonce)),
        ("item", Value::from(parts::item(&item.full, nonce))),
    ];
    Some(Message::user(prompts.templates().user(&ITEM, &variables)))
}

/// The rejection of an answer or output that lacks demanded evidence, where this pass was granted to repair it.
fn unrevised(prompts: &Prompts, run: &Run, pass: u32) -> Option<Message> {
    let missing = run.revisions(pass)?;
    let missing: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
    let message = format!("this is {DEMANDED}, and is not there: {}", missing.join(", "));
    let output = run.spec().protocol.output().map_or("", |output| &*output.tool);
    let variables =
        [("by", Value::from("evidence")), ("message", Value::from(message)), ("output", Value::from(output))];
    Some(Message::user(prompts.templates().user(&REJECTION, &variables)))
}

fn last_reply(prompts: &Prompts, run: &Run) -> Arc<str> {
    prompts.templates().user(&LAST_REPLY, &[("cause", Value::from(last_call(run)))]).into()
}

/// The digest of a turn chained to `before`, the digest of all turns before it. `known` has the digests of results whose
/// text is hashed already, in order.
fn named_after(turn: &Message, before: &Digest, known: &mut impl Iterator<Item = Option<Digest>>) -> Digest {
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(&before.0);
    // Each field is preceded by its length, so that no two turns have the same bytes.
    let mut put = |fields: &[&[u8]]| {
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field);
        }
    };
    match turn {
        Message::User { text, .. } => put(&[b"user", text.as_bytes()]),
        Message::Operator { text } => put(&[b"operator", text.as_bytes()]),
        Message::Assistant(AssistantTurn { text, raw, calls, reasoning }) => {
            let raw = raw.as_ref().map_or("", |raw| &**raw.text()).as_bytes();
            put(&[b"assistant", text.as_bytes(), raw, reasoning.as_bytes()]);
            for call in calls {
                put(&[call.id.as_bytes(), call.name.as_bytes(), call.arguments.as_bytes()]);
            }
        }
        Message::Tool { results } => {
            put(&[b"results"]);
            for result in results {
                let kind: &[u8] = if result.is_error { b"error" } else { b"result" };
                // A known digest saves hashing the text again.
                let known = known.next().flatten();
                let name = known.unwrap_or_else(|| Digest::of("result", result.text.as_bytes()));
                put(&[result.call.as_bytes(), kind, &name.0]);
            }
        }
    }
    Digest::of("turn", &bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use loop_llm::ToolOutput;

    use super::*;

    fn name(turn: &Message, known: Option<Digest>) -> Digest {
        named_after(turn, &Digest::of("test", b""), &mut [known].into_iter())
    }

    #[test]
    fn results_are_named_by_what_they_say() {
        let name = |id: &str, is_error, text: &str, digest| {
            let result = ToolOutput { call: id.into(), is_error, text: text.into(), ..ToolOutput::default() };
            name(&Message::Tool { results: vec![result] }, digest)
        };
        let (one, other) = (Some(Digest::of("test", b"1")), Some(Digest::of("test", b"2")));
        let names = BTreeSet::from([
            name("a", false, "x", None),
            name("b", false, "x", None),
            name("a", true, "x", None),
            name("a", false, "y", None),
            name("a", false, "x", one),
            name("a", false, "x", other),
        ]);
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn turns_of_different_kinds_have_different_names() {
        let result = ToolOutput { text: "x".into(), ..ToolOutput::default() };
        let turns = [
            Message::user("x"),
            Message::Operator { text: "x".into() },
            Message::assistant("x"),
            Message::Tool { results: vec![result] },
        ];
        let names: BTreeSet<Digest> = turns.iter().map(|turn| name(turn, None)).collect();
        assert_eq!(names.len(), turns.len());
    }
}
