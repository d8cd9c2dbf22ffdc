//! The conversation of a run with native calls, as turns: all of them, or those added since the last call.
//!
//! The instructions of people are user turns before the reply of the pass that they are for.

use std::sync::Arc;

use loop_core::Run;
use loop_core::run::{AttemptState, PassRecord};
use loop_core::types::{CommandKey, Digest, ItemForm, Slot, ToolCall, cleaned};
use minijinja::Value;

use crate::anchors::DEMANDED;
use crate::dialogue::{last_call, offered};
use crate::results::{call_result, short_result};
use crate::template::{AGENT, ITEM, LAST_REPLY, REJECTION};
use crate::text::{line, line_without};
use crate::{Prompts, Turn, parts};

/// Renders the turns of one run. Turns are only appended, until the run compacts them.
///
/// It stores its position, not the turns, so that a call costs only what is new. It can be dropped and rebuilt at any
/// time: the same run gives the same turns and the same [`hash`](Self::hash).
#[derive(Debug, Default)]
pub struct Thread {
    /// Which part of the run is compacted. `None` before the first turn.
    shape: Option<Shape>,
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
}

/// The turns that a thread added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Whether `turns` are all turns of the thread. False: they follow the turns returned before.
    pub anew: bool,
    /// The turns, in order.
    pub turns: Vec<Turn>,
}

/// Which part of a run is compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
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
    pub fn grow(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) -> Grown {
        let done = key.pass.saturating_sub(1) as usize;
        let last_reply: Option<Arc<str>> = (key.slot == Slot::Final).then(|| last_reply(prompts, run));
        let shape = Shape { through: run.compacted_through(), history: run.is_history_compacted() };
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
            turns.push(Turn::Operator(Arc::clone(&text)));
            self.last_reply = Some(text);
        }
        let hash = turns.iter().fold(self.hash(), |before, turn| turn.named_after(&before));
        self.hash = Some(hash);
        Grown { anew, turns }
    }

    /// The digest of all turns so far. It is chained, so that its cost is that of the new turns.
    pub fn hash(&self) -> Digest {
        self.hash.unwrap_or_else(|| Digest::of("thread", b""))
    }

    /// All turns of a run in full, to be stored as the conversation. Every call has a result, a cancelled call's result
    /// says so, and the last text is at the end, even if only a part of it was received. Operator turns are left out.
    pub fn whole(prompts: &Prompts, run: &Run) -> Vec<Turn> {
        let mut thread = Self { shape: Some(Shape::default()), ..Self::default() };
        let mut turns: Vec<Turn> = first(prompts, run).into_iter().collect();
        for record in run.passes() {
            thread.pass(prompts, run, record, &mut turns);
        }
        turns.retain(|turn| !matches!(turn, Turn::Operator(_)));
        turns.extend(run.broken_off().map(assistant));
        turns
    }

    /// Adds a pass: its reply, the results of its calls, and the rejection of the output that it ended with.
    fn pass(&mut self, prompts: &Prompts, run: &Run, record: &PassRecord, turns: &mut Vec<Turn>) {
        self.instruction(run, record.pass, turns);
        if record.final_pass && self.last_reply.take().is_none() {
            turns.push(Turn::Operator(last_reply(prompts, run)));
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
            turns.push(Turn::Assistant {
                text: Arc::clone(&record.reply),
                raw: record.raw.clone().filter(|_| !is_short),
                calls: calls.collect(),
                reasoning: record.reasoning.clone().filter(|_| !is_short),
            });
        }
        if !actions.is_empty() {
            let result = if is_short { short_result } else { call_result };
            turns.push(Turn::Results(actions.iter().map(|action| result(run, action)).collect()));
        }
        turns.extend(parts::unread(run, record.pass).map(|line| Turn::User(line.into())));
        self.passes += 1;
        self.actions += actions.len();
        turns.extend(self.rejection(prompts, run));
        turns.extend(unrevised(prompts, run, record.pass + 1));
    }

    /// Adds the instructions of people for this pass or an earlier one.
    fn instruction(&mut self, run: &Run, pass: u32, turns: &mut Vec<Turn>) {
        let rest = run.instructions().get(self.instruction..).unwrap_or_default();
        let new = rest.iter().take_while(|instruction| instruction.from_pass <= pass);
        let before = turns.len();
        turns.extend(new.map(|instruction| Turn::User(cleaned(&instruction.text).into())));
        self.instruction += turns.len() - before;
    }

    /// The rejection of the output that the last pass ended with, if another attempt followed.
    fn rejection(&mut self, prompts: &Prompts, run: &Run) -> Option<Turn> {
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
        Some(Turn::User(prompts.templates().user(&REJECTION, &variables).into()))
    }
}

/// The turn with the work item: a message unchanged, any other item fenced and with its title. `None` where the
/// messages before the run hold it.
fn first(prompts: &Prompts, run: &Run) -> Option<Turn> {
    let started = run.started();
    if started.history.is_some() {
        return None;
    }
    let item = &started.item;
    match item.form {
        ItemForm::Message => return Some(Turn::User(Arc::clone(&item.full))),
        ItemForm::Data => {}
    }
    let nonce = &started.nonce;
    let variables = [
        ("kind", Value::from(line(&item.kind))),
        ("title", Value::from(line_without(nonce, &item.title))),
        ("nonce", Value::from(&**nonce)),
        ("item", Value::from(parts::item(&item.full, nonce))),
    ];
    Some(Turn::User(prompts.templates().user(&ITEM, &variables).into()))
}

/// The rejection of an answer or output that lacks demanded evidence, where this pass was granted to repair it.
fn unrevised(prompts: &Prompts, run: &Run, pass: u32) -> Option<Turn> {
    let missing = run.revisions(pass)?;
    let missing: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
    let message = format!("this is {DEMANDED}, and is not there: {}", missing.join(", "));
    let output = run.spec().protocol.output().map_or("", |output| &*output.tool);
    let variables =
        [("by", Value::from("evidence")), ("message", Value::from(message)), ("output", Value::from(output))];
    Some(Turn::User(prompts.templates().user(&REJECTION, &variables).into()))
}

fn last_reply(prompts: &Prompts, run: &Run) -> Arc<str> {
    prompts.templates().user(&LAST_REPLY, &[("cause", Value::from(last_call(run)))]).into()
}

fn assistant(text: &Arc<str>) -> Turn {
    Turn::Assistant { text: Arc::clone(text), raw: None, calls: Arc::default(), reasoning: None }
}
