//! The output tool: its schema, its validators, and the reflection that makes a submission necessary.

use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::types::Effect;
use loop_prompts::submit::{DEFAULT_SUBMIT_TOOL, SubmitTool};
use loop_tools::tool::{KeptTool, schema_of};
use loop_tools::{Tool, ToolDeclaration, ToolResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::drive::check::{self, SCHEMA, Validator};

/// The mode of an output tool whose call ends the attempt.
#[derive(Clone, Copy, Debug)]
pub enum Plain {}

/// The mode of an output tool that shows the model its output formatted, until the model submits it.
#[derive(Clone, Copy, Debug)]
pub enum Reflected {}

/// The tool with which a model gives its output, a value of the type `Output`.
///
/// With a formatter ([`reflect`](Self::reflect)) the model reads each output formatted, and ends by calling `submit`, a
/// tool that is added automatically. A submission needs a formatter:
///
/// ```compile_fail
/// # use loop_runtime::agent::OutputTool;
/// # #[derive(Clone, serde::Deserialize, schemars::JsonSchema)] struct Lead { name: String }
/// // error: no method named `submit_as` found for struct `OutputTool<Lead, Plain>`: call `reflect` first
/// let tool = OutputTool::<Lead>::new("save_lead", "Save the lead").submit_as("done", "End");
/// ```
///
/// With one it compiles:
///
/// ```
/// # use loop_runtime::agent::OutputTool;
/// # #[derive(Clone, serde::Deserialize, schemars::JsonSchema)] struct Lead { name: String }
/// let tool = OutputTool::<Lead>::new("save_lead", "Save the lead")
///     .reflect(|lead: &Lead| format!("Name: {}", lead.name))
///     .submit_as("done", "End");
/// ```
pub struct OutputTool<Output, Mode = Plain> {
    parts: OutputParts,
    types: PhantomData<fn() -> (Output, Mode)>,
}

impl<Output, Mode> std::fmt::Debug for OutputTool<Output, Mode> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputTool").field("name", &self.parts.declaration.name).finish_non_exhaustive()
    }
}

/// What an output tool comes to.
pub(crate) struct OutputParts {
    pub(crate) declaration: ToolDeclaration,
    pub(crate) validators: Vec<Arc<dyn Validator>>,
    /// With a reflection: the tool that formats, and how a submission is called.
    pub(crate) reflection: Option<(Arc<dyn Tool>, SubmitTool)>,
}

impl<Output> OutputTool<Output, Plain>
where
    Output: DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    /// A tool of this name, whose parameters are those of `Output`.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        let declaration = ToolDeclaration::read(name, description).schema(schema_of::<Output>());
        let typed: Arc<dyn Validator> = Arc::new(TypedCheck::<Output>(PhantomData));
        let parts = OutputParts { declaration, validators: vec![typed], reflection: None };
        Self { parts, types: PhantomData }
    }

    /// The tool returns the output as `format` shows it. The model may give another output, and ends by submitting.
    pub fn reflect(
        self,
        format: impl Fn(&Output) -> String + Send + Sync + 'static,
    ) -> OutputTool<Output, Reflected> {
        self.reflect_with(move |output| {
            let shown = format(&output);
            async move { Ok::<_, std::convert::Infallible>(shown) }
        })
    }

    /// The same with a formatter that may wait or fail. A failure is reported to the model, which continues.
    pub fn reflect_with<F, Fut, E>(self, format: F) -> OutputTool<Output, Reflected>
    where
        F: Fn(Output) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, E>> + Send + 'static,
        E: Display,
    {
        let mut parts = self.parts;
        let declaration = parts.declaration.clone();
        let formatter = Formatter { declaration, format, output: PhantomData::<fn() -> Output> };
        parts.reflection = Some((Arc::new(formatter), DEFAULT_SUBMIT_TOOL.clone()));
        OutputTool { parts, types: PhantomData }
    }
}

impl<Output> OutputTool<Output, Reflected> {
    /// Sets the name and the description of the tool that submits. Its default name is `submit`.
    #[must_use]
    pub fn submit_as(
        mut self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        if let Some((_, submit)) = &mut self.parts.reflection {
            *submit = SubmitTool { name: name.into(), description: description.into() };
        }
        self
    }
}

impl<Output, Mode> OutputTool<Output, Mode>
where
    Output: DeserializeOwned + Send + Sync + 'static,
{
    /// Adds a validator, for what a schema cannot express. Validators run in order, and the model reads the message of
    /// the first that rejects an output.
    #[must_use]
    pub fn validator<F, Fut, E>(mut self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn(Output) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let rule = Rule { name: name.into(), check, output: PhantomData::<fn() -> Output> };
        self.parts.validators.push(Arc::new(rule));
        self
    }
}

impl<Output, Mode> OutputTool<Output, Mode> {
    pub(super) fn into_parts(self) -> OutputParts {
        self.parts
    }
}

impl OutputParts {
    /// The tool itself, as it is registered.
    pub(crate) fn tool(&self) -> Arc<dyn Tool> {
        match &self.reflection {
            Some((formatter, _)) => Arc::clone(formatter),
            None => Arc::new(KeptTool::new(self.declaration.clone())),
        }
    }
}

/// The value that an output is, read as validation reads it: of a member that is there twice the last counts.
pub(super) fn read<Output: DeserializeOwned>(text: &str) -> serde_json::Result<Output> {
    serde_json::from_value(check::value_of(text)?)
}

/// Whether the output makes a value of the type: a part of the first layer.
struct TypedCheck<Output>(PhantomData<fn() -> Output>);

#[async_trait]
impl<Output: DeserializeOwned> Validator for TypedCheck<Output> {
    fn name(&self) -> &str {
        SCHEMA
    }

    async fn validate(&self, output: &Value) -> Result<(), String> {
        serde_json::from_value::<Output>(output.clone()).map(drop).map_err(|error| error.to_string())
    }
}

/// A rule of the program's.
struct Rule<Output, F> {
    name: String,
    check: F,
    output: PhantomData<fn() -> Output>,
}

#[async_trait]
impl<Output, F, Fut, E> Validator for Rule<Output, F>
where
    Output: DeserializeOwned + Send,
    F: Fn(Output) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Display + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn validate(&self, output: &Value) -> Result<(), String> {
        let value = serde_json::from_value(output.clone()).map_err(|error| error.to_string())?;
        (self.check)(value).await.map_err(|error| error.to_string())
    }
}

/// Shows an output to the model.
struct Formatter<Output, F> {
    declaration: ToolDeclaration,
    format: F,
    output: PhantomData<fn() -> Output>,
}

#[async_trait]
impl<Output, F, Fut, E> Tool for Formatter<Output, F>
where
    Output: DeserializeOwned + Send + 'static,
    F: Fn(Output) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, E>> + Send,
    E: Display,
{
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(
        &self,
        parameters: Value,
        _: &loop_tools::ToolContext,
        _: &loop_tools::Credentials,
    ) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let output = match serde_json::from_value(parameters) {
            Ok(output) => output,
            // The formatter sees sound outputs alone (S2-d2).
            Err(error) => return ToolResult::invalid_input(name, title, error),
        };
        match (self.format)(output).await {
            Ok(shown) => ToolResult::value(name, Value::String(shown)),
            Err(error) => ToolResult::failed(name, title, error),
        }
    }
}

/// The declaration of a tool that submits.
pub(super) fn submit_declaration(submit: &SubmitTool) -> ToolDeclaration {
    ToolDeclaration::new(&*submit.name).description(&*submit.description).effect(Effect::Read)
}
