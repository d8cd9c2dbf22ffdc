//! A request as a server receives it, whatever the protocol: the one place where it becomes the neutral one.

use std::sync::Arc;

use loop_core::types::ToolCall;
use loop_llm::options::Strictness;
use loop_llm::request::{AssistantTurn, Image};
use loop_llm::{Message, ModelRequest, ToolChoice, ToolDefinition, ToolOutput};
use serde_json::Value;

/// What a request says.
#[derive(Debug, Default)]
pub(super) struct ReadRequest {
    pub(super) model: String,
    /// Joined by an empty line.
    pub(super) system: Vec<String>,
    pub(super) turns: Vec<Turn>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) tool_choice: ToolChoice,
    pub(super) one_call_at_a_time: bool,
}

/// One turn.
#[derive(Debug)]
pub(super) enum Turn {
    User(Content),
    Operator(String),
    Assistant { text: String, calls: Vec<ToolCall> },
    Results(Vec<ToolOutput>),
}

/// Text and pictures.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) images: Vec<Image>,
}

impl ReadRequest {
    pub(super) fn into_request(self) -> ModelRequest {
        let mut request = ModelRequest::new(self.model, self.system.join("\n\n"), "");
        request.messages = self.turns.into_iter().map(Turn::into_message).collect();
        request.max_output_tokens = self.max_output_tokens.or(request.max_output_tokens);
        request.tools = self.tools.into();
        request.tool_choice = self.tool_choice;
        request.one_call_at_a_time = self.one_call_at_a_time;
        request.meta.purpose = Some(crate::purpose::of_prompt(&request));
        request
    }
}

impl Turn {
    fn into_message(self) -> Message {
        match self {
            Self::User(Content { text, images }) => {
                Message::User { text: text.into(), images, author: Default::default() }
            }
            Self::Operator(text) => Message::Operator { text: text.into() },
            Self::Assistant { text, calls } => {
                Message::Assistant(AssistantTurn { text: text.into(), calls, ..AssistantTurn::default() })
            }
            Self::Results(results) => Message::Tool { results },
        }
    }
}

/// A member that is given; `null` counts as not given.
pub(super) fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// A text that is given; nothing where it is missing or something else.
pub(super) fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// The first member that is not among those that are known.
pub(super) fn unknown<'a>(value: &'a Value, known: &[&str]) -> Option<&'a str> {
    let members = value.as_object()?;
    members.keys().map(String::as_str).find(|name| !known.contains(name))
}

/// Whether the name may be a tool's: letters, digits, `_` and `more`, at most `max` in all.
pub(super) fn is_name(name: &str, max: usize, more: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || more.as_bytes().contains(&byte);
    !name.is_empty() && name.len() <= max && name.bytes().all(fits)
}

/// A tool.
pub(super) fn tool(name: &str, description: Option<&str>, parameters: Option<&Value>) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: description.unwrap_or_default().into(),
        parameters: parameters.cloned().unwrap_or_else(|| serde_json::json!({"type": "object"})),
        strict: Strictness::Off,
    }
}

/// Whether something is given that is not a number from 0 to `max`.
pub(super) fn is_outside(given: Option<&Value>, max: f64) -> bool {
    given.is_some_and(|given| !given.as_f64().is_some_and(|number| (0.0..=max).contains(&number)))
}

/// A result.
pub(super) fn result(call: &str, is_error: bool, words: Content) -> ToolOutput {
    ToolOutput {
        call: Arc::from(call),
        is_error,
        text: words.text.into(),
        images: words.images,
        ..ToolOutput::default()
    }
}

/// A picture of a `data:` URL.
pub(super) fn data_url(url: &str) -> Option<Image> {
    let (media_type, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
    image(media_type, base64)
}

/// A picture, where it has a type and bytes.
pub(super) fn image(media_type: &str, base64: &str) -> Option<Image> {
    let has_all = media_type.starts_with("image/") && !base64.is_empty();
    has_all.then(|| Image { media_type: media_type.into(), base64: base64.into() })
}
