//! Servers of the Model Context Protocol in a program: their trusted descriptions and their tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::spec::ToolPolicy;
use loop_core::types::Effect;
use loop_tools::connectors::{McpHttp, McpProgram, McpSettings, McpTool, McpTransport};
use loop_tools::lock::{Lock, LockedServer, LockedTool};
use loop_tools::{Credentials, Tool, ToolDeclaration, connectors};

use crate::agent::builder::BuildError;

/// A server of the Model Context Protocol, with the descriptions of its tools that are trusted.
///
/// A server may change the descriptions of its tools at any time, and a model follows what it reads. So the tools are
/// those of a text that a person has reviewed: [`lock`](Self::lock) makes the text, and [`trusted`](Self::trusted)
/// takes it. A tool that the server then describes in another way is not called.
#[derive(Clone, Debug)]
pub struct McpServer {
    settings: McpSettings,
    lock: Option<Arc<str>>,
    effects: BTreeMap<Arc<str>, Effect>,
}

impl McpServer {
    /// A server that is started as a program, in the working folder of this process, and speaks over its standard input and
    /// output.
    pub fn stdio<A: Into<String>>(program: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let mut program = McpProgram::new(program, ".");
        program.args = args.into_iter().map(Into::into).collect();
        let name = [&[program.program.clone()], &*program.args].concat().join(" ");
        McpSettings::new(name, McpTransport::Program(program)).into()
    }

    /// A server over streamable HTTP. For a server on this machine or in a private network, or one that needs
    /// credentials, make [`McpSettings`] and convert them into an `McpServer`.
    pub fn http(url: impl Into<String>) -> Self {
        let http = McpHttp::new(url);
        McpSettings::new(http.url.clone(), McpTransport::Http(http)).into()
    }

    /// The same server with the trusted text, which [`lock`](Self::lock) made.
    #[must_use]
    pub fn trusted(self, lock: impl Into<Arc<str>>) -> Self {
        Self { lock: Some(lock.into()), ..self }
    }

    /// The same server, whose tool of this name has this effect. The effect that the server itself states is ignored. A
    /// tool that is not named here counts as an irreversible write, so it needs an approval.
    #[must_use]
    pub fn effect(mut self, tool: impl Into<Arc<str>>, effect: Effect) -> Self {
        self.effects.insert(tool.into(), effect);
        self
    }

    /// The server's present descriptions of its tools, as a text to review and to store. A tool whose parameters are
    /// not an object is left out.
    ///
    /// # Errors
    /// A setting is wrong, the server does not start, or does not speak the protocol.
    pub async fn lock(&self) -> Result<String, BuildError> {
        let server = self.opened()?;
        let listed = server.manifest(&Credentials::none()).await;
        let mut tools = listed.map_err(|error| self.wrong(&error.to_string()))?.tools;
        tools.retain(|tool| tool.parameters().is_some());
        let mut lock = Lock::default();
        lock.servers.insert(self.settings.name.clone(), LockedServer::of(tools, server.identity()));
        Ok(lock.text())
    }

    /// Its tools. Nothing is started.
    pub(super) fn tools(self) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
        let server = self.opened()?;
        let Some(text) = &self.lock else {
            return Err(self.wrong(
                "nothing of it is trusted; write what McpServer::lock gives to a file, look at it, and give it to \
                 McpServer::trusted",
            ));
        };
        let mut lock = Lock::parse(text).map_err(|error| {
            self.wrong(&format!(
                "its lock, line {}: {}; write it again with McpServer::lock",
                error.line, error.message
            ))
        })?;
        lock.servers.retain(|_, locked| locked.identity == server.identity());
        let Some((_, locked)) = lock.servers.pop_first() else {
            return Err(self.wrong(
                "its lock is of another server, or of other arguments; write it again with McpServer::lock",
            ));
        };
        if let Some(edited) = locked.edited() {
            return Err(self.wrong(&format!(
                "its lock was edited by hand at the tool `{}`; write it again with McpServer::lock",
                edited.name
            )));
        }
        let has = |name: &str| locked.tools.iter().any(|tool| tool.name == name);
        if let Some(unknown) = self.effects.keys().find(|name| !has(name)) {
            let known = locked.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(", ");
            return Err(self.wrong(&format!("it has no tool `{unknown}` to have an effect; it has: {known}")));
        }
        locked.tools.iter().map(|tool| self.tool(&server, tool)).collect()
    }

    fn tool(&self, server: &connectors::McpClient, tool: &LockedTool) -> Result<Arc<dyn Tool>, BuildError> {
        let spec = tool.spec();
        let effect = self.effects.get(&*spec.name).copied().unwrap_or(Effect::WriteIrreversible);
        let mut declaration = ToolDeclaration::new(&*spec.name)
            .description(spec.clean_description())
            .effect(effect)
            .policy(ToolPolicy { returns_untrusted: true, ..ToolPolicy::default() });
        declaration.connects_to = Some(self.settings.name.as_str().into());
        if let Some(title) = spec.clean_title() {
            declaration.title = title.into();
        }
        let made = McpTool::new(declaration, server, spec);
        Ok(Arc::new(made.map_err(|error| self.wrong(&format!("its tool `{}`: {error}", tool.name)))?))
    }

    fn opened(&self) -> Result<connectors::McpClient, BuildError> {
        connectors::McpClient::new(self.settings.clone()).map_err(|error| self.wrong(&error.to_string()))
    }

    fn wrong(&self, message: &str) -> BuildError {
        BuildError::Mcp { server: self.settings.name.as_str().into(), message: message.into() }
    }
}

impl From<McpSettings> for McpServer {
    fn from(settings: McpSettings) -> Self {
        Self { settings, lock: None, effects: BTreeMap::new() }
    }
}
