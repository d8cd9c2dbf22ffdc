//! A request as bytes: the same request gives the same bytes, and more turns only append.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::profile::{Profile, ToolSupport};
use super::schema;
use crate::call::ToolCall;
use crate::error::{ErrorCause, ErrorPhase, LlmError, LlmErrorKind};
use crate::options::{CallOptions, Effort, Strictness, ToolChoice, ToolSpec, Unsupported};
use crate::request::{CallResult, Message, ModelRequest};

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The JSON body.
    pub body: Bytes,
    /// Where the turns stand in it, the system prompt among them, without the closing bracket: what the same turns and
    /// more encode to begins with these bytes.
    pub messages: Range<usize>,
    /// What was left out or changed.
    pub warnings: Vec<Arc<str>>,
    /// Tools that travel under another name.
    pub aliases: Aliases,
}

/// Names of tools as they travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases(Vec<(Arc<str>, Arc<str>)>);

impl Aliases {
    /// The name that the request gave to the tool that travels as `wire`.
    pub fn name(&self, wire: &str) -> Arc<str> {
        let found = self.0.iter().find(|(_, alias)| **alias == *wire);
        found.map_or_else(|| wire.into(), |(name, _)| Arc::clone(name))
    }
}

/// The body of a streamed call.
///
/// # Errors
/// [`LlmErrorKind::InvalidRequest`] in phase [`ErrorPhase::Encode`]: no turns, a call without its result, a result
/// without its call, or an option that the model does not offer and that may not be left out.
pub fn encode(request: &ModelRequest, options: &CallOptions, profile: &Profile) -> Result<Encoded, LlmError> {
    check_history(&request.messages)?;
    let mut writer = Writer {
        body: Vec::with_capacity(request.bytes() + request.bytes() / 8 + 512),
        warnings: Vec::new(),
        aliases: Aliases::default(),
        options,
        profile,
    };
    writer.raw("{\"model\":");
    writer.text(&request.model);
    writer.raw(",\"messages\":");
    let start = writer.body.len();
    writer.messages(request)?;
    let messages = start..writer.body.len();
    writer.raw("]");
    writer.tools()?;
    writer.raw(if profile.max_completion_tokens {
        ",\"max_completion_tokens\":"
    } else {
        ",\"max_tokens\":"
    });
    writer.raw(&request.max_output_tokens.to_string());
    writer.sampling()?;
    writer.raw(",\"stream\":true");
    if profile.include_usage {
        writer.raw(",\"stream_options\":{\"include_usage\":true}");
    }
    writer.raw("}");
    let Writer { body, warnings, aliases, .. } = writer;
    Ok(Encoded { body: body.into(), messages, warnings, aliases })
}

struct Writer<'a> {
    body: Vec<u8>,
    warnings: Vec<Arc<str>>,
    aliases: Aliases,
    options: &'a CallOptions,
    profile: &'a Profile,
}

