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
use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::{Arguments, FailureKind};
use serde_json::Value;

pub(crate) use self::names::Names;
use self::schema::SchemaFit;
use crate::codec::Api;
use crate::error::LlmError;
use crate::options::{ToolChoice, ToolDefinition, Unsupported};
use crate::profile::Profile;
use crate::request::{Message, ModelRequest};

/// A tool as a provider takes it.
#[derive(Debug)]
pub(crate) struct FittedTool {
    /// The tool that is sent. `None`: it is left out of the requests to this provider.
    pub(crate) tool: Option<ToolDefinition>,
    /// What was changed, or why it is left out, in words. Empty for a tool that is sent as it is.
    pub(crate) changes: Vec<String>,
    /// The aliases of its parameters.
    pub(crate) names: Names,
}

/// What one protocol's providers take.
#[derive(Debug)]
struct FitRules {
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

impl FitRules {
    fn of(api: Api) -> &'static Self {
        match api {
            Api::OpenaiChat | Api::OpenaiResponses => &OPENAI,
            Api::Anthropic => &ANTHROPIC,
            Api::Gemini => &GEMINI,
        }
    }
}

const OPENAI: FitRules = FitRules {
    names: None,
    is_complete: true,
    lone_references: true,
    required_exists: false,
    deepest: 32,
    most_tools: 128,
};
const ANTHROPIC: FitRules = FitRules {
    names: Some(NameRule::Word),
    is_complete: false,
    lone_references: false,
    required_exists: false,
    deepest: 32,
    most_tools: usize::MAX,
};
const GEMINI: FitRules = FitRules {
    names: Some(NameRule::Identifier),
    is_complete: true,
    lone_references: true,
    required_exists: true,
    deepest: 32,
    most_tools: 128,
};

/// The tool as the provider of this profile takes it; `nth` is its place among those of a request.
fn fit(profile: &Profile, nth: usize, tool: &ToolDefinition) -> FittedTool {
    let rules = FitRules::of(profile.api);
    if is_beyond(profile, rules, nth) {
        let why = format!("a request may have {} tools; leave some out of the domain", rules.most_tools);
        return FittedTool { tool: None, changes: vec![why], names: Names::default() };
    }
    if schema::is_plain(&tool.parameters, rules) {
        return FittedTool { tool: Some(tool.clone()), changes: Vec::new(), names: Names::default() };
    }
    let mut fit = SchemaFit::new(rules, &tool.parameters);
    match fit.root() {
        Ok(parameters) => {
            let (names, changes) = fit.finish();
            FittedTool { tool: Some(ToolDefinition { parameters, ..tool.clone() }), changes, names }
        }
        Err(why) => FittedTool { tool: None, changes: vec![why.to_owned()], names: Names::default() },
    }
}

/// One line for each of these tools that the provider of this profile receives in another form, or not at all.
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

/// The set of tools that a codec sent last. The calls of a run share one, which is fitted once.
#[derive(Clone, Debug, Default)]
pub(crate) struct FittedCache(Arc<Mutex<Option<ToolSet>>>);

type ToolSet = (Arc<[ToolDefinition]>, Arc<FittedTools>);

impl FittedCache {
    /// The tools as the provider of this profile, always the same one, takes them.
    fn of(&self, profile: &Profile, tools: &Arc<[ToolDefinition]>) -> Arc<FittedTools> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, tools)) {
            *last = Some((Arc::clone(tools), FittedTools::of(profile, tools).into()));
        }
        last.as_ref().map(|(_, fitted)| Arc::clone(fitted)).unwrap_or_default()
    }
}

/// A set of tools as a provider takes it.
#[derive(Debug, Default)]
struct FittedTools {
    /// Those that are sent. `None`: all, as they are.
    tools: Option<Arc<[ToolDefinition]>>,
    /// The aliases of parameters, by the tool.
    names: Arc<BTreeMap<Arc<str>, Names>>,
    warnings: Vec<Arc<str>>,
    /// The first that is left out, and why.
    left_out: Option<String>,
}

