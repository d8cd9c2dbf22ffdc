//! Makes the tool registry from `[sources]` and `[tools]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::spec::{ArgType, ToolPolicy, ToolRepeats};
use loop_tools::connectors::{BUSY_TIMEOUT, ConnectorError, Database, DocsTool, SqlTool};
use loop_tools::declaration::TIMEOUT_MS;
use loop_tools::results::ResultsTool;
use loop_tools::schema::SchemaCheck;
use loop_tools::tool::KeptTool;
use loop_tools::{
    Credentials, Registry, RegistryError, Smart, Tool, ToolContext, ToolDeclaration, ToolResult,
};
use serde_json::{Map, Value, json};

use crate::called;
use crate::command;
use crate::config::{ProtocolKind, SourceConfig, SourceKind, ToolConfig, ToolKind};
use crate::domain::LoadOptions;
use crate::error::DomainError;
use crate::file::File;
use crate::files;
use crate::mcp::Servers;
#[cfg(feature = "postgres")]
use crate::postgres::PostgresSources;
use crate::protocol;
use crate::similar::hint;
use crate::smart;

/// The folder below the domain's folder for databases that scripts create.
const CACHE: &str = ".loopgate";
/// The default parameter of a document tool with the words to search for.
const WORDS: &str = "query";
/// The parameter with the text of a question to a person.
const QUESTION: &str = "question";

/// The keys that only a source of kind `postgres` has.
const POSTGRES_KEYS: [&str; 14] = [
    "host",
    "port",
    "database",
    "user",
    "password_env",
    "url_env",
    "tls",
    "ca",
    "pool",
    "connect_timeout_ms",
    "statement_timeout_ms",
    "lock_timeout_ms",
    "search_path",
    "scope",
];

/// The tools of the file.
pub(crate) struct Tools {
    pub(crate) registry: Registry,
    /// Warnings for a person, a line each.
    pub(crate) warnings: Vec<String>,
    /// The secrets that they use.
    pub(crate) secrets: ToolSecrets,
    /// The MCP servers that some of them are on.
    pub(crate) servers: Servers,
    /// The databases on servers, which a check asks.
    #[cfg(feature = "postgres")]
    pub(crate) postgres: PostgresSources,
}

/// The secrets of a domain's tools.
#[derive(Default)]
pub(crate) struct ToolSecrets {
    /// The values by their names.
    pub(crate) values: BTreeMap<String, String>,
    /// Parts of them that are secret too, such as the password in a URL.
    pub(crate) parts: Vec<String>,
    /// An error for each secret that is named and missing.
    pub(crate) unset: Vec<DomainError>,
    /// An error for each server or tool of a server that is not trusted.
    pub(crate) untrusted: Vec<DomainError>,
}

impl ToolSecrets {
    /// Looks up the secret that the key at `path` names. A missing secret keeps a run from starting, and is a warning
    /// in a check.
    ///
    /// # Errors
    /// No secret can have this name.
    pub(crate) fn read(&mut self, file: &File, path: &[&str], name: &str) -> Result<(), DomainError> {
        file.names_secret(path, name)?;
        match file.secret(path, name) {
            Ok(Some(value)) => {
                self.values.insert(name.to_owned(), value);
            }
            Ok(None) => {}
            Err(error) => self.unset.push(error),
        }
        Ok(())
    }
}

/// Makes every tool that is switched on.
pub(crate) fn tools(file: &File, options: &LoadOptions) -> Result<Tools, DomainError> {
    let secrets = ToolSecrets::default();
    let mut maker = ToolBuilder {
        file,
        options,
        databases: BTreeMap::new(),
        warnings: Vec::new(),
        secrets,
        #[cfg(feature = "postgres")]
        postgres: PostgresSources::default(),
    };
    let sources: Vec<(&str, &SourceConfig)> = file.config.sources.iter().collect();
    for (name, source) in sources {
        maker.open(name, source)?;
    }
    let mut servers = Servers::open(file, &mut maker.secrets, &mut maker.warnings)?;
    let mut builder = Registry::builder();
    let mut of_servers = Vec::new();
    for (name, tool) in file.config.tools.iter().filter(|(_, tool)| tool.enabled) {
        if tool.kind == ToolKind::Mcp {
            maker.check_keys(name, tool)?;
            of_servers.push((name, tool));
        } else {
            builder = builder.shared(maker.make(name, tool)?);
        }
    }
    let made = servers.tools(file, &of_servers, &mut maker.secrets)?;
    maker.warnings.extend(made.warnings);
    for tool in made.tools {
        builder = builder.shared(tool);
    }
    let registry =
        protocol::with_output(file, builder)?.build().map_err(|error| registry_error(file, &error))?;
    Ok(Tools {
        registry,
        warnings: maker.warnings,
        secrets: maker.secrets,
        servers,
        #[cfg(feature = "postgres")]
        postgres: maker.postgres,
    })
}

