//! The prompts that a recorded run sent: rendered again from its entries, and compared with the digests in the journal.

use std::sync::Arc;

use loop_core::run::PromptSize;
use loop_core::types::{CommandKey, RunId, Slot};
use loop_core::{EventKind, Run};
use loop_llm::{Message, ToolDefinition};
use loop_prompts::{Prompt, Prompts};

use loop_runtime::again::{Rendered, Renderer};
use loop_runtime::journal::{Recorded, ReplayError};
use loop_runtime::run::StartError;

/// A prompt that was sent, or that was rendered for a call that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPrompt {
    /// The number of the entry that announces the call, from 0.
    pub entry: u64,
    /// The call's key.
    pub call: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// Its size, and how many of its bytes it shares with the main call before it.
    pub size: PromptSize,
    /// How many parts it has in common with the main call before it. They come first.
    pub shared_parts: usize,
    /// The other parts, in order. `None`: the templates at hand give other bytes than those that were sent.
    pub parts: Option<Vec<SentPart>>,
}

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPart {
    /// Who says it: `system`, `tools`, `user`, `assistant`, `results` or `operator`.
    pub role: &'static str,
    /// What the model reads. Calls and results are written as one line for each and its text.
    pub text: Arc<str>,
}

/// The prompts of a recorded run, in the order in which they were sent, rendered with these templates. If the bytes
/// differ from those that were sent, the prompt's `parts` is `None`. The result ends at the first entry that does not
/// follow from the ones before it.
///
/// # Errors
/// If the entries do not begin with the start of a run, or the messages before the run cannot be read.
pub fn sent_prompts(
    run: &RunId,
    recorded: &Recorded,
    prompts: &Prompts,
) -> Result<Vec<SentPrompt>, StartError> {
    let broken = |rejected| ReplayError::Broken { run: run.clone(), seq: 0, rejected };
    let mut entries = recorded.entries.iter();
    let first = entries.next().ok_or_else(|| broken(loop_core::Rejected::NotTheStart("nothing")))?;
    let (mut state, _) = Run::open(&first.event, Arc::clone(&recorded.spec)).map_err(broken)?;
    let mut sent = Vec::new();
    let mut renderer = Renderer::of_recorded(recorded, prompts, &state)?;
    let mut parts = Parts::default();
    for entry in entries {
        match &entry.event.kind {
            EventKind::Resumed { .. } => {
                renderer.begin(&state);
                parts = Parts::default();
            }
            EventKind::CallStarted { key, attempt, prompt_bytes, shared_bytes, prompt_hash, .. } => {
                let size = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
                let rendered =
                    renderer.render(&state, *key).map(|prompt| (prompt.digest(), parts.of(prompt, *key)));
                let rendered = rendered.filter(|(digest, _)| digest == prompt_hash).map(|(_, parts)| parts);
                sent.push(SentPrompt {
                    entry: entry.seq,
                    call: *key,
                    attempt: *attempt,
                    size,
                    shared_parts: rendered.as_ref().map_or(0, |(shared, _)| *shared),
                    parts: rendered.map(|(_, parts)| parts),
                });
            }
            // It was rendered, and not sent. The next one follows from it.
            EventKind::CallRefused { key, .. } => {
                _ = renderer.render(&state, *key).map(|prompt| parts.of(prompt, *key));
            }
            _ => {}
        }
        if state.apply(&entry.event).is_err() {
            break;
        }
    }
    Ok(sent)
}

/// The parts of each prompt that the one before did not have.
#[derive(Default)]
struct Parts {
    /// The turns of the main call before, in a run with a document contract.
    turns: Vec<Message>,
    /// Messages and bytes of the request before, in any other run.
    before: (usize, u64),
}

impl Parts {
    /// How many parts a prompt shares with the one before, and the others.
    fn of(&mut self, rendered: Rendered<'_>, key: CommandKey) -> (usize, Vec<SentPart>) {
        match rendered {
            Rendered::Prompt(prompt) => self.of_prompt(prompt, key),
            Rendered::Request { size, system, tools, messages, .. } => {
                self.of_request(size, system, tools, messages)
            }
        }
    }

    /// Of a run with a document contract.
    fn of_prompt(&mut self, prompt: Prompt, key: CommandKey) -> (usize, Vec<SentPart>) {
        let same = |(one, other): &(&Message, &Message)| one.is_same(other);
        let is_main = matches!(key.slot, Slot::Main | Slot::Final);
        let shared = match is_main && prompt.size.shared_bytes > 0 {
            true => 1 + prompt.turns.iter().zip(&self.turns).take_while(same).count(),
            false => 0,
        };
        // The turns that are shared are not copied: there are as many as calls before.
        let system = (shared == 0).then(|| SentPart { role: "system", text: Arc::clone(&prompt.system) });
        let turns = prompt.turns.iter().skip(shared.saturating_sub(1));
        let parts = system.into_iter().chain(turns.map(of_message)).collect();
        if is_main {
            self.turns = prompt.turns;
        }
        (shared, parts)
    }

    /// Of a run with native calls.
    fn of_request(
        &mut self,
        size: PromptSize,
        system: &Arc<str>,
        tools: &[ToolDefinition],
        messages: &[Message],
    ) -> (usize, Vec<SentPart>) {
        let (had, bytes) = std::mem::replace(&mut self.before, (messages.len(), size.bytes));
        // It has grown only if all of the request before is at its beginning.
        let had = if bytes > 0 && size.shared_bytes == bytes { had } else { 0 };
        let mut fixed = vec![SentPart { role: "system", text: Arc::clone(system) }];
        let tools: Vec<String> = tools.iter().map(of_tool).collect();
        if !tools.is_empty() {
            fixed.push(SentPart { role: "tools", text: tools.join("\n").into() });
        }
        let shared = if bytes == 0 { 0 } else { fixed.len() + had };
        let messages = messages.iter().skip(had).map(of_message);
        (shared, fixed.into_iter().skip(shared).chain(messages).collect())
    }
}

fn of_tool(tool: &ToolDefinition) -> String {
    format!("{}: {} {}", tool.name, tool.description, tool.parameters)
}

fn of_message(message: &Message) -> SentPart {
    let (role, text): (_, Arc<str>) = match message {
        Message::User { text, .. } => ("user", Arc::clone(text)),
        Message::Operator { text } => ("operator", Arc::clone(text)),
        Message::Assistant(turn) => {
            let calls = turn.calls.iter().map(|call| format!("call {} {}", call.name, call.arguments));
            let lines: Vec<String> = std::iter::once(turn.text.to_string()).chain(calls).collect();
            ("assistant", lines.join("\n").trim_start().into())
        }
        Message::Tool { results } => {
            let texts = results.iter().map(|result| format!("result of {}\n{}", result.call, result.text));
            ("results", texts.collect::<Vec<_>>().join("\n\n").into())
        }
    };
    SentPart { role, text }
}
