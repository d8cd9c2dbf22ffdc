//! From templates and arguments to one request: method, URL, headers, body.
//!
//! An argument fills its placeholder and nothing else: it is encoded for where it is, so that it can change neither host nor path nor
//! add a parameter or a header.

use std::collections::BTreeSet;

use loop_core::types::Effect;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use crate::connectors::http::definition::HttpDefinition;
use crate::connectors::http::template::{JsonTemplate, Names, Template, text_of};
use crate::connectors::placeholders::Values;
use crate::connectors::trouble::Trouble;

/// Where a keyed write says which call it is.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// What is asked for.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/json, text/*;q=0.5, application/xml;q=0.5");
/// Headers that belong to the connection, to the guard or to `auth`.
const RESERVED: [&str; 15] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The templates of a request, checked.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    method: Method,
    /// The URL without path and query.
    base: Url,
    path: Vec<Template>,
    /// Parameters that the URL itself has: encoded already but for the arguments in them.
    own_query: Vec<Template>,
    query: Vec<(String, JsonTemplate)>,
    headers: Vec<(HeaderName, Template)>,
    body: Option<BodyTemplate>,
    /// Whether the call's key goes with it.
    sends_key: bool,
}

#[derive(Clone, Debug)]
enum BodyTemplate {
    Json(JsonTemplate),
    Form(Vec<(String, JsonTemplate)>),
    GraphQl { document: String, variables: JsonTemplate },
}

/// A request that is ready but for what shows who sends it.
#[derive(Clone, Debug)]
pub(crate) struct Unsigned {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Payload>,
}

/// A body.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Json(Value),
    /// A form that is encoded already.
    Form(String),
}

/// What is wrong with a definition: the key, and what to do about it.
pub(crate) type KeyError = (String, String);

impl HttpDefinition {
    /// Whether a tool may set this header. Those of the connection, of proxies and of `auth` it may not.
    pub fn may_set_header(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        !RESERVED.contains(&&*name) && !name.starts_with("x-forwarded-")
    }
}

impl RequestTemplate {
    /// The templates of a definition. Of the parameters, `target` need not be sent.
    ///
    /// # Errors
    /// One of them is wrong, or a parameter is not used.
    pub(crate) fn check(
        definition: &HttpDefinition,
        effect: Option<Effect>,
        parameters: &BTreeSet<String>,
        target: Option<&str>,
    ) -> Result<Self, KeyError> {
        let at = |key: &str| {
            let key = key.to_owned();
            move |message: String| (key.clone(), message)
        };
        let mut names = Names::new(parameters);
        if let Some(target) = target {
            names.note(target);
        }
        let method = method(definition, effect)?;
        let (base, path, own_query) = url(&definition.url, &mut names).map_err(at("url"))?;
        let query = pair_templates("query", &definition.query, &mut names)?;
        let mut headers = Vec::new();
        for (name, value) in &definition.headers {
            let (name, value) = header(name, value, &mut names).map_err(at(&format!("headers.{name}")))?;
            headers.push((name, value));
        }
        let body = body(definition, parameters, &mut names)?;
        if let Some(unused) = names.unused() {
            let message = format!(
                "the parameter `{unused}` is declared, and nothing sends it; write `{{{unused}}}` where it belongs, or take it out"
            );
            return Err((String::new(), message));
        }
        let sends_key = effect == Some(Effect::WriteKeyed) && !names.use_key();
        Ok(Self { method, base, path, own_query, query, headers, body, sends_key })
    }

    /// Scheme, host and port of every request.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Whether it is a GraphQL document.
    pub(crate) fn is_graphql(&self) -> bool {
        matches!(self.body, Some(BodyTemplate::GraphQl { .. }))
    }

    /// The request of one call.
    pub(crate) fn prepare(&self, given: &Values<'_>) -> Result<Unsigned, Trouble> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, ACCEPTED);
        let kind = match &self.body {
            None => None,
            Some(BodyTemplate::Json(_) | BodyTemplate::GraphQl { .. }) => Some("application/json"),
            Some(BodyTemplate::Form(_)) => Some("application/x-www-form-urlencoded"),
        };
        headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
        for (name, template) in &self.headers {
            if template.sole(given).transpose()?.is_some_and(|value| value.is_none()) {
                continue;
            }
            let value = template.render(given, str::to_owned, in_header)?;
            headers.insert(name, header_value(name, &value)?);
        }
        if self.sends_key {
            headers.insert(IDEMPOTENCY_KEY, header_value(&IDEMPOTENCY_KEY, given.key)?);
        }
        Ok(Unsigned { method: self.method.clone(), url: self.url(given)?, headers, body: self.body(given)? })
    }

