//! Makes PostgreSQL sources from `[sources.NAME]`, and checks the queries of their tools on the server.

use std::sync::Arc;
use std::time::Duration;

use loop_tools::Credentials;
use loop_tools::connectors::{
    ConnectorError, Postgres, PostgresLogin, PostgresSettings, PostgresTls, PostgresTool,
};

use crate::config::{SourceConfig, TlsKind};
use crate::error::DomainError;
use crate::file::File;
use crate::tools::ToolSecrets;

/// The default port of a PostgreSQL server.
const PORT: u16 = 5_432;

/// The PostgreSQL sources with their tools.
#[derive(Default)]
pub(crate) struct PostgresSources {
    sources: Vec<PostgresSource>,
}

struct PostgresSource {
    name: String,
    source: Postgres,
    /// The names of its tools, and the tools.
    tools: Vec<(String, Arc<PostgresTool>)>,
}

/// What a check on the servers found.
#[derive(Default)]
pub(crate) struct ServerFindings {
    pub(crate) warnings: Vec<String>,
    /// The first query that a server rejects.
    pub(crate) error: Option<DomainError>,
}

impl PostgresSources {
    /// Makes the source `name`.
    pub(crate) fn open(
        &mut self,
        file: &File,
        name: &str,
        config: &SourceConfig,
        secrets: &mut ToolSecrets,
    ) -> Result<Vec<String>, DomainError> {
        let settings = settings(file, name, config)?;
        let secret = match &settings.login {
            PostgresLogin::Parts { password_env, .. } => {
                password_env.as_ref().map(|secret| ("password_env", secret))
            }
            PostgresLogin::Url { url_env } => Some(("url_env", url_env)),
        };
        if let Some((key, secret)) = secret {
            secrets.read(file, &["sources", name, key], secret)?;
            // The password in a URL is a secret of its own.
            if let PostgresLogin::Url { url_env } = &settings.login
                && let Some(url) = secrets.values.get(url_env)
            {
                secrets.parts.extend(Postgres::passwords_in(url));
            }
        }
        let source = Postgres::new(name, settings).map_err(|error| match error {
            ConnectorError::Setting { key, message } => file.error(&["sources", name, key], message),
            error => file.error(&["sources", name], error.to_string()),
        })?;
        let warnings = source.warnings().to_vec();
        self.sources.push(PostgresSource { name: name.to_owned(), source, tools: Vec::new() });
        Ok(warnings)
    }

    /// The source `name`, if it is a PostgreSQL source.
    pub(crate) fn get(&self, name: &str) -> Option<&Postgres> {
        self.sources.iter().find(|source| source.name == name).map(|source| &source.source)
    }

    /// Adds a tool of the source `name`.
    pub(crate) fn add(&mut self, name: &str, tool: &str, made: &Arc<PostgresTool>) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.name == name) {
            source.tools.push((tool.to_owned(), Arc::clone(made)));
        }
    }

    /// Checks on the servers the queries of all tools and the privileges of the roles. Blocks until they have answered.
    pub(crate) fn check(&self, file: &File, credentials: &Credentials) -> ServerFindings {
        let mut findings = ServerFindings::default();
        for PostgresSource { name, source, tools } in &self.sources {
            let made: Vec<&PostgresTool> = tools.iter().map(|(_, tool)| &**tool).collect();
            let report = source.check(&made, credentials);
            if let Some(why) = report.unreachable {
                findings.warnings.push(format!("source `{name}`: its queries were not checked: {why}"));
                continue;
            }
            findings.warnings.extend(report.warnings.iter().map(|line| format!("source `{name}`: {line}")));
            let wrong = report.wrong.into_iter().next();
            let wrong = wrong.and_then(|(at, says)| tools.get(at).map(|(tool, _)| (tool, says)));
            if let (None, Some((tool, says))) = (&findings.error, wrong) {
                let message = format!("tool `{tool}`: the server refuses its query: {says}");
                findings.error = Some(file.error(&["tools", tool, "query"], message));
            }
        }
        findings
    }
}

fn settings(file: &File, name: &str, config: &SourceConfig) -> Result<PostgresSettings, DomainError> {
    let mut settings = PostgresSettings::new(login(file, name, config)?);
    let is_socket = config.host.as_deref().is_some_and(|host| host.trim().starts_with('/'));
    settings.tls = match (config.tls, &config.ca) {
        (Some(TlsKind::Off), Some(_)) => {
            let message = "without TLS no certificate is verified; take it out, or `tls = \"off\"`";
            return Err(file.error(&["sources", name, "ca"], message));
        }
        (Some(TlsKind::Off), None) => PostgresTls::Off,
        (None, None) if is_socket => PostgresTls::Off,
        (Some(TlsKind::Verify) | None, path) => PostgresTls::Verified {
            ca: path.as_ref().map(|path| file.resolve(&["sources", name, "ca"], path)),
        },
    };
    settings.pool = config.pool.unwrap_or(settings.pool);
    let ms = |given: Option<u64>, default: Duration| given.map_or(default, Duration::from_millis);
    settings.connect_timeout = ms(config.connect_timeout_ms, settings.connect_timeout);
    settings.statement_timeout = ms(config.statement_timeout_ms, settings.statement_timeout);
    settings.lock_timeout = ms(config.lock_timeout_ms, settings.lock_timeout);
    settings.search_path.clone_from(&config.search_path);
    settings.scope = config.scope.iter().map(|(setting, part)| (setting.to_owned(), part.clone())).collect();
    settings.writable = config.writable;
    Ok(settings)
}

fn login(file: &File, name: &str, config: &SourceConfig) -> Result<PostgresLogin, DomainError> {
    let parts = [
        ("host", config.host.is_some()),
        ("port", config.port.is_some()),
        ("database", config.database.is_some()),
        ("user", config.user.is_some()),
        ("password_env", config.password_env.is_some()),
    ];
    if let Some(url_env) = &config.url_env {
        return match parts.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => {
                let message = format!("the URL in `url_env` holds it as well; take `{key}` out");
                Err(file.error(&["sources", name, key], message))
            }
            None => Ok(PostgresLogin::Url { url_env: url_env.clone() }),
        };
    }
    let needed = |key: &str, value: &Option<String>| {
        value.clone().ok_or_else(|| {
            let message =
                format!("the source `{name}` has no `{key}`; add it, or `url_env` with all of the login");
            file.error(&["sources", name], message)
        })
    };
    Ok(PostgresLogin::Parts {
        host: needed("host", &config.host)?,
        port: config.port.unwrap_or(PORT),
        database: needed("database", &config.database)?,
        user: needed("user", &config.user)?,
        password_env: config.password_env.clone(),
    })
}
