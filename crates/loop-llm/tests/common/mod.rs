//! What tests of codecs share: a reply decoded three ways, always to the same end.

use std::sync::Arc;

use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, ToolCall};
use loop_llm::codec::{Aliases, Codec};
use loop_llm::request::Raw;
use loop_llm::{ErrorPhase, LlmError, Message, ModelEvent, ModelReply, ModelRequest, Profile};
use serde_json::Value;

pub(crate) type Item = Result<ModelEvent, LlmError>;

/// A codec and the request whose replies it decodes.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) codec: Codec,
    pub(crate) request: ModelRequest,
    pub(crate) aliases: Aliases,
    pub(crate) secrets: Secrets,
}

impl Wire {
    /// The profile of this name, and a plain request to `model`.
    pub(crate) fn new(profile: &str, model: &str) -> Self {
        Self::of(Profile::named(profile).unwrap(), model)
    }

    /// This profile.
    pub(crate) fn of(profile: impl Into<Arc<Profile>>, model: &str) -> Self {
        Self {
            codec: Codec::new(profile.into()),
            request: ModelRequest::new(model, "Rules.", "Hi"),
            aliases: Aliases::default(),
            secrets: Secrets::default(),
        }
    }

    /// Everything that comes out of these pieces.
    pub(crate) fn decode(&self, pieces: &[&[u8]]) -> Vec<Item> {
        let mut decoder = self.codec.decoder(&self.request, self.aliases.clone(), self.secrets.clone());
        let mut items: Vec<Item> = pieces.iter().flat_map(|piece| decoder.push(piece)).collect();
        items.extend(decoder.finish());
        items
    }

    /// All items of a body that is decoded whole, byte by byte and cut at random, always to the same, with one end.
    #[track_caller]
    pub(crate) fn items(&self, body: &[u8]) -> Vec<Item> {
        let items = self.decode(&[body]);
        assert_eq!(self.decode(&body.chunks(1).collect::<Vec<_>>()), items, "byte by byte");
        for seed in 1..=16 {
            assert_eq!(self.decode(&cut(body, seed)), items, "cut at random, seed {seed}");
        }
        let is_end = |item: &Item| matches!(item, Err(_) | Ok(ModelEvent::Finished(_)));
        assert_eq!(items.iter().filter(|item| is_end(item)).count(), 1, "one end: {items:?}");
        assert!(is_end(items.last().unwrap()), "the end is last: {items:?}");
        items
    }

    /// The end of a body; the pieces that were told before are what it says.
    #[track_caller]
    pub(crate) fn end(&self, body: impl AsRef<[u8]>) -> Result<ModelReply, LlmError> {
        let mut items = self.items(body.as_ref());
        let (mut text, mut reasoning) = (String::new(), String::new());
        for item in &items {
            match item {
                Ok(ModelEvent::TextDelta { text: piece }) => text.push_str(piece),
                Ok(ModelEvent::ReasoningDelta { text: piece }) => reasoning.push_str(piece),
                _ => {}
            }
        }
        match items.pop().unwrap() {
            Ok(ModelEvent::Finished(reply)) => {
                assert_eq!((&*reply.text, &*reply.reasoning), (text.as_str(), reasoning.as_str()));
                Ok(*reply)
            }
            Ok(event) => panic!("{event:?} is no end"),
            Err(error) => {
                assert_eq!(*error.partial.clone().unwrap().text, text);
                Err(error)
            }
        }
    }

    /// The end of a stream of events that are data alone.
    #[track_caller]
    pub(crate) fn stream(&self, chunks: &[Value]) -> Result<ModelReply, LlmError> {
        self.end(sse(chunks))
    }

    /// The body of the request, as it is sent.
    #[track_caller]
    pub(crate) fn sent(&self) -> Value {
        serde_json::from_slice(&self.codec.encode(&self.request).unwrap().body.to_bytes()).unwrap()
    }

    /// What was left out of the request or changed in it.
    #[track_caller]
    pub(crate) fn warnings(&self) -> Vec<String> {
        let encoded = self.codec.encode(&self.request).unwrap();
        encoded.warnings.iter().map(ToString::to_string).collect()
    }

    /// Why the request cannot be encoded.
    #[track_caller]
    pub(crate) fn refused(&self) -> FailureKind {
        let error = self.codec.encode(&self.request).unwrap_err();
        assert_eq!(error.phase, ErrorPhase::Encode);
        error.kind
    }

    /// The same with another request.
    pub(crate) fn with(&self, change: impl FnOnce(&mut ModelRequest)) -> Self {
        let mut wire = self.clone();
        wire.request.memory = loop_llm::codec::Memory::default();
        change(&mut wire.request);
        wire
    }

    /// The same with these turns.
    pub(crate) fn turns(&self, messages: &[Message]) -> Self {
        self.with(|request| request.messages = messages.to_vec())
    }
}

/// Pieces of 1 to 40 bytes, always the same for a seed.
pub(crate) fn cut(body: &[u8], seed: u64) -> Vec<&[u8]> {
    let (mut rest, mut pieces, mut state) = (body, Vec::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (piece, tail) = rest.split_at((1 + (state >> 33) as usize % 40).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// Events that are data alone.
pub(crate) fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// Id, name and arguments as they were received.
pub(crate) fn calls(reply: &ModelReply) -> Vec<(&str, &str, &str)> {
    reply.tool_calls.iter().map(|call| (&*call.id, &*call.name, &**call.arguments.text())).collect()
}

/// What goes back, as a list.
#[track_caller]
pub(crate) fn raw(reply: &ModelReply) -> Value {
    let raw = reply.raw.as_ref().map_or("", Raw::json);
    serde_json::from_str(&format!("[{raw}]")).unwrap()
}

/// A turn of another provider's: text and calls.
pub(crate) fn foreign(text: &str, calls: Vec<ToolCall>) -> Message {
    Message::Assistant(loop_llm::request::AssistantTurn { text: text.into(), calls, ..Default::default() })
}

/// How many bytes at the beginning of two bodies are the same.
pub(crate) fn shared(one: &loop_llm::codec::Body, other: &loop_llm::codec::Body) -> usize {
    one.to_bytes().iter().zip(other.to_bytes().iter()).take_while(|(one, other)| one == other).count()
}
