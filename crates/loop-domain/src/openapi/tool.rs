//! Generates a tool from an operation.

use std::collections::BTreeSet;

use loop_core::types::Effect;
use loop_tools::connectors::HttpDefinition;
use serde_json::Value;

use crate::openapi::auth::Auth;
use crate::openapi::document::{Document, Gap, Method, Operation};
use crate::openapi::name;
use crate::openapi::schema::{Kind, MergedSchema, ParamType};
use crate::openapi::server::Server;
use crate::openapi::text::line;
use crate::openapi::write::{Body, Entry, Parameter};

/// The most characters of a tool's description.
const DESCRIPTION_CHARS: usize = 300;
/// The most characters of a parameter's description.
const PARAMETER_CHARS: usize = 200;
/// The most parameters of a tool.
const PARAMETERS_MAX: usize = 50;
/// The most parameters of a document that are looked at.
const DECLARED_MAX: usize = 500;
/// The most characters of a text of the document in a comment.
const SHOWN: usize = 60;
/// The most comments about what is left out.
const GAPS_MAX: usize = 20;
/// Parameters that show that an API has pages.
const PAGES: [&str; 10] = [
    "page",
    "cursor",
    "offset",
    "after",
    "starting_after",
    "page_token",
    "pageToken",
    "start",
    "skip",
    "continue",
];
/// Members in which APIs wrap a list.
const WRAPPERS: [&str; 10] =
    ["data", "items", "results", "records", "entries", "values", "value", "list", "hits", "content"];
/// Headers that the HTTP client sets itself.
const OWN_HEADERS: [&str; 3] = ["accept", "authorization", "content-type"];

/// The parts of a tool while it is generated.
struct Builder<'a> {
    document: &'a Document,
    operation: &'a Operation<'a>,
    taken: BTreeSet<String>,
    parameters: Vec<Parameter>,
    /// What is left out, with the reasons.
    gaps: Vec<String>,
    /// Why the tool cannot work until the operator has done something.
    off: Vec<String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    /// The parameters in the path: the API's name, and the tool's.
    path: Vec<(String, String)>,
}

/// The tool of an operation.
pub(crate) fn entry(
    document: &Document,
    operation: &Operation<'_>,
    server: &Server,
    names: &mut BTreeSet<String>,
) -> Entry {
    document.refuel();
    let mut builder = Builder {
        document,
        operation,
        taken: BTreeSet::new(),
        parameters: Vec::new(),
        gaps: Vec::new(),
        off: Vec::new(),
        query: Vec::new(),
        headers: Vec::new(),
        path: Vec::new(),
    };
    builder.read_parameters();
    let path = builder.path_template();
    let body = builder.body();
    builder.check_answer();
    let select = builder.list_in_answer();
    document.refuel();
    let auth = Auth::of(document, operation, server);
    let Builder { mut parameters, gaps, off: unable, query, headers, .. } = builder;
    // A document may say the same of a parameter as it says of the tool: all of it is cleaned here.
    for parameter in &mut parameters {
        let plain = &mut parameter.plain;
        let format = if plain.format.is_empty() { String::new() } else { format!(" ({})", plain.format) };
        plain.description =
            line(&format!("{}{format}", line(&plain.description, PARAMETER_CHARS)), PARAMETER_CHARS);
    }
    let id = operation.id().map(|id| format!(" ({})", line(id, SHOWN))).unwrap_or_default();
    let mut comments = vec![format!("{}{id}", line(&operation.place(), 200))];
    if operation.node.get("deprecated") == Some(&Value::Bool(true)) {
        comments.push("deprecated: the API may drop it".to_owned());
    }
    let has_pages = query.iter().any(|(name, _)| PAGES.contains(&&**name));
    if operation.method == Method::Get && has_pages {
        comments.push(
            "the API seems to have pages: say in `pages` how further ones are read, and drop its parameters"
                .to_owned(),
        );
    }
    let more = gaps.len().saturating_sub(GAPS_MAX);
    comments.extend(gaps.into_iter().take(GAPS_MAX).map(|gap| format!("left out: {gap}")));
    if more > 0 {
        comments.push(format!("left out: {more} more"));
    }
    comments.extend(auth.comments);
    let effect = effect(operation.method);
    let mut off = Vec::new();
    if !effect.is_read() {
        off.push("it may change something".to_owned());
    }
    off.extend(server.doubt());
    off.extend(auth.missing);
    off.extend(unable.into_iter().take(GAPS_MAX));
    let implied = if body.is_some() { Method::Post } else { Method::Get };
    Entry {
        name: name::tool(operation, names),
        comments,
        description: description(operation),
        effect,
        parameters,
        method: (operation.method != implied).then(|| operation.method.name()),
        url: format!("{}{path}", server.url),
        query,
        headers,
        body,
        select,
        auth: auth.table,
        secret: auth.secret,
        plain_http: server.plain_http && server.is_given,
        private: server.private.clone().filter(|_| server.is_given),
        off,
    }
}

