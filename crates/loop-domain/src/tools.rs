//! From `[sources]` and `[tools]` to a registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_connectors::{ConnectorError, Database, DocsTool, SqlTool};
use loop_core::ArgSpec;
use loop_tools::{Registry, RegistryError, Smart, Tool, ToolDeclaration};
use serde_json::{Map, Value, json};

use crate::config::{ProtocolKind, SourceConfig, ToolConfig, ToolKind};
use crate::error::DomainError;
use crate::file::File;
use crate::near::hint;
use crate::protocol;

/// Below it in the domain's folder stands what is made from scripts.
const CACHE: &str = ".loopgate";
/// The parameter of a document tool that holds the words, unless another is named.
const WORDS: &str = "query";

/// The tools of the file.
pub(crate) struct Tools {
    pub(crate) registry: Registry,
    /// What a person should know about them, a line each.
    pub(crate) warnings: Vec<String>,
}

/// Makes every tool that is switched on.
pub(crate) fn tools(file: &File) -> Result<Tools, DomainError> {
    let mut maker = Maker { file, databases: BTreeMap::new(), warnings: Vec::new() };
    let sources: Vec<(&str, &SourceConfig)> = file.config.sources.iter().collect();
    for (name, source) in sources {
        maker.open(name, source)?;
    }
    let mut builder = Registry::builder();
    for (name, tool) in file.config.tools.iter().filter(|(_, tool)| tool.enabled) {
        builder = builder.shared(maker.make(name, tool)?);
    }
    let registry =
        protocol::with_output(file, builder)?.build().map_err(|error| registry_error(file, &error))?;
    Ok(Tools { registry, warnings: maker.warnings })
}

struct Maker<'a> {
    file: &'a File,
    databases: BTreeMap<&'a str, Database>,
    warnings: Vec<String>,
}

impl<'a> Maker<'a> {
    fn open(&mut self, name: &'a str, source: &SourceConfig) -> Result<(), DomainError> {
        let file = self.file;
        let path_of = |key: &str, text: &str| file.resolve(&["sources", name, key], text);
        let (key, database) = match (&source.file, &source.made_from) {
            (Some(path), None) => {
                let open = if source.writable { Database::open_writable } else { Database::open };
                ("file", open(path_of("file", path)))
            }
            (None, Some(script)) => {
                let make = if source.writable { Database::working_copy } else { Database::made_from };
                ("made_from", make(&path_of("made_from", script), &file.folder.join(CACHE)))
            }
            (Some(_), Some(_)) => {
                let message = "`file` and `made_from` are both there; keep one";
                return Err(file.error(&["sources", name, "made_from"], message));
            }
            (None, None) => {
                let message = format!("the source `{name}` names no data; add `file` or `made_from`");
                return Err(file.error(&["sources", name], message));
            }
        };
        let database = database.map_err(|error| file.error(&["sources", name, key], error.to_string()))?;
        self.databases.insert(name, database);
        Ok(())
    }

    fn make(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        self.check_keys(name, tool)?;
        if tool.effect.is_none() {
            let message =
                format!("the tool `{name}` declares no effect; add `effect = \"read\"` if it only looks");
            return Err(self.file.error(&["tools", name], message));
        }
        let picks = self.file.config.protocol.kind == ProtocolKind::Document;
        if picks && tool.when.trim().is_empty() {
            self.warnings
                .push(format!("tool `{name}` has no `when`: the picker has only its description to go by"));
        }
        if tool.description.trim().is_empty() {
            self.warnings
                .push(format!("tool `{name}` has no `description`: the model has only its name to go by"));
        }
        self.check_defaults(name, tool)?;
        match tool.kind {
            ToolKind::Sql => self.sql(name, tool),
            ToolKind::Docs => self.docs(name, tool),
        }
    }

    /// Refuses keys that belong to another kind of tool: they would have no effect.
    fn check_keys(&self, name: &str, tool: &ToolConfig) -> Result<(), DomainError> {
        let of_others: &[&str] = match tool.kind {
            ToolKind::Sql => &["folder", "query_parameter", "smart"],
            ToolKind::Docs => &["source", "query"],
        };
        match of_others.iter().find(|key| self.file.has(&["tools", name, key])) {
            None => Ok(()),
            Some(key) => {
                let message = format!("`{key}` is not for tools of kind `{}`; take it out", tool.kind.name());
                Err(self.file.error(&["tools", name, key], message))
            }
        }
    }

    /// Refuses a default that the parameter itself would refuse: every call that leaves it out would fail.
    fn check_defaults(&self, name: &str, tool: &ToolConfig) -> Result<(), DomainError> {
        for (parameter, config) in tool.parameters.iter() {
            let Some(default) = &config.default else { continue };
            if let Err(misfit) = ArgSpec::from_schema(&config.schema()).rebuild(default) {
                let path = ["tools", name, "parameters", parameter, "default"];
                let message = format!("it does not fit its own parameter: {}; correct it", misfit.message);
                return Err(self.file.error(&path, message));
            }
        }
        Ok(())
    }

