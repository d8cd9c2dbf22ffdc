//! Fits the tools of a request to what their provider takes.
//!
//! A provider answers a whole request with an error for one schema that it does not take, whichever tool the model means.
//! So each schema is changed before it is sent: alternatives at the root are folded into one object, names that the
//! provider refuses travel under aliases, and what makes no JSON Schema of today is written as one. A tool whose
//! parameters cannot be sent is left out of the request. What was changed is said in warnings; calls come back with the
//! tool's own names.

mod names;
mod root;
mod schema;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::types::{Arguments, FailureKind};
use serde_json::Value;

pub(crate) use self::names::Names;
use self::schema::Fit;
use crate::codec::Api;
use crate::error::LlmError;
use crate::options::{ToolChoice, ToolDefinition, Unsupported};
use crate::profile::Profile;
use crate::request::{Message, ModelRequest};

/// A tool as a provider takes it.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// The tool that is sent. `None`: it is left out of the requests to this provider.
    pub(crate) tool: Option<ToolDefinition>,
    /// What was changed, or why it is left out, in words. Empty for a tool that is sent as it is.
    pub(crate) changes: Vec<String>,
    /// The aliases of its parameters.
    pub(crate) names: Names,
}

/// What one protocol's providers take.
#[derive(Debug)]
struct Rules {
    /// Which names of properties. `None`: all.
    names: Option<NameRule>,
    /// Whether each object needs `properties`, and each list `items`.
    is_complete: bool,
    /// Whether a reference has to be alone in its schema.
    lone_references: bool,
    /// Whether `required` may only name properties that are there.
    required_exists: bool,
    /// Levels of nesting.
    deepest: usize,
    /// Tools of a request, where the models are the inventor's own.
    most_tools: usize,
}

/// Which names of properties a provider takes: letters, digits, `_`, `.` and `-`, at most 64 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameRule {
    /// In any order.
    Word,
    /// With a letter or `_` at the beginning.
    Identifier,
}

impl Rules {
    fn of(api: Api) -> &'static Self {
        match api {
            Api::OpenaiChat | Api::OpenaiResponses => &OPENAI,
            Api::Anthropic => &ANTHROPIC,
            Api::Gemini => &GEMINI,
        }
    }
}

const OPENAI: Rules = Rules {
    names: None,
    is_complete: true,
    lone_references: true,
    required_exists: false,
    deepest: 32,
    most_tools: 128,
};
const ANTHROPIC: Rules = Rules {
    names: Some(NameRule::Word),
    is_complete: false,
    lone_references: false,
    required_exists: false,
    deepest: 32,
    most_tools: usize::MAX,
};
const GEMINI: Rules = Rules {
    names: Some(NameRule::Identifier),
    is_complete: true,
    lone_references: true,
    required_exists: true,
    deepest: 32,
    most_tools: 128,
};

/// The tool as the provider of this profile takes it; `nth` is its place among those of a request.
fn fit(profile: &Profile, nth: usize, tool: &ToolDefinition) -> Fitted {
    let rules = Rules::of(profile.api);
    if is_beyond(profile, rules, nth) {
        let why = format!("a request may have {} tools; leave some out of the domain", rules.most_tools);
        return Fitted { tool: None, changes: vec![why], names: Names::default() };
    }
    if schema::is_plain(&tool.parameters, rules) {
        return Fitted { tool: Some(tool.clone()), changes: Vec::new(), names: Names::default() };
    }
    let mut fit = Fit::new(rules, &tool.parameters);
    match fit.root() {
        Ok(parameters) => {
            let (names, changes) = fit.finish();
            Fitted { tool: Some(ToolDefinition { parameters, ..tool.clone() }), changes, names }
        }
        Err(why) => Fitted { tool: None, changes: vec![why.to_owned()], names: Names::default() },
    }
}

/// What of these tools the provider of this profile is sent in another form, or not at all, in words.
pub fn changed_tools(profile: &Profile, tools: &[ToolDefinition]) -> Vec<String> {
    let mut lines = Vec::new();
    for (nth, tool) in tools.iter().enumerate() {
        let fitted = fit(profile, nth, tool);
        let (name, provider) = (&tool.name, &profile.name);
        let how = fitted.changes.join("; ");
        match &fitted.tool {
            None => lines.push(format!("tool `{name}` is left out of requests to {provider}: {how}")),
            Some(_) if how.is_empty() => {}
            Some(_) => {
                lines.push(format!("tool `{name}` is sent to {provider} with other parameters: {how}"))
            }
        }
    }
    lines
}