/// The effect of a method. HTTP defines PUT and DELETE as idempotent.
fn effect(method: Method) -> Effect {
    match method {
        Method::Get => Effect::Read,
        Method::Put | Method::Delete => Effect::WriteIdempotent,
        Method::Post | Method::Patch => Effect::WriteIrreversible,
    }
}

fn description(operation: &Operation<'_>) -> String {
    let text = |key: &str| line(operation.text(key).unwrap_or_default(), DESCRIPTION_CHARS);
    let (summary, description) = (text("summary"), text("description"));
    let both = match (summary.trim_end_matches('.'), description.as_str()) {
        ("", "") => operation.place(),
        ("", only) => only.to_owned(),
        (only, "") => only.to_owned(),
        (summary, description) if description.starts_with(summary) => description.to_owned(),
        (summary, description) => format!("{summary}. {description}"),
    };
    line(&both, DESCRIPTION_CHARS)
}

impl<'a> Builder<'a> {
    fn leave_out(&mut self, what: &str, why: &Gap, is_required: bool) {
        self.gaps.push(format!("{what}: {why}"));
        if is_required {
            self.off.push(format!("the API requires {what}, which is left out: write it by hand"));
        }
    }

    fn add(&mut self, wire: &str, plain: ParamType, is_required: bool) -> String {
        let name = name::parameter(wire, &mut self.taken);
        if !plain.left_out.is_empty() {
            self.gaps.push(format!("of the parameter `{name}` {}", plain.left_out.join(", ")));
        }
        self.parameters.push(Parameter { name: name.clone(), is_required, plain });
        name
    }

    fn read_parameters(&mut self) {
        let (document, operation) = (self.document, self.operation);
        let list = |node: &'a Value| node.get("parameters").and_then(Value::as_array).into_iter().flatten();
        // Those of the operation replace those of the path.
        let all = list(operation.node).chain(list(operation.item));
        let mut seen = BTreeSet::new();
        for node in all.take(DECLARED_MAX) {
            let parameter = match document.follow(node) {
                Ok(parameter) => parameter,
                Err(why) => {
                    self.leave_out("a parameter", &why, false);
                    continue;
                }
            };
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
            let (wire, place) = (text("name"), text("in"));
            if seen.insert((wire, place)) {
                self.read_parameter(parameter, wire, place);
            }
        }
    }

    fn read_parameter(&mut self, parameter: &Value, wire: &str, place: &str) {
        let is_required = parameter.get("required") == Some(&Value::Bool(true));
        let what = format!("the {} parameter `{}`", line(place, 10), line(wire, SHOWN));
        let is_header = place == "header";
        if is_header && OWN_HEADERS.contains(&&*wire.to_ascii_lowercase()) {
            return;
        }
        match place {
            "path" if !self.operation.path.contains(&format!("{{{wire}}}")) => {
                return self.leave_out(&what, &Gap::because("the path does not have it"), false);
            }
            "path" | "query" | "header" => {}
            "cookie" => return self.leave_out(&what, &Gap::because("a cookie is for `auth`"), is_required),
            _ => return self.leave_out(&what, &Gap::because("it is nowhere in a request"), false),
        }
        let is_token = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if is_header && (!is_token(wire) || !HttpDefinition::may_set_header(wire)) {
            return self.leave_out(&what, &Gap::because("a tool must not set this header"), is_required);
        }
        if self.parameters.len() >= PARAMETERS_MAX && !is_required {
            return self.leave_out(&what, &Gap::because("the tool has too many parameters"), false);
        }
        match self.plain_parameter(parameter, place) {
            Ok(plain) => {
                let name = self.add(wire, plain, is_required || place == "path");
                let pair = (wire.to_owned(), name);
                match place {
                    "path" => self.path.push(pair),
                    "header" => self.headers.push(pair),
                    _ => self.query.push(pair),
                }
            }
            // The path is not complete without it.
            Err(why) if place == "path" => {
                self.gaps.push(format!("of {what} its type: {why}"));
                let name = self.add(wire, ParamType::text(), true);
                self.path.push((wire.to_owned(), name));
            }
            Err(why) => self.leave_out(&what, &why, is_required),
        }
    }