struct ToolBuilder<'a> {
    file: &'a File,
    options: &'a LoadOptions,
    databases: BTreeMap<&'a str, Database>,
    warnings: Vec<String>,
    secrets: ToolSecrets,
    #[cfg(feature = "postgres")]
    postgres: PostgresSources,
}

impl<'a> ToolBuilder<'a> {
    fn open(&mut self, name: &'a str, source: &SourceConfig) -> Result<(), DomainError> {
        let others: &[&str] = match source.kind {
            SourceKind::Sqlite => &POSTGRES_KEYS,
            SourceKind::Postgres => &["file", "made_from", "busy_timeout_ms"],
        };
        if let Some(key) = others.iter().find(|key| self.file.has(&["sources", name, key])) {
            let message = format!("`{key}` is not for sources of kind `{}`; take it out", source.kind.name());
            return Err(self.file.error(&["sources", name, key], message));
        }
        match source.kind {
            SourceKind::Sqlite => self.open_sqlite(name, source),
            SourceKind::Postgres => self.open_postgres(name, source),
        }
    }

    fn open_sqlite(&mut self, name: &'a str, source: &SourceConfig) -> Result<(), DomainError> {
        let file = self.file;
        let path_of = |key: &str, text: &str| file.resolve(&["sources", name, key], text);
        let busy = self.busy(name, source);
        let (key, database) = match (&source.file, &source.made_from) {
            (Some(path), None) => ("file", Database::open_with(path_of("file", path), source.writable, busy)),
            (None, Some(script)) => {
                let make = if source.writable { Database::working_copy } else { Database::made_from };
                let made = make(&path_of("made_from", script), &file.folder.join(CACHE));
                ("made_from", made.map(|made| made.with_busy_timeout(busy)))
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

    /// How long a tool waits for a lock on the source's file: at most the longest time limit of the source's tools.
    fn busy(&mut self, name: &str, source: &SourceConfig) -> Duration {
        let busy = source.busy_timeout_ms.map_or(BUSY_TIMEOUT, Duration::from_millis);
        let mut longest = None;
        for (tool, config) in self.file.config.tools.iter() {
            if !config.enabled || config.source.as_deref() != Some(name) {
                continue;
            }
            let time = Duration::from_millis(config.timeout_ms.unwrap_or(TIMEOUT_MS));
            longest = longest.max(Some(time));
            if source.busy_timeout_ms.is_some() && busy > time {
                self.warnings.push(format!(
                    "tool `{tool}` has {} ms, which is less than the `busy_timeout_ms` of {} of its source `{name}`: a lock is \
                     waited for no longer than the tool has; raise its `timeout_ms`",
                    time.as_millis(),
                    busy.as_millis()
                ));
            }
        }
        longest.map_or(busy, |longest| busy.min(longest))
    }

    fn make(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        self.check_keys(name, tool)?;
        if tool.effect.is_none()
            && !matches!(tool.kind, ToolKind::Question | ToolKind::Results | ToolKind::Run)
        {
            let message =
                format!("the tool `{name}` declares no effect; add `effect = \"read\"` if it only reads");
            return Err(self.file.error(&["tools", name], message));
        }
        // A tool of this kind describes itself.
        let is_described = tool.kind == ToolKind::Results;
        let selections = self.file.config.protocol.kind == ProtocolKind::Document && !is_described;
        if selections && tool.when.trim().is_empty() {
            self.warnings
                .push(format!("tool `{name}` has no `when`: the selector has only its description to go by"));
        }
        if tool.description.trim().is_empty() && !is_described {
            self.warnings
                .push(format!("tool `{name}` has no `description`: the model has only its name to go by"));
        }
        self.check_defaults(name, tool)?;
        let schema = schema(tool);
        let parameters: Vec<&str> = parameter_names(&schema).collect();
        let filter = smart::row_filter(self.file, name, tool, &parameters)?;
        let made = self.plain(name, tool)?;
        Ok(match filter {
            Some(filter) => Arc::new(Smart::rows(made, filter)),
            None => made,
        })
    }

    /// The tool without a row filter.
    fn plain(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        match tool.kind {
            ToolKind::Sql => self.sql(name, tool),
            ToolKind::Docs => self.docs(name, tool),
            ToolKind::Http => self.http(name, tool),
            ToolKind::Question => Ok(question(self.file, name, tool)?),
            ToolKind::Results => Ok(results(self.file, name, tool)?),
            ToolKind::Command => self.command(name, tool),
            ToolKind::Files => self.files(name, tool),
            ToolKind::Run => self.run(name, tool),
            ToolKind::Mcp => Err(self.file.error(&["tools", name, "kind"], "its server makes it")),
            ToolKind::Mock => {
                self.warnings.push(format!(
                    "tool `{name}` is of kind `mock`: it is only declared, and every call of it fails but in `loopgate eval`"
                ));
                Ok(Arc::new(MockTool { declaration: declaration(self.file, name, tool, parameters(tool))? }))
            }
        }
    }

    /// Fails for keys of another kind of tool, since they would have no effect.
    fn check_keys(&self, name: &str, tool: &ToolConfig) -> Result<(), DomainError> {
        let of_others: &[&str] = match tool.kind {
            ToolKind::Sql => &["folder", "query_parameter"],
            ToolKind::Docs => &["source", "query"],
            ToolKind::Http | ToolKind::Command | ToolKind::Files => {
                &["source", "query", "max_value_bytes", "folder", "query_parameter"]
            }
            ToolKind::Mcp => {
                &["source", "query", "max_value_bytes", "folder", "query_parameter", "parameters"]
            }
            // It takes the time that its domain has, and each effect is judged there.
            ToolKind::Run => &[
                "source",
                "query",
                "max_value_bytes",
                "folder",
                "query_parameter",
                "smart",
                "effect",
                "timeout_ms",
                "attempts",
                "cheap",
                "authority",
            ],
            ToolKind::Mock => &["source", "query", "folder", "query_parameter", "smart"],
            ToolKind::Results => &[
                "source",
                "query",
                "folder",
                "query_parameter",
                "smart",
                "effect",
                "parameters",
                "authority",
            ],
            ToolKind::Question => {
                &["source", "query", "folder", "query_parameter", "smart", "effect", "attempts", "timeout_ms"]
            }
        };
        let own_keys = [
            ("command", ToolKind::Command),
            ("files", ToolKind::Files),
            ("http", ToolKind::Http),
            ("server", ToolKind::Mcp),
            ("tool", ToolKind::Mcp),
            ("domain", ToolKind::Run),
            ("profile", ToolKind::Run),
        ];
        let tables = own_keys.iter().filter(|(_, kind)| *kind != tool.kind).map(|(key, _)| key);
        match of_others.iter().chain(tables).find(|key| self.file.has(&["tools", name, key])) {
            None => Ok(()),
            Some(key) => {
                let message = format!("`{key}` is not for tools of kind `{}`; take it out", tool.kind.name());
                Err(self.file.error(&["tools", name, key], message))
            }
        }
    }

    /// Fails for an invalid regular expression, and for a default that its own parameter rejects: every call without
    /// that parameter would fail.
    fn check_defaults(&self, name: &str, tool: &ToolConfig) -> Result<(), DomainError> {
        for (parameter, config) in tool.parameters.iter() {
            let schema = SchemaCheck::new(&config.schema()).map_err(|error| {
                let path = ["tools", name, "parameters", parameter];
                let key = if config.pattern.is_some() { "pattern" } else { "type" };
                self.file.error(&[path.as_slice(), &[key]].concat(), format!("{error}; correct it"))
            })?;
            if config.pattern.is_some() && config.kind != ArgType::String {
                let path = ["tools", name, "parameters", parameter, "pattern"];
                let message =
                    "a pattern is for a parameter of type `string`; take it out, or correct the type";
                return Err(self.file.error(&path, message));
            }
            let mut examples = config.examples.iter().filter(|_| config.pattern.is_some());
            if let Some(violation) = examples.find_map(|example| schema.violations(example)) {
                let path = ["tools", name, "parameters", parameter, "examples"];
                let message = format!("one of them does not fit its own parameter: {violation}; correct it");
                return Err(self.file.error(&path, message));
            }
            let Some(default) = &config.default else { continue };
            if let Some(violation) = schema.violations(default) {
                let path = ["tools", name, "parameters", parameter, "default"];
                let message = format!("it does not fit its own parameter: {violation}; correct it");
                return Err(self.file.error(&path, message));
            }
        }
        Ok(())
    }

    /// The value of a required key, or an error with an example.
    fn needed<T>(&self, name: &str, key: &str, value: Option<T>, example: &str) -> Result<T, DomainError> {
        value.ok_or_else(|| {
            self.file.error(&["tools", name], format!("the tool `{name}` has no `{key}`; add {example}"))
        })
    }

    fn sql(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let source = self.needed(name, "source", tool.source.as_deref(), "the name of a source")?;
        let query = self.needed(name, "query", tool.query.as_deref(), "one SELECT")?;
        let declaration = declaration(self.file, name, tool, parameters(tool))?;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = self.postgres.get(source) {
            let made = loop_tools::connectors::PostgresTool::new(declaration, postgres, query);
            let made = made.map_err(|error| self.sql_error(name, source, error))?;
            let made = Arc::new(match tool.max_value_bytes {
                Some(bytes) => made.with_cell_bytes_max(bytes),
                None => made,
            });
            self.postgres.add(source, name, &made);
            return Ok(made);
        }
        let database = self.databases.get(source).ok_or_else(|| {
            let hint = hint(source, self.file.config.sources.names(), "there are");
            self.file.error(&["tools", name, "source"], format!("there is no source `{source}`; {hint}"))
        })?;
        let made = SqlTool::new(declaration, database, query);
        let made = made.map_err(|error| self.sql_error(name, source, error))?;
        Ok(Arc::new(match tool.max_value_bytes {
            Some(bytes) => made.with_cell_bytes_max(bytes),
            None => made,
        }))
    }

    /// The error at the key of the tool that causes it.
    fn sql_error(&self, name: &str, source: &str, error: ConnectorError) -> DomainError {
        match error {
            ConnectorError::NotWritable { tool, effect, .. } => {
                let message = format!(
                    "the tool `{tool}` changes data (`{effect}`), and the source `{source}` is not writable; add `writable = \
                     true` to [sources.{source}]"
                );
                self.file.error(&["tools", name, "source"], message)
            }
            error => self.file.error(&["tools", name, "query"], error.to_string()),
        }
    }

    fn command(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let example = "`command = { program = \"git\", args = [] }`";
        let config = self.needed(name, "command", tool.command.as_ref(), example)?;
        let made =
            command::make(self.file, name, config, declaration(self.file, name, tool, parameters(tool))?)?;
        for (at, secret) in config.secret_env.iter().enumerate() {
            let path = ["tools", name, "command", "secret_env", &at.to_string()];
            self.secrets.read(self.file, &path, secret)?;
        }
        self.warnings.extend(made.warnings);
        Ok(made.tool)
    }

    fn run(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let folder = self.needed(name, "domain", tool.domain.as_deref(), "the folder of a domain")?;
        let profile = tool.profile.as_deref();
        let domain = called::domain(self.file, self.options, name, folder, profile, &mut self.secrets)?;
        if domain.spec.gate.people && !self.file.config.gate.people {
            self.warnings.push(format!(
                "tool `{name}` is a run that asks people, and this domain asks none, so what it asks is left undone; write \
                 people = true in [gate]"
            ));
        }
        Ok(Arc::new(called::tool(self.file, name, tool, domain)?))
    }

    fn files(&self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let example = "`files = { folder = \"notes\", do = \"read\" }`";
        let config = self.needed(name, "files", tool.files.as_ref(), example)?;
        files::make(self.file, name, config, declaration(self.file, name, tool, schema(tool))?)
    }

    fn docs(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let folder = self.needed(name, "folder", tool.folder.as_ref(), "the folder with the documents")?;
        let words = tool.query_parameter.as_deref().unwrap_or(WORDS);
        let mut parameters = parameters(tool);
        if tool.parameters.get(words).is_none() {
            if tool.parameters.names().next().is_some() {
                let hint = hint(words, tool.parameters.names(), "there are");
                let (key, revise) = if tool.query_parameter.is_some() {
                    ("query_parameter", "")
                } else {
                    ("parameters", "; name the one with the words in `query_parameter`")
                };
                let message = format!("there is no parameter `{words}`; {hint}{revise}");
                return Err(self.file.error(&["tools", name, key], message));
            }
            add_words(&mut parameters, words, "What to look for, in a few words");
        }
        let path = self.file.resolve(&["tools", name, "folder"], folder);
        let made = DocsTool::new(declaration(self.file, name, tool, parameters)?, &path, words)
            .map_err(|error| self.file.error(&["tools", name, "folder"], error.to_string()))?;
        self.warnings.extend(made.left_out().iter().map(|line| format!("tool `{name}` leaves out {line}")));
        Ok(if tool.smart.is_on() { Arc::new(Smart::new(made)) } else { Arc::new(made) })
    }
}

#[cfg(feature = "http")]
impl ToolBuilder<'_> {
    fn http(&mut self, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let example = "`http = { url = \"https://HOST/PATH\" }`";
        let config = self.needed(name, "http", tool.http.as_ref(), example)?;
        let declaration = declaration(self.file, name, tool, parameters(tool))?;
        let made = crate::http::tool(self.file, name, config, declaration)?;
        for (key, secret) in config.auth.iter().flat_map(crate::config::HttpAuthConfig::variables) {
            let path = ["tools", name, "http", "auth", key];
            self.secrets.read(self.file, &path, secret)?;
        }
        self.warnings.extend(made.warnings);
        Ok(made.tool)
    }
}

#[cfg(feature = "postgres")]
impl ToolBuilder<'_> {
    fn open_postgres(&mut self, name: &str, source: &SourceConfig) -> Result<(), DomainError> {
        let warnings = self.postgres.open(self.file, name, source, &mut self.secrets)?;
        self.warnings.extend(warnings);
        Ok(())
    }
}

#[cfg(not(feature = "postgres"))]
impl ToolBuilder<'_> {
    fn open_postgres(&self, name: &str, _: &SourceConfig) -> Result<(), DomainError> {
        let message =
            "this program was built without sources of kind `postgres`; build it with `--features postgres`";
        Err(self.file.error(&["sources", name, "kind"], message))
    }
}

