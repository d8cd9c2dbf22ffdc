//! The tools of a run: built once, checked once, then only looked up.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use loop_core::spec::ToolSpec;
use loop_core::types::{Digest, Observation, canonical, digest};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::error::RegistryError;
use crate::judge::{judge, unknown_tool};
use crate::result::{IntoToolResult, ToolResult};
use crate::schema::SchemaCheck;
use crate::similar;
use crate::text::one_line;
use crate::tool::{FnTool, Tool, TypedTool};

/// The tools of a run, by name and alias. A clone shares them.
#[derive(Clone)]
pub struct Registry {
    tools: Arc<[Entry]>,
    names: Arc<BTreeMap<Arc<str>, usize>>,
    /// Canonical JSON of what the tools declare, and its digest.
    manifest: (Arc<str>, Digest),
}

/// A name that means a tool, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedName {
    /// The name or alias.
    pub name: Arc<str>,
    /// The tool's canonical name.
    pub tool: Arc<str>,
    /// The tool's description, or `Alias for <canonical>`.
    pub description: Arc<str>,
}

/// A registered tool: what it declared then, however it changes its mind later.
pub(crate) struct Entry {
    pub(crate) declaration: Arc<ToolDeclaration>,
    pub(crate) schema: SchemaCheck,
    pub(crate) tool: Arc<dyn Tool>,
    reads_results: bool,
    pub(crate) spec: ToolSpec,
}

impl Registry {
    /// A builder without tools.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder { tools: Vec::new() }
    }

    /// Each tool as the core knows it, in the order of registration.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|entry| entry.spec.clone()).collect()
    }

    /// What each tool declared, in the order of registration.
    pub fn declarations(&self) -> impl Iterator<Item = &ToolDeclaration> {
        self.tools.iter().map(|entry| &*entry.declaration)
    }

    /// The digest of everything that the tools declare: it changes when a run could see another tool.
    pub fn manifest_hash(&self) -> Digest {
        self.manifest.1
    }

    /// Everything that the tools declare, as canonical JSON: what [`manifest_hash`](Self::manifest_hash) names.
    pub fn manifest(&self) -> &Arc<str> {
        &self.manifest.0
    }

    /// The canonical name of the tool with exactly this name or alias. Parts of names do not match.
    pub fn resolve(&self, name: &str) -> Option<Arc<str>> {
        self.entry(name).map(|entry| Arc::clone(&entry.declaration.name))
    }

    /// The tool with this name or alias, for code that wraps it.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.entry(name).map(|entry| Arc::clone(&entry.tool))
    }

    /// The tool with this name or alias, if it is of this type.
    pub fn value<T: Tool>(&self, name: &str) -> Option<&T> {
        let tool: &dyn Any = &*self.entry(name)?.tool;
        tool.downcast_ref()
    }

    /// Whether the tool with this name or alias receives the settled results of the run.
    pub fn reads_results(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.reads_results)
    }

    /// Turns a result of one of its tools into an observation, with at most `cap` characters for the model. A result of
    /// any other tool counts as that of an unknown tool.
    pub fn observe(&self, result: ToolResult, cap: usize) -> Observation {
        match self.entry(&result.tool_name) {
            Some(entry) => judge(&entry.declaration, result, cap),
            None => unknown_tool(&result.tool_name, &self.similar(&result.tool_name), cap),
        }
    }

    /// At most three tools whose name or alias is similar to `name`, nearest first.
    pub fn similar(&self, name: &str) -> Vec<Arc<str>> {
        // By position rather than by name, so that ties fall in the order of registration.
        let known = self.tools.iter().flat_map(|entry| {
            let names = std::iter::once(&entry.declaration.name).chain(&entry.declaration.aliases);
            names.map(|known| (&**known, &entry.declaration.name))
        });
        similar::similar(name, known)
    }

    /// Every name: each tool, and after it its aliases.
    pub fn names(&self) -> Vec<ListedName> {
        let mut names = Vec::new();
        for declaration in self.declarations() {
            let tool = &declaration.name;
            names.push(ListedName {
                name: Arc::clone(tool),
                tool: Arc::clone(tool),
                description: Arc::clone(&declaration.description),
            });
            names.extend(declaration.aliases.iter().map(|alias| ListedName {
                name: Arc::clone(alias),
                tool: Arc::clone(tool),
                description: format!("Alias for {tool}").into(),
            }));
        }
        names
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.names.get(name).and_then(|at| self.tools.get(*at))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.declarations().map(|declaration| &declaration.name)).finish()
    }
}