    fn plain_parameter(&self, parameter: &Value, place: &str) -> Result<ParamType, Gap> {
        let Some(schema) = parameter.get("schema") else {
            return match parameter.get("content") {
                Some(_) => Err(Gap::because("its value is a document of its own")),
                None => Ok(ParamType::text()),
            };
        };
        let mut plain = ParamType::read(self.document, schema, true)?;
        let style = parameter.get("style").and_then(Value::as_str);
        let explodes = parameter.get("explode").and_then(Value::as_bool);
        if plain.kind == Kind::Array {
            let separator = match (place, style, explodes) {
                ("query", None | Some("form"), None | Some(true)) => None,
                ("query", None | Some("form"), Some(false))
                | ("path" | "header", None | Some("simple"), _) => Some("commas"),
                ("query", Some("spaceDelimited"), _) => Some("blanks"),
                ("query", Some("pipeDelimited"), _) => Some("|"),
                _ => return Err(Gap::because("it is a list in a form that a tool does not send")),
            };
            if let Some(separator) = separator {
                let before = std::mem::replace(&mut plain, ParamType::text());
                plain.description = format!(
                    "{} (several values with {separator} between them)",
                    line(&before.description, 120)
                );
            }
        } else if !matches!(style, None | Some("form" | "simple")) {
            return Err(Gap::because(format!("its style is `{}`", line(style.unwrap_or_default(), 20))));
        }
        if let Some(own) = parameter.get("description").and_then(Value::as_str)
            && plain.description.is_empty()
        {
            plain.description = own.to_owned();
        }
        let examples = parameter.get("examples").and_then(Value::as_object).into_iter().flatten();
        let examples = examples.take(5).filter_map(|(_, example)| example.get("value"));
        for example in parameter.get("example").into_iter().chain(examples) {
            plain.add_example(example);
        }
        Ok(plain)
    }

    /// The path with the tool's placeholders. Everything else in it is literal.
    fn path_template(&mut self) -> String {
        let mut template = String::new();
        let mut rest = self.operation.path;
        while let Some((before, after)) = rest.split_once('{') {
            template.push_str(&literal(before));
            let Some((wire, after)) = after.split_once('}') else {
                rest = after;
                template.push_str("%7B");
                continue;
            };
            let known = self.path.iter().find(|(name, _)| name == wire).map(|(_, ours)| ours.clone());
            let ours = known.unwrap_or_else(|| {
                self.gaps.push(format!(
                    "of the path parameter `{}` everything: the document does not describe it",
                    line(wire, SHOWN)
                ));
                let ours = self.add(wire, ParamType::text(), true);
                self.path.push((wire.to_owned(), ours.clone()));
                ours
            });
            template.push_str(&format!("{{{ours}}}"));
            rest = after;
        }
        template.push_str(&literal(rest));
        template
    }

    fn body(&mut self) -> Option<Body> {
        let (document, operation) = (self.document, self.operation);
        let node = operation.node.get("requestBody")?;
        let body = match document.follow(node) {
            Ok(body) => body,
            Err(why) => {
                self.leave_out("the body", &why, true);
                return None;
            }
        };
        let is_required = body.get("required") == Some(&Value::Bool(true));
        if operation.method == Method::Get {
            self.leave_out("the body", &Gap::because("a GET has none"), is_required);
            return None;
        }
        let content = body.get("content").and_then(Value::as_object)?;
        let of_kind = |is_kind: fn(&str) -> bool| {
            let essence = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            content.iter().find(|(kind, _)| is_kind(&essence(kind))).map(|(_, media)| media)
        };
        let json = of_kind(|kind| kind == "application/json" || kind == "*/*" || kind.ends_with("+json"));
        let form = of_kind(|kind| kind == "application/x-www-form-urlencoded").filter(|_| json.is_none());
        let Some(media) = json.or(form) else {
            let kinds: Vec<String> =
                content.keys().take(3).map(|kind| format!("`{}`", line(kind, 40))).collect();
            let why = Gap::because(format!("it is {}, and a tool sends JSON or a form", kinds.join(" or ")));
            self.leave_out("the body", &why, is_required);
            return None;
        };
        let schema = media.get("schema")?;
        let body = self.members(schema, is_required).and_then(|body| match (body, form) {
            (body, None) => Ok(body),
            (Body::Members(members), Some(form)) => Ok(Body::Form(self.form_members(members, form))),
            (Body::Whole(_) | Body::Form(_), Some(_)) => Err(Gap::because("it is a form without members")),
        });
        match body {
            Ok(body) => Some(body),
            Err(why) => {
                self.leave_out("the body", &why, is_required);
                None
            }
        }
    }

