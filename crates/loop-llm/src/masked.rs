//! Masks the secrets of a request in the reply of a model that has no decoder of ours.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use loop_core::secrets::{Masker, Secrets};
use loop_core::types::{Arguments, ToolCall};

use crate::error::LlmError;
use crate::model::{EventStream, ModelEvent, ModelReply};
use crate::raw::Raw;

/// The events without secrets. A secret that is split over several pieces is masked in them as well.
pub fn masked(events: EventStream, secrets: &Secrets) -> EventStream {
    if secrets.is_empty() {
        return events;
    }
    let mut masking = Masking {
        text: Masker::new(secrets),
        reasoning: Masker::new(secrets),
        arguments: BTreeMap::new(),
        secrets: secrets.clone(),
    };
    events.flat_map(move |event| futures::stream::iter(masking.of(event))).boxed()
}

/// One masker for each text that is received in pieces of its own.
struct Masking {
    secrets: Secrets,
    text: Masker,
    reasoning: Masker,
    /// By the position of the call in the reply.
    arguments: BTreeMap<u32, Masker>,
}

impl Masking {
    /// What can be reported of an event, and what was held back before it.
    fn of(&mut self, event: Result<ModelEvent, LlmError>) -> Vec<Result<ModelEvent, LlmError>> {
        let events = match event {
            Ok(ModelEvent::TextDelta { text }) => return delta(self.text.push(&text), text_delta),
            Ok(ModelEvent::ReasoningDelta { text }) => {
                return delta(self.reasoning.push(&text), reasoning_delta);
            }
            Ok(ModelEvent::ToolArgumentsDelta { nth, text }) => {
                let masker = self.arguments.entry(nth).or_insert_with(|| Masker::new(&self.secrets));
                return delta(masker.push(&text), arguments_delta(nth));
            }
            Ok(ModelEvent::ToolCallCompleted { nth }) => {
                let held = self.arguments.remove(&nth).map(|mut masker| masker.finish());
                let mut events = delta(held.unwrap_or_default().into(), arguments_delta(nth));
                events.push(Ok(ModelEvent::ToolCallCompleted { nth }));
                return events;
            }
            Ok(ModelEvent::Started { reply, model }) => {
                Ok(ModelEvent::Started { reply, model: model.map(|model| self.word(model)) })
            }
            Ok(ModelEvent::ToolCallStarted { nth, name }) => {
                Ok(ModelEvent::ToolCallStarted { nth, name: self.word(name) })
            }
            Ok(ModelEvent::Finished(reply)) => Ok(ModelEvent::Finished(Box::new(self.reply(*reply)))),
            Ok(event @ (ModelEvent::Usage(_) | ModelEvent::KeepAlive)) => return vec![Ok(event)],
            // The caller masks what an error says, wherever it arose.
            Err(error) => Err(error),
        };
        match events {
            Ok(ModelEvent::Finished(_)) | Err(_) => self.held().chain([events]).collect(),
            event => vec![event],
        }
    }

    /// What was held back because it might have been the beginning of a secret.
    fn held(&mut self) -> impl Iterator<Item = Result<ModelEvent, LlmError>> + use<> {
        let mut held = delta(self.reasoning.finish().into(), reasoning_delta);
        held.extend(delta(self.text.finish().into(), text_delta));
        for (nth, mut masker) in std::mem::take(&mut self.arguments) {
            held.extend(delta(masker.finish().into(), arguments_delta(nth)));
        }
        held.into_iter()
    }

    fn word(&self, word: Arc<str>) -> Arc<str> {
        match self.secrets.mask(&word) {
            Cow::Owned(masked) => masked.into(),
            Cow::Borrowed(_) => word,
        }
    }

    fn reply(&self, reply: ModelReply) -> ModelReply {
        let optional = |word: Option<Arc<str>>| word.map(|word| self.word(word));
        let calls = reply.tool_calls.into_iter().map(|ToolCall { id, name, arguments }| ToolCall {
            id: self.word(id),
            name: self.word(name),
            arguments: match self.secrets.mask_json(&arguments) {
                Cow::Owned(masked) => Arguments::from(masked),
                Cow::Borrowed(_) => arguments,
            },
        });
        ModelReply {
            tool_calls: calls.collect(),
            text: self.word(reply.text),
            reasoning: self.word(reply.reasoning),
            refusal: optional(reply.refusal),
            raw: reply.raw.map(|raw| Raw::from_text(self.word(Arc::clone(raw.text())))),
            served_model: optional(reply.served_model),
            stop_detail: optional(reply.stop_detail),
            warnings: reply.warnings.into_iter().map(|warning| self.word(warning)).collect(),
            ..reply
        }
    }
}