    fn url(&self, given: &Values<'_>) -> Result<Url, Trouble> {
        let mut text = self.base.origin().ascii_serialization();
        for segment in &self.path {
            let rendered = segment.render(given, str::to_owned, in_path)?;
            if segment.has_placeholders() && is_dots(&rendered) {
                return Err(Trouble::Input(
                    "an argument would leave its segment of the path: it is only dots".into(),
                ));
            }
            text.push('/');
            text.push_str(&rendered);
        }
        let mut pairs = Vec::new();
        for pair in &self.own_query {
            pairs.push(pair.render(given, str::to_owned, |_, value| Ok(percent(value)))?);
        }
        pairs.extend(pairs_of(&self.query, given)?);
        if !pairs.is_empty() {
            text.push('?');
            text.push_str(&pairs.join("&"));
        }
        let url = Url::parse(&text).ok().filter(|url| {
            let segments = url.path_segments().map_or(0, Iterator::count);
            url.origin() == self.base.origin()
                && url.username().is_empty()
                && url.fragment().is_none()
                && segments == self.path.len().max(1)
        });
        url.ok_or_else(|| Trouble::Input("an argument would change the structure of the URL".into()))
    }

    fn body(&self, given: &Values<'_>) -> Result<Option<Payload>, Trouble> {
        let json = match &self.body {
            None => None,
            Some(BodyTemplate::Json(template)) => template.render(given)?,
            Some(BodyTemplate::Form(form)) => {
                return Ok(Some(Payload::Form(pairs_of(form, given)?.join("&"))));
            }
            Some(BodyTemplate::GraphQl { document, variables }) => {
                Some(json!({ "query": document, "variables": variables.render(given)? }))
            }
        };
        Ok(json.map(Payload::Json))
    }
}

impl Unsigned {
    /// The same request with another value of a parameter of its URL.
    fn with_parameter(&self, name: &str, value: &str) -> Self {
        let mut next = self.clone();
        set_parameter(&mut next.url, name, value);
        next
    }

    /// The same with a value for the next page: a parameter of the URL, or with GraphQL the variable, which keeps its type.
    pub(crate) fn with_page(&self, is_graphql: bool, name: &str, value: &Value) -> Self {
        match is_graphql {
            true => self.with_variable(name, value),
            false => self.with_parameter(name, &text_of(value)),
        }
    }

    fn with_variable(&self, name: &str, value: &Value) -> Self {
        let mut next = self.clone();
        if let Some(Payload::Json(body)) = &mut next.body
            && let Some(variables) = body.get_mut("variables").and_then(Value::as_object_mut)
        {
            variables.insert(name.to_owned(), value.clone());
        }
        next
    }
}

/// Gives a parameter of a URL this value alone.
pub(crate) fn set_parameter(url: &mut Url, name: &str, value: &str) {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(known, _)| known != name)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, value);
}

/// The templates of pairs of name and value.
fn pair_templates(
    table: &str,
    pairs: &[(String, Value)],
    names: &mut Names<'_>,
) -> Result<Vec<(String, JsonTemplate)>, KeyError> {
    let templates = pairs.iter().map(|(name, value)| {
        let wrong = |message: String| (format!("{table}.{name}"), message);
        if value.is_object() {
            return Err(wrong("a parameter is a text, a number or a list; correct it".to_owned()));
        }
        Ok((name.clone(), JsonTemplate::parse(value, names).map_err(wrong)?))
    });
    templates.collect()
}

/// Pairs as a URL and a form have them. A list is a pair for each of its values, and what is not given is none.
fn pairs_of(templates: &[(String, JsonTemplate)], given: &Values<'_>) -> Result<Vec<String>, Trouble> {
    let mut pairs = Vec::new();
    for (name, value) in templates {
        let values = match value.render(given)? {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => values,
            Some(value) => vec![value],
        };
        pairs.extend(values.iter().map(|value| format!("{}={}", percent(name), percent(&text_of(value)))));
    }
    Ok(pairs)
}

