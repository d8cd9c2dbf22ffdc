//! Asks the MCP servers of a domain for their tools, so that a person can decide which are trusted. Nothing else of the
//! domain is loaded.

use std::fmt;
use std::path::{Path, PathBuf};

use loop_core::secrets::Secrets;
use loop_core::types::Effect;
use loop_tools::Credentials;
use loop_tools::connectors::{McpClient, McpManifest, McpToolSpec};
use loop_tools::lock::{Lock, LockedServer};
use loop_tools::text::clean;
use serde_json::Value;

use crate::LoadOptions;
use crate::config::ServerConfig;
use crate::error::DomainError;
use crate::file::File;
use crate::lock;
use crate::mcp::names::{self, LeftOut, Offer, ServerOffer};
use crate::mcp::settings;
use crate::review::{PartChange, ServerReview, ServerTrust, ToolChange, ToolReview, one_line, parameters};
use crate::similar::hint;
use crate::tools::ToolSecrets;

/// The implementation of [`McpServers`](crate::review::McpServers) in a build with servers.
pub(crate) struct ServerList {
    file: File,
    lock: Lock,
    servers: Vec<ListedServer>,
}

/// A server with the environment variables and secrets that it gets.
struct ListedServer {
    name: String,
    server: McpClient,
    credentials: Credentials,
    secrets: Secrets,
    /// A secret that the server needs and that is missing.
    unset: Option<DomainError>,
}

impl ServerList {
    pub(crate) fn load(folder_or_file: &Path, options: &LoadOptions) -> Result<Self, DomainError> {
        let file = File::read(folder_or_file, options)?;
        if file.config.servers.names().next().is_none() {
            let message = "the domain has no MCP servers; add one as [servers.NAME]";
            return Err(file.error(&["servers"], message));
        }
        let lock = lock::read(&file.folder)?;
        let mut servers = Vec::new();
        for (name, config) in file.config.servers.iter() {
            let server = settings::server(&file, name, config)?;
            let mut found = ToolSecrets::default();
            settings::secrets(&file, name, config, &mut found)?;
            servers.push(ListedServer {
                name: name.to_owned(),
                server,
                secrets: Secrets::of(found.values.values().map(String::as_str)),
                credentials: found.values.into_iter().collect(),
                unset: found.unset.into_iter().next(),
            });
        }
        Ok(Self { file, lock, servers })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.name.as_str())
    }

    pub(crate) fn check(&self, name: &str) -> Result<(), DomainError> {
        if self.names().any(|known| known == name) {
            return Ok(());
        }
        let known: Vec<&str> = self.names().collect();
        let hint = hint(name, known.iter().copied(), "there are");
        Err(self.file.error(&["servers"], format!("there is no server `{name}`; {hint}")))
    }

    pub(crate) async fn review(&self, name: &str) -> Result<ServerReview, String> {
        let named = self.servers.iter().zip(self.file.config.servers.iter());
        let Some((asked, (_, config))) = named.into_iter().find(|(asked, _)| asked.name == name) else {
            return Err(format!("there is no server `{name}`"));
        };
        if let Some(missing) = &asked.unset {
            return Err(missing.to_string());
        }
        let manifest = asked.server.manifest(&asked.credentials).await;
        let manifest = manifest.map_err(|error| {
            let message = one_line(&error.to_string());
            let owner = format!("server `{name}`: ");
            let message = message.strip_prefix(&owner).unwrap_or(&message);
            format!("{owner}{}", asked.secrets.mask(message))
        })?;
        Ok(self.compared(asked, config, manifest))
    }

    pub(crate) fn trust(&self, reviews: &[ServerReview]) -> Result<PathBuf, DomainError> {
        let mut lock = self.lock.clone();
        for review in reviews {
            lock.servers.insert(review.server.clone(), review.entry.clone());
        }
        lock::write(&lock, &self.file.folder)
    }

    fn compared(&self, asked: &ListedServer, config: &ServerConfig, manifest: McpManifest) -> ServerReview {
        let mask = |text: &str| asked.secrets.mask(text).into_owned();
        let mut left_out: Vec<String> = manifest.left_out.iter().map(|line| mask(&one_line(line))).collect();
        // What is trusted is written to a file that others read.
        let (tools, shows_secret): (Vec<_>, Vec<_>) = manifest.tools.into_iter().partition(|tool| {
            let text = serde_json::to_string(tool).unwrap_or_default();
            asked.secrets.mask(&text) == text
        });
        left_out.extend(shows_secret.iter().map(|tool| {
            let name = mask(&one_line(&tool.name));
            format!("the tool `{name}`: the server wrote a secret of yours into it")
        }));
        let identity = asked.server.identity();
        let locked = self.lock.servers.get(&asked.name);
        let trust = match locked {
            None => ServerTrust::NotYet,
            Some(locked) if locked.identity != identity => ServerTrust::Changed,
            Some(_) => ServerTrust::Trusted,
        };
        let before = locked.map_or(&[][..], |locked| &locked.tools);
        let mut reviews = self.reviews(asked, config, locked, &tools);
        let gone = before.iter().filter(|known| !tools.iter().any(|tool| tool.name == known.name));
        reviews.extend(gone.map(|known| ToolReview {
            tool: one_line(&known.name),
            names: Err("it is gone".to_owned()),
            effect: Effect::WriteIrreversible,
            is_declared: false,
            title: known.spec().clean_title(),
            description: known.spec().clean_description(),
            input_schema: clean(&parameters(&known.input_schema)).0.into_owned(),
            claims: Vec::new(),
            change: ToolChange::Gone,
        }));
        reviews.sort_by(|one, other| one.tool.cmp(&other.tool));
        let resources = manifest.resources.iter().map(|resource| {
            let about = if resource.description.is_empty() { &resource.name } else { &resource.description };
            (mask(&one_line(&resource.uri)), mask(&one_line(about)))
        });
        ServerReview {
            server: asked.name.clone(),
            calls_itself: mask(&one_line(&manifest.server)),
            trust,
            tools: reviews,
            resources: resources.collect(),
            left_out,
            entry: LockedServer::of(tools, identity),
        }
    }

    /// The tools that the server declares today.
    fn reviews(
        &self,
        asked: &ListedServer,
        config: &ServerConfig,
        locked: Option<&LockedServer>,
        tools: &[McpToolSpec],
    ) -> Vec<ToolReview> {
        let others = self.file.config.servers.iter().filter(|(name, _)| *name != asked.name);
        let others = others.map(|(server, config)| {
            let locked = self.lock.servers.get(server);
            let tools = locked.iter().flat_map(|locked| &locked.tools).map(|tool| tool.name.as_str());
            Offer { server, config, tools: tools.collect(), has_resources: !config.resources.is_empty() }
        });
        let own = Offer {
            server: &asked.name,
            config,
            tools: tools.iter().map(|tool| tool.name.as_str()).collect(),
            has_resources: !config.resources.is_empty(),
        };
        let offers: Vec<Offer<'_>> = others.chain([own]).collect();
        let names = names::names(&self.file, &offers);
        let review = |tool: &McpToolSpec| {
            let named = names.get(&(asked.name.as_str(), ServerOffer::Tool(tool.name.clone())));
            let names = match named {
                Some(Ok(names)) => Ok(names.clone()),
                Some(Err(LeftOut::Unnamed(why))) => Err(why.clone()),
                Some(Err(LeftOut::Unwanted)) | None => Err("the domain file leaves it out".to_owned()),
            };
            let table = names.iter().flatten().find_map(|name| self.file.config.tools.get(name));
            let declared = table.and_then(|table| table.effect);
            ToolReview {
                tool: one_line(&tool.name),
                names,
                effect: declared.unwrap_or(Effect::WriteIrreversible),
                is_declared: declared.is_some(),
                title: tool.clean_title(),
                description: tool.clean_description(),
                input_schema: clean(&parameters(&tool.input_schema)).0.into_owned(),
                claims: claims(tool),
                change: change(locked, tool),
            }
        };
        tools.iter().map(review).collect()
    }
}

