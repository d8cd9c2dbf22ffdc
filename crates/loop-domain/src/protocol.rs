//! Makes the protocol of a run from `[protocol]` and `[output]`, and the tool that takes an output.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::RunSpec;
use loop_core::spec::{ConversationSpec, DocumentSpec, ModelSpec, OutputSpec, ProtocolSpec, SectionSpec};
use loop_prompts::submit::{DEFAULT_SUBMIT_TOOL, SubmitTool};
use loop_tools::tool::KeptTool;
use loop_tools::{
    Credentials, Registry, RegistryBuilder, RegistryError, Tool, ToolContext, ToolDeclaration, ToolResult,
    files,
};
use serde_json::Value;

use crate::config::{OutputConfig, ProtocolKind, SchemaConfig};
use crate::error::DomainError;
use crate::file::File;
use crate::parts::one_line;
use crate::tree::{Fault, Node};

/// Keys that only the protocol `document` uses.
const OF_DOCUMENTS: [&[&str]; 17] = [
    &["section"],
    &["selection"],
    &["contract"],
    &["prompts", "layout"],
    &["limits", "selected"],
    &["limits", "selector_ms"],
    &["gate", "high_is_final"],
    &["gate", "stale"],
    &["gate", "stale_unless_new_evidence"],
    &["gate", "escalate_after"],
    &["gate", "grounding"],
    &["gate", "locale"],
    &["gate", "min_words"],
    &["gate", "utc_offset"],
    &["gate", "calibration"],
    &["gate", "allow_raise"],
    &["gate", "second_opinion"],
];

/// Keys that the protocol `document` does not use.
const NOT_OF_DOCUMENTS: [&[&str]; 3] =
    [&["protocol", "execution"], &["protocol", "errors"], &["limits", "messages"]];

/// Fails for keys of another protocol, since they would have no effect.
pub(crate) fn check(file: &File) -> Result<(), DomainError> {
    let kind = file.config.protocol.kind;
    let others: &[&[&str]] = match kind {
        ProtocolKind::Document => &NOT_OF_DOCUMENTS,
        ProtocolKind::Conversation | ProtocolKind::Output => &OF_DOCUMENTS,
    };
    if let Some(path) = others.iter().find(|path| file.has(path) && !file.is_preset(path)) {
        let key = path.join(".");
        let message = format!("`{key}` is not for the protocol `{}`; take it out", kind.name());
        return Err(file.error(path, message));
    }
    let path = ["gate", "final_pass"];
    if kind == ProtocolKind::Output && file.has(&path) && !file.is_preset(&path) {
        let message = "`gate.final_pass` is not for the protocol `output`, whose last pass is like any other; take it out";
        return Err(file.error(&path, message));
    }
    match (kind, &file.config.output) {
        (ProtocolKind::Output, Some(output)) => check_output(file, output),
        (ProtocolKind::Output, None) => {
            let message = "the protocol `output` needs to know which; add [output] with `name`, `description` and `schema`";
            Err(file.error(&["protocol", "type"], message))
        }
        (ProtocolKind::Document | ProtocolKind::Conversation, None) => Ok(()),
        (ProtocolKind::Document | ProtocolKind::Conversation, Some(_)) => {
            let message = format!(
                "`output` is not for the protocol `{}`; write type = \"output\" in [protocol], or take it out",
                kind.name()
            );
            Err(file.error(&["output"], message))
        }
    }
}

/// Fails if the file sets `output.submit`, the internal key of the tool that submits: `output.reflect = true` adds that tool.
pub(crate) fn check_submit(tree: &Node) -> Result<(), Fault> {
    let Some(entry) = tree.get("output").and_then(|output| output.node.get("submit")) else { return Ok(()) };
    let message = "`reflect = true` adds the tool that submits; write that in place of `submit`, and `submit_as` for another name";
    Err(Fault::new(entry.origin.clone(), message))
}

fn check_output(file: &File, output: &OutputConfig) -> Result<(), DomainError> {
    let name = output.name.as_str();
    if file.config.tools.get(name).is_some_and(|tool| tool.enabled) {
        let message = format!("a tool is called `{name}` as well; rename one of them");
        return Err(file.error(&["output", "name"], message));
    }
    if let Some(submit) = &output.submit_as {
        let is_taken = submit == name || file.config.tools.get(submit).is_some_and(|tool| tool.enabled);
        let message = match output.reflect {
            false => {
                "only a value that is shown is submitted; add `reflect = true`, or take it out".to_owned()
            }
            true if is_taken => format!("a tool is called `{submit}` as well; rename one of them"),
            true => String::new(),
        };
        if !message.is_empty() {
            return Err(file.error(&["output", "submit_as"], message));
        }
    }
    for (key, number) in [("attempts", output.attempts), ("passes_per_attempt", output.passes_per_attempt)] {
        if number == Some(0) {
            return Err(file.error(&["output", key], "without any there is no output; write 1 or more"));
        }
    }
    // What is wrong with it is said at its own place, and not at that of a tool.
    let alone = Registry::builder().tool(output_tool(file, output)?).build();
    let Err(error) = alone else { return Ok(()) };
    let key = match error {
        RegistryError::InvalidName { .. } => "name",
        _ => "schema",
    };
    let message = match error {
        RegistryError::NotAnObjectSchema { .. } => {
            "a tool takes an object; write `type = \"object\"` at the top of the schema".to_owned()
        }
        RegistryError::InvalidSchema { message, .. } => {
            format!("it is not a JSON Schema: {message}; correct it")
        }
        error => format!("{error}; correct it"),
    };
    Err(file.error(&["output", key], message))
}

