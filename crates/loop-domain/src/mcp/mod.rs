//! Makes tools of MCP servers (Model Context Protocol) from `[servers]` and `tools.lock`.
//!
//! No server is started here: the lock has the declarations of the tools.

mod names;
mod servers;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::types::Effect;
use loop_tools::connectors::{ConnectorError, McpClient, McpResourceTool, McpTool, McpToolSpec};
use loop_tools::schema::SchemaCheck;
use loop_tools::{Credentials, Smart, Tool};
use serde_json::json;

use crate::config::{ServerConfig, ToolConfig, UntrustedConfig};
use crate::error::DomainError;
use crate::file::File;
use crate::lock;
use crate::review::{ServerTrust, one_line};
use crate::similar::hint;
use crate::smart;
use crate::tools::{ToolSecrets, declaration};

use names::{LeftOut, Names, Offer, ServerOffer, shown};

pub(crate) use servers::ServerList;

/// The servers of a domain, none of them started.
#[derive(Default)]
pub(crate) struct Servers {
    opened: Vec<OpenServer>,
    /// The tools that were made, by name, with the positions of their servers.
    made: BTreeMap<String, String>,
}

struct OpenServer {
    name: String,
    config: ServerConfig,
    server: McpClient,
    trust: ServerTrust,
    /// The tools of the server that are trusted.
    tools: Vec<McpToolSpec>,
}

/// The tools of servers, with the warnings found while they were made.
#[derive(Default)]
pub(crate) struct MadeTools {
    /// The tools: those with a table in the file first, then the others.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// Warnings for a person, a line each.
    pub(crate) warnings: Vec<String>,
}

/// What the table of a tool refers to.
enum TableTarget<'a> {
    /// This tool or these resources, of a server.
    Of(&'a OpenServer, ServerOffer),
    /// A tool that is not trusted yet. Another message says so.
    NotYet,
}

impl Servers {
    /// Makes the servers, and reads which of their tools are trusted. Errors that keep a run from starting are added to
    /// `secrets`.
    ///
    /// # Errors
    /// A setting is wrong, or the lock is broken or was edited by hand.
    pub(crate) fn open(
        file: &File,
        secrets: &mut ToolSecrets,
        warnings: &mut Vec<String>,
    ) -> Result<Self, DomainError> {
        let mut servers = Self::default();
        if file.config.servers.names().next().is_none() {
            return Ok(servers);
        }
        let lock = lock::read(&file.folder)?;
        for (name, config) in file.config.servers.iter() {
            let server = settings::server(file, name, config)?;
            settings::secrets(file, name, config, secrets)?;
            warnings.extend(settings::warnings(name, config));
            let locked = lock.servers.get(name);
            let trust = match locked {
                None => ServerTrust::NotYet,
                Some(locked) if locked.identity != server.identity() => ServerTrust::Changed,
                Some(_) => ServerTrust::Trusted,
            };
            let tools = match (trust, locked) {
                (ServerTrust::Trusted, Some(locked)) => {
                    lock::verify(&lock, name, &file.folder)?;
                    locked.tools.iter().map(loop_tools::lock::LockedTool::spec).collect()
                }
                _ => Vec::new(),
            };
            let look = format!(
                "look at `loopgate tools DOMAIN diff {name}`, then `loopgate tools DOMAIN trust {name}`"
            );
            let why = match trust {
                ServerTrust::Trusted => None,
                ServerTrust::NotYet => Some(format!("server `{name}` is not trusted yet: {look}")),
                ServerTrust::Changed => Some(format!(
                    "server `{name}` is not the one that was trusted: its program, arguments or URL are others; {look}"
                )),
            };
            secrets.untrusted.extend(why.map(|why| file.error(&["servers", name], why)));
            servers.opened.push(OpenServer {
                name: name.to_owned(),
                config: config.clone(),
                server,
                trust,
                tools,
            });
        }
        Ok(servers)
    }