#[cfg(not(feature = "http"))]
impl ToolBuilder<'_> {
    fn http(&self, name: &str, _: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
        let message = "this program was built without tools of kind `http`; build it with `--features http`";
        Err(self.file.error(&["tools", name, "kind"], message))
    }
}

/// A tool that is only declared. Its result is from what replaces it, for example the mock of an eval.
struct MockTool {
    declaration: ToolDeclaration,
}

#[async_trait]
impl Tool for MockTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, _: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        let message = "it is of kind `mock` and brings nothing by itself; give its results in a case of `loopgate eval`";
        ToolResult::failed(&*self.declaration.name, &self.declaration.title, message)
    }
}

/// A tool that asks a person and waits for the answer.
fn question(file: &File, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
    let mut schema = parameters(tool);
    if tool.parameters.names().next().is_none() {
        add_words(&mut schema, QUESTION, "The question, in a sentence or two");
    }
    let declaration = declaration(file, name, tool, schema)?;
    let policy = ToolPolicy { asks_person: true, ..declaration.policy.clone() };
    Ok(Arc::new(KeptTool::new(declaration.policy(policy))))
}

/// A tool that reads more of the run's earlier results. Its output is as untrusted and as private as that of the other
/// tools.
fn results(file: &File, name: &str, tool: &ToolConfig) -> Result<Arc<dyn Tool>, DomainError> {
    if file.config.protocol.kind != ProtocolKind::Document {
        let message = "only a document shows the numbers of results, which its calls name; take the tool out";
        return Err(file.error(&["tools", name, "kind"], message));
    }
    let declaration = declaration(file, name, tool, parameters(tool))?;
    let others = || file.config.tools.iter().map(|(_, tool)| tool).filter(|tool| tool.enabled);
    // What servers return is untrusted unless a table says otherwise, and most of their tools have none.
    let has_servers = file.config.servers.names().next().is_some();
    let policy = ToolPolicy {
        returns_untrusted: has_servers || others().any(|tool| tool.returns_untrusted.is_on()),
        reads_private: others().any(|tool| tool.reads_private),
        ..declaration.policy.clone()
    };
    let declaration = match declaration.when.is_empty() {
        true => declaration.when("A result was cut, and its rest matters. Never before the first pass"),
        false => declaration,
    };
    Ok(Arc::new(ResultsTool::new(declaration.policy(policy))))
}

