//! The prompts part of a run's page: each prompt without the part that it shares with the one before, and each reply.

use std::collections::BTreeMap;

use loop_core::types::{CommandKey, Slot};
use loop_core::{EventKind, Run};
use loop_inspect::sent::{SentPrompt, sent_prompts};
use loop_runtime::journal::Recorded;
use loop_runtime::spec::Prompts;
use maud::{Markup, html};

use super::AppliedEntry;
use super::shown::{PagePosition, anchor, nothing};
use crate::pages::text::{CutText, TextBudget, grouped, rest, t};

/// The most bytes of all prompts and replies on a page, of one part of a prompt, and of one reply.
const ROOM: usize = 3 * 1024 * 1024;
const MAX_PART: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct PromptPart {
    calls: Vec<PromptRow>,
    replies: BTreeMap<(CommandKey, u32), Reply>,
    room: TextBudget,
    /// Why prompts are not shown. `None`: they are.
    why_not: Option<&'static str>,
}

impl Default for PromptPart {
    fn default() -> Self {
        Self { calls: Vec::new(), replies: BTreeMap::new(), room: TextBudget::new(ROOM), why_not: None }
    }
}

#[derive(Debug)]
struct PromptRow {
    at: u64,
    key: CommandKey,
    attempt: u32,
    tier: &'static str,
    bytes: u64,
    shared: u64,
    max_output_tokens: u64,
    shared_parts: usize,
    /// `None`: they cannot be shown.
    parts: Option<Vec<(&'static str, CutText)>>,
}

#[derive(Debug)]
struct Reply {
    at: u64,
    text: CutText,
    calls: Vec<CutText>,
    served_by: Option<String>,
    failed: Option<String>,
    warnings: Vec<String>,
}

impl PromptPart {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        match &seen.event.kind {
            EventKind::CallStarted {
                key,
                attempt,
                tier,
                prompt_bytes,
                shared_bytes,
                max_output_tokens,
                ..
            } => {
                self.calls.push(PromptRow {
                    at: seen.at,
                    key: *key,
                    attempt: *attempt,
                    tier: tier.name(),
                    bytes: *prompt_bytes,
                    shared: if key.slot == Slot::Select { 0 } else { *shared_bytes },
                    max_output_tokens: *max_output_tokens,
                    shared_parts: 0,
                    parts: None,
                });
            }
            EventKind::ModelReplied { key, attempt, reply } => {
                let room = &mut self.room;
                let call = |call: &loop_core::types::ToolCall| format!("{} {}", call.name, call.arguments);
                let reply = Reply {
                    at: seen.at,
                    text: room.take(&reply.text, MAX_PART),
                    calls: reply.calls.iter().map(|it| room.take(&call(it), MAX_PART)).collect(),
                    served_by: reply.served_model.as_ref().map(ToString::to_string),
                    failed: None,
                    warnings: reply.warnings.iter().map(ToString::to_string).collect(),
                };
                self.replies.insert((*key, *attempt), reply);
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                let partial = failure.partial.as_deref().unwrap_or_default();
                let reply = Reply {
                    at: seen.at,
                    text: self.room.take(partial, MAX_PART),
                    calls: Vec::new(),
                    served_by: None,
                    failed: Some(failure.message.to_string()),
                    warnings: Vec::new(),
                };
                self.replies.insert((*key, *attempt), reply);
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, recorded: &Recorded, run: &Run, prompts: Option<&Prompts>) {
        let Some(prompts) = prompts else {
            self.why_not = Some("The domain of this run is not at hand, so its prompts are not shown.");
            return;
        };
        if prompts.hash() != run.started().prompts {
            self.why_not = Some(
                "The templates at hand are not those that the run was begun with, so its prompts are not shown.",
            );
            return;
        }
        let Ok(sent) = sent_prompts(run.id(), recorded, prompts) else { return };
        let mut calls = self.calls.iter_mut();
        for SentPrompt { entry, shared_parts, parts, .. } in sent {
            let Some(line) = calls.find(|line| line.at == entry) else { break };
            line.shared_parts = shared_parts;
            line.parts = parts.map(|parts| {
                parts.iter().map(|part| (part.role, self.room.take(&part.text, MAX_PART))).collect()
            });
        }
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            (nothing(shown, self.calls.first().map(|line| line.at), "No model was called."))
            @if let Some(why) = self.why_not { p.notice { (why) } }
            @for line in &self.calls {
                details.prompt id=[(line.attempt == 1).then(|| format!("p{}", anchor(line.key)))] data-from=(line.at) hidden[shown.is_before(line.at)] {
                    summary {
                        code { (t(&line.key.to_string())) } @if line.attempt > 1 { " try " (line.attempt) }
                        " " (line.tier) " tier, " (grouped(line.bytes)) " bytes, " (grouped(line.shared)) " of them shared with the request before"
                    }
                    p.quiet { "Sent with event " (line.at) ", at most " (grouped(line.max_output_tokens)) " output tokens." }
                    @if line.shared_parts > 0 {
                        p.quiet { "The first " (line.shared_parts) " parts are those of the request before." }
                    }
                    @if let Some(parts) = &line.parts {
                        @for (role, text) in parts {
                            h3.minor { (role) }
                            pre tabindex="0" { (t(&text.text)) }
                            (rest(text, &shown.rest))
                        }
                    } @else if self.why_not.is_none() {
                        p.notice { "The domain now gives other bytes than those that were sent, so this prompt is not shown." }
                    }
                    @if let Some(reply) = self.replies.get(&(line.key, line.attempt)) {
                        div data-from=(reply.at) hidden[shown.is_before(reply.at)] {
                            h3.minor { "reply" @if let Some(model) = &reply.served_by { " of " (t(model)) } }
                            @if let Some(failed) = &reply.failed { p.bad { "It failed: " (t(failed)) } }
                            @if !reply.text.text.is_empty() { pre tabindex="0" { (t(&reply.text.text)) } }
                            (rest(&reply.text, &shown.rest))
                            @for call in &reply.calls { pre tabindex="0" { "call " (t(&call.text)) } (rest(call, &shown.rest)) }
                            @for warning in &reply.warnings { p.quiet { (t(warning)) } }
                        }
                    }
                }
            }
        }
    }
}