/// A request whose tools its provider takes.
#[derive(Debug)]
pub(crate) struct FittedRequest<'a> {
    pub(crate) request: Cow<'a, ModelRequest>,
    /// The aliases of parameters, by the tool.
    pub(crate) names: BTreeMap<Arc<str>, Names>,
    pub(crate) warnings: Vec<Arc<str>>,
}

/// The request as the provider of this profile takes it.
///
/// # Errors
/// [`FailureKind::Unsupported`] where a tool would have to be left out, and the request's policy refuses that.
pub(crate) fn request<'a>(
    profile: &Profile,
    request: &'a ModelRequest,
) -> Result<FittedRequest<'a>, LlmError> {
    let rules = Rules::of(profile.api);
    let mut fitted =
        FittedRequest { request: Cow::Borrowed(request), names: BTreeMap::new(), warnings: Vec::new() };
    let is_whole = !is_beyond(profile, rules, request.tools.len().saturating_sub(1));
    if is_whole && request.tools.iter().all(|tool| schema::is_plain(&tool.parameters, rules)) {
        return Ok(fitted);
    }
    let mut tools = Vec::with_capacity(request.tools.len());
    for (nth, tool) in request.tools.iter().enumerate() {
        let Fitted { tool: sent, changes, names } = fit(profile, nth, tool);
        let how = changes.join("; ");
        match sent {
            None if request.unsupported == Unsupported::Reject => {
                let message = format!("this model does not take the tool {}: {how}", tool.name);
                return Err(LlmError::unsendable(FailureKind::Unsupported, message));
            }
            None => fitted.warnings.push(format!("tool_left_out({}: {how})", tool.name).into()),
            Some(sent) => {
                if !how.is_empty() {
                    fitted.warnings.push(format!("schema_changed({}: {how})", tool.name).into());
                }
                if !names.is_empty() {
                    fitted.names.insert(Arc::clone(&tool.name), names);
                }
                tools.push(sent);
            }
        }
    }
    let tool_choice = choice(&request.tool_choice, &tools);
    if tool_choice != request.tool_choice {
        fitted.warnings.push("tool_choice_degraded".into());
    }
    let mut changed = ModelRequest { tools: tools.into(), tool_choice, ..request.clone() };
    if !fitted.names.is_empty() {
        rename_calls(&mut changed, &fitted.names);
    }
    fitted.request = Cow::Owned(changed);
    Ok(fitted)
}

fn is_beyond(profile: &Profile, rules: &Rules, nth: usize) -> bool {
    profile.known_models && nth >= rules.most_tools
}

/// The choice among the tools that are sent.
fn choice(choice: &ToolChoice, tools: &[ToolDefinition]) -> ToolChoice {
    let is_sent = |name: &Arc<str>| tools.iter().any(|tool| tool.name == *name);
    match choice {
        ToolChoice::Required if tools.is_empty() => ToolChoice::Auto,
        ToolChoice::Named(name) if !is_sent(name) => ToolChoice::Auto,
        ToolChoice::AnyOf(names) if !names.iter().any(is_sent) => ToolChoice::Auto,
        ToolChoice::AnyOf(names) => {
            ToolChoice::AnyOf(names.iter().filter(|name| is_sent(name)).cloned().collect())
        }
        ToolChoice::Auto
        | ToolChoice::None
        | ToolChoice::Required
        | ToolChoice::Prefer
        | ToolChoice::Named(_) => choice.clone(),
    }
}

/// Earlier calls are sent with the names that the model knows.
fn rename_calls(request: &mut ModelRequest, names: &BTreeMap<Arc<str>, Names>) {
    for message in &mut request.messages {
        let Message::Assistant(turn) = message else { continue };
        for call in &mut turn.calls {
            if let Some(names) = names.get(&call.name)
                && let Cow::Owned(renamed) = names.sent(call.arguments.text())
            {
                call.arguments = Arguments::from(renamed);
            }
        }
    }
}

/// Whether a `type` has this kind.
fn has_kind(kind: &Value, wanted: &str) -> bool {
    kind == wanted || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
}