    /// The names of the members in a form: names of lists in the style of PHP and Rails have brackets.
    fn form_members(&self, members: Vec<(String, String)>, media: &Value) -> Vec<(String, String)> {
        let is_list = |ours: &str| {
            self.parameters.iter().any(|known| known.name == ours && known.plain.kind == Kind::Array)
        };
        let style = |name: &str| media.get("encoding")?.get(name)?.get("style")?.as_str();
        let named = members.into_iter().map(|(name, ours)| match style(&name) {
            Some("deepObject") if is_list(&ours) => (format!("{name}[]"), ours),
            _ => (name, ours),
        });
        named.collect()
    }

    fn members(&mut self, schema: &Value, is_required: bool) -> Result<Body, Gap> {
        let document = self.document;
        let merged = MergedSchema::read(document, schema)?;
        if !merged.is_object() {
            let plain = ParamType::read(document, schema, false)?;
            return Ok(Body::Whole(self.add("body", plain, is_required)));
        }
        if merged.properties.is_empty() {
            return Err(Gap::because("the document does not name its members"));
        }
        if merged.has_variants() {
            self.gaps.push("the members of the body that only some of its forms have".to_owned());
        }
        let mut members = Vec::new();
        // Required ones first: there may be too many.
        let (first, last): (Vec<_>, Vec<_>) =
            merged.properties.iter().partition(|(name, _)| merged.required.contains(name));
        let is_needed = first.len();
        for (at, (name, property)) in first.into_iter().chain(last).take(DECLARED_MAX).enumerate() {
            let is_required = at < is_needed;
            let what = format!("the member `{}` of the body", line(name, SHOWN));
            if self.parameters.len() >= PARAMETERS_MAX {
                self.leave_out(&what, &Gap::because("the tool has too many parameters"), is_required);
                continue;
            }
            match ParamType::read(document, property, false) {
                Ok(plain) => {
                    let ours = self.add(name, plain, is_required);
                    members.push(((*name).to_owned(), ours));
                }
                Err(Gap::OnlyAnswers) => {}
                Err(why) => self.leave_out(&what, &why, is_required),
            }
        }
        Ok(Body::Members(members))
    }

    /// The pointer to the list in the response of a read: the only list of objects in an object that wraps it.
    fn list_in_answer(&self) -> Option<String> {
        let (document, operation) = (self.document, self.operation);
        let path = operation.path.trim_end_matches('/');
        if operation.method != Method::Get || path.ends_with('}') {
            return None;
        }
        let responses = document.members(operation.node.get("responses"))?;
        let (_, good) = responses.iter().find(|(status, _)| status.starts_with('2'))?;
        let content = document.members(Some(good))?.get("content")?.as_object()?;
        let (_, media) = content.iter().find(|(kind, _)| kind.contains("json"))?;
        let answer = MergedSchema::read(document, media.get("schema")?).ok()?;
        if !answer.is_object() {
            return None;
        }
        let is_list = |schema: &Value| {
            MergedSchema::read(document, schema).ok().and_then(|merged| merged.is_list_of_objects(document))
        };
        let mut lists = answer.properties.iter().filter(|(_, schema)| is_list(schema) == Some(true));
        let (name, _) = lists.next()?;
        let is_wrapper = WRAPPERS.contains(name) || path.rsplit('/').next() == Some(*name);
        let is_only = lists.next().is_none();
        let step = name.replace('~', "~0").replace('/', "~1");
        (is_wrapper && is_only).then(|| format!("/{step}"))
    }

    /// Notes it if a read returns a format that a tool cannot read.
    fn check_answer(&mut self) {
        let responses = self.document.members(self.operation.node.get("responses"));
        let good = responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2'));
        let kinds: Vec<&str> = good
            .filter_map(|(_, response)| self.document.members(Some(response))?.get("content")?.as_object())
            .flat_map(|content| content.keys().map(String::as_str))
            .collect();
        let is_readable =
            |kind: &&str| ["json", "xml", "text/", "*/*"].iter().any(|readable| kind.contains(readable));
        if self.operation.method == Method::Get && !kinds.is_empty() && !kinds.iter().any(is_readable) {
            let kind = kinds.first().map(|kind| line(kind, 40)).unwrap_or_default();
            self.off.push(format!("it returns `{kind}`, and a tool reads JSON and text"));
        }
    }
}

/// A literal part of a path, percent-encoded where a URL needs it.
fn literal(text: &str) -> String {
    let mut literal = String::new();
    for byte in text.bytes() {
        match byte {
            _ if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%?".contains(&byte) => {
                literal.push(char::from(byte));
            }
            _ => literal.push_str(&format!("%{byte:02X}")),
        }
    }
    literal
}
