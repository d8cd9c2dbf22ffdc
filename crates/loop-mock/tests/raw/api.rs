//! The four protocols as a plain client asks in them, and a model that says what it is told to.

use std::sync::Arc;

use loop_llm::{LlmError, ModelEvent, ModelReply};
use loop_mock::{LoopbackServer, Service};
use loop_testkit::llm::{EventModel, finished, full_reply};
use serde_json::{Value, json};

use super::{Reply, exchange, request};

/// The protocols: where a question goes, and the headers that it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Api {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

pub(crate) const ALL: [Api; 4] = [Api::Chat, Api::Responses, Api::Anthropic, Api::Gemini];

impl Api {
    pub(crate) fn path(self, streams: bool) -> &'static str {
        match (self, streams) {
            (Self::Chat, _) => "/v1/chat/completions",
            (Self::Responses, _) => "/v1/responses",
            (Self::Anthropic, _) => "/v1/messages",
            (Self::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
            (Self::Gemini, false) => "/v1beta/models/m:generateContent",
        }
    }

    /// A question of one text, as small as it may be.
    pub(crate) fn question(self, streams: bool) -> Value {
        match self {
            Self::Chat => json!({
                "model": "m", "stream": streams, "messages": [{"role": "user", "content": "hi"}],
            }),
            Self::Responses => json!({
                "model": "m", "stream": streams, "store": false, "include": ["reasoning.encrypted_content"],
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            }),
            Self::Anthropic => json!({
                "model": "m", "stream": streams, "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}],
            }),
            Self::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        }
    }

    pub(crate) async fn ask(self, server: &LoopbackServer, streams: bool) -> Reply {
        self.post(server, streams, &self.question(streams)).await
    }

    pub(crate) async fn post(self, server: &LoopbackServer, streams: bool, body: &Value) -> Reply {
        Reply::read(&self.bytes(server, streams, body).await)
    }

    pub(crate) async fn bytes(self, server: &LoopbackServer, streams: bool, body: &Value) -> Vec<u8> {
        let version = [("anthropic-version", "2023-06-01")];
        let headers = if self == Self::Anthropic { version.as_slice() } else { &[] };
        exchange(server, &request(self.path(streams), headers, body)).await
    }

    /// The message of an error in its own form.
    pub(crate) fn message(self, reply: &Reply) -> String {
        let body = reply.json();
        let is_right = match self {
            Self::Chat | Self::Responses => body["error"]["type"].is_string(),
            Self::Anthropic => body["type"] == "error" && body["error"]["type"].is_string(),
            Self::Gemini => body["error"]["code"] == reply.status && body["error"]["status"].is_string(),
        };
        assert!(is_right, "{self:?}: {body}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// The full reply in pieces.
pub(crate) fn full_in_pieces() -> Vec<Result<ModelEvent, LlmError>> {
    let text = |text: &str| Ok(ModelEvent::TextDelta { text: text.into() });
    vec![
        Ok(ModelEvent::Started { reply: None, model: Some("m-2".into()) }),
        Ok(ModelEvent::ReasoningDelta { text: "Two ".into() }),
        Ok(ModelEvent::ReasoningDelta { text: "cities.".into() }),
        text("I will "),
        text("check."),
        finished(full_reply()),
    ]
}

pub(crate) fn serve(events: Vec<Result<ModelEvent, LlmError>>) -> LoopbackServer {
    LoopbackServer::start(Service::of(Arc::new(EventModel(events)))).unwrap()
}

pub(crate) fn replying(reply: ModelReply) -> LoopbackServer {
    serve(vec![finished(reply)])
}