    /// Makes the tools of all servers, those with tables in the order of the file.
    ///
    /// # Errors
    /// A table of a tool is wrong.
    pub(crate) fn tools(
        &mut self,
        file: &File,
        tables: &[(&str, &ToolConfig)],
        secrets: &mut ToolSecrets,
    ) -> Result<MadeTools, DomainError> {
        let opened = std::mem::take(&mut self.opened);
        let offers: Vec<Offer<'_>> = opened.iter().map(OpenServer::offer).collect();
        let names = names::names(file, &offers);
        let mut made = MadeTools::default();
        for (name, table) in tables {
            match meant(file, &opened, &names, name, table, secrets)? {
                TableTarget::NotYet => {}
                TableTarget::Of(server, offered) => {
                    self.make(file, server, name, table, &offered, &mut made)?;
                }
            }
        }
        for server in &opened {
            let automatic = ToolConfig::of_server();
            for ((_, offered), named) in names.iter().filter(|((of, _), _)| *of == server.name) {
                match named {
                    Ok(all) => {
                        let rest = all.iter().filter(|name| !tables.iter().any(|(table, _)| table == name));
                        for name in rest {
                            self.make(file, server, name, &automatic, offered, &mut made)?;
                        }
                    }
                    Err(LeftOut::Unwanted) => {}
                    Err(LeftOut::Unnamed(why)) => made.warnings.push(format!(
                        "server `{}`: {} is left out: {why}; leave it out of `only`, or name it with a table [tools.NAME] \
                         with `kind = \"mcp\"`, `server` and `tool`",
                        server.name,
                        shown(offered)
                    )),
                }
            }
            let unknown = server.config.only.iter().flatten().filter(|only| !server.has(only));
            for only in unknown.filter(|_| server.trust == ServerTrust::Trusted) {
                let known = server.tools.iter().map(|tool| tool.name.as_str());
                made.warnings.push(format!(
                    "server `{}`: `only` names `{only}`, which is not one of its trusted tools; {}",
                    server.name,
                    hint(only, known, "they are")
                ));
            }
        }
        self.opened = opened;
        Ok(made)
    }

    fn make(
        &mut self,
        file: &File,
        server: &OpenServer,
        name: &str,
        table: &ToolConfig,
        offered: &ServerOffer,
        made: &mut MadeTools,
    ) -> Result<(), DomainError> {
        match server.tool(file, name, table, offered)? {
            Ok(tool) => {
                if tool.spec().description.is_empty() {
                    made.warnings.push(format!(
                        "tool `{name}` has no `description`, here and on its server: the model has only its name to go by"
                    ));
                }
                let spec = server.tools.iter().find(|tool| *offered == ServerOffer::Tool(tool.name.clone()));
                let results = spec.and_then(|spec| spec.output_schema.as_ref());
                if let Some(Err(error)) = results.map(SchemaCheck::new) {
                    made.warnings.push(format!(
                        "server `{}`: the results of its tool {} are not checked: their schema is not one: {}",
                        server.name,
                        shown(offered),
                        one_line(&error.to_string())
                    ));
                }
                let dropped = spec.and_then(McpToolSpec::parameters).map(|(_, dropped)| dropped);
                for parameter in dropped.iter().flatten() {
                    made.warnings.push(format!(
                        "server `{}`: the default of `{parameter}` of its tool {} does not fit its own schema, and is not used",
                        server.name,
                        shown(offered)
                    ));
                }
                made.tools.push(tool);
                self.made.insert(name.to_owned(), server.name.clone());
            }
            Err(why) => {
                let of = shown(offered);
                made.warnings.push(format!("server `{}`: its tool {of} is left out: {why}", server.name));
            }
        }
        Ok(())
    }

    /// Starts the servers that have a tool here, in parallel, and does not wait for them.
    pub(crate) fn start(&self, credentials: &Credentials) {
        for server in &self.opened {
            if self.made.values().any(|of| *of == server.name) {
                server.server.start(credentials);
            }
        }
    }