/// The policy of a tool.
fn policy(file: &File, name: &str, tool: &ToolConfig, schema: &Value) -> Result<ToolPolicy, DomainError> {
    let parameters: Vec<&str> = parameter_names(schema).collect();
    let named = |path: &[&str], parameter: &str| -> Result<(), DomainError> {
        if parameters.contains(&parameter) {
            return Ok(());
        }
        let hint = hint(parameter, parameters.iter().copied(), "there are");
        Err(file.error(path, format!("there is no parameter `{parameter}`; {hint}")))
    };
    let pointers = |key: &[&str], parameters: &[Arc<str>]| -> Result<Vec<Arc<str>>, DomainError> {
        let all = parameters.iter().enumerate();
        all.map(|(at, parameter)| {
            let at = at.to_string();
            named(&[&["tools", name], key, &[&at]].concat(), parameter)?;
            Ok(format!("/{}", parameter.replace('~', "~0").replace('/', "~1")).into())
        })
        .collect()
    };
    let mut except = tool.returns_untrusted.except().iter().enumerate();
    if let Some((at, pointer)) = except.find(|(_, pointer)| !pointer.starts_with('/')) {
        let path = ["tools", name, "returns_untrusted", "except", &at.to_string()];
        return Err(file.error(&path, no_pointer(pointer)));
    }
    let repeats = &tool.repeats;
    let mut volatile = repeats.volatile.iter().enumerate();
    if let Some((at, pointer)) = volatile.find(|(_, pointer)| !pointer.starts_with('/')) {
        let path = ["tools", name, "repeats", "volatile", &at.to_string()];
        return Err(file.error(&path, no_pointer(pointer)));
    }
    if let Some(search) = &repeats.query {
        named(&["tools", name, "repeats", "search"], search)?;
    }
    if tool.cheap && (tool.effect.is_some_and(|effect| !effect.is_read()) || tool.smart.is_on()) {
        let message = "only a tool that reads and is not smart may start early; take it out";
        return Err(file.error(&["tools", name, "cheap"], message));
    }
    Ok(ToolPolicy {
        reads_private: tool.reads_private,
        returns_untrusted: tool.returns_untrusted.is_on(),
        trusted_fields: tool.returns_untrusted.except().to_vec(),
        authority: pointers(&["authority"], &tool.authority)?,
        asks_person: false,
        cheap: tool.cheap,
        lease: None,
        repeats: ToolRepeats { key: pointers(&["repeats", "key"], &repeats.key)?, ..repeats.clone() },
    })
}

