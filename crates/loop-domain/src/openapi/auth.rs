//! Authentication of a generated tool, from `securitySchemes`.

use serde_json::Value;

use crate::openapi::document::{Document, Operation};
use crate::openapi::name::variable_part;
use crate::openapi::server::Server;
use crate::openapi::text::{line, quoted};

/// The most characters of a text of the document in a comment.
const SHOWN: usize = 60;

/// The table `auth` of a tool, with notes for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Auth {
    /// The inline table. `None`: the tool does not authenticate.
    pub(crate) table: Option<String>,
    /// The name of its secret.
    pub(crate) secret: Option<String>,
    pub(crate) comments: Vec<String>,
    /// Why it cannot work until the operator supplies something.
    pub(crate) missing: Option<String>,
}

impl Auth {
    /// The authentication of an operation: the first of its alternatives that has a single scheme which a tool can use.
    pub(crate) fn of(document: &Document, operation: &Operation<'_>, server: &Server) -> Self {
        let asked = operation.node.get("security").or_else(|| document.root().get("security"));
        let alternatives = asked.and_then(Value::as_array).into_iter().flatten();
        let mut why_not = None;
        for alternative in alternatives.filter_map(Value::as_object).filter(|all| !all.is_empty()) {
            let mut schemes = alternative.iter();
            let (Some((name, scopes)), None) = (schemes.next(), schemes.next()) else {
                why_not =
                    why_not.or(Some("it asks for several things at once, and a tool shows one".to_owned()));
                continue;
            };
            match Self::of_scheme(document, name, scopes, server) {
                Ok(auth) => return auth,
                Err(why) => why_not = why_not.or(Some(why)),
            }
        }
        Self { missing: why_not.map(|why| format!("`auth` is for you to write: {why}")), ..Self::default() }
    }

    fn of_scheme(document: &Document, name: &str, scopes: &Value, server: &Server) -> Result<Self, String> {
        let shown = line(name, SHOWN);
        let schemes = document.members(document.root().pointer("/components/securitySchemes"));
        let scheme = schemes.and_then(|schemes| schemes.get(name));
        let scheme = scheme.and_then(|scheme| document.follow(scheme).ok());
        let scheme = scheme.ok_or_else(|| format!("the document does not describe `{shown}`"))?;
        let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
        // The document must not name a variable that exists for another purpose: its server would be sent that secret.
        let secret = |kind: &str| format!("TOOL_{}_{kind}", variable_part(&server.place, 40));
        let plain = |kind: &str, table: &dyn Fn(&str) -> String| {
            let secret = secret(kind);
            Self { table: Some(table(&quoted(&secret))), secret: Some(secret), ..Self::default() }
        };
        let named = |key: &str| {
            let found = text(key);
            let is_token = !found.is_empty()
                && found.len() <= 100
                && found.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            is_token.then(|| quoted(found)).ok_or_else(|| format!("the name in `{shown}` cannot be sent"))
        };
        let bearer = || plain("TOKEN", &|secret| format!("{{ bearer_env = {secret} }}"));
        let http = text("scheme").to_ascii_lowercase();
        Ok(match (text("type"), &*http, text("in")) {
            ("http", "bearer", _) => bearer(),
            ("http", "basic", _) => Self {
                missing: Some("fill in `user`".to_owned()),
                ..plain("PASSWORD", &|secret| format!("{{ password_env = {secret}, user = \"CHANGE-ME\" }}"))
            },
            ("apiKey", _, "header") => {
                let header = named("name")?;
                if header.eq_ignore_ascii_case("\"authorization\"") {
                    let comment = "the secret is the whole value of the header, with its scheme: `Token …`";
                    let auth = plain("KEY", &|secret| format!("{{ key_env = {secret}, header = {header} }}"));
                    return Ok(Self { comments: vec![comment.to_owned()], ..auth });
                }
                plain("KEY", &|secret| format!("{{ key_env = {secret}, header = {header} }}"))
            }
            ("apiKey", _, "query") => {
                let parameter = named("name")?;
                plain("KEY", &|secret| format!("{{ key_env = {secret}, parameter = {parameter} }}"))
            }
            ("apiKey", _, "cookie") => {
                let cookie = named("name")?;
                plain("COOKIE", &|secret| format!("{{ cookie_env = {secret}, cookie = {cookie} }}"))
            }
            ("oauth2", ..) => {
                let url = scheme.pointer("/flows/clientCredentials/tokenUrl").and_then(Value::as_str);
                let Some(url) = url.filter(|url| url.starts_with("https://") && url.len() <= 300) else {
                    let comment =
                        format!("`{shown}` is OAuth 2.0: get a token yourself, and a fresh one when it ends");
                    return Ok(Self { comments: vec![comment], ..bearer() });
                };
                let scopes = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
                let scopes = quoted(&line(&scopes.collect::<Vec<_>>().join(" "), 200));
                let url = quoted(url);
                let missing = "fill in `client_id`, and see whether `token_url` may be given your secret";
                Self {
                    missing: Some(missing.to_owned()),
                    ..plain("SECRET", &|secret| {
                        format!(
                            "{{ client_secret_env = {secret}, client_id = \"CHANGE-ME\", token_url = {url}, scope = {scopes} }}"
                        )
                    })
                }
            }
            ("openIdConnect", ..) => {
                let comment = format!(
                    "`{shown}` is OpenID Connect: get a token yourself, and a fresh one when it ends"
                );
                Self { comments: vec![comment], ..bearer() }
            }
            (kind, ..) => return Err(format!("`{shown}` is of the type `{}`", line(kind, SHOWN))),
        })
    }
}
