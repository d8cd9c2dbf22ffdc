//! Makes an HTTP tool from `[tools.NAME.http]`.

use std::sync::Arc;

use loop_tools::connectors::{ConnectorError, HttpAuth, HttpDefinition, HttpPages, HttpPaging, HttpTool};
use loop_tools::{Tool, ToolDeclaration};
use serde_json::{Map, Value};

use crate::config::{HttpAuthConfig, HttpConfig, HttpPagesConfig, HttpPagingKind};
use crate::error::DomainError;
use crate::file::File;

/// The default header of an API key.
const KEY_HEADER: &str = "x-api-key";

/// A tool, with the warnings and secrets found while it was made.
pub(crate) struct MadeHttp {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) warnings: Vec<String>,
}

/// An error in a table: the key, and what is wrong and how to fix it.
pub(crate) type KeyError = (&'static str, String);

/// The tool that a table describes.
pub(crate) fn tool(
    file: &File,
    name: &str,
    config: &HttpConfig,
    declaration: ToolDeclaration,
) -> Result<MadeHttp, DomainError> {
    let at = |table: &'static str| {
        move |(key, message): KeyError| {
            let path: &[&str] = &["tools", name, "http", table, key];
            let path = if key.is_empty() { path.get(..4).unwrap_or(path) } else { path };
            file.error(path, message)
        }
    };
    let auth = config.auth.as_ref().map(auth).transpose().map_err(at("auth"))?;
    let pages = config.pages.as_ref().map(pages).transpose().map_err(at("pages"))?;
    let values = |table: &crate::config::OrderedTable<Value>| {
        table.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect::<Vec<_>>()
    };
    let definition = HttpDefinition {
        method: config.method.clone(),
        url: config.url.clone(),
        query: values(&config.query),
        headers: config.headers.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect(),
        body: config.body.clone(),
        form: config.form.as_ref().map(values),
        graphql: config.graphql.clone(),
        variables: config
            .variables
            .as_ref()
            .map(|variables| Value::Object(values(variables).into_iter().collect::<Map<_, _>>())),
        select: config.select.clone(),
        markdown: config.markdown.clone(),
        auth,
        allow: config.allow.clone(),
        private: config.private.clone(),
        plain_http: config.plain_http,
        ca: config.ca.as_deref().map(|text| file.resolve(&["tools", name, "http", "ca"], text)),
        pages,
        max_bytes: config.max_bytes,
        redirects: config.redirects,
        per_minute: config.per_minute,
    };
    let made = HttpTool::new(declaration, &definition).map_err(|error| {
        let key = match &error {
            ConnectorError::Http { key, .. } => key.clone(),
            _ => String::new(),
        };
        let mut path = vec!["tools", name, "http"];
        // The name of a header may hold a full stop.
        path.extend(key.splitn(2, '.').filter(|step| !step.is_empty()));
        file.error(&path, error.to_string())
    })?;
    let warnings = made.warnings().iter().map(|line| format!("tool `{name}` {line}")).collect();
    Ok(MadeHttp { tool: Arc::new(made), warnings })
}

/// How requests authenticate.
pub(crate) fn auth(config: &HttpAuthConfig) -> Result<HttpAuth, KeyError> {
    let mut kinds = config.variables();
    let Some((kind, variable)) = kinds.next() else {
        let message = "it names no secret; add one of `bearer_env`, `key_env`, `cookie_env`, `password_env`, `client_secret_env`";
        return Err(("", message.to_owned()));
    };
    if let Some((other, _)) = kinds.next() {
        return Err((other, format!("`{kind}` is there as well; keep one of them")));
    }
    for (key, value, of) in [
        ("header", &config.header, "key_env"),
        ("parameter", &config.parameter, "key_env"),
        ("cookie", &config.cookie, "cookie_env"),
        ("user", &config.user, "password_env"),
        ("client_id", &config.client_id, "client_secret_env"),
        ("token_url", &config.token_url, "client_secret_env"),
        ("scope", &config.scope, "client_secret_env"),
    ] {
        if value.is_some() && of != kind {
            return Err((key, format!("`{key}` is for `{of}`; take it out")));
        }
    }
    let needed = |key: &'static str, value: &Option<String>| match value {
        Some(value) if !value.trim().is_empty() => Ok(value.trim().to_owned()),
        _ => Err((if value.is_some() { key } else { kind }, format!("`{kind}` needs `{key}`; add it"))),
    };
    let variable = variable.to_owned();
    Ok(match kind {
        "bearer_env" => HttpAuth::Bearer { token_env: variable },
        "key_env" => match (&config.header, &config.parameter) {
            (Some(_), Some(_)) => {
                return Err(("parameter", "`header` is there as well; keep one of them".to_owned()));
            }
            (_, Some(parameter)) => HttpAuth::Query { key_env: variable, parameter: parameter.clone() },
            (header, None) => HttpAuth::Header {
                key_env: variable,
                header: header.clone().unwrap_or_else(|| KEY_HEADER.to_owned()),
            },
        },
        "cookie_env" => HttpAuth::Cookie { value_env: variable, cookie: needed("cookie", &config.cookie)? },
        "password_env" => HttpAuth::Basic { user: needed("user", &config.user)?, password_env: variable },
        _ => HttpAuth::ClientCredentials {
            token_url: needed("token_url", &config.token_url)?,
            client_id: needed("client_id", &config.client_id)?,
            client_secret_env: variable,
            scope: config.scope.clone().unwrap_or_default(),
        },
    })
}

fn pages(config: &HttpPagesConfig) -> Result<HttpPages, KeyError> {
    let (kind, allowed): (_, &[&str]) = match config.by {
        HttpPagingKind::Link => ("link", &[]),
        HttpPagingKind::Cursor => ("cursor", &["cursor", "more", "parameter"]),
        HttpPagingKind::Page => ("page", &["parameter", "first"]),
    };
    for (key, is_there) in [
        ("cursor", config.cursor.is_some()),
        ("more", config.more.is_some()),
        ("parameter", config.parameter.is_some()),
        ("first", config.first.is_some()),
    ] {
        if is_there && !allowed.contains(&key) {
            return Err((key, format!("`{key}` is not for pages by `{kind}`; take it out")));
        }
    }
    let needed = |key: &str, value: &Option<String>| {
        value.clone().ok_or_else(|| ("by", format!("pages by `{kind}` need `{key}`; add it")))
    };
    let by = match config.by {
        HttpPagingKind::Link => HttpPaging::Link,
        HttpPagingKind::Cursor => HttpPaging::Cursor {
            pointer: needed("cursor", &config.cursor)?,
            parameter: needed("parameter", &config.parameter)?,
            more: config.more.clone(),
        },
        HttpPagingKind::Page => HttpPaging::Number {
            parameter: needed("parameter", &config.parameter)?,
            first: config.first.unwrap_or(1),
        },
    };
    Ok(HttpPages { by, max: config.max })
}
