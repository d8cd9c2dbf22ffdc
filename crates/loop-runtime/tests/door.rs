//! The first program of a new user: a model by name, asked over loopback.

use std::sync::Arc;

use loop_llm::Scripted;
use loop_llm::scripted::ScriptedReply;
use loop_mock::{Behaviour, LoopbackServer, Service};
use loop_runtime::{
    Agent,
    agent::{AgentError, NamedModel},
    models::Price,
    run::StartError,
};
use serde_json::json;

#[allow(dead_code)]
#[path = "../examples/seven_lines.rs"]
mod seven_lines;

const NAME: &str = "anthropic/claude-haiku-4-5";

/// A server that adds two numbers with the tool and says so, by each provider's protocol.
fn server() -> LoopbackServer {
    let calls = ScriptedReply::call("add", json!({"a": 2, "b": 5}));
    let model = Arc::new(Scripted::new([calls, ScriptedReply::text("2 + 5 is 7.")]));
    LoopbackServer::start(Service::of(model).usually(Behaviour::model())).unwrap()
}

#[tokio::test]
async fn a_named_model_answers_over_its_own_protocol() {
    // S1-33, S1-42
    for provider in ["anthropic", "openai", "openai-chat", "gemini"] {
        let server = server();
        let model = NamedModel::new(format!("{provider}/some-model"));
        let model = model.with_base_url(server.base_url()).with_price(Price::flat(1_000_000, 5_000_000));
        let mut out = Vec::new();
        seven_lines::show(&mut out, model).await.unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("2 + 5 is 7. (1 tool call, $0.0"), "{provider}: {text}");
    }
}

#[tokio::test]
async fn a_limit_that_nothing_fits_into_sends_nothing() {
    let server = server();
    let model =
        NamedModel::new(NAME).with_base_url(server.base_url()).with_price(Price::flat(1_000_000, 5_000_000));
    let agent = Agent::new(model).limit(loop_core::spec::CostLimit::usd("0.000001")).build().unwrap();
    let error = agent.prompt("2 + 5?").await.unwrap_err();
    // T8
    assert!(matches!(&error, AgentError::Start(StartError::FirstPassUnpaid { .. })), "{error:?}");
    assert!(error.to_string().contains("limits.cost_usd = 0.00"), "{error}");
    assert!(error.meta().is_none());
}

#[test]
fn what_the_name_does_not_bring_is_refused_when_it_is_built() {
    let refused = |model: NamedModel| Agent::new(model).build().unwrap_err().to_string();
    let elsewhere = NamedModel::new("openai-chat/own").with_base_url("https://gateway.example/v1");
    let message = refused(elsewhere.clone());
    assert!(message.starts_with("the price of `own` is unknown"), "{message}");
    assert!(Agent::new(elsewhere).no_cost_limit().build().is_ok());

    let message = Agent::new("anthropc/claude-haiku-4-5").build().unwrap_err().to_string();
    assert!(message.starts_with("unknown provider `anthropc`; did you mean `anthropic`?"), "{message}");
    let message = Agent::new("claude-haiku-4-5").build().unwrap_err().to_string();
    assert_eq!(
        message,
        "the model `claude-haiku-4-5` names no provider; write PROVIDER/MODEL, for example anthropic/claude-haiku-4-5"
    );
}
