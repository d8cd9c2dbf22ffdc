//! The models of a study: replies by the assumptions, in the grammar of the protocol.

use std::fmt::Write as _;

use loop_core::policy::is_forbidden;
use loop_core::{
    Arguments, CallModel, FailureKind, FinishReason, Millis, ModelFailure, ProtocolSpec, Received, Reply,
    Run, Slot, ToolCall, ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::arguments::arguments;
use super::assumptions::{Assumptions, Of};
use crate::sim::Choices;

/// What a study fills texts with.
const FILLER: &str = "As far as the results show, the cause is known and the next step follows from it. ";

/// A draw by the assumptions.
pub(super) struct Draw<'a> {
    pub(super) choices: Choices,
    pub(super) assumed: &'a Assumptions,
}

impl Draw<'_> {
    /// Whether something happens that the assumptions give in percent.
    pub(super) fn happens(&mut self, of: Of) -> bool {
        let percent = self.assumed.get(of);
        self.choices.per_mille(percent * 10)
    }

    /// Half to one and a half times an assumed amount.
    pub(super) fn about(&mut self, of: Of) -> u64 {
        let mean = self.assumed.get(of);
        u64::from(mean / 2) + u64::from(self.choices.below(mean.saturating_add(1)))
    }

    /// How a call ends: a reply, or a failure that may pass.
    pub(super) fn settle(
        &mut self,
        run: &Run,
        call: &CallModel,
        prompt: (u64, u64),
        now: u64,
    ) -> Result<Reply, Box<ModelFailure>> {
        if self.happens(Of::ModelFails) {
            let pause = 1_000_u64 << call.attempt.min(6);
            return Err(failed(FailureKind::Overloaded, Some(Millis(now + pause))).into());
        }
        let granted = call.granted.unwrap_or_default();
        let wanted = match call.key.slot {
            Slot::Select => u64::from(self.assumed.get(Of::OutputTokens)) / 4,
            _ => self.about(Of::OutputTokens),
        };
        let mut reply = match call.key.slot {
            Slot::Select => Reply::text(self.selection(run)),
            _ => self.main(run, call, wanted.min(granted)),
        };
        if wanted > granted && reply.finish != FinishReason::Refusal {
            cut(&mut reply);
        }
        let (bytes, shared) = prompt;
        let a_token = u64::from(self.assumed.get(Of::BytesAToken).max(1));
        let cached = shared / a_token * u64::from(self.assumed.get(Of::Cached)) / 100;
        let input = (bytes / a_token).saturating_sub(cached);
        reply.usage =
            Some(Usage { input, cache_read: cached, output: wanted.min(granted), ..Usage::default() });
        Ok(reply)
    }

    fn selection(&mut self, run: &Run) -> String {
        let spec = run.spec();
        let reads: Vec<&ToolSpec> =
            offered(run).filter(|tool| loop_core::policy::is_selectable(tool)).collect();
        let count = 1 + self.choices.below(self.assumed.get(Of::Calls).min(spec.limits.selected).max(1));
        let mut selected = Vec::new();
        for _ in 0..count {
            if let Some(tool) = self.choices.of(&reads) {
                let params = arguments(&mut self.choices, &tool.args);
                selected.push(json!({"tool": tool.name, "params": params, "reason": "It may help."}));
            }
        }
        Value::Array(selected).to_string()
    }

    fn main(&mut self, run: &Run, call: &CallModel, tokens: u64) -> Reply {
        if self.happens(Of::Refuses) {
            return Reply { finish: FinishReason::Refusal, ..Reply::text("I cannot help with this.") };
        }
        let passes = run.passes().len() as u32;
        let more = self.assumed.get(Of::DoneMore).saturating_mul(passes);
        let percent = self.assumed.get(Of::Done).saturating_add(more).min(100);
        let is_last = call.key.slot == Slot::Final;
        let is_done = is_last || self.choices.per_mille(percent * 10);
        let calls = if is_done { Vec::new() } else { self.calls(run) };
        let bytes = tokens.saturating_mul(self.assumed.get(Of::BytesAToken).into());
        match &run.spec().protocol {
            ProtocolSpec::Document(_) => self.document(run, is_done, &calls, bytes),
            ProtocolSpec::Conversation(_) => native(calls, filler(bytes)),
            ProtocolSpec::Output(output) => {
                let ends = |name: &str, arguments: Value| ToolCall {
                    id: format!("end-{name}").into(),
                    name: name.into(),
                    arguments: Arguments::of(arguments),
                };
                let mut calls = calls;
                if is_done || calls.is_empty() {
                    let tool = run.spec().tool(&output.tool);
                    let value =
                        tool.map_or_else(|| json!({}), |tool| arguments(&mut self.choices, &tool.args));
                    calls.push(ends(&output.tool, value));
                    calls.extend(output.submit.as_deref().map(|submit| ends(submit, json!({}))));
                }
                native(calls, filler(bytes / 4))
            }
        }
    }

    /// The calls that a pass requests which is not done.
    fn calls(&mut self, run: &Run) -> Vec<ToolCall> {
        let tools: Vec<&ToolSpec> = offered(run).collect();
        let mut calls: Vec<ToolCall> = Vec::new();
        if tools.is_empty() {
            return calls;
        }
        for n in 0..1 + self.choices.below(self.assumed.get(Of::Calls).max(1)) {
            let id = format!("call-{}-{n}", run.passes().len()).into();
            let earlier = run.actions();
            let again = self.happens(Of::Repeat).then(|| self.choices.of(earlier).cloned()).flatten();
            let call = match again {
                Some(earlier) => {
                    let name = earlier.tool_name().into();
                    ToolCall { id, name, arguments: earlier.action.parameters.clone() }
                }
                None if self.happens(Of::Invalid) => {
                    ToolCall { id, name: "look_it_up".into(), arguments: Arguments::of(json!({})) }
                }
                None => {
                    let Some(tool) = self.choices.of(&tools) else { continue };
                    let arguments = Arguments::of(arguments(&mut self.choices, &tool.args));
                    ToolCall { id, name: tool.name.clone(), arguments }
                }
            };
            calls.push(call);
        }
        calls
    }

    fn document(&mut self, run: &Run, is_done: bool, calls: &[ToolCall], bytes: u64) -> Reply {
        let sections = run.spec().sections();
        let each = bytes / (sections.len() as u64).max(1);
        let cited = run.evidence().iter().rev().find(|evidence| evidence.observation.status.is_citable());
        let cited = cited.map_or_else(|| "[E0]".to_owned(), |evidence| format!("[{}]", evidence.id));
        let mut text = String::new();
        for section in sections {
            let body = filler(each.saturating_sub(40));
            _ = write!(text, "## {}\n\n{body} {cited}\n\n", section.heading);
        }
        if !self.happens(Of::NoContract) {
            let confidence = match is_done {
                true => "high",
                false if self.happens(Of::MediumConfidence) => "medium",
                false => "low",
            };
            let actions: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let parameters = call.arguments.value().cloned().unwrap_or_default();
                    json!({"action_id": call.id, "action_type": call.name, "reason": "It may help.",
                           "parameters": parameters, "priority": "required"})
                })
                .collect();
            let contract = json!({"nonce": run.started().nonce, "analysis_confidence": confidence,
                                  "confidence_reason": "by the results", "ai_actions": actions});
            _ = write!(text, "```json\n{contract}\n```\n");
        }
        Reply::text(text)
    }
}

