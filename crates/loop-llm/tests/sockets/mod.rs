//! A client of each protocol against the server on loopback.

use std::sync::Arc;
use std::time::Duration;

use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::http::Timers;
use loop_llm::{
    ChatModel, ErrorPhase, HttpModel, LlmError, ModelEvent, ModelReply, ModelRequest, Profile, complete,
};
use loop_mock::{Behaviour, LoopbackServer, Service};
use loop_testkit::llm::{EventModel, finished};

/// A key that must never be seen again.
pub(crate) const KEY: &str = "sk-canary-0123456789";

/// A client of this protocol, with timers that end only what hangs.
pub(crate) fn client(api: Api, server: &LoopbackServer) -> HttpModel {
    client_at(api, &server.url())
}

pub(crate) fn client_at(api: Api, url: &str) -> HttpModel {
    let base = match api {
        Api::OpenaiChat | Api::OpenaiResponses | Api::Anthropic => format!("{url}/v1"),
        Api::Gemini => format!("{url}/v1beta"),
    };
    let model = HttpModel::new(Profile::named(api.name()).unwrap(), Some(&base)).unwrap();
    model.with_key(KEY.into()).unwrap().with_timers(patient())
}

pub(crate) fn patient() -> Timers {
    let max = Duration::from_secs(300);
    Timers { first_byte: max, idle: max, progress: max, after_end: max, total: max }
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest::new("m", "Be brief.", "Hello?")
}

/// A reply that was asked for: an error shows no key, and has what came where a reply had begun.
pub(crate) async fn ask(model: &dyn ChatModel) -> Result<ModelReply, LlmError> {
    let end = soon(complete(model, &request())).await;
    if let Err(error) = &end {
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert!(error.phase != ErrorPhase::Stream || error.partial.is_some(), "{error:?}");
        assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
    }
    end
}

/// The error of a request that is answered like this.
#[track_caller]
pub(crate) fn failed(what: &str, api: Api, end: Result<ModelReply, LlmError>) -> LlmError {
    match end {
        Err(error) => error,
        Ok(reply) => panic!("{what} over {}: {reply:?}", api.name()),
    }
}

/// A server that answers like this, again and again.
pub(crate) fn answering(behaviour: Behaviour) -> LoopbackServer {
    LoopbackServer::start(Service::replies([behaviour])).unwrap()
}

/// A server with a model that says these events.
pub(crate) fn saying(events: Vec<Result<ModelEvent, LlmError>>) -> Service {
    Service::of(Arc::new(EventModel(events)))
}

/// A server with a model that replies so.
pub(crate) fn replying(reply: ModelReply) -> Service {
    saying(vec![finished(reply)])
}

/// The bytes of a stream as the server writes it.
pub(crate) async fn bytes_of(api: Api, service: Service) -> Vec<u8> {
    let server = LoopbackServer::start(service).unwrap();
    let (path, body) = match api {
        Api::OpenaiChat => (
            "chat/completions",
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello?"}]}"#,
        ),
        Api::OpenaiResponses => ("responses", r#"{"model":"m","stream":true,"input":"Hello?"}"#),
        Api::Anthropic => (
            "messages",
            r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hello?"}]}"#,
        ),
        Api::Gemini => {
            ("models/m:streamGenerateContent?alt=sse", r#"{"contents":[{"parts":[{"text":"Hello?"}]}]}"#)
        }
    };
    let call = loop_llm::http::http_client().unwrap().post(format!("{}/{path}", server.url()));
    let answer = call.header("anthropic-version", "2023-06-01").body(body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.bytes().await.unwrap().to_vec()
}

/// A guard, not a measure: what hangs fails.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(400), future).await.expect("it came to an end")
}

pub(crate) fn text(text: &str) -> Result<ModelEvent, LlmError> {
    Ok(ModelEvent::TextDelta { text: text.into() })
}

pub(crate) fn error(kind: FailureKind) -> Result<ModelEvent, LlmError> {
    Err(LlmError::new(kind, ErrorPhase::Stream, "no luck"))
}
