//! Writes a generated tool as TOML.

use std::fmt::Write as _;

use loop_core::types::Effect;
use serde_json::{Number, Value};

use crate::openapi::schema::ParamType;
use crate::openapi::text::{key, line, plain, quoted};

/// The most characters of a line of comment.
const COMMENT_CHARS: usize = 300;

/// A tool, before it is written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Lines above the tool.
    pub(crate) comments: Vec<String>,
    pub(crate) description: String,
    pub(crate) effect: Effect,
    pub(crate) parameters: Vec<Parameter>,
    /// `None`: the default method, which follows from the rest.
    pub(crate) method: Option<&'static str>,
    /// The URL as a template.
    pub(crate) url: String,
    /// Names of the API's query parameters, each with the name of the tool's parameter.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Body>,
    /// A JSON pointer to the list in the response.
    pub(crate) select: Option<String>,
    pub(crate) auth: Option<String>,
    /// The name of the secret in `auth`.
    pub(crate) secret: Option<String>,
    pub(crate) plain_http: bool,
    pub(crate) private: Option<String>,
    /// Why it is switched off until the operator has done something.
    pub(crate) off: Vec<String>,
}

/// A parameter of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) is_required: bool,
    pub(crate) plain: ParamType,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// One parameter.
    Whole(String),
    /// Members, with their parameters.
    Members(Vec<(String, String)>),
    /// Members of a form, with their parameters.
    Form(Vec<(String, String)>),
}

impl Entry {
    /// The entry of a domain file. `is_on`: as it is after the operator has filled everything in.
    pub(crate) fn toml(&self, is_on: bool) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            _ = writeln!(text, "# {}", line(comment, COMMENT_CHARS));
        }
        let name = key(&self.name);
        _ = writeln!(text, "[tools.{name}]\nkind = \"http\"");
        _ = writeln!(text, "effect = {}  # guessed from the method: review", quoted(self.effect.name()));
        _ = writeln!(
            text,
            "description = {}  # written by the API's author: review",
            quoted(&self.description)
        );
        _ = writeln!(
            text,
            "returns_untrusted = true  # review: `false` only where you alone write what it returns"
        );
        if !is_on {
            for why in &self.off {
                _ = writeln!(text, "# off: {}", line(why, COMMENT_CHARS));
            }
            if !self.off.is_empty() {
                _ = writeln!(text, "enabled = false  # take this line out after your review");
            }
        }
        for parameter in &self.parameters {
            parameter.write(&name, &mut text);
        }
        _ = writeln!(text, "\n[tools.{name}.http]");
        if let Some(method) = self.method {
            _ = writeln!(text, "method = {}", quoted(method));
        }
        _ = writeln!(text, "url = {}", quoted(&self.url));
        let mut table = |key: &str, pairs: &[(String, String)]| {
            if !pairs.is_empty() {
                _ = writeln!(text, "{key} = {}", inline(pairs));
            }
        };
        table("query", &self.query);
        table("headers", &self.headers);
        match &self.body {
            None => {}
            Some(Body::Whole(name)) => _ = writeln!(text, "body = {}", quoted(&format!("{{{name}}}"))),
            Some(Body::Members(pairs)) => _ = writeln!(text, "body = {}", inline(pairs)),
            Some(Body::Form(pairs)) => _ = writeln!(text, "form = {}", inline(pairs)),
        }
        if let Some(pointer) = &self.select {
            let pointer = quoted(pointer);
            _ = writeln!(text, "select = {pointer}  # the list in the answer, by its schema: review");
        }
        if let Some(auth) = &self.auth {
            _ = writeln!(text, "auth = {auth}");
        }
        if self.plain_http {
            _ = writeln!(text, "plain_http = true");
        }
        if let Some(place) = &self.private {
            _ = writeln!(text, "private = [{}]", quoted(place));
        }
        text
    }

    /// Whether the tool is switched on.
    pub(crate) fn is_on(&self) -> bool {
        self.off.is_empty()
    }
}

impl Parameter {
    fn write(&self, tool: &str, text: &mut String) {
        _ = writeln!(text, "\n[tools.{tool}.parameters.{}]", key(&self.name));
        let kind = self.plain.kind.name();
        if kind != "string" {
            _ = writeln!(text, "type = {}", quoted(kind));
        }
        if self.is_required {
            text.push_str("required = true\n");
        }
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                _ = writeln!(text, "{key} = {value}");
            }
        };
        let description = Some(&self.plain.description).filter(|it| !it.is_empty());
        put("description", description.map(|it| quoted(it)));
        for (key, value) in limits(&self.plain) {
            put(key, Some(value));
        }
        put("default", self.plain.default.as_ref().and_then(plain));
        let examples = Some(&self.plain.examples).filter(|all| !all.is_empty());
        put("examples", examples.and_then(|all| plain(&Value::Array(all.clone()))));
        if let Some(items) = &self.plain.items {
            let mut members = vec![format!("type = {}", quoted(items.kind.name()))];
            members.extend(limits(items).into_iter().map(|(key, value)| format!("{key} = {value}")));
            put("items", Some(format!("{{ {} }}", members.join(", "))));
        }
    }
}

/// The keys that limit a value.
fn limits(of: &ParamType) -> Vec<(&'static str, String)> {
    let values = of.one_of.as_ref().and_then(|all| plain(&Value::Array(all.clone())));
    let number = |value: &Option<Number>| value.as_ref().map(Number::to_string);
    let length = |value: Option<u32>| value.map(|value| value.to_string());
    let all = [
        ("enum", values),
        ("minimum", number(&of.minimum)),
        ("maximum", number(&of.maximum)),
        ("min_length", length(of.min_length)),
        ("max_length", length(of.max_length)),
        ("min_items", length(of.min_items)),
        ("max_items", length(of.max_items)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// An inline table: each name with the placeholder of its parameter.
fn inline(pairs: &[(String, String)]) -> String {
    let pairs = pairs.iter().map(|(name, to)| format!("{} = {}", key(name), quoted(&format!("{{{to}}}"))));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}
