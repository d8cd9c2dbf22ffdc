//! Picking: which tools run before the first pass, by a cheap model or by the domain's defaults.

use std::sync::Arc;

use serde_json::Value;

use crate::action::{Action, Priority};
use crate::canonical::canonical;
use crate::event::{FinishReason, Reply};
use crate::ids::{CommandKey, Slot};
use crate::judge::{Room, judge};
use crate::note::{Note, PickedBy};
use crate::run::{Phase, Run};
use crate::verdict::{Limit, Verdict};

impl Run {
    pub(super) fn picked(&mut self, reply: &Reply, notes: &mut Vec<Note>) {
        match read_picks(&reply.text) {
            Some(picks) => self.gather(&picks, PickedBy::Picker, notes),
            None => {
                let is_blank = reply.text.trim().is_empty();
                let why = match reply.finish {
                    FinishReason::MaxTokens if is_blank => {
                        "its reply used all its output tokens before any text was visible"
                    }
                    FinishReason::MaxTokens | FinishReason::Capped => {
                        "its reply was cut at its output limit, and holds no JSON array of tools"
                    }
                    FinishReason::Refusal => "it refused",
                    FinishReason::Filtered => "a content filter of the provider stopped its reply",
                    _ if is_blank && !reply.calls.is_empty() => {
                        "its reply calls a tool natively, and holds no JSON array of tools"
                    }
                    _ if is_blank => "its reply was empty",
                    FinishReason::EndTurn | FinishReason::ToolUse | FinishReason::Other => {
                        "its reply holds no JSON array of tools"
                    }
                };
                self.pick_defaults(why.to_owned(), notes);
            }
        }
    }

    pub(super) fn pick_defaults(&mut self, why: String, notes: &mut Vec<Note>) {
        let calls: Vec<Action> = self
            .spec
            .picking
            .defaults
            .iter()
            .enumerate()
            .map(|(n, call)| Action {
                id: format!("default-{n}").into(),
                tool: Arc::clone(&call.tool),
                reason: "default tool of the domain".into(),
                parameters: serde_json::from_str(&call.parameters)
                    .map_or_else(|_| Arc::clone(&call.parameters), |value: Value| canonical(&value).into()),
                priority: Priority::Recommended,
            })
            .collect();
        self.gather(&calls, PickedBy::Defaults { why: why.into() }, notes);
    }

    pub(super) fn gather(&mut self, picks: &[Action], by: PickedBy, notes: &mut Vec<Note>) {
        if self.state.stop_asked.is_some() {
            return self.stop_by_hand(notes);
        }
        let limits = &self.spec.limits;
        let limit = if limits.picked <= limits.tool_calls { Limit::Picked } else { Limit::ToolCalls };
        let room = Room { left: limits.picked.min(limits.tool_calls), limit };
        let unread = self.count_unread(picks.len(), &CommandKey::new(0, Slot::Pick), notes);
        let picks = picks.get(..picks.len() - unread as usize).unwrap_or_default();
        let judged = judge(picks, self.bench(/*pass*/ 0, room));
        let runs = judged.iter().filter(|judged| judged.judged.verdict == Verdict::Run).count() as u32;
        notes.push(Note::Picked { by, runs });
        let batch = self.admit(judged, notes);
        self.state.phase = Phase::Gathering { batch };
        self.batch_settled(notes);
    }
}

/// The picker's reply: a JSON array of `{tool, params, reason}`, with or without a fence or prose around it (S0-92).
fn read_picks(text: &str) -> Option<Vec<Action>> {
    let picks = text.match_indices('[').find_map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        match serde_json::Deserializer::from_str(rest).into_iter::<Value>().next() {
            Some(Ok(Value::Array(picks))) if picks.iter().all(Value::is_object) => Some(picks),
            Some(_) | None => None,
        }
    })?;
    let text_of = |value: &Value, key: &str| -> Arc<str> {
        value.get(key).and_then(Value::as_str).unwrap_or_default().into()
    };
    let read = |(n, pick): (usize, &Value)| Action {
        id: format!("pick-{n}").into(),
        tool: text_of(pick, "tool"),
        reason: text_of(pick, "reason"),
        parameters: match pick.get("params") {
            Some(parameters) => canonical(parameters).into(),
            None => "{}".into(),
        },
        priority: Priority::Recommended,
    };
    Some(picks.iter().enumerate().map(read).collect())
}