fn method(definition: &HttpDefinition, effect: Option<Effect>) -> Result<Method, KeyError> {
    let wrong = |message: String| Err(("method".to_owned(), message));
    let has_own_body = definition.body.is_some() || definition.form.is_some();
    let has_body = has_own_body || definition.graphql.is_some();
    let method = match definition.method.as_deref() {
        None if has_body => Method::POST,
        None => Method::GET,
        Some("GET") => Method::GET,
        Some("POST") => Method::POST,
        Some("PUT") => Method::PUT,
        Some("PATCH") => Method::PATCH,
        Some("DELETE") => Method::DELETE,
        Some(other) => {
            return wrong(format!("`{other}` is not a method; use one of GET, POST, PUT, PATCH, DELETE"));
        }
    };
    if definition.graphql.is_some() && method != Method::POST {
        return wrong("GraphQL goes by POST; take it out".to_owned());
    }
    if method == Method::GET && has_own_body {
        let key = if definition.body.is_some() { "body" } else { "form" };
        return wrong(format!("a GET has no body; write POST, or take out `{key}`"));
    }
    let is_read = effect.is_none_or(Effect::is_read);
    if is_read && matches!(method, Method::PUT | Method::PATCH | Method::DELETE) {
        return wrong(format!("{method} changes something, and the effect is `read`; correct one of them"));
    }
    Ok(method)
}

/// What a URL consists of: where it leads, the segments of its path, and its parameters.
fn url(text: &str, names: &mut Names<'_>) -> Result<(Url, Vec<Template>, Vec<Template>), String> {
    let wrong = || "it is not a URL; write https://HOST/PATH".to_owned();
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("it holds a blank, a backslash or a control character; percent-encode it".to_owned());
    }
    if text.contains('#') {
        return Err("it has a part behind `#`, which is never sent; take it out".to_owned());
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if scheme.contains('{') || authority.contains(['{', '}']) {
        return Err(
            "there is a placeholder in its scheme, host or port, which no argument may choose; write the host out"
                .to_owned(),
        );
    }
    let base = Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| wrong())?;
    if !matches!(base.scheme(), "https" | "http") {
        return Err("it begins neither with https:// nor with http://; correct it".to_owned());
    }
    if authority.contains('@') {
        return Err("it holds a user or a password; name the secret in `auth`".to_owned());
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut segments = Vec::new();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        if is_dots(segment) && matches!(undotted(segment).len(), 1 | 2) {
            return Err("its path has `.` or `..` in it; write the path that is meant".to_owned());
        }
        segments.push(Template::parse(segment, names)?);
    }
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if pair.split('=').next().unwrap_or_default().contains(['{', '}']) {
            return Err(
                "there is a placeholder in the name of a parameter, which no argument may choose; write it out"
                    .to_owned(),
            );
        }
        pairs.push(Template::parse(pair, names)?);
    }
    Ok((base, segments, pairs))
}

fn header(name: &str, value: &str, names: &mut Names<'_>) -> Result<(HeaderName, Template), String> {
    let parsed =
        HeaderName::try_from(name).map_err(|_| "it is not the name of a header; correct it".to_owned())?;
    if !HttpDefinition::may_set_header(parsed.as_str()) {
        let revise = if matches!(parsed.as_str(), "authorization" | "cookie") {
            "name the secret in `auth`"
        } else {
            "take it out"
        };
        return Err(format!("this header is not for a tool to set; {revise}"));
    }
    let template = Template::parse(value, names)?;
    let own = template.fill(|_| String::new());
    if HeaderValue::from_str(&own).is_err() {
        return Err("its value has a character that no header may hold; correct it".to_owned());
    }
    Ok((parsed, template))
}