impl FittedTools {
    fn of(profile: &Profile, tools: &[ToolDefinition]) -> Self {
        let rules = FitRules::of(profile.api);
        let is_whole = !is_beyond(profile, rules, tools.len().saturating_sub(1));
        if is_whole && tools.iter().all(|tool| schema::is_plain(&tool.parameters, rules)) {
            return Self::default();
        }
        let (mut sent, mut names, mut fitted) = (Vec::new(), BTreeMap::new(), Self::default());
        for (nth, tool) in tools.iter().enumerate() {
            let FittedTool { tool: kept, changes, names: aliases } = fit(profile, nth, tool);
            let how = changes.join("; ");
            let Some(kept) = kept else {
                fitted.warnings.push(format!("tool_left_out({}: {how})", tool.name).into());
                fitted.left_out.get_or_insert_with(|| format!("{}: {how}", tool.name));
                continue;
            };
            if !how.is_empty() {
                fitted.warnings.push(format!("schema_changed({}: {how})", tool.name).into());
            }
            if !aliases.is_empty() {
                names.insert(Arc::clone(&tool.name), aliases);
            }
            sent.push(kept);
        }
        Self { tools: Some(sent.into()), names: names.into(), ..fitted }
    }
}

/// A request whose tools its provider takes.
#[derive(Debug)]
pub(crate) struct FittedRequest<'a> {
    pub(crate) request: Cow<'a, ModelRequest>,
    /// The aliases of parameters, by the tool.
    pub(crate) names: Arc<BTreeMap<Arc<str>, Names>>,
    pub(crate) warnings: Vec<Arc<str>>,
}

/// The request as the provider of this profile takes it.
///
/// # Errors
/// [`FailureKind::Unsupported`] where a tool would have to be left out, and the request's policy refuses that.
pub(crate) fn request<'a>(
    profile: &Profile,
    fits: &FittedCache,
    request: &'a ModelRequest,
) -> Result<FittedRequest<'a>, LlmError> {
    let unchanged = Cow::Borrowed(request);
    if request.tools.is_empty() {
        return Ok(FittedRequest { request: unchanged, names: Arc::default(), warnings: Vec::new() });
    }
    let fitted = fits.of(profile, &request.tools);
    if let (Some(tool), Unsupported::Reject) = (&fitted.left_out, request.unsupported) {
        let message = format!("this model does not take the tool {tool}");
        return Err(LlmError::unsendable(FailureKind::Unsupported, message));
    }
    let (names, mut warnings) = (Arc::clone(&fitted.names), fitted.warnings.clone());
    let Some(tools) = &fitted.tools else { return Ok(FittedRequest { request: unchanged, names, warnings }) };
    let tool_choice = choice(&request.tool_choice, tools);
    if tool_choice != request.tool_choice {
        warnings.push("tool_choice_degraded".into());
    }
    let mut changed = ModelRequest { tools: Arc::clone(tools), tool_choice, ..request.clone() };
    if !names.is_empty() {
        rename_calls(&mut changed, &names);
    }
    Ok(FittedRequest { request: Cow::Owned(changed), names, warnings })
}

fn is_beyond(profile: &Profile, rules: &FitRules, nth: usize) -> bool {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::FittedCache;
    use crate::options::{Strictness, ToolDefinition};
    use crate::profile::Profile;

    // Issue 43, P2
    #[test]
    fn a_set_of_tools_is_fitted_once() {
        let (fits, profile) = (FittedCache::default(), Profile::default());
        let set = |name: &str| -> Arc<[ToolDefinition]> {
            let (name, description, strict) = (name.into(), "".into(), Strictness::Off);
            [ToolDefinition { name, description, parameters: json!({"anyOf": []}), strict }].into()
        };
        let (one, other) = (set("a"), set("a"));
        let fitted = fits.of(&profile, &one);
        assert!(fitted.tools.is_some());
        assert!(Arc::ptr_eq(&fitted, &fits.of(&profile, &one)));
        assert!(!Arc::ptr_eq(&fitted, &fits.of(&profile, &other)));
    }
}
