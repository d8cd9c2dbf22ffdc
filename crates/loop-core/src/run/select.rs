//! Tool selection: which tools run before the first pass, by the auxiliary model or by the domain's defaults.

use std::sync::Arc;

use serde_json::Value;

use crate::gate::{Limit, Quota, Verdict, judge};
use crate::reply::{FinishReason, ParseWarning, Reply, parameters_of};
use crate::run::note::{Note, SelectedBy};
use crate::run::phase::{Phase, Purpose, Stage};
use crate::run::rest::{RunParts, StopPoint};
use crate::run::warning::RunWarning;
use crate::types::{Action, CommandKey, Confidence, Priority, Slot, SourceValue};

impl RunParts<'_> {
    pub(super) fn selected(&mut self, reply: &Reply) -> Phase {
        match read_selection(&reply.text) {
            Some(Selections { actions, repeated }) => {
                if !repeated.is_empty() {
                    let repeated = repeated
                        .into_iter()
                        .map(|pointer| ParseWarning::RepeatedMember { pointer: pointer.into() });
                    let repeated: Vec<_> = repeated.collect();
                    self.warn_of_reply(0, &repeated);
                    self.notes.push(Note::ReplyRead {
                        pass: 0,
                        confidence: Confidence::Unknown,
                        reason: "".into(),
                        has_contract: false,
                        parse_warnings: repeated,
                        calibrated: None,
                    });
                }
                self.gather(&actions, SelectedBy::Selector)
            }
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
                self.select_defaults(why.to_owned())
            }
        }
    }

    pub(super) fn select_defaults(&mut self, why: String) -> Phase {
        self.knowledge.warn(RunWarning::SelectionFailed { why: why.as_str().into() });
        let calls: Vec<Action> = self
            .spec
            .selection
            .defaults
            .iter()
            .enumerate()
            .map(|(n, call)| Action {
                id: format!("default-{n}").into(),
                tool: Arc::clone(&call.tool),
                reason: "default tool of the domain".into(),
                parameters: call.parameters.canonical(),
                priority: Priority::Recommended,
            })
            .collect();
        self.gather(&calls, SelectedBy::Defaults { why: why.into() })
    }

    fn gather(&mut self, selections: &[Action], by: SelectedBy) -> Phase {
        if self.inbox.stop_requested.is_some() {
            return self.stop_as_requested(StopPoint { phase: Purpose::Select.phase_name(), pass: 0 });
        }
        let limits = &self.spec.limits;
        let limit = if limits.selected <= limits.tool_calls { Limit::Selected } else { Limit::ToolCalls };
        let quota = Quota { left: limits.selected.min(limits.tool_calls), limit };
        self.count_unread(selections.len(), /*left*/ 0, CommandKey::new(0, Slot::Select));
        let max = self.spec.limits.read_calls() as usize;
        let selections = selections.get(..max).unwrap_or(selections);
        self.take_plan(None, selections, /*pass*/ 0, quota);
        let judged = judge(selections, self.context(/*pass*/ 0, quota));
        let runs = judged.iter().filter(|judged| judged.judged.verdict == Verdict::Run).count() as u32;
        self.notes.push(Note::Selected { by, runs });
        let batch = self.admit(judged);
        self.batch_settled(batch, Stage::Gather)
    }
}

/// The selections of a reply.
#[derive(Debug)]
struct Selections {
    actions: Vec<Action>,
    /// JSON pointers to members that are given more than once.
    repeated: Vec<String>,
}

/// Parses the selector's reply: a JSON array of `{tool, params, reason}`, with or without a fence or prose around it.
/// `None`: the first such array is malformed. A malformed reply does not count as a selection of no tools.
fn read_selection(text: &str) -> Option<Selections> {
    let (at, is_empty) = array_in(text)?;
    let rest = text.get(at..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<SourceValue>();
    let Some(Ok(written)) = values.next() else { return None };
    let Value::Array(selections) = serde_json::from_str(rest.get(..values.byte_offset())?).ok()? else {
        return None;
    };
    let is_select = |select: &Value| select.get("tool").is_some_and(Value::is_string);
    if selections.is_empty() != is_empty
        || !selections.iter().all(Value::is_object)
        || !is_empty && !selections.iter().any(is_select)
    {
        return None;
    }
    let text_of = |value: &Value, key: &str| -> Arc<str> {
        value.get(key).and_then(Value::as_str).unwrap_or_default().into()
    };
    let read = |(n, select): (usize, &Value)| Action {
        id: format!("select-{n}").into(),
        tool: text_of(select, "tool"),
        reason: text_of(select, "reason"),
        parameters: match select.get("params") {
            Some(parameters) => {
                parameters_of(parameters, written.entry(n).and_then(|select| select.member("params")))
            }
            None => "{}".into(),
        },
        priority: Priority::Recommended,
    };
    let actions = selections.iter().enumerate().map(read).collect();
    Some(Selections { actions, repeated: written.repeated() })
}

/// Where the array begins, and whether it is empty. An empty array counts only on a line of its own and without any
/// other bracket in the reply, since prose may contain `[]`.
fn array_in(text: &str) -> Option<(usize, bool)> {
    for (at, _) in text.match_indices('[') {
        let inner = text.get(at + 1..).unwrap_or_default().trim_start();
        if inner.starts_with('{') {
            return Some((at, false));
        }
        let Some(after) = inner.strip_prefix(']') else { continue };
        let before = text.get(..at).unwrap_or_default();
        let is_alone =
            before.lines().next_back().unwrap_or_default().trim().is_empty() || before.ends_with('\n');
        let ends = after.lines().next().unwrap_or_default().trim().is_empty();
        let is_first = !before.contains(['[', '{']) && !after.contains(['[', '{']);
        if is_alone && ends && is_first {
            return Some((at, true));
        }
        return None;
    }
    None
}
