//! The same agent over HTTP: each protocol gives the same answer and the same messages.

use crate::agents;

use std::sync::Arc;

use agents::{
    Activity, ask, assert_valid, lead, lead_tool, looks, meta_of, save_lead, says, scripted, shape, submits,
    texts, with_tools,
};
use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::spec::{Execution, Limits, SectionSpec};
use loop_core::types::FailureKind;
use loop_core::{RunSpec, WorkItem};
use loop_llm::codec::{Api, Codec};
use loop_llm::model::ReplyEnd;
use loop_llm::profile::LateInstructions;
use loop_llm::request::AssistantTurn;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{
    ChatModel, ErrorPhase, EventStream, HttpModel, LlmError, ModelEvent, ModelRequest, Profile, Scripted,
    ToolChoice,
};
use loop_mock::{Behaviour, Chunks, LoopbackServer, Service};
use loop_runtime::models::{Models, Offline};
use loop_runtime::{
    Agent, Message, Runner, StopReason, agent::AgentModel, models::ModelSpec, tools::Registry,
};
use serde_json::json;

const PROTOCOLS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

/// This model behind a server, by the protocol of this provider.
fn served(provider: &str, model: Arc<dyn ChatModel>) -> (AgentModel, LoopbackServer) {
    let chunks = Behaviour::model().in_chunks(Chunks::Random { seed: 11 });
    let server = LoopbackServer::start(Service::of(model).usually(chunks)).unwrap();
    let client = HttpModel::new(Profile::named(provider).unwrap(), Some(&server.base_url())).unwrap();
    (
        AgentModel::new(
            client,
            ModelSpec::new(provider, "m").with_price(loop_core::types::Price::flat(1, 1)),
        ),
        server,
    )
}

/// What was said and done, without what only a provider can read and without the ids, which are its own.
fn bare(messages: &[Message]) -> Vec<String> {
    let bare = |message: &Message| match message {
        Message::Assistant(AssistantTurn { text, calls, .. }) => {
            let calls: Vec<String> = calls
                .iter()
                .map(|call| {
                    let arguments: serde_json::Value = serde_json::from_str(call.arguments.text()).unwrap();
                    format!("{}({arguments})", call.name)
                })
                .collect();
            format!("A {text} {calls:?}")
        }
        Message::Tool { .. } => format!("T {:?}", texts(std::slice::from_ref(message))),
        Message::User { text, .. } => format!("U {text}"),
        Message::Operator { text } => format!("O {text}"),
    };
    messages.iter().map(bare).collect()
}

#[tokio::test]
async fn a_conversation_is_the_same_over_each_protocol() {
    // S1-11, S1-15, S1-26, S1-54, S2-80
    let script = || {
        let first = loop_llm::scripted::ScriptedReply { text: "I look.".into(), ..looks(&["one", "fail"]) };
        let second = looks(&["two"]).and_call("nobody", json!({})).and_call("change", agents::target("it"));
        scripted([first, second, says("Done.\nReally."), looks(&["three"]), says("And again.")])
    };
    let mut expected: Option<Vec<String>> = None;
    let mut all: Vec<(AgentModel, Option<LoopbackServer>)> = vec![(script().into(), None)];
    all.extend(PROTOCOLS.map(|provider| {
        let (model, server) = served(provider, script());
        (model, Some(server))
    }));
    for (model, server) in all {
        let agent = with_tools(Agent::new(model), &Activity::default()).approve("change").build().unwrap();
        let mut messages = ask("Go");
        let answer = agent.chat(&mut messages).await.unwrap();
        assert_eq!((&*answer.text, &*shape(&messages)), ("Done.\nReally.", "UCTCTA"));
        messages.push(Message::user("Again?"));
        assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "And again.");
        assert_valid(&messages);
        let activity = bare(&messages);
        assert_eq!(&activity, expected.get_or_insert_with(|| activity.clone()));
        if let Some(server) = server {
            assert!(
                server.requests().iter().all(|request| request.status == Some(200)),
                "{:#?}",
                server.requests()
            );
            assert_eq!(server.requests().len(), 5);
        }
    }
}

