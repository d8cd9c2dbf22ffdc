//! What an HTTP tool is made of, as its author writes it.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The definition of an HTTP tool: the request, and the part of the answer that it returns. Texts may hold placeholders
/// such as `{name}` for an argument, `{scope.account}` for the scope and `{call_key}` for the key that all tries of one
/// call share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpDefinition {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. `None`: `POST` with a body, a form or GraphQL, else `GET`.
    pub method: Option<String>,
    /// The URL. Scheme, host and port hold no placeholder.
    pub url: String,
    /// Parameters that are added to the URL, in their order. One whose value is not given is left out.
    pub query: Vec<(String, Value)>,
    /// Headers. One whose value is not given is left out.
    pub headers: Vec<(String, String)>,
    /// The body, sent as JSON. `None`: there is none.
    pub body: Option<Value>,
    /// The members of a body that is sent as a form, in their order. One whose value is not given is left out, and a list is sent
    /// value by value. `None`: there is none.
    pub form: Option<Vec<(String, Value)>>,
    /// A GraphQL document to send in place of a body. It has no placeholders: values are sent as variables.
    pub graphql: Option<String>,
    /// The variables of the document. `None`: every parameter, under its own name.
    pub variables: Option<Value>,
    /// A JSON pointer to the part of the answer that is the result. `None`: all of it, and `/data` with GraphQL.
    pub select: Option<String>,
    /// The line that each item becomes, with JSON pointers in braces such as `{/name}`. `None`: a table.
    pub markdown: Option<String>,
    /// How requests authenticate. `None`: not at all.
    pub auth: Option<HttpAuth>,
    /// The hosts that it may connect to, as `HOST` or `HOST:PORT`. `None`: the URL's own.
    pub allow: Option<Vec<String>>,
    /// The places on this machine and in private networks that it may connect to, as `HOST:PORT`.
    pub private: Vec<String>,
    /// Whether it may connect without encryption.
    pub plain_http: bool,
    /// A PEM file of certificates that are trusted in addition to those of the system, for `url` and for the server of tokens.
    /// It is read when the tool is made. `None`: only those of the system.
    pub ca: Option<PathBuf>,
    /// How further pages are read. `None`: there is one.
    pub pages: Option<HttpPages>,
    /// The most bytes of all answers of a call. `None`: 1 MiB.
    pub max_bytes: Option<usize>,
    /// The most redirects that are followed, up to 5. `None`: 0.
    pub redirects: Option<u32>,
    /// The most requests in a minute to one host, over all tools of the process that name a limit. `None`: no limit.
    pub per_minute: Option<u32>,
}

/// How requests authenticate. Secrets are only named: each is in the credentials under the name of its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAuth {
    /// `authorization: Bearer …`.
    Bearer {
        /// The variable with the token.
        token_env: String,
    },
    /// A key in a header.
    Header {
        /// The variable with the key.
        key_env: String,
        /// The header's name.
        header: String,
    },
    /// A key in the query of the URL.
    Query {
        /// The variable with the key.
        key_env: String,
        /// The parameter's name.
        parameter: String,
    },
    /// A cookie.
    Cookie {
        /// The variable with the cookie's value.
        value_env: String,
        /// The cookie's name.
        cookie: String,
    },
    /// `authorization: Basic …`.
    Basic {
        /// The user.
        user: String,
        /// The variable with the password.
        password_env: String,
    },
    /// A token of an OAuth 2.0 server, by client credentials.
    ClientCredentials {
        /// The URL of the token endpoint.
        token_url: String,
        /// The client's id.
        client_id: String,
        /// The variable with the client's secret.
        client_secret_env: String,
        /// The scope of the token. Empty: the server's own choice.
        scope: String,
    },
}

/// How the pages after the first are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPages {
    /// What names the next page.
    pub by: HttpPaging,
    /// The most pages of a call, from 1.
    pub max: u32,
}

/// What names the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpPaging {
    /// The header `link` with `rel="next"`.
    Link,
    /// A text in the answer that is sent back.
    Cursor {
        /// The JSON pointer to it.
        pointer: String,
        /// The parameter of the URL that takes it, or with GraphQL the variable.
        parameter: String,
        /// The JSON pointer to what is `false` on the last page. `None`: the last page has no cursor.
        more: Option<String>,
    },
    /// A number that grows by one.
    Number {
        /// The parameter of the URL that takes it.
        parameter: String,
        /// The number of the first page.
        first: u32,
    },
}

impl HttpAuth {
    /// The variables that hold its secrets.
    pub fn variables(&self) -> [&str; 1] {
        match self {
            Self::Bearer { token_env: variable }
            | Self::Header { key_env: variable, .. }
            | Self::Query { key_env: variable, .. }
            | Self::Cookie { value_env: variable, .. }
            | Self::Basic { password_env: variable, .. }
            | Self::ClientCredentials { client_secret_env: variable, .. } => [variable],
        }
    }

    fn part(&self) -> Value {
        match self {
            Self::Bearer { token_env } => json!({ "bearer": token_env }),
            Self::Header { key_env, header } => json!({ "key": key_env, "header": header }),
            Self::Query { key_env, parameter } => json!({ "key": key_env, "query": parameter }),
            Self::Cookie { value_env, cookie } => json!({ "value": value_env, "cookie": cookie }),
            Self::Basic { user, password_env } => json!({ "user": user, "password": password_env }),
            Self::ClientCredentials { token_url, client_id, client_secret_env, scope } => json!({
                "token_url": token_url, "client_id": client_id, "client_secret": client_secret_env, "scope": scope,
            }),
        }
    }
}

impl HttpPages {
    fn part(&self) -> Value {
        let by = match &self.by {
            HttpPaging::Link => json!("link"),
            HttpPaging::Cursor { pointer, parameter, more } => {
                json!({ "pointer": pointer, "parameter": parameter, "more": more })
            }
            HttpPaging::Number { parameter, first } => json!({ "parameter": parameter, "first": first }),
        };
        json!({ "by": by, "max": self.max })
    }
}

impl HttpDefinition {
    /// All of it as data: an approval counts for this definition alone. It holds no secret, only names of variables.
    pub(crate) fn part(&self) -> Value {
        let mut part = json!({
            "kind": "http",
            "method": self.method,
            "url": self.url,
            "query": self.query,
            "headers": self.headers,
            "body": self.body,
            "graphql": self.graphql,
            "variables": self.variables,
            "select": self.select,
            "markdown": self.markdown,
            "auth": self.auth.as_ref().map(HttpAuth::part),
            "allow": self.allow,
            "private": self.private,
            "plain_http": self.plain_http,
            // Where it is changes when the folder is moved. Its certificates change by themselves.
            "ca": self.ca.is_some(),
            "pages": self.pages.as_ref().map(HttpPages::part),
            "max_bytes": self.max_bytes,
            "redirects": self.redirects,
            "per_minute": self.per_minute,
        });
        // What was approved without one is still the same.
        if let (Some(form), Some(members)) = (&self.form, part.as_object_mut()) {
            members.insert("form".to_owned(), json!(form));
        }
        part
    }
}