    /// The server of a tool.
    pub(crate) fn of_tool(&self, tool: &str) -> Option<&str> {
        self.made.get(tool).map(String::as_str)
    }

    /// The servers, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let count = match self.opened.len() {
            0 => return Vec::new(),
            1 => "1 server".to_owned(),
            many => format!("{many} servers"),
        };
        let lines = self.opened.iter().map(|server| {
            let over = if server.config.command.is_some() { "a program" } else { "HTTP" };
            let used = self.made.values().filter(|of| **of == server.name).count();
            match server.trust {
                ServerTrust::Trusted => {
                    let trusted = server.tools.len();
                    format!("  {}: {over}, {trusted} tools trusted, {used} here", server.name)
                }
                ServerTrust::NotYet => format!("  {}: {over}, not trusted yet", server.name),
                ServerTrust::Changed => {
                    format!("  {}: {over}, not the one that was trusted", server.name)
                }
            }
        });
        std::iter::once(count).chain(lines).collect()
    }
}

impl OpenServer {
    fn offer(&self) -> Offer<'_> {
        let is_trusted = self.trust == ServerTrust::Trusted;
        // Also its resources are not there before it is trusted.
        Offer {
            server: &self.name,
            config: &self.config,
            tools: self.tools.iter().map(|tool| tool.name.as_str()).collect(),
            has_resources: is_trusted && !self.config.resources.is_empty(),
        }
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known.name == tool)
    }

    /// Makes the tool `name`, or says why it is not possible.
    fn tool(
        &self,
        file: &File,
        name: &str,
        table: &ToolConfig,
        offered: &ServerOffer,
    ) -> Result<Result<Arc<dyn Tool>, String>, DomainError> {
        let trusted = match offered {
            ServerOffer::Tool(tool) => self.tools.iter().find(|known| known.name == *tool),
            ServerOffer::Resources => None,
        };
        let schema = match trusted {
            Some(trusted) => trusted.parameters().map(|(schema, _)| schema),
            None => Some(json!({ "type": "object", "properties": { "uri": { "type": "string" } } })),
        };
        let Some(schema) = schema else {
            return Ok(Err("its input schema is not of the type `object`".to_owned()));
        };
        if let Err(error) = SchemaCheck::new(&schema) {
            return Ok(Err(format!("its input schema: {}", one_line(&error.to_string()))));
        }
        let table = self.settled(file, name, table, trusted);
        if table.cheap && !table.effect.is_some_and(Effect::is_read) {
            let message = "only a tool that reads may start early; add `effect = \"read\"`, or take it out";
            return Err(file.error(&["tools", name, "cheap"], message));
        }
        let parameters: Vec<&str> = crate::tools::parameter_names(&schema).collect();
        let filter = smart::row_filter(file, name, &table, &parameters)?;
        let declaration = declaration(file, name, &table, schema.clone())?;
        let made: Arc<dyn Tool> = match trusted {
            Some(trusted) => match McpTool::new(declaration, &self.server, trusted.clone()) {
                Ok(tool) => Arc::new(tool),
                Err(ConnectorError::Setting { key: "effect", message }) => {
                    return Err(file.error(&["tools", name, "effect"], message));
                }
                Err(error) => return Ok(Err(one_line(&error.to_string()))),
            },
            None => Arc::new(McpResourceTool::new(declaration, &self.server, &self.config.resources)),
        };
        Ok(Ok(match filter {
            Some(filter) => Arc::new(Smart::rows(made, filter)),
            None => made,
        }))
    }

    /// The table of a tool, completed by the server's declaration and by cautious defaults.
    fn settled(
        &self,
        file: &File,
        name: &str,
        table: &ToolConfig,
        trusted: Option<&McpToolSpec>,
    ) -> ToolConfig {
        let resources =
            || format!("Read one of these resources of {}: {}", self.name, self.config.resources.join(", "));
        let description = match trusted {
            _ if !table.description.trim().is_empty() => table.description.clone(),
            Some(trusted) => trusted.clean_description(),
            None => resources(),
        };
        let title = table.title.clone().or_else(|| trusted.and_then(McpToolSpec::clean_title));
        // A tool that says nothing of itself is believed to do the worst. A resource is read by definition, and the operator
        // named it.
        let undeclared = if trusted.is_some() { Effect::WriteIrreversible } else { Effect::Read };
        let is_said = file.has(&["tools", name, "returns_untrusted"]);
        let untrusted = table.returns_untrusted.clone();
        ToolConfig {
            effect: Some(table.effect.unwrap_or(undeclared)),
            returns_untrusted: if is_said { untrusted } else { UntrustedConfig::Is(true) },
            description,
            title,
            server: Some(self.name.clone()),
            ..table.clone()
        }
    }
}