#[tokio::test]
async fn an_output_is_the_same_over_each_protocol() {
    // S2-80, S2-95
    for provider in PROTOCOLS {
        let script =
            scripted([looks(&["one"]), save_lead("Ann", 101), submits(), save_lead("Bob", 7), submits()]);
        let tool = lead_tool()
            .reflect(|lead| format!("# {}", lead.name))
            .validator("score", |lead: agents::Lead| async move {
                if lead.score <= 100 { Ok(()) } else { Err("too much") }
            });
        let (model, _server) = served(provider, script);
        let agent = with_tools(Agent::output(model, tool), &Activity::default()).build().unwrap();
        let mut messages = ask("Go");
        let found = agent.chat(&mut messages).await.unwrap();
        assert_eq!((found.value, found.meta.attempts), (lead("Bob", 7), 2), "{provider}");
        assert_eq!(shape(&messages), "UCTCTCTUCTCT", "{provider}");
        assert!(found.meta.totals.usage.input > 0 && !found.meta.totals.usage.estimated, "{provider}");
        assert_valid(&messages);
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_provider() {
    // I-21
    let mut messages = ask("Go");
    for (provider, n) in PROTOCOLS.iter().chain(PROTOCOLS.iter().rev()).zip(1..) {
        let (model, server) = served(provider, scripted([looks(&["it"]), says(&format!("answer {n}"))]));
        let agent = with_tools(Agent::new(model), &Activity::default()).build().unwrap();
        assert_eq!(*agent.chat(&mut messages).await.unwrap().text, format!("answer {n}"), "{provider}");
        assert!(server.requests().iter().all(|request| request.status == Some(200)), "{provider}");
        messages.push(Message::user("On."));
    }
    assert_eq!(shape(&messages), "UCTA".repeat(8) + "U");
    assert_valid(&messages);
}

/// A model whose server takes rules only as the first message, and knows neither a choice of tools nor one call at a time.
#[derive(Debug)]
struct Strict(Arc<dyn ChatModel>);

#[async_trait::async_trait]
impl ChatModel for Strict {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let has_late = request.messages.iter().any(|message| matches!(message, Message::Operator { .. }));
        let refused = match () {
            () if has_late => "Jinja Exception: System message must be at the beginning.",
            () if request.tool_choice != ToolChoice::Auto => "tool_choice is not supported",
            () if request.one_call_at_a_time => "Unknown parameter: parallel_tool_calls",
            () => return self.0.stream(request).await,
        };
        Err(LlmError::new(FailureKind::InvalidRequest, ErrorPhase::Headers, refused))
    }
}

#[tokio::test]
async fn every_form_of_request_is_answered_by_a_strict_server() {
    // T17
    let strict =
        |provider: &str, replies: Vec<ScriptedReply>| served(provider, Arc::new(Strict(scripted(replies))));
    let refusals = |server: &LoopbackServer| {
        server.requests().iter().filter(|request| request.status != Some(200)).count()
    };
    for profile in Profile::all() {
        let provider = &*profile.name;
        // The last reply at a limit, with a turn after it.
        for limits in [Limits { passes: 3, ..Limits::agent() }, Limits { model_calls: 3, ..Limits::agent() }]
        {
            let (model, server) =
                strict(provider, vec![looks(&["1"]), looks(&["2"]), says("As far as I came."), says("Yes.")]);
            let agent = with_tools(Agent::new(model), &Activity::default()).limits(limits).build().unwrap();
            let mut messages = ask("Go");
            let error = agent.chat(&mut messages).await.unwrap_err();
            assert_eq!(
                (&*shape(&messages), messages.last().unwrap().text()),
                ("UCTCTA", "As far as I came."),
                "{provider}: {error}"
            );
            let is_late = profile.late_instructions != LateInstructions::User
                && !matches!(profile.api, Api::Anthropic | Api::Gemini);
            assert_eq!(refusals(&server), 1 + usize::from(is_late), "{provider}");
            messages.push(Message::user("Really?"));
            assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "Yes.", "{provider}");
        }
        // An output that has to be called, one call at a time, with an answer of the tool and a second attempt. Its provider
        // is asked for each part once.
        let script = vec![looks(&["one"]), save_lead("Ann", 101), submits(), save_lead("Bob", 7), submits()];
        let (model, server) = strict(provider, script);
        let tool = lead_tool()
            .reflect(|lead| format!("# {}", lead.name))
            .validator("score", |lead: agents::Lead| async move {
                if lead.score <= 100 { Ok(()) } else { Err("too much") }
            });
        let agent = with_tools(Agent::output(model, tool), &Activity::default()).execution(Execution::Single);
        let found = agent.build().unwrap().chat(&mut ask("Go")).await.unwrap();
        assert_eq!((found.value, found.meta.totals.model_calls), (lead("Bob", 7), 5), "{provider}");
        assert!(refusals(&server) <= 2, "{provider}: {}", refusals(&server));
    }
}