/// A failure of this kind, with nothing received.
pub(super) fn failed(kind: FailureKind, retry_at: Option<Millis>) -> ModelFailure {
    ModelFailure {
        refused: None,
        kind,
        message: "simulated".into(),
        retryable: true,
        retry_at,
        partial: None,
        served_model: None,
        usage: Some(Usage::default()),
        received: Received::default(),
    }
}

/// The tools that a model may request: not those that policy forbids, nor those that the protocol handles.
fn offered(run: &Run) -> impl Iterator<Item = &ToolSpec> {
    let spec = run.spec();
    let output = spec.protocol.output();
    spec.tools.iter().filter(move |tool| {
        let ends = output
            .is_some_and(|output| output.tool == tool.name || output.submit.as_ref() == Some(&tool.name));
        !ends && !is_forbidden(spec, tool)
    })
}

fn native(calls: Vec<ToolCall>, text: String) -> Reply {
    let finish = if calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
    Reply { calls, finish, ..Reply::text(text) }
}

/// A reply that its output limit cut: the end is missing.
fn cut(reply: &mut Reply) {
    reply.finish = FinishReason::MaxTokens;
    reply.calls.clear();
    let text = &*reply.text;
    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    reply.text = text.get(..half).unwrap_or_default().into();
}

/// A text of so many bytes.
pub(super) fn filler(bytes: u64) -> String {
    let bytes = usize::try_from(bytes).unwrap_or_default().clamp(1, 1_000_000);
    FILLER.chars().cycle().take(bytes).collect()
}
