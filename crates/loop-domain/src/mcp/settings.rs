//! Makes an MCP client from `[servers.NAME]`.

use std::time::Duration;

use loop_tools::connectors::{
    ConnectorError, McpClient, McpHttp, McpProgram, McpSettings, McpTransport, SandboxFolders,
};

use crate::command;
use crate::config::{HttpAuthConfig, ServerConfig};
use crate::error::DomainError;
use crate::file::File;
use crate::tools::ToolSecrets;

/// The keys that only servers over HTTP have.
const HTTP_KEYS: [&str; 5] = ["headers", "auth", "private", "plain_http", "ca"];

/// Makes the client of the server `name`. Nothing is started.
pub(crate) fn server(file: &File, name: &str, config: &ServerConfig) -> Result<McpClient, DomainError> {
    let mut settings = McpSettings::new(name, transport(file, name, config)?);
    for (key, given, limit) in [
        ("start_timeout_ms", config.start_timeout_ms, &mut settings.start_timeout),
        ("idle_ms", config.idle_ms, &mut settings.idle_timeout),
    ] {
        match given {
            Some(0) => {
                let message = "without any time nothing answers; write 1 or more";
                return Err(file.error(&["servers", name, key], message));
            }
            Some(ms) => *limit = Duration::from_millis(ms),
            None => {}
        }
    }
    McpClient::new(settings).map_err(|error| match &error {
        ConnectorError::Server { key, .. } => {
            // The name of a header may hold a full stop.
            let steps = key.splitn(2, '.').filter(|step| !step.is_empty());
            file.error(&["servers", name].into_iter().chain(steps).collect::<Vec<_>>(), error.to_string())
        }
        // A setting of the program.
        ConnectorError::Setting { key, message } => {
            file.error(&["servers", name, "command", key], message.as_str())
        }
        // A folder that is not there: one of the sandbox, unless the working folder is the one.
        ConnectorError::Missing { .. } => {
            let named = config.command.as_ref().and_then(|command| command.folder.as_deref());
            let path = ["servers", name, "command", "folder"];
            let is_missing = named.is_some_and(|folder| !file.resolve(&path, folder).exists());
            let key = if is_missing { "folder" } else { "sandbox" };
            file.error(&["servers", name, "command", key], error.to_string())
        }
        _ => file.error(&["servers", name], error.to_string()),
    })
}

fn transport(file: &File, name: &str, config: &ServerConfig) -> Result<McpTransport, DomainError> {
    let (command, url) = match (&config.command, &config.url) {
        (Some(_), Some(_)) => {
            let message = "`command` is there as well; keep one of them";
            return Err(file.error(&["servers", name, "url"], message));
        }
        (None, None) => {
            let message = format!(
                "the server `{name}` names no server; add `command = {{ program = \"PROGRAM\" }}` or `url = \"https://…\"`"
            );
            return Err(file.error(&["servers", name], message));
        }
        (command, url) => (command, url),
    };
    if command.is_some()
        && let Some(key) = HTTP_KEYS.into_iter().find(|key| file.has(&["servers", name, key]))
    {
        let message = format!("`{key}` is for servers with a `url`; take it out");
        return Err(file.error(&["servers", name, key], message));
    }
    if let Some(url) = url {
        let mut http = McpHttp::new(url.as_str());
        http.headers = config.headers.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let auth = config.auth.as_ref().map(crate::http::auth).transpose();
        http.auth = auth.map_err(|(key, message)| {
            let path = ["servers", name, "auth", key];
            file.error(if key.is_empty() { &path[..3] } else { &path }, message)
        })?;
        http.private.clone_from(&config.private);
        http.plain_http = config.plain_http;
        http.ca = config.ca.as_deref().map(|text| file.resolve(&["servers", name, "ca"], text));
        return Ok(McpTransport::Http(http));
    }
    let Some(command) = command else { return Err(file.error(&["servers", name], "it names no server")) };
    let at = |key: &'static str| ["servers", name, "command", key];
    let folder = match &command.folder {
        Some(folder) => file.resolve(&at("folder"), folder),
        None => file.folder.clone(),
    };
    let program = command::resolved(file, &at("program"), &command.program);
    let mut settings = McpProgram::new(program, folder);
    settings.written = Some(command.program.clone());
    settings.args.clone_from(&command.args);
    settings.env.clone_from(&command.env);
    settings.set = command.set.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    settings.secret_env.clone_from(&command.secret_env);
    settings.sandbox = command.sandbox.as_ref().map(|folders| {
        let all = |key: &str, named: &[String]| {
            let path = ["servers", name, "command", "sandbox", key];
            named.iter().map(|folder| file.resolve(&path, folder)).collect()
        };
        SandboxFolders { read: all("read", &folders.read), write: all("write", &folders.write) }
    });
    Ok(McpTransport::Program(settings))
}

/// Looks up the secrets of the server.
pub(crate) fn secrets(
    file: &File,
    name: &str,
    config: &ServerConfig,
    secrets: &mut ToolSecrets,
) -> Result<(), DomainError> {
    for (key, secret) in config.auth.iter().flat_map(HttpAuthConfig::variables) {
        secrets.read(file, &["servers", name, "auth", key], secret)?;
    }
    let named = config.command.iter().flat_map(|command| &command.secret_env);
    for (at, secret) in named.enumerate() {
        secrets.read(file, &["servers", name, "command", "secret_env", &at.to_string()], secret)?;
    }
    Ok(())
}

/// Warnings about the server's settings, a line each.
pub(crate) fn warnings(name: &str, config: &ServerConfig) -> Vec<String> {
    let Some(command) = &config.command else { return Vec::new() };
    command::program_warnings(&format!("server `{name}`"), command.sandbox.is_some(), &command.env)
}