/// A model whose server takes no user's message after results, or says nothing of why it refuses the choice of no tool.
#[derive(Debug)]
struct Mute(&'static str, Arc<dyn ChatModel>);

#[async_trait::async_trait]
impl ChatModel for Mute {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let is_late = request.messages.windows(2).any(|pair| {
            matches!(pair, [Message::Tool { .. }, Message::User { .. } | Message::Operator { .. }])
        });
        let is_refused = match self.0 {
            ORDER => is_late,
            _ => request.tool_choice == ToolChoice::None,
        };
        if is_refused {
            return Err(LlmError::new(FailureKind::InvalidRequest, ErrorPhase::Headers, self.0));
        }
        self.1.stream(request).await
    }
}

const ORDER: &str = "Unexpected role 'user' after role 'tool'";

#[tokio::test]
async fn a_last_reply_that_is_refused_without_a_name_is_asked_for_once_more() {
    // Issue 43, P5
    for (provider, why) in PROTOCOLS.map(|it| (it, ORDER)).into_iter().chain([
        ("openai-chat", "Bad Request"),
        ("gemini", "Request contains an invalid argument."),
        ("anthropic", "Error"),
    ]) {
        let replies = vec![looks(&["1"]), says("As far as I came."), says("Yes.")];
        let (model, server) = served(provider, Arc::new(Mute(why, scripted(replies))));
        let limits = Limits { passes: 2, ..Limits::agent() };
        let agent = with_tools(Agent::new(model), &Activity::default()).limits(limits).build().unwrap();
        let mut messages = ask("Go");
        agent.chat(&mut messages).await.unwrap_err();
        let came = (&*shape(&messages), messages.last().unwrap().text());
        assert_eq!(came, ("UCTA", "As far as I came."), "{provider}, {why}");
        assert_eq!(
            server.requests().iter().filter(|it| it.status != Some(200)).count(),
            1,
            "{provider}, {why}"
        );
        assert_valid(&messages);
    }
    // What every request of the run had is not what is refused, so nothing is tried blindly.
    let (model, server) = served("openai-chat", Arc::new(Refusing("Bad Request")));
    let agent = with_tools(Agent::new(model), &Activity::default()).build().unwrap();
    agent.chat(&mut ask("Go")).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

/// A model whose server refuses each request.
#[derive(Debug)]
struct Refusing(&'static str);

#[async_trait::async_trait]
impl ChatModel for Refusing {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        Err(LlmError::new(FailureKind::InvalidRequest, ErrorPhase::Headers, self.0))
    }
}

#[tokio::test]
async fn every_call_of_a_document_is_answered_by_a_strict_server() {
    // T17: the only permitted pass of a document, which is its final pass.
    for profile in Profile::all() {
        let server = LoopbackServer::start(Service::of(Arc::new(Strict(Arc::new(Offline::new()))))).unwrap();
        let client = HttpModel::new(Arc::clone(profile), Some(&server.base_url())).unwrap();
        let sections = [SectionSpec::new("findings", "Findings").required()];
        let mut spec = RunSpec::document("help", sections, ModelSpec::new("offline", "offline-1"));
        spec.limits.passes = 1;
        let runner = Runner::new(spec, Registry::builder().build().unwrap(), Models::one(Arc::new(client)));
        let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
        let outcome = runner.run(item).await.unwrap();
        assert!(!outcome.document.sections.is_empty(), "{}: {:?}", profile.name, outcome.stop);
        assert!(server.requests().iter().all(|request| request.status == Some(200)), "{}", profile.name);
    }
}

#[tokio::test]
async fn a_reply_whose_calls_are_garbled_is_no_answer() {
    // It says that it calls tools, and none can be read: it is asked for again, and never a success.
    let lost = || ScriptedReply { finish: Some(FinishReason::ToolUse), ..says("I look it up.") };
    for replies in [vec![lost(), says("Done.")], vec![lost(), lost(), lost()]] {
        let mut all: Vec<(AgentModel, Option<LoopbackServer>)> =
            vec![(scripted(replies.clone()).into(), None)];
        // Two say that they call tools, and call none; one has a word for it.
        let behind: [(&str, Arc<dyn ChatModel>); 3] = [
            ("openai-chat", scripted(replies.clone())),
            ("anthropic", scripted(replies.clone())),
            ("gemini", Arc::new(Garbling(scripted(replies.clone())))),
        ];
        all.extend(behind.map(|(provider, model)| {
            let (model, server) = served(provider, model);
            (model, Some(server))
        }));
        for (model, server) in all {
            let agent = with_tools(Agent::new(model), &Activity::default()).build().unwrap();
            let mut messages = ask("Go");
            let ended = agent.chat(&mut messages).await;
            match (ended, replies.len()) {
                (Ok(answer), 2) => assert_eq!((&*answer.text, answer.meta.totals.model_calls), ("Done.", 2)),
                (Err(error), 3) => {
                    let outcome = &meta_of(&error).outcome;
                    assert_eq!(
                        (outcome.stop.reason(), outcome.totals.model_calls),
                        (StopReason::ModelFailure, 3)
                    );
                    assert!(error.to_string().contains("malformed_tool_call"), "{error}");
                    assert_eq!(outcome.answer.as_deref(), Some("I look it up."));
                    assert!(outcome.totals.usage.output > 0, "it is paid for");
                }
                (ended, _) => panic!("{ended:?}"),
            }
            assert_valid(&messages);
            drop(server);
        }
    }
}

/// A model that says of a reply which calls none of the tools that it ends for that its calls were garbled.
#[derive(Debug)]
struct Garbling(Arc<Scripted>);

#[async_trait::async_trait]
impl ChatModel for Garbling {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let reported = |event| match event {
            Ok(ModelEvent::Finished(mut reply))
                if reply.finish == FinishReason::ToolUse && reply.tool_calls.is_empty() =>
            {
                reply.stop = Some(ReplyEnd::MalformedToolCall);
                Ok(ModelEvent::Finished(reply))
            }
            event => event,
        };
        Ok(self.0.stream(request).await?.map(reported).boxed())
    }
}