/// Finds what the table `name` refers to.
fn meant<'a>(
    file: &File,
    opened: &'a [OpenServer],
    names: &Names<'_>,
    name: &str,
    table: &ToolConfig,
    secrets: &mut ToolSecrets,
) -> Result<TableTarget<'a>, DomainError> {
    let of_name = |server: &str| opened.iter().find(|known| known.name == server);
    let missing = |key: &str, message: String| {
        let path = ["tools", name, key];
        file.error(if key.is_empty() { &path[..2] } else { &path }, message)
    };
    match (&table.server, &table.tool) {
        (Some(_), None) => Err(missing(
            "server",
            "`server` needs `tool`, the name of the tool on the server; add it, or take `server` out"
                .to_owned(),
        )),
        (None, Some(_)) => Err(missing(
            "tool",
            "`tool` needs `server`, the name of a server; add it, or take `tool` out".to_owned(),
        )),
        (Some(server), Some(tool)) => {
            let Some(known) = of_name(server) else {
                let hint = hint(server, opened.iter().map(|known| known.name.as_str()), "there are");
                return Err(missing("server", format!("there is no server `{server}`; {hint}")));
            };
            if known.trust != ServerTrust::Trusted {
                return Ok(TableTarget::NotYet);
            }
            if known.has(tool) {
                return Ok(TableTarget::Of(known, ServerOffer::Tool(tool.clone())));
            }
            let hint = hint(tool, known.tools.iter().map(|tool| tool.name.as_str()), "there are");
            secrets.untrusted.push(missing(
                "tool",
                format!(
                    "the server `{server}` has no trusted tool `{tool}`; {}; `loopgate tools DOMAIN diff {server}` shows what \
                     it has now",
                    one_line(&hint)
                ),
            ));
            Ok(TableTarget::NotYet)
        }
        (None, None) => {
            let found = names.iter().find(|(_, named)| {
                named.as_ref().is_ok_and(|all| all.iter().any(|automatic| automatic == name))
            });
            if let Some(((server, offered), _)) = found
                && let Some(server) = of_name(server)
            {
                return Ok(TableTarget::Of(server, offered.clone()));
            }
            // It may be a tool of a server of which nothing is known yet, which is said of the server.
            let is_to_come = opened.iter().any(|server| {
                server.trust != ServerTrust::Trusted
                    && name.starts_with(&names::prefix(&server.name, &server.config))
            });
            if !is_to_come {
                let known = names.values().filter_map(|named| named.as_ref().ok()).flatten();
                let known: Vec<&str> = known.map(String::as_str).collect();
                let hint = hint(name, known.iter().copied(), "there are");
                secrets.untrusted.push(missing(
                    "",
                    format!(
                        "no trusted tool of a server is called `{name}`; {hint}; `loopgate tools DOMAIN diff` shows what \
                         servers have now"
                    ),
                ));
            }
            Ok(TableTarget::NotYet)
        }
    }
}
