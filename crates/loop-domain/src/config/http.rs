//! `[tools.NAME.http]`: what a tool of kind `http` asks, and whom.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::config::OrderedTable;

/// A request. `{name}` is the argument `name`, `{scope.account}`, `{scope.account_name}`, `{scope.asset}`, `{scope.item}` and
/// `{scope.person}` are what the work item concerns, and `{call_key}` is a key that all tries of one call share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "without the feature it is only recognised"))]
pub(crate) struct HttpConfig {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. Default: `POST` with `body`, `form` or `graphql`, else
    /// `GET`.
    #[schemars(extend("enum" = ["GET", "POST", "PUT", "PATCH", "DELETE", null]))]
    pub(crate) method: Option<String>,
    /// The URL, for example `https://api.example.com/orders/{order}`. An argument may fill a segment of the path or the value
    /// of a parameter, and never the host.
    pub(crate) url: String,
    /// Parameters that are added to the URL. One whose argument is not given is left out. Default: none.
    #[serde(default)]
    pub(crate) query: OrderedTable<Value>,
    /// Headers. One whose argument is not given is left out. Secrets are for `auth`. Default: none.
    #[serde(default)]
    pub(crate) headers: OrderedTable<String>,
    /// The body, sent as JSON. A text that is only `{name}` becomes the argument as it is. Default: none.
    pub(crate) body: Option<Value>,
    /// The members of a body that is sent as a form (`application/x-www-form-urlencoded`), in place of `body`. One whose argument
    /// is not given is left out, and a list is sent value by value. Default: none.
    pub(crate) form: Option<OrderedTable<Value>>,
    /// A GraphQL document to send in place of a body. Values go in as variables. Default: none.
    pub(crate) graphql: Option<String>,
    /// For `graphql`: the variables. Default: every parameter, under its own name.
    pub(crate) variables: Option<OrderedTable<Value>>,
    /// A JSON pointer to what of the answer is the result. Default: all of it, and `/data` with `graphql`.
    pub(crate) select: Option<String>,
    /// The line that each item of the result becomes, for example `- {/id}: {/state}`. Default: a table.
    pub(crate) markdown: Option<String>,
    /// How the tool shows who calls. Default: not at all.
    pub(crate) auth: Option<HttpAuthConfig>,
    /// The hosts that it may connect to, as `HOST` or `HOST:PORT`. Default: the URL's own.
    pub(crate) allow: Option<Vec<String>>,
    /// Places on this machine and in private networks that it may connect to, as `HOST:PORT`. Default: none.
    #[serde(default)]
    pub(crate) private: Vec<String>,
    /// Whether it may connect without encryption. Default: false.
    #[serde(default)]
    pub(crate) plain_http: bool,
    /// A PEM file with certificates of your own authority, from the domain's folder. They are trusted in addition to those of
    /// the system, for `url` and for `token_url`. Default: only those of the system.
    pub(crate) ca: Option<String>,
    /// How further pages are read. Default: one page is.
    pub(crate) pages: Option<HttpPagesConfig>,
    /// The most bytes of all answers of a call. Default: 1,048,576.
    #[schemars(range(min = 1, max = 67_108_864))]
    pub(crate) max_bytes: Option<usize>,
    /// The most redirects of a GET that are followed, each to a host of `allow`. Default: 0.
    #[schemars(range(max = 5))]
    pub(crate) redirects: Option<u32>,
    /// The most requests in a minute to one host, over all tools of the process that name a limit. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) per_minute: Option<u32>,
}

/// How a tool shows who calls. Keys that end with `_env` name a variable of the environment, which holds the secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "without the feature it is only recognised"))]
pub(crate) struct HttpAuthConfig {
    /// The variable with a token, sent as `authorization: Bearer …`.
    pub(crate) bearer_env: Option<String>,
    /// The variable with a key, sent in a header or in the URL.
    pub(crate) key_env: Option<String>,
    /// For `key_env`: the header. Default: `x-api-key`, unless `parameter` is there.
    pub(crate) header: Option<String>,
    /// For `key_env`: the parameter of the URL. A header is better: URLs are logged.
    pub(crate) parameter: Option<String>,
    /// The variable with the value of a cookie.
    pub(crate) cookie_env: Option<String>,
    /// For `cookie_env`: the name of the cookie.
    pub(crate) cookie: Option<String>,
    /// The variable with a password, sent as `authorization: Basic …`.
    pub(crate) password_env: Option<String>,
    /// For `password_env`: the user.
    pub(crate) user: Option<String>,
    /// The variable with a client's secret, for which a token is fetched (OAuth 2.0, client credentials).
    pub(crate) client_secret_env: Option<String>,
    /// For `client_secret_env`: the client's id.
    pub(crate) client_id: Option<String>,
    /// For `client_secret_env`: where the token is asked for.
    pub(crate) token_url: Option<String>,
    /// For `client_secret_env`: what the token is to be good for. Default: the server's choice.
    pub(crate) scope: Option<String>,
}

/// How further pages are read. Only a tool that reads has them, and what is selected of each is a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "without the feature it is only recognised"))]
pub(crate) struct HttpPagesConfig {
    /// What names the next page: the header `link`, a `cursor` in the answer, or the number of the `page`.
    pub(crate) by: HttpPagingKind,
    /// The most pages of a call. Default: 5.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 100))]
    pub(crate) max: u32,
    /// For `cursor`: the JSON pointer to it. There is no next page where nothing is there.
    pub(crate) cursor: Option<String>,
    /// For `cursor`: the JSON pointer to what is `false` on the last page. Default: the last page has no cursor.
    pub(crate) more: Option<String>,
    /// For `cursor` and `page`: the parameter of the URL that takes it, or with `graphql` the variable.
    pub(crate) parameter: Option<String>,
    /// For `page`: the number of the first page. Default: 1.
    pub(crate) first: Option<u32>,
}

/// What names the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HttpPagingKind {
    /// The header `link` with `rel="next"`.
    Link,
    /// A text in the answer that is sent back.
    Cursor,
    /// A number that grows by one.
    Page,
}

impl HttpAuthConfig {
    /// The keys that name a variable, with the names.
    #[cfg(feature = "http")]
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("bearer_env", &self.bearer_env),
            ("key_env", &self.key_env),
            ("cookie_env", &self.cookie_env),
            ("password_env", &self.password_env),
            ("client_secret_env", &self.client_secret_env),
        ]
        .into_iter()
        .filter_map(|(key, variable)| variable.as_deref().map(|variable| (key, variable)))
    }
}

fn five() -> u32 {
    5
}