impl Writer<'_> {
    fn raw(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.value(&Value::from(text));
    }

    fn value(&mut self, value: &Value) {
        self.raw(&value.to_string());
    }

    /// `,"key":value`.
    fn member(&mut self, key: &str, value: &Value) {
        self.raw(",\"");
        self.raw(key);
        self.raw("\":");
        self.value(value);
    }

    fn messages(&mut self, request: &ModelRequest) -> Result<(), LlmError> {
        self.raw("[");
        if !request.system.is_empty() {
            self.turn(if self.profile.developer_role { "developer" } else { "system" }, &request.system);
        }
        let mut open: &[ToolCall] = &[];
        for message in &request.messages {
            match message {
                Message::User { text } => self.turn("user", text),
                Message::Assistant { text, .. } => self.turn("assistant", text),
                Message::AssistantCalls { text, calls } => {
                    self.calls(text, calls)?;
                    open = calls;
                }
                Message::ToolResults { results } => self.results(open, results),
            }
        }
        Ok(())
    }

    fn next_turn(&mut self) {
        if !self.body.ends_with(b"[") {
            self.raw(",");
        }
    }

    fn turn(&mut self, role: &str, text: &str) {
        self.next_turn();
        self.raw("{\"role\":\"");
        self.raw(role);
        self.raw("\",\"content\":");
        self.text(text);
        self.raw("}");
    }

    fn calls(&mut self, text: &str, calls: &[ToolCall]) -> Result<(), LlmError> {
        self.next_turn();
        self.raw("{\"role\":\"assistant\",\"content\":");
        if text.is_empty() && self.profile.null_content {
            self.raw("null");
        } else {
            self.text(text);
        }
        self.raw(",\"tool_calls\":[");
        for (nth, call) in calls.iter().enumerate() {
            self.raw(if nth == 0 { "{\"id\":" } else { ",{\"id\":" });
            self.text(&call.id);
            self.raw(",\"type\":\"function\",\"function\":{\"name\":");
            let name = self.alias(&call.name)?;
            self.text(&name);
            self.raw(",\"arguments\":");
            // Some servers parse the arguments of earlier calls, and nothing is no JSON.
            let arguments = call.arguments.text();
            self.text(if arguments.trim().is_empty() { "{}" } else { arguments });
            self.raw("}}");
        }
        self.raw("]}");
        Ok(())
    }

    fn results(&mut self, calls: &[ToolCall], results: &[CallResult]) {
        let in_order =
            || calls.iter().filter_map(|call| results.iter().find(|result| result.call == call.id));
        for result in in_order() {
            self.next_turn();
            self.raw("{\"role\":\"tool\",\"tool_call_id\":");
            self.text(&result.call);
            self.raw(",\"content\":");
            let mut text = String::new();
            if result.is_error {
                text.push_str(ERROR_PREFIX);
            }
            text.push_str(&result.text);
            if !result.images.is_empty() {
                text.push_str(if text.is_empty() { PICTURE } else { PICTURE_AFTER_TEXT });
            }
            self.text(&text);
            self.raw("}");
        }
        for result in in_order().filter(|result| !result.images.is_empty()) {
            self.next_turn();
            self.raw("{\"role\":\"user\",\"content\":[");
            let label = format!("Pictures of the result of {}:", result.call);
            self.value(&json!({"type": "text", "text": label}));
            for image in &result.images {
                let url = format!("data:{};base64,{}", image.media_type, image.base64);
                self.raw(",");
                self.value(&json!({"type": "image_url", "image_url": {"url": url}}));
            }
            self.raw("]}");
        }
    }

    fn tools(&mut self) -> Result<(), LlmError> {
        let options = self.options;
        if options.tools.is_empty() {
            return Ok(());
        }
        let takes_tools = match self.profile.tools {
            ToolSupport::Yes => true,
            ToolSupport::WithoutReasoning => options.effort == Some(Effort::None),
            ToolSupport::No => false,
        };
        if !takes_tools {
            let message = "this model takes tools only on the Responses interface, or at the effort none";
            return Err(refused(ErrorCause::OtherInterface, message));
        }
        self.raw(",\"tools\":[");
        for (nth, tool) in options.tools.iter().enumerate() {
            if nth > 0 {
                self.raw(",");
            }
            self.tool(tool)?;
        }
        self.raw("]");
        let function = |name: &str| json!({"type": "function", "function": {"name": name}});
        let choice = match &options.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some("none".into()),
            ToolChoice::Required => Some("required".into()),
            ToolChoice::Named(name) => Some(function(&self.alias(name)?)),
            ToolChoice::AnyOf(names) if self.profile.allowed_tools => {
                let mut tools = Vec::new();
                for name in names {
                    tools.push(function(&self.alias(name)?));
                }
                let allowed = json!({"mode": "auto", "tools": tools});
                Some(json!({"type": "allowed_tools", "allowed_tools": allowed}))
            }
            ToolChoice::AnyOf(_) => {
                self.leave_out("tool_choice")?;
                None
            }
        };
        if let Some(choice) = choice {
            self.member("tool_choice", &choice);
        }
        if options.one_call_at_a_time {
            self.member("parallel_tool_calls", &false.into());
        }
        Ok(())
    }

    fn tool(&mut self, tool: &ToolSpec) -> Result<(), LlmError> {
        let strict = match tool.strict {
            Strictness::Off => None,
            Strictness::Prefer | Strictness::Require => {
                schema::strict(&tool.parameters).filter(|_| self.profile.strict_tools)
            }
        };
        if strict.is_none() && tool.strict == Strictness::Require {
            let message =
                format!("the schema of the tool {} cannot be made binding for this model", tool.name);
            return Err(refused(ErrorCause::Unsupported, message));
        }
        if strict.is_none() && tool.strict == Strictness::Prefer {
            self.warnings.push(format!("schema_not_strict({})", tool.name).into());
        }
        let name = self.alias(&tool.name)?;
        self.raw("{\"type\":\"function\",\"function\":{\"name\":");
        self.text(&name);
        self.member("description", &Value::from(&*tool.description));
        self.member("parameters", strict.as_ref().unwrap_or(&tool.parameters));
        if self.profile.strict_tools {
            self.member("strict", &strict.is_some().into());
        }
        self.raw("}}");
        Ok(())
    }

    fn sampling(&mut self) -> Result<(), LlmError> {
        let options = self.options;
        if let Some(effort) = options.effort {
            if self.profile.reasons {
                self.member("reasoning_effort", &effort.name().into());
            } else if effort != Effort::None {
                self.leave_out("reasoning_effort")?;
            }
        }
        let takes_sampling = !self.profile.reasons || options.effort == Some(Effort::None);
        let numbers = [("temperature", options.temperature), ("top_p", options.top_p)];
        for (name, value) in numbers {
            match value {
                Some(value) if takes_sampling => self.member(name, &value.into()),
                Some(_) => self.leave_out(name)?,
                None => {}
            }
        }
        if let Some(seed) = options.seed {
            self.member("seed", &seed.into());
        }
        if !options.stop.is_empty() {
            let most = if takes_sampling { self.profile.stop_max } else { 0 };
            if options.stop.len() > most {
                self.leave_out("stop")?;
            }
            if most > 0 {
                let stop = options.stop.iter().take(most).map(|text| Value::from(&**text));
                self.member("stop", &stop.collect());
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, name: &str) -> Result<(), LlmError> {
        match self.options.unsupported {
            Unsupported::Degrade => {
                self.warnings.push(format!("param_dropped({name})").into());
                Ok(())
            }
            Unsupported::Reject => {
                let message = format!("this model does not take {name} as it is given");
                Err(refused(ErrorCause::Unsupported, message))
            }
        }
    }

    /// The name under which a tool travels: its own where that is allowed.
    fn alias(&mut self, name: &Arc<str>) -> Result<Arc<str>, LlmError> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if (1..=MOST_NAME).contains(&name.len()) && name.chars().all(is_legal) {
            return Ok(Arc::clone(name));
        }
        if let Some((_, alias)) = self.aliases.0.iter().find(|(known, _)| known == name) {
            return Ok(Arc::clone(alias));
        }
        let head: String = name.chars().filter(|c| is_legal(*c)).take(MOST_NAME - 9).collect();
        let alias: Arc<str> = format!("{head}_{:08x}", fnv(name)).into();
        let is_taken = self.options.tools.iter().any(|tool| tool.name == alias)
            || self.aliases.0.iter().any(|(_, taken)| *taken == alias);
        if is_taken {
            let message = format!("the tool {name} has a name that cannot be told from another's");
            return Err(invalid(message));
        }
        self.aliases.0.push((Arc::clone(name), Arc::clone(&alias)));
        Ok(alias)
    }
}