fn no_pointer(text: &str) -> String {
    format!("`{text}` is not a JSON pointer; write it as `/{}`", text.replace('.', "/"))
}

/// The declaration of the tool `name`. `schema` is the schema of its parameters.
pub(crate) fn declaration(
    file: &File,
    name: &str,
    tool: &ToolConfig,
    schema: Value,
) -> Result<ToolDeclaration, DomainError> {
    let target = smart::target(tool, &parameter_names(&schema).collect::<Vec<_>>());
    let mut declaration = ToolDeclaration::new(name)
        .description(tool.description.trim())
        .when(tool.when.trim())
        .smart(tool.smart.is_on())
        .policy(policy(file, name, tool, &schema)?)
        .schema(schema)
        .defined_by(&file.definition_of(name, tool.server.as_deref()));
    declaration.aliases = tool.aliases.iter().map(|alias| alias.as_str().into()).collect();
    declaration.effect = tool.effect;
    declaration.target = target.map(Into::into);
    declaration.connects_to = connects_to(file, tool).map(Into::into);
    if let Some(title) = &tool.title {
        declaration.title = title.trim().into();
    }
    if let Some(timeout_ms) = tool.timeout_ms {
        declaration.timeout_ms = timeout_ms;
    }
    if let Some(attempts) = tool.attempts {
        declaration.attempts = attempts;
    }
    Ok(declaration)
}