/// Collects tools. [`RegistryBuilder::build`] reports what is wrong with them.
pub struct RegistryBuilder {
    tools: Vec<Arc<dyn Tool>>,
}

impl RegistryBuilder {
    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.shared(Arc::new(tool))
    }

    /// Adds a tool that other code may share.
    #[must_use]
    pub fn shared(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a tool from a closure over raw parameters.
    ///
    /// The closure returns a [`ToolResult`], or a `Result` of one, whose error becomes a failure with its message.
    #[must_use]
    pub fn tool_fn<F, Fut>(self, declaration: ToolDeclaration, call: F) -> Self
    where
        F: Fn(Value, ToolContext, Credentials) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoToolResult,
    {
        self.tool(FnTool::new(declaration, call))
    }

    /// Adds a tool from a closure over typed parameters.
    ///
    /// `Args` gives the schema, in place of any in the declaration. Parameters that do not make an `Args` are
    /// answered with `invalid_input`.
    #[must_use]
    pub fn typed<Args, F, Fut>(self, declaration: ToolDeclaration, call: F) -> Self
    where
        Args: JsonSchema + DeserializeOwned + Send + 'static,
        F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoToolResult,
    {
        self.tool(TypedTool::<Args, F>::new(declaration, call))
    }

    /// Builds the registry.
    ///
    /// # Errors
    /// The first error, in the order of registration.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let tools = self.tools.into_iter().map(checked).collect::<Result<Vec<Entry>, RegistryError>>()?;
        let mut names: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (at, entry) in tools.iter().enumerate() {
            let name = &entry.declaration.name;
            if names.insert(Arc::clone(name), at).is_some() {
                return Err(RegistryError::DuplicateName { tool: name.to_string() });
            }
        }
        // After all names, so that an alias of the first tool cannot hide the last one.
        for (at, entry) in tools.iter().enumerate() {
            for alias in &entry.declaration.aliases {
                let earlier = names.insert(Arc::clone(alias), at).and_then(|earlier| tools.get(earlier));
                if let Some(earlier) = earlier {
                    return Err(RegistryError::AliasTaken {
                        tool: entry.declaration.name.to_string(),
                        alias: alias.to_string(),
                        taken_by: earlier.declaration.name.to_string(),
                    });
                }
            }
        }
        let manifest = Value::Array(tools.iter().map(|entry| entry.declaration.manifest()).collect());
        Ok(Registry {
            tools: tools.into(),
            names: Arc::new(names),
            manifest: (canonical(&manifest).into(), digest("manifest", &manifest)),
        })
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|tool| &tool.spec().name)).finish()
    }
}

/// The tool with everything that can be known to be wrong before a run.
fn checked(tool: Arc<dyn Tool>) -> Result<Entry, RegistryError> {
    let declaration = tool.spec().clone();
    let name = one_line(&declaration.name);
    if !is_name(&declaration.name) {
        return Err(RegistryError::InvalidName { name });
    }
    if let Some(alias) = declaration.aliases.iter().find(|alias| !is_name(alias)) {
        return Err(RegistryError::InvalidAlias { tool: name, alias: one_line(alias) });
    }
    let Some(spec) = declaration.spec() else {
        return Err(RegistryError::MissingEffect { tool: name });
    };
    let limits = [("timeout_ms", declaration.timeout_ms), ("attempts", declaration.attempts.into())];
    if let Some((field, _)) = limits.into_iter().find(|(_, value)| *value == 0) {
        return Err(RegistryError::Zero { tool: name, field });
    }
    if declaration.schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(RegistryError::NotAnObjectSchema { tool: name });
    }
    let schema = SchemaCheck::new(&declaration.schema);
    let schema =
        schema.map_err(|error| RegistryError::InvalidSchema { tool: name, message: error.to_string() })?;
    Ok(Entry { declaration: Arc::new(declaration), schema, reads_results: tool.reads_results(), tool, spec })
}

/// `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`: what every provider takes.
fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