/// Its fields stand in neither order of the alphabet, and so do those within it.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Verdict {
    /// What speaks for and against it.
    reasoning: String,
    answer: Grounds,
    next: String,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Grounds {
    verdict: String,
    because: String,
    confidence: u32,
}

// X1: providers write arguments in the order of the schema, so that reasoning comes before the answer.
#[tokio::test]
async fn the_fields_of_a_type_stand_on_the_wire_in_their_order() {
    const ORDER: [&str; 6] = ["reasoning", "answer", "verdict", "because", "confidence", "next"];
    let value =
        json!({"reasoning": "r", "answer": {"verdict": "v", "because": "b", "confidence": 1}, "next": "n"});
    let save = || ScriptedReply::call("save", value.clone());
    for is_reflected in [false, true] {
        let script = scripted(if is_reflected { vec![save(), submits()] } else { vec![save()] });
        let tool = loop_runtime::agent::OutputTool::<Verdict>::new("save", "Save it");
        let looks = loop_tools::ToolDeclaration::read("look", "Looks");
        let add = |_: Verdict, _| async { Ok::<_, String>("nothing") };
        let built = match is_reflected {
            true => Agent::output(script.clone(), tool.reflect(|it| it.reasoning.clone()))
                .tool(looks, add)
                .build(),
            false => Agent::output(script.clone(), tool).tool(looks, add).build(),
        };
        let found = built.unwrap().chat(&mut ask("Go")).await.unwrap();
        assert_eq!(found.value.next, "n");
        let request = &script.requests()[0];
        for provider in PROTOCOLS {
            let codec = Codec::new(Profile::named(provider).unwrap());
            let body = String::from_utf8(codec.encode(request).unwrap().body.to_bytes().to_vec()).unwrap();
            for name in ["\"look\"", "\"save\""] {
                let tool = &body[body.find(name).unwrap()..];
                let place = |field: &&str| tool.find(&format!("\"{field}\":{{")).unwrap();
                assert!(ORDER.is_sorted_by_key(place), "{provider}: {tool}");
            }
        }
    }
}