/// What a tool connects to, for the people who approve its calls. The query string of a URL is left out.
fn connects_to(file: &File, tool: &ToolConfig) -> Option<String> {
    let url = |url: &str| url.split_once('?').map_or(url, |(place, _)| place).to_owned();
    let program = |program: &str, args: &[String]| {
        std::iter::once(program).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    };
    match tool.kind {
        ToolKind::Http => Some(url(&tool.http.as_ref()?.url)),
        ToolKind::Command => tool.command.as_ref().map(|it| program(&it.program, &it.args)),
        ToolKind::Files => tool.files.as_ref().map(|it| it.folder.clone()),
        ToolKind::Docs => tool.folder.clone(),
        ToolKind::Sql => {
            let name = tool.source.as_deref()?;
            let source = file.config.sources.get(name)?;
            let place =
                [&source.file, &source.made_from, &source.host, &source.url_env].into_iter().flatten();
            Some(place.take(1).fold(format!("source {name}"), |name, place| format!("{name}: {place}")))
        }
        ToolKind::Mcp => {
            let name = tool.server.as_deref()?;
            let server = file.config.servers.get(name)?;
            let command = || server.command.as_ref().map(|it| program(&it.program, &it.args));
            let place = server.url.as_deref().map(url).or_else(command)?;
            Some(format!("server {name}: {place}"))
        }
        ToolKind::Run => tool.domain.as_ref().map(|folder| format!("domain {folder}")),
        ToolKind::Mock | ToolKind::Question | ToolKind::Results => None,
    }
}