impl fmt::Debug for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// What a server claims about a tool's effect, a line each.
fn claims(tool: &McpToolSpec) -> Vec<String> {
    let claims = tool.annotations.as_ref().and_then(Value::as_object);
    let shown = claims.into_iter().flatten().filter(|(name, _)| *name != "title");
    shown.map(|(name, value)| one_line(&format!("{name}: {value}"))).collect()
}

/// What changed since the tool was trusted.
fn change(locked: Option<&LockedServer>, after: &McpToolSpec) -> ToolChange {
    let known = locked.and_then(|locked| {
        Some((locked.tools.iter().find(|known| known.name == after.name)?, &locked.identity))
    });
    let Some((known, identity)) = known else { return ToolChange::New };
    let before = known.spec();
    if before == *after {
        let is_edited = known.digest != before.digest(identity).to_string();
        return if is_edited { ToolChange::Edited } else { ToolChange::Same };
    }
    let json = |value: &Option<Value>| {
        value
            .as_ref()
            .map(|value| serde_json::to_string_pretty(value).unwrap_or_default())
            .unwrap_or_default()
    };
    let title = |tool: &McpToolSpec| tool.title.clone().unwrap_or_default();
    let outputs = |tool: &McpToolSpec| tool.output_schema.as_ref().map(parameters).unwrap_or_default();
    let parts = [
        ("title", title(&before), title(after)),
        ("description", before.description.clone(), after.description.clone()),
        ("input schema", parameters(&before.input_schema), parameters(&after.input_schema)),
        ("output schema", outputs(&before), outputs(after)),
        ("claims", json(&before.annotations), json(&after.annotations)),
    ];
    let parts = parts.iter().filter_map(|(part, before, after)| PartChange::between(part, before, after));
    ToolChange::Parts(parts.collect())
}