    fn sql(&self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let missing = |key: &str, example: &str| {
            self.file.error(&["tools", name], format!("the tool `{name}` has no `{key}`; add {example}"))
        };
        let source = tool.source.as_deref().ok_or_else(|| missing("source", "the name of a source"))?;
        let query = tool.query.as_deref().ok_or_else(|| missing("query", "one SELECT"))?;
        let database = self.databases.get(source).ok_or_else(|| {
            let hint = hint(source, self.file.config.sources.names(), "there are");
            self.file.error(&["tools", name, "source"], format!("there is no source `{source}`; {hint}"))
        })?;
        let made = SqlTool::new(declaration(name, tool, parameters(tool)), database, query);
        let made = made.map_err(|error| match error {
            ConnectorError::NotWritable { tool, effect, .. } => {
                let message = format!(
                    "the tool `{tool}` changes data (`{effect}`), and the source `{source}` is not writable; add `writable = \
                     true` to [sources.{source}]"
                );
                self.file.error(&["tools", name, "source"], message)
            }
            error => self.file.error(&["tools", name, "query"], error.to_string()),
        })?;
        Ok(Arc::new(made))
    }

    fn docs(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let Some(folder) = &tool.folder else {
            let message = format!("the tool `{name}` has no `folder`; add the folder with the documents");
            return Err(self.file.error(&["tools", name], message));
        };
        let words = tool.query_parameter.as_deref().unwrap_or(WORDS);
        let mut parameters = parameters(tool);
        if tool.parameters.get(words).is_none() {
            if tool.parameters.names().next().is_some() {
                let hint = hint(words, tool.parameters.names(), "there are");
                let (key, mend) = if tool.query_parameter.is_some() {
                    ("query_parameter", "")
                } else {
                    ("parameters", "; name the one with the words in `query_parameter`")
                };
                let message = format!("there is no parameter `{words}`; {hint}{mend}");
                return Err(self.file.error(&["tools", name, key], message));
            }
            add_words(&mut parameters, words);
        }
        let path = self.file.resolve(&["tools", name, "folder"], folder);
        let made = DocsTool::new(declaration(name, tool, parameters), &path, words)
            .map_err(|error| self.file.error(&["tools", name, "folder"], error.to_string()))?;
        self.warnings.extend(made.left_out().iter().map(|line| format!("tool `{name}` leaves out {line}")));
        Ok(if tool.smart { Arc::new(Smart::new(made)) } else { Arc::new(made) })
    }
}

fn declaration(name: &str, tool: &ToolConfig, schema: Value) -> ToolDeclaration {
    let mut declaration = ToolDeclaration::new(name)
        .description(tool.description.trim())
        .when(tool.when.trim())
        .schema(schema)
        .smart(tool.smart);
    declaration.aliases = tool.aliases.iter().map(|alias| alias.as_str().into()).collect();
    declaration.effect = tool.effect;
    if let Some(title) = &tool.title {
        declaration.title = title.trim().into();
    }
    if let Some(timeout_ms) = tool.timeout_ms {
        declaration.timeout_ms = timeout_ms;
    }
    if let Some(attempts) = tool.attempts {
        declaration.attempts = attempts;
    }
    declaration
}

fn parameters(tool: &ToolConfig) -> Value {
    let properties: Map<String, Value> =
        tool.parameters.iter().map(|(name, parameter)| (name.to_owned(), parameter.schema())).collect();
    let required: Vec<&str> =
        tool.parameters.iter().filter(|(_, parameter)| parameter.required).map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Declares the parameter with the words to look for.
fn add_words(schema: &mut Value, name: &str) {
    let words =
        json!({ "type": "string", "description": "What to look for, in a few words", "minLength": 1 });
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert(name.to_owned(), words);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.push(name.into());
    }
}

/// The error at the place of the tool that it is about.
fn registry_error(file: &File, error: &RegistryError) -> DomainError {
    let at = |tool: &str, key: &str, mend: &str| {
        let path: &[&str] =
            if file.has(&["tools", tool, key]) { &["tools", tool, key] } else { &["tools", tool] };
        file.error(path, format!("{error}; {mend}"))
    };
    match error {
        RegistryError::AliasTaken { tool, .. } => at(tool, "aliases", "take it out of one of them"),
        RegistryError::InvalidAlias { tool, .. } => at(tool, "aliases", "correct it"),
        RegistryError::Zero { tool, field } => at(tool, field, "correct it"),
        RegistryError::InvalidSchema { tool, .. } => at(tool, "parameters", "correct the parameters"),
        RegistryError::InvalidName { name } => at(name, "", "rename it"),
        RegistryError::MissingEffect { tool }
        | RegistryError::DuplicateName { tool }
        | RegistryError::NotAnObjectSchema { tool } => at(tool, "", "correct it"),
        other => file.error(&["tools"], format!("{other}; correct it")),
    }
}