/// A delta with this text; none without text.
fn delta(text: Cow<'_, str>, of: impl Fn(Arc<str>) -> ModelEvent) -> Vec<Result<ModelEvent, LlmError>> {
    if text.is_empty() { Vec::new() } else { vec![Ok(of(text.into()))] }
}

fn text_delta(text: Arc<str>) -> ModelEvent {
    ModelEvent::TextDelta { text }
}

fn reasoning_delta(text: Arc<str>) -> ModelEvent {
    ModelEvent::ReasoningDelta { text }
}

fn arguments_delta(nth: u32) -> impl Fn(Arc<str>) -> ModelEvent {
    move |text| ModelEvent::ToolArgumentsDelta { nth, text }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use loop_core::types::FailureKind;

    use super::*;

    const SECRET: &str = "hunter2-of-the-crm";

    async fn of(events: Vec<Result<ModelEvent, LlmError>>) -> Vec<Result<ModelEvent, LlmError>> {
        masked(futures::stream::iter(events).boxed(), &Secrets::of([SECRET])).collect().await
    }

    #[tokio::test]
    async fn a_secret_that_is_split_over_pieces_is_in_none_of_them_and_not_in_the_whole() {
        let arguments = format!("{{\"q\":\"{SECRET}\"}}");
        let call = ToolCall { id: "a".into(), name: SECRET.into(), arguments: Arguments::from(&*arguments) };
        let text = format!("The key is {SECRET}.");
        let reply =
            ModelReply { tool_calls: vec![call], reasoning: SECRET.into(), ..ModelReply::text(&*text, None) };
        for size in 1..SECRET.len() {
            let pieces = |text: &str| -> Vec<Arc<str>> {
                text.as_bytes().chunks(size).map(|it| std::str::from_utf8(it).unwrap().into()).collect()
            };
            let mut events: Vec<_> = pieces(SECRET).into_iter().map(|it| Ok(reasoning_delta(it))).collect();
            events.extend(pieces(&text).into_iter().map(|it| Ok(text_delta(it))));
            events.push(Ok(ModelEvent::ToolCallStarted { nth: 0, name: SECRET.into() }));
            events.extend(pieces(&arguments).into_iter().map(|it| Ok(arguments_delta(0)(it))));
            events.push(Ok(ModelEvent::ToolCallCompleted { nth: 0 }));
            events.push(Ok(ModelEvent::Finished(reply.clone().into())));
            let (mut read, mut called, mut finished) = (String::new(), String::new(), None);
            for event in of(events).await {
                match event.unwrap() {
                    ModelEvent::TextDelta { text } => read.push_str(&text),
                    ModelEvent::ToolArgumentsDelta { text, .. } => called.push_str(&text),
                    ModelEvent::ToolCallStarted { name, .. } => assert_eq!(&*name, "[masked]"),
                    ModelEvent::Finished(reply) => finished = Some(reply),
                    other => assert!(!format!("{other:?}").contains("hunter2"), "{other:?}"),
                }
            }
            let reply = finished.unwrap();
            assert_eq!((&*read, &*called), ("The key is [masked].", "{\"q\":\"[masked]\"}"));
            assert_eq!((&*reply.text, &*reply.reasoning), ("The key is [masked].", "[masked]"));
            let call = reply.tool_calls.first().unwrap();
            assert_eq!((&*call.name, call.arguments.text().as_ref()), ("[masked]", &*called));
        }
    }

    #[tokio::test]
    async fn what_is_held_back_is_reported_before_an_error() {
        let error = LlmError::in_stream(FailureKind::StreamInterrupted, "cut");
        let events = of(vec![Ok(text_delta("It begins with hunt".into())), Err(error.clone())]).await;
        let expected = ["It begins with ", "hunt"].map(|text| Ok(text_delta(text.into())));
        assert_eq!(events, [expected.to_vec(), vec![Err(error)]].concat());
    }
}