/// Each call is answered once, right after its turn, and nothing else is answered.
fn check_history(messages: &[Message]) -> Result<(), LlmError> {
    if messages.is_empty() {
        return Err(invalid("a request without a turn"));
    }
    let mut open: &[ToolCall] = &[];
    for message in messages {
        match message {
            Message::ToolResults { results } => {
                for result in results {
                    if !open.iter().any(|call| call.id == result.call) {
                        return Err(invalid(format!("a result for {}, which nobody called", result.call)));
                    }
                }
                for call in open {
                    if results.iter().filter(|result| result.call == call.id).count() != 1 {
                        return Err(invalid(format!("the call {} has not exactly one result", call.id)));
                    }
                }
                if results.is_empty() {
                    return Err(invalid("a turn of results without a result"));
                }
                open = &[];
            }
            Message::User { .. } | Message::Assistant { .. } | Message::AssistantCalls { .. } => {
                if let Some(call) = open.first() {
                    return Err(invalid(format!("the call {} has no result", call.id)));
                }
                if let Message::AssistantCalls { calls, .. } = message {
                    check_calls(calls)?;
                    open = calls;
                }
            }
        }
    }
    match open.first() {
        Some(call) => Err(invalid(format!("the call {} has no result", call.id))),
        None => Ok(()),
    }
}

fn check_calls(calls: &[ToolCall]) -> Result<(), LlmError> {
    if calls.is_empty() {
        return Err(invalid("a turn of calls without a call"));
    }
    for (nth, call) in calls.iter().enumerate() {
        if call.id.is_empty() || calls.iter().skip(nth + 1).any(|other| other.id == call.id) {
            return Err(invalid(format!("the id {:?} does not name one call", call.id)));
        }
    }
    Ok(())
}

fn invalid(message: impl Into<Arc<str>>) -> LlmError {
    LlmError::new(LlmErrorKind::InvalidRequest, ErrorPhase::Encode, message)
}

fn refused(cause: ErrorCause, message: impl Into<Arc<str>>) -> LlmError {
    invalid(message).with_cause(cause)
}

/// FNV-1a over the bytes of a name: short, and the same everywhere.
fn fnv(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What stands before the text of a result that is an error: the protocol has no mark for one.
const ERROR_PREFIX: &str = "ERROR: ";
/// What stands for a picture, which a result cannot hold here.
const PICTURE: &str = "[picture below]";
const PICTURE_AFTER_TEXT: &str = "\n[picture below]";
/// The longest name of a tool.
const MOST_NAME: usize = 64;