/// The JSON Schema of the parameters that the tool declares, or of those that its kind has by default.
pub(crate) fn schema(tool: &ToolConfig) -> Value {
    let declares = tool.parameters.names().next().is_some();
    if tool.kind == ToolKind::Run && !declares {
        return loop_runtime::run::RunAsTool::task_schema();
    }
    let own = tool.files.as_ref().filter(|_| !declares).and_then(files::schema);
    own.unwrap_or_else(|| parameters(tool))
}

/// The names of the parameters that a JSON Schema has.
pub(crate) fn parameter_names(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str)
}

fn parameters(tool: &ToolConfig) -> Value {
    let properties: Map<String, Value> =
        tool.parameters.iter().map(|(name, parameter)| (name.to_owned(), parameter.schema())).collect();
    let required: Vec<&str> =
        tool.parameters.iter().filter(|(_, parameter)| parameter.required).map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Adds the parameter with the words to search for.
fn add_words(schema: &mut Value, name: &str, description: &str) {
    let words = json!({ "type": "string", "description": description, "minLength": 1 });
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert(name.to_owned(), words);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.push(name.into());
    }
}

/// The error at the tool that causes it.
fn registry_error(file: &File, error: &RegistryError) -> DomainError {
    let at = |tool: &str, key: &str, revise: &str| {
        let path: &[&str] =
            if file.has(&["tools", tool, key]) { &["tools", tool, key] } else { &["tools", tool] };
        file.error(path, format!("{error}; {revise}"))
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
