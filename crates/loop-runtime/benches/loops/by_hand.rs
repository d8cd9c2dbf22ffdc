//! The lean loop that an engineer writes by hand: `reqwest` and typed `serde`, borrowed where it can be. No client of ours,
//! no gate, no limits but one of passes, no journal.

use std::borrow::Cow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loop_llm::http::http_client;
use memchr::memchr;
use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::meter::{Options, TOOL_CALLS, measure};

pub fn run(options: &Options) -> ExitCode {
    let base_url = options.text("--base-url").unwrap();
    let url: Url = format!("{}/chat/completions", base_url.trim_end_matches('/')).parse().unwrap();
    // The same connections as the other clients have.
    let client = http_client().unwrap();
    let schema = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "description": "Which entry."}}});
    let setup = Arc::new(Setup { client, url, schema: to_raw_value(&schema).unwrap(), text: tool_text() });
    measure(options, move || one(Arc::clone(&setup))).unwrap()
}

/// What all loops share.
struct Setup {
    client: Client,
    url: Url,
    /// Of the tool's arguments.
    schema: Box<RawValue>,
    /// What the tool answers.
    text: String,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: [Tool<'a>; 1],
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'a str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message {
    System {
        content: &'static str,
    },
    User {
        content: &'static str,
    },
    Assistant {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Serialize)]
struct ToolCall {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

/// One event of the stream, borrowed from the bytes that came.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
    #[serde(borrow)]
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    arguments: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// A text that borrows where it has no escapes. An `Option<Cow<str>>` would copy it: `borrow` reaches a bare `Cow` only.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Clone, Copy, Default, Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// What the tool is called with.
#[derive(Deserialize)]
struct Lookup<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// A reply as it grows.
#[derive(Default)]
struct Reply {
    text: String,
    tool_calls: Vec<ToolCall>,
    usage: Usage,
    is_finished: bool,
}

async fn one(setup: Arc<Setup>) -> Result<(), String> {
    let mut shown = 0;
    match converse(&setup, |text| shown += text.len()).await? {
        Usage { prompt_tokens: 0, .. } | Usage { completion_tokens: 0, .. } => {
            Err("no usage was reported".to_owned())
        }
        _ if shown == 0 => Err("no text came".to_owned()),
        _ => Ok(()),
    }
}

/// Calls the model until it asks for no more tools, and says what all calls used.
async fn converse(setup: &Setup, mut on_text: impl FnMut(&str)) -> Result<Usage, String> {
    let mut messages = vec![Message::System { content: INSTRUCTIONS }, Message::User { content: QUESTION }];
    let mut usage = Usage::default();
    for _ in 0..MAX_PASSES {
        let reply = exchange(setup, &messages, &mut on_text).await?;
        usage.prompt_tokens += reply.usage.prompt_tokens;
        usage.completion_tokens += reply.usage.completion_tokens;
        if reply.tool_calls.is_empty() {
            return Ok(usage);
        }
        let results = reply.tool_calls.iter().map(|call| Message::Tool {
            tool_call_id: call.id.clone(),
            content: run_tool(setup, call).unwrap_or_else(|error| format!("error: {error}")),
        });
        let results: Vec<Message> = results.collect();
        messages.push(Message::Assistant { content: reply.text, tool_calls: reply.tool_calls });
        messages.extend(results);
    }
    Err(format!("the model still calls tools after {MAX_PASSES} passes"))
}

fn run_tool(setup: &Setup, call: &ToolCall) -> Result<String, String> {
    match call.function.name.as_str() {
        "lookup" => {
            let arguments: Lookup<'_> =
                serde_json::from_str(&call.function.arguments).map_err(|error| error.to_string())?;
            if arguments.id.is_empty() {
                return Err("`id` is empty".to_owned());
            }
            TOOL_CALLS.fetch_add(1, Ordering::Relaxed);
            Ok(setup.text.clone())
        }
        other => Err(format!("no tool `{other}`")),
    }
}

/// One call of the model, read as it streams.
async fn exchange(
    setup: &Setup,
    messages: &[Message],
    on_text: &mut impl FnMut(&str),
) -> Result<Reply, String> {
    let function = ToolFunction { name: "lookup", description: DESCRIPTION, parameters: &setup.schema };
    let request = Request {
        model: "bench-1",
        messages,
        tools: [Tool { r#type: "function", function }],
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    let body = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    let post = setup.client.post(setup.url.clone()).bearer_auth("unused").timeout(LONGEST);
    let post = post.header("content-type", "application/json").header("accept", "text/event-stream");
    let mut response = post.body(body).send().await.map_err(|error| error.to_string())?;
    let status = response.status();
    if !status.is_success() {
        let body = response.text().await.unwrap_or_default();
        return Err(format!("{status}: {body}"));
    }
    let mut reply = Reply::default();
    // The bytes of a line that has not ended.
    let mut held: Vec<u8> = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| error.to_string())? {
        if held.is_empty() {
            let rest = read_lines(&bytes, &mut reply, on_text)?;
            held.extend_from_slice(rest);
        } else {
            held.extend_from_slice(&bytes);
            let rest = read_lines(&held, &mut reply, on_text)?.len();
            held.drain(..held.len() - rest);
        }
    }
    if reply.is_finished { Ok(reply) } else { Err("the stream ended before the reply did".to_owned()) }
}

/// Reads all whole lines, and returns what is left.
fn read_lines<'a>(
    mut bytes: &'a [u8],
    reply: &mut Reply,
    on_text: &mut impl FnMut(&str),
) -> Result<&'a [u8], String> {
    while let Some(end) = memchr(b'\n', bytes) {
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        bytes = rest;
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        let data = data.trim_ascii();
        if data != b"[DONE]" {
            let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
            reply.take(chunk, on_text)?;
        }
    }
    Ok(bytes)
}

impl Reply {
    fn take(&mut self, chunk: Chunk<'_>, on_text: &mut impl FnMut(&str)) -> Result<(), String> {
        if let Some(error) = chunk.error {
            return Err(error.message.into_owned());
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        for choice in chunk.choices {
            self.is_finished |= choice.finish_reason.is_some_and(|reason| !reason.0.is_empty());
            if let Some(Text(text)) = choice.delta.content.filter(|text| !text.0.is_empty()) {
                on_text(&text);
                self.text.push_str(&text);
            }
            for delta in choice.delta.tool_calls.unwrap_or_default() {
                self.take_call(delta)?;
            }
        }
        Ok(())
    }

    fn take_call(&mut self, delta: CallDelta<'_>) -> Result<(), String> {
        if delta.index == self.tool_calls.len() {
            let function = Function { name: String::new(), arguments: String::new() };
            self.tool_calls.push(ToolCall { id: String::new(), r#type: "function", function });
        }
        let Some(call) = self.tool_calls.get_mut(delta.index) else {
            return Err(format!("tool call {} came out of order", delta.index));
        };
        if let Some(Text(id)) = delta.id {
            call.id.push_str(&id);
        }
        if let Some(function) = delta.function {
            if let Some(Text(name)) = function.name {
                call.function.name.push_str(&name);
            }
            if let Some(Text(arguments)) = function.arguments {
                call.function.arguments.push_str(&arguments);
            }
        }
        Ok(())
    }
}

/// The text that the tool of the load client answers.
fn tool_text() -> String {
    let row = "The pump P-7 stands in hall 3, was last serviced in March and runs at 82 % of its load.\n";
    row.repeat(2_048 / row.len())
}

const INSTRUCTIONS: &str = "You look entries up in the register of a plant, and answer briefly.";
const QUESTION: &str = "Where is the pump, and when was it last serviced?";
const DESCRIPTION: &str = "Look up an entry of the register.";
const MAX_PASSES: u32 = 10_000;
const LONGEST: Duration = Duration::from_secs(120);