fn body(
    definition: &HttpDefinition,
    parameters: &BTreeSet<String>,
    names: &mut Names<'_>,
) -> Result<Option<BodyTemplate>, KeyError> {
    let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
    if let Some(form) = &definition.form {
        return match (&definition.body, &definition.graphql) {
            (None, None) if definition.variables.is_none() => {
                Ok(Some(BodyTemplate::Form(pair_templates("form", form, names)?)))
            }
            (None, None) => wrong("variables", "variables are for `graphql`; take them out"),
            (Some(_), _) => wrong("form", "`body` and `form` are both there; keep one"),
            (None, Some(_)) => wrong("form", "`graphql` and `form` are both there; keep one"),
        };
    }
    match (&definition.body, &definition.graphql) {
        (Some(_), Some(_)) => wrong("graphql", "`body` and `graphql` are both there; keep one"),
        (_, None) if definition.variables.is_some() => {
            wrong("variables", "variables are for `graphql`; take them out")
        }
        (None, None) => Ok(None),
        (Some(body), None) => {
            let template =
                JsonTemplate::parse(body, names).map_err(|message| ("body".to_owned(), message))?;
            Ok(Some(BodyTemplate::Json(template)))
        }
        (None, Some(document)) if document.trim().is_empty() => {
            wrong("graphql", "the document is empty; write a query")
        }
        (None, Some(document)) => {
            let variables = match &definition.variables {
                Some(variables) if variables.is_object() => JsonTemplate::parse(variables, names)
                    .map_err(|message| ("variables".to_owned(), message))?,
                Some(_) => return wrong("variables", "the variables are not a table; correct them"),
                None => {
                    let all = parameters.iter().map(|name| {
                        names.note(name);
                        (name.clone(), Value::from(format!("{{{name}}}")))
                    });
                    let all = Value::Object(all.collect());
                    JsonTemplate::parse(&all, names).map_err(|message| ("variables".to_owned(), message))?
                }
            };
            Ok(Some(BodyTemplate::GraphQl { document: document.clone(), variables }))
        }
    }
}

/// Whether a GraphQL document has a mutation or a subscription in it.
pub(crate) fn changes_something(document: &str) -> bool {
    let mut depth = 0_u32;
    let mut word = String::new();
    let mut rest = document;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if depth == 0 && matches!(&*word, "mutation" | "subscription") {
            return true;
        }
        word.clear();
        match c {
            '#' => rest = rest.find(['\n', '\r']).and_then(|at| rest.get(at..)).unwrap_or_default(),
            '"' if rest.starts_with("\"\"") => {
                let inside = rest.get(2..).unwrap_or_default().replace("\\\"\"\"", "____");
                let end = inside.find("\"\"\"").map_or(inside.len(), |at| at + 3);
                rest = rest.get(2 + end..).unwrap_or_default();
            }
            '"' => {
                let mut is_escaped = false;
                let end = rest.find(|c| {
                    let ends = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    ends
                });
                rest = end.and_then(|at| rest.get(at + 1..)).unwrap_or_default();
            }
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth == 0 && matches!(&*word, "mutation" | "subscription")
}

/// An argument in a segment of a path.
fn in_path(name: &str, value: &str) -> Result<String, Trouble> {
    // Servers trim a segment, and what is left is the whole collection.
    if value.trim().is_empty() {
        return Err(Trouble::Input(format!("`{name}` is in the path of the request and must not be empty")));
    }
    if value.chars().any(char::is_control) {
        return Err(Trouble::Input(format!("`{name}` holds a control character, which no path may hold")));
    }
    Ok(percent(value))
}

/// An argument in a header.
fn in_header(name: &str, value: &str) -> Result<String, Trouble> {
    if value.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
        return Err(Trouble::Input(format!(
            "`{name}` goes into a header, and holds a character that none may hold"
        )));
    }
    Ok(value.to_owned())
}

fn header_value(name: &HeaderName, value: &str) -> Result<HeaderValue, Trouble> {
    HeaderValue::from_str(value).map_err(|_| {
        Trouble::Input(format!("the value of the header `{name}` holds a character that none may hold"))
    })
}

/// A text as a path or a parameter has it: only letters, digits, `-`, `.`, `_` and `~` are as they are.
fn percent(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// What is not as it is: all but letters, digits and four marks.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether a segment of a path is only dots, which a server may read as a way up.
fn is_dots(segment: &str) -> bool {
    !segment.is_empty() && undotted(segment).bytes().all(|byte| byte == b'.')
}

/// A segment in which no dot is encoded.
fn undotted(segment: &str) -> String {
    segment.replace("%2e", ".").replace("%2E", ".")
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