/// Adds the tool that takes the output, where the file names one.
pub(crate) fn with_output(file: &File, tools: RegistryBuilder) -> Result<RegistryBuilder, DomainError> {
    match &file.config.output {
        Some(output) if output.reflect => {
            let (shown, submit) = (OutputView(declaration(file, output)?), submit(output));
            let submitted = ToolDeclaration::new(&*submit.name).description(&*submit.description);
            Ok(tools.tool(shown).tool(KeptTool::new(submitted)))
        }
        Some(output) => Ok(tools.tool(output_tool(file, output)?)),
        None => Ok(tools),
    }
}

/// How the model submits an output that is shown to it first.
fn submit(output: &OutputConfig) -> SubmitTool {
    let name = output.submit_as.clone().map_or(DEFAULT_SUBMIT_TOOL.name, Cow::Owned);
    SubmitTool { name, ..DEFAULT_SUBMIT_TOOL }
}

/// The tool that shows an output to the model, in the format of tool results.
struct OutputView(ToolDeclaration);

#[async_trait]
impl Tool for OutputView {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, output: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        ToolResult::value(&*self.0.name, output)
    }
}

fn output_tool(file: &File, output: &OutputConfig) -> Result<KeptTool, DomainError> {
    Ok(KeptTool::new(declaration(file, output)?))
}

fn declaration(file: &File, output: &OutputConfig) -> Result<ToolDeclaration, DomainError> {
    let declaration = ToolDeclaration::read(output.name.as_str(), output.description.trim());
    Ok(declaration.schema(schema(file, &["output", "schema"], &output.schema)?))
}

/// The JSON Schema at this place of the domain file.
pub(crate) fn schema(file: &File, path: &[&str], schema: &SchemaConfig) -> Result<Value, DomainError> {
    let named = match schema {
        SchemaConfig::Inline(members) => return Ok(Value::Object(members.clone())),
        SchemaConfig::File(named) => named,
    };
    let place = file.resolve(path, named);
    let shown = place.display();
    let text = files::text(&place, files::MAX_BYTES)
        .map_err(|error| file.error(path, format!("{shown}: {error}; name a file with a JSON Schema")))?;
    serde_json::from_str(&text).map_err(|error| {
        let message = format!("{shown}: it is not JSON: {error}; correct it there");
        file.error(path, one_line(message))
    })
}

/// The default spec of the file's protocol, before tools, further models and settings are added.
pub(crate) fn defaults(file: &File, sections: Vec<SectionSpec>, base: ModelSpec) -> RunSpec {
    let config = &file.config;
    let name: Arc<str> = config.name.as_str().into();
    let (execution, errors) =
        (config.protocol.execution.unwrap_or_default(), config.protocol.errors.unwrap_or_default());
    match (config.protocol.kind, &config.output) {
        (ProtocolKind::Output, Some(output)) => {
            let mut spec = OutputSpec::new(output.name.as_str());
            spec.attempts = output.attempts.unwrap_or(spec.attempts);
            spec.passes_per_attempt = output.passes_per_attempt.unwrap_or(spec.passes_per_attempt);
            spec.submit = output.reflect.then(|| submit(output).name.into());
            RunSpec::output(name, OutputSpec { execution, errors, ..spec }, base)
        }
        (ProtocolKind::Conversation, _) => {
            let protocol = ProtocolSpec::Conversation(ConversationSpec { execution, errors });
            RunSpec { protocol, ..RunSpec::conversation(name, base) }
        }
        (ProtocolKind::Document | ProtocolKind::Output, _) => {
            let document = DocumentSpec { sections, nonce: config.contract.nonce };
            RunSpec { protocol: ProtocolSpec::Document(document), ..RunSpec::document(name, [], base) }
        }
    }
}

/// The members of the output for the report. Optional ones are marked.
pub(crate) fn members(spec: &RunSpec) -> Option<String> {
    let output = spec.protocol.output()?;
    let args = &spec.tool(&output.tool)?.args;
    let shown = |name: &Arc<str>| match args.required.contains(name) {
        true => name.to_string(),
        false => format!("{name} (optional)"),
    };
    Some(args.ordered().map(|(name, _)| shown(name)).collect::<Vec<_>>().join(", "))
}
