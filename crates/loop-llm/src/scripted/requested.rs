//! The requests that a scripted model received.

use loop_core::secrets::Secrets;

use crate::codec::Memory;
use crate::progress::ProgressListener;
use crate::request::{Message, ModelRequest};

/// Requests in order. What a request shares with the one before is stored once, to save memory in long conversations.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: Vec<RequestDelta>,
    /// The turns of the last request.
    turns: Vec<Message>,
}

/// A request as the difference to the one before.
#[derive(Debug)]
struct RequestDelta {
    /// The request without its turns.
    request: ModelRequest,
    /// How many turns it shares with the one before.
    kept: usize,
    /// The turns after those.
    turns: Vec<Message>,
}

impl Requests {
    pub(super) fn push(&mut self, request: &ModelRequest) {
        let same = self.turns.iter().zip(&request.messages).take_while(|(one, two)| one.is_same(two));
        let kept = same.count();
        let turns: Vec<Message> = request.messages.iter().skip(kept).cloned().collect();
        self.turns.truncate(kept);
        self.turns.extend(turns.iter().cloned());
        // Not a clone of the request: its turns would be copied for nothing, and its cache of encoded turns would be kept
        // alive.
        let request = ModelRequest {
            model: request.model.clone(),
            system: request.system.clone(),
            messages: Vec::new(),
            max_output_tokens: request.max_output_tokens,
            tools: request.tools.clone(),
            tool_choice: request.tool_choice.clone(),
            one_call_at_a_time: request.one_call_at_a_time,
            output: request.output.clone(),
            effort: request.effort,
            reasoning_tokens: request.reasoning_tokens,
            show_reasoning: request.show_reasoning,
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            seed: request.seed,
            stop: request.stop.clone(),
            cache: request.cache.clone(),
            service_tier: request.service_tier.clone(),
            unsupported: request.unsupported,
            no_stream: request.no_stream,
            extra: request.extra.clone(),
            meta: request.meta.clone(),
            memory: Memory::default(),
            progress: ProgressListener::default(),
            secrets: Secrets::default(),
        };
        self.requests.push(RequestDelta { request, kept, turns });
    }

    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        let mut messages: Vec<Message> = Vec::new();
        let whole = self.requests.iter().map(|grown| {
            messages.truncate(grown.kept);
            messages.extend(grown.turns.iter().cloned());
            ModelRequest { messages: messages.clone(), ..grown.request.clone() }
        });
        whole.collect()
    }
}
