//! What a tool is, and the two ways to make one from a closure.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use futures::future::BoxFuture;
use loop_core::types::Effect;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::result::{IntoToolResult, ToolResult};

/// A tool: one kind of data from one source, or one kind of action.
#[async_trait]
pub trait Tool: Any + Send + Sync {
    /// The declaration of the tool. Read once, at registration.
    fn spec(&self) -> &ToolDeclaration;

    /// Whether the tool is given the settled results of the run ([`ToolContext::results`]). Read once, at registration.
    fn reads_results(&self) -> bool {
        false
    }

    /// Runs one call. The future is dropped when its time is up, so it may not run to its end.
    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult;

    /// As [`call`](Self::call), with borrowed parameters. The registry calls this method. A tool that only reads its
    /// parameters may implement it, which saves a copy.
    fn call_with<'a>(
        &'a self,
        parameters: &'a Value,
        context: &'a ToolContext,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, ToolResult> {
        self.call(parameters.clone(), context, credentials)
    }
}

/// A tool that is only declared: the protocol handles its calls, as an output or the end of one.
#[derive(Clone, Debug)]
pub struct KeptTool(ToolDeclaration);

impl KeptTool {
    /// The tool that `declaration` describes; whatever effect that names, it has none.
    pub fn new(declaration: ToolDeclaration) -> Self {
        Self(declaration.effect(Effect::Read))
    }
}

#[async_trait]
impl Tool for KeptTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, _: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        ToolResult::failed(&*self.0.name, &self.0.title, "it is taken, and never run")
    }
}

/// The schema of a Rust type as a tool's parameters.
pub fn schema_of<Args: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<Args>();
    // The name of a Rust type says nothing to a model, and renaming it must not change the manifest.
    let mut schema = schema.to_value();
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("title");
    }
    schema
}

/// A tool from a closure over raw parameters.
pub(crate) struct FnTool<F> {
    declaration: ToolDeclaration,
    call: F,
}

impl<F> FnTool<F> {
    pub(crate) fn new(declaration: ToolDeclaration, call: F) -> Self {
        Self { declaration, call }
    }
}

#[async_trait]
impl<F, Fut> Tool for FnTool<F>
where
    F: Fn(Value, ToolContext, Credentials) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: IntoToolResult,
{
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let reply = (self.call)(parameters, context.clone(), credentials.clone()).await;
        reply.into_tool_result(&self.declaration)
    }
}

/// A tool from a closure over typed parameters; the type gives the schema.
pub(crate) struct TypedTool<Args, F> {
    declaration: ToolDeclaration,
    call: F,
    args: PhantomData<fn() -> Args>,
}

impl<Args: JsonSchema, F> TypedTool<Args, F> {
    pub(crate) fn new(declaration: ToolDeclaration, call: F) -> Self {
        Self { declaration: declaration.schema(schema_of::<Args>()), call, args: PhantomData }
    }
}

#[async_trait]
impl<Args, F, Fut> Tool for TypedTool<Args, F>
where
    Args: DeserializeOwned + Send + 'static,
    F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: IntoToolResult,
{
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        self.call_with(&parameters, context, credentials).await
    }

    fn call_with<'a>(
        &'a self,
        parameters: &'a Value,
        context: &'a ToolContext,
        _credentials: &'a Credentials,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match Args::deserialize(parameters) {
                Ok(args) => (self.call)(args, context.clone()).await.into_tool_result(&self.declaration),
                Err(error) => {
                    ToolResult::invalid_input(&*self.declaration.name, &self.declaration.title, error)
                }
            }
        })
    }
}
