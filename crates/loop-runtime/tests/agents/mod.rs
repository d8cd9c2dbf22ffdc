//! What the tests of agents share: models that keep their script, tools that behave, and a look at histories: agents with
//! helpers, with a reflection, with fake handlers (S2-56).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loop_core::reply::FinishReason;
use loop_core::types::Status;
use loop_llm::codec::Codec;
use loop_llm::request::AssistantTurn;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{ModelRequest, Profile, Scripted, ToolOutput};
use loop_runtime::{
    Agent, Message,
    agent::{AgentBuilder, AgentError, Meta, Text},
    tools::{Effect, ToolContext, ToolDeclaration, ToolUse},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// What every tool of these tests takes: how it is to behave.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `ok`, `fail`, `panic`, `hang`, `slow-500`, or anything else, which is told back.
    pub target: String,
}

#[derive(Deserialize, JsonSchema)]
pub struct Search {
    pub name: String,
}

/// What was done, in order.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Mutex<Vec<String>>>);

impl Activity {
    pub fn say(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub fn look() -> ToolDeclaration {
    ToolDeclaration::read("look", "Looks a thing up")
}

pub fn change() -> ToolDeclaration {
    ToolDeclaration::new("change").description("Changes a thing").effect(Effect::WriteIdempotent)
}

/// What a tool does with its target; what it does is said as `begins TARGET` and `ends TARGET`.
pub async fn behave(target: Target, activity: Activity) -> Result<String, String> {
    let target = target.target;
    activity.say(format!("begins {target}"));
    match target.split_once('-') {
        Some(("slow", ms)) => tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await,
        _ if target == "hang" => std::future::pending().await,
        _ => {}
    }
    assert!(target != "panic", "it went to pieces");
    activity.say(format!("ends {target}"));
    if target == "fail" { Err("no such thing".to_owned()) } else { Ok(format!("saw {target}")) }
}

/// The tools `look` and `change`, which do as they are told.
pub fn with_tools<Output>(builder: AgentBuilder<Output>, activity: &Activity) -> AgentBuilder<Output> {
    let (one, two) = (activity.clone(), activity.clone());
    builder
        .tool(look(), move |target: Target, _: ToolContext| behave(target, one.clone()))
        .tool(change(), move |target: Target, _| behave(target, two.clone()))
}

pub fn conversation(model: &Arc<Scripted>, activity: &Activity) -> AgentBuilder<Text> {
    with_tools(Agent::new(Arc::clone(model)), activity)
}

pub fn scripted(replies: impl IntoIterator<Item = ScriptedReply>) -> Arc<Scripted> {
    Arc::new(Scripted::new(replies))
}

pub fn says(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

pub fn target(target: &str) -> Value {
    json!({"target": target})
}

/// A reply that looks these up.
pub fn looks(targets: &[&str]) -> ScriptedReply {
    targets.iter().fold(ScriptedReply::default(), |reply, it| reply.and_call("look", target(it)))
}

pub fn refusal(text: &str) -> ScriptedReply {
    ScriptedReply { finish: Some(FinishReason::Refusal), ..says(text) }
}

pub fn ask(text: &str) -> Vec<Message> {
    vec![Message::user(text)]
}

/// The role of each message, a letter each: user, assistant, tools.
pub fn shape(messages: &[Message]) -> String {
    let letter = |message: &Message| match message {
        Message::User { .. } => 'U',
        Message::Assistant(turn) if turn.calls.is_empty() => 'A',
        Message::Assistant(_) => 'C',
        Message::Tool { .. } => 'T',
        Message::Operator { .. } => 'O',
    };
    messages.iter().map(letter).collect()
}

/// All results of a history, in order.
pub fn results(messages: &[Message]) -> Vec<&ToolOutput> {
    let of = messages.iter().map(|message| match message {
        Message::Tool { results } => results.as_slice(),
        _ => &[],
    });
    of.flatten().collect()
}

/// Their texts, errors with a mark before them.
pub fn texts(messages: &[Message]) -> Vec<String> {
    let text = |result: &&ToolOutput| format!("{}{}", if result.is_error { "!" } else { "" }, result.text);
    results(messages).iter().map(text).collect()
}

/// Whether every call has one result, in its order and right after it, and every provider takes the history.
#[track_caller]
pub fn assert_valid(messages: &[Message]) {
    assert!(matches!(messages.first(), Some(Message::User { .. })), "{messages:#?}");
    let mut open: Vec<Arc<str>> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { results } => {
                let answered: Vec<Arc<str>> = results.iter().map(|result| result.call.clone()).collect();
                assert_eq!(std::mem::take(&mut open), answered, "each call is answered once, in order");
                assert!(results.iter().all(|result| !result.text.is_empty()), "{results:#?}");
            }
            Message::Assistant(AssistantTurn { text, calls, raw, .. }) => {
                assert!(open.is_empty(), "{open:?} were not answered: {messages:#?}");
                assert!(!text.trim().is_empty() || !calls.is_empty() || raw.is_some(), "{messages:#?}");
                open = calls.iter().map(|call| call.id.clone()).collect();
                let ids: std::collections::BTreeSet<_> = open.iter().collect();
                assert_eq!(ids.len(), open.len(), "ids are unique: {open:?}");
                assert!(open.iter().all(|id| !id.is_empty()));
            }
            Message::User { .. } | Message::Operator { .. } => {
                assert!(open.is_empty(), "{open:?} were not answered: {messages:#?}");
            }
        }
    }
    assert!(open.is_empty(), "{open:?} were not answered: {messages:#?}");
    let mut requested = messages.to_vec();
    requested.push(Message::user("And now?"));
    for provider in ["openai-chat", "openai-responses", "anthropic", "gemini"] {
        let request = ModelRequest { messages: requested.clone(), ..ModelRequest::new("m", "Rules.", "") };
        let encoded = Codec::new(Profile::named(provider).unwrap()).encode(&request);
        assert!(encoded.is_ok(), "{provider}: {:?}\n{messages:#?}", encoded.err());
    }
}

/// Whether all that a request says stands at the beginning of the next one (I-17).
#[track_caller]
pub fn assert_growing(requests: &[ModelRequest]) {
    for two in requests.windows(2) {
        let (one, next) = (&two[0], &two[1]);
        assert_eq!(one.system, next.system);
        assert_eq!(one.tools, next.tools);
        let shared = one.messages.len().min(next.messages.len());
        assert_eq!(one.messages[..], next.messages[..shared], "a prefix of the next");
    }
}

/// What is known of an agent that ended without an answer.
#[track_caller]
pub fn meta_of(error: &AgentError) -> &Meta {
    error.meta().unwrap_or_else(|| panic!("it did not begin: {error}"))
}

pub fn statuses(meta: &Meta) -> Vec<Status> {
    meta.outcome.evidence.iter().map(|evidence| evidence.observation.status).collect()
}

pub fn verdicts(meta: &Meta) -> Vec<&'static str> {
    meta.outcome.actions.iter().map(|action| action.verdict.name()).collect()
}

pub fn used(meta: &Meta, tool: &str) -> ToolUse {
    meta.tools.iter().find(|used| &*used.tool == tool).cloned().unwrap_or_default()
}

/// A value that the agents of these tests end with.
#[derive(Clone, Debug, PartialEq, serde::Serialize, Deserialize, JsonSchema)]
pub struct Lead {
    /// Whom to call.
    pub name: String,
    pub score: u32,
}

pub fn lead(name: &str, score: u32) -> Lead {
    Lead { name: name.to_owned(), score }
}

pub fn lead_tool() -> loop_runtime::agent::OutputTool<Lead> {
    loop_runtime::agent::OutputTool::new("save_lead", "Save the lead")
}

pub fn save_lead(name: &str, score: u32) -> ScriptedReply {
    ScriptedReply::call("save_lead", json!({"name": name, "score": score}))
}

pub fn submits() -> ScriptedReply {
    ScriptedReply::call("submit", json!({}))
}
