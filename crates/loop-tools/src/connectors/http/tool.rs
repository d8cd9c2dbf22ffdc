//! A tool that makes one request, or reads some pages.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::Effect;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde_json::Value;

use crate::connectors::error::ConnectorError;
use crate::connectors::http::answer::{Content, ResultFormat, content, message};
use crate::connectors::http::auth::Signer;
use crate::connectors::http::client::{Answer, Client, SendError, SentFlag};
use crate::connectors::http::definition::{HttpDefinition, HttpPages};
use crate::connectors::http::guard::{Guard, is_exposed};
use crate::connectors::http::pages::{PageCut, Pager, Step};
use crate::connectors::http::request::{KeyError, RequestTemplate, Unsigned, changes_something};
use crate::connectors::http::template::Template;
use crate::connectors::placeholders::Values;
use crate::connectors::tls::client_config;
use crate::connectors::trouble::Trouble;

/// The most bytes of all answers of a call, unless the definition names another number.
pub const HTTP_BYTES_MAX: usize = 1 << 20;
/// The most bytes that a definition may name.
const BYTES_LIMIT: usize = 64 << 20;
/// The most redirects that a definition may name.
const MAX_REDIRECTS: u32 = 5;
/// The header that names the span of a call.
const TRACEPARENT: &str = "traceparent";
/// How often a read is sent within one call.
const TRIES: u32 = 2;
/// How long a read waits before the second try, where the server does not say.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest wait within a call.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What has to be left of the call's time for a second try.
const LEAST_LEFT: Duration = Duration::from_millis(250);
/// How long a call takes at most outside of a dispatcher.
const TIME_ALONE: Duration = Duration::from_secs(30);

/// A tool over one HTTP request or one GraphQL document: arguments and scope go in by name, a table, lines or a text come
/// out.
///
/// It connects to the hosts that its definition names and to no others, and only to public addresses, also where a name
/// or a redirect leads elsewhere. A place on this machine or in a private network is connected to where the definition
/// names it with host and port. Public addresses are reached through the proxies of the environment (`HTTPS_PROXY`,
/// `NO_PROXY`). A proxy then resolves the names and decides where they lead.
///
/// A read is tried a second time within a call. A write is sent once. A write without an answer may be tried again if
/// its effect permits, and is otherwise [`in_doubt`](ToolResult::in_doubt).
pub struct HttpTool {
    declaration: ToolDeclaration,
    request: RequestTemplate,
    shape: ResultFormat,
    signer: Signer,
    client: Client,
    pages: Option<HttpPages>,
    max_bytes: usize,
    warnings: Vec<String>,
}

/// A call while it runs.
struct Call<'a> {
    tool: &'a HttpTool,
    context: &'a ToolContext,
    credentials: &'a Credentials,
    mask: Secrets,
    departure: SentFlag,
    bytes_left: usize,
}

impl HttpTool {
    /// The tool that `definition` describes, whose parameters are the properties of the declared schema.
    ///
    /// With the effect `write_keyed` each request carries the call's key in `idempotency-key`, unless a template puts
    /// `{call_key}` elsewhere.
    ///
    /// # Errors
    /// Something in the definition is wrong; the error names its key.
    pub fn new(declaration: ToolDeclaration, definition: &HttpDefinition) -> Result<Self, ConnectorError> {
        let tool = declaration.name.to_string();
        let checked = Self::check(declaration, definition);
        checked.map_err(|(key, message)| ConnectorError::Http { tool, key, message })
    }

    /// Warnings for the operator, one line each: addresses in private networks that it may connect to.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn check(declaration: ToolDeclaration, definition: &HttpDefinition) -> Result<Self, KeyError> {
        let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
        let properties = declaration.schema.get("properties").and_then(Value::as_object);
        let parameters: BTreeSet<String> =
            properties.into_iter().flat_map(|members| members.keys().cloned()).collect();
        let effect = declaration.effect;
        let is_read = effect.is_none_or(Effect::is_read);
        let request = RequestTemplate::check(definition, effect, &parameters, declaration.target.as_deref())?;
        if is_read && definition.graphql.as_deref().is_some_and(changes_something) {
            return wrong(
                "graphql",
                "the document changes something, and the effect is `read`; correct one of them",
            );
        }
        let guard = Guard::new(
            request.base(),
            definition.allow.as_deref(),
            &definition.private,
            definition.plain_http,
        );
        let guard = guard.map_err(|(key, message)| (key.to_owned(), message))?;
        if definition.auth.is_some() && is_exposed(request.base()) {
            return wrong(
                "url",
                "the secret in `auth` would go over the network unencrypted; write https://",
            );
        }
        let tls = definition.ca.as_deref().map(|path| client_config(Some(path))).transpose();
        let tls = tls.map_err(|error| ("ca".to_owned(), error.to_string()))?;
        let signer = Signer::new(definition, tls.as_ref())?;
        let redirects = definition.redirects.unwrap_or_default();
        if redirects > MAX_REDIRECTS {
            return wrong("redirects", &format!("it is from 0 to {MAX_REDIRECTS}; correct it"));
        }
        let max_bytes = definition.max_bytes.unwrap_or(HTTP_BYTES_MAX);
        if max_bytes == 0 || max_bytes > BYTES_LIMIT {
            return wrong("max_bytes", &format!("it is from 1 to {BYTES_LIMIT}; correct it"));
        }
        if definition.per_minute == Some(0) {
            return wrong("per_minute", "with 0 no request would ever be sent; write 1 or more");
        }
        if let Some(problem) = definition.pages.as_ref().and_then(HttpPages::problem) {
            return Err(problem);
        }
        if definition.pages.is_some() && !is_read {
            return wrong("pages", "pages are for tools that read; take them out");
        }
        let select = match &definition.select {
            Some(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
                return wrong(
                    "select",
                    &format!("it is not a JSON pointer; write it as `/{}`", pointer.replace('.', "/")),
                );
            }
            None if request.is_graphql() => Some("/data".to_owned()),
            select => select.clone(),
        };
        let line = definition.markdown.as_deref().map(|text| {
            Template::read(text, &mut |name| match name {
                pointer if pointer.is_empty() || pointer.starts_with('/') => Ok(()),
                other => {
                    Err(format!("`{{{other}}}` is not a JSON pointer in braces; write it as `{{/{other}}}`"))
                }
            })
        });
        let line = line.transpose().map_err(|message| ("markdown".to_owned(), message))?;
        let mut warnings: Vec<String> = guard
            .private_places()
            .map(|place| format!("may connect to {place} on this machine or in a private network"))
            .collect();
        if definition.plain_http {
            warnings.push("may connect without encryption (`plain_http`)".to_owned());
        }
        let client = Client::new(guard, redirects, definition.per_minute).with_tls(tls.as_ref());
        let client = if is_read { client } else { client.with_fresh_connections() };
        Ok(Self {
            declaration: declaration.defined_by(&definition.part()),
            client,
            request,
            shape: ResultFormat { select, line },
            signer,
            pages: definition.pages.clone(),
            max_bytes,
            warnings,
        })
    }

    /// The same with other addresses of names.
    #[cfg(test)]
    pub(crate) fn with_names(
        mut self,
        names: std::sync::Arc<dyn crate::connectors::http::guard::NameSource>,
    ) -> Self {
        self.client = self.client.with_names(names);
        self
    }
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool").field("declaration", &self.declaration).finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for HttpTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let mut call = Call {
            tool: self,
            context,
            credentials,
            mask: Secrets::default(),
            departure: SentFlag::default(),
            bytes_left: self.max_bytes,
        };
        // A dispatcher has a clock of its own.
        let alone = async {
            match context.remaining() {
                Some(_) => std::future::pending().await,
                None => tokio::time::sleep(TIME_ALONE).await,
            }
        };
        // What loses is dropped, and its connection with it.
        let (done, cut_off) = tokio::select! {
            biased;
            () = context.cancel.cancelled() => (None, "the call was cancelled"),
            done = call.run(&parameters) => (Some(done), ""),
            () = alone => (None, "the server did not answer in time"),
        };
        let done = done.unwrap_or_else(|| Err(call.cut_off(cut_off)));
        match done {
            Ok(result) => result,
            Err(trouble) => trouble.masked(&call.mask).result(name, title),
        }
    }
}

impl Call<'_> {
    async fn run(&mut self, parameters: &Value) -> Result<ToolResult, Trouble> {
        let tool = self.tool;
        let given = Values { parameters, scope: &self.context.scope, key: &self.context.key };
        let mut prepared = tool.request.prepare(&given)?;
        // What the definition says of it counts.
        if let Some(traceparent) = self.context.traceparent
            && !prepared.headers.contains_key(TRACEPARENT)
            && let Ok(value) = HeaderValue::try_from(traceparent.to_string())
        {
            prepared.headers.insert(TRACEPARENT, value);
        }
        let (value, note) = match &tool.pages {
            Some(pages) => self.pages(pages, &prepared).await?,
            None => {
                let answer = self.exchange(&prepared).await?;
                (self.value(&answer)?, None)
            }
        };
        let value = self.mask.mask_value(value);
        let (name, title) = (&*tool.declaration.name, &*tool.declaration.title);
        let (scope, effect) = (&self.context.scope, tool.declaration.effect);
        Ok(tool.shape.result(name, title, scope, effect, value, note.as_deref()))
    }

    /// The lists of all pages as one, and what is to be said of what was left out.
    async fn pages(
        &mut self,
        pages: &HttpPages,
        prepared: &Unsigned,
    ) -> Result<(Value, Option<String>), Trouble> {
        let mut pager = Pager::new(pages, self.tool.request.is_graphql());
        let mut request = pager.first(prepared);
        let mut all = Vec::new();
        let mut read = 0_u32;
        loop {
            let answer = match self.exchange(&request).await {
                // A list that ends with a page that is not there is a list.
                Err(Trouble::Empty) if read > 0 => return Ok((Value::Array(all), None)),
                other => other?,
            };
            let body = match content(&answer) {
                Ok(Content::Json(body)) => body,
                Ok(Content::Nothing) => return Ok((Value::Array(all), None)),
                Ok(Content::Text(_)) => {
                    return Err(Trouble::Permanent("a page is text, and pages are lists of JSON".into()));
                }
                Err(message) => return Err(Trouble::Permanent(message)),
            };
            self.graphql_errors(&body)?;
            let items = match self.tool.shape.select(Content::Json(body.clone())) {
                Ok(Value::Array(items)) => items,
                Ok(Value::Null) => Vec::new(),
                Ok(_) | Err(_) => {
                    let message = "`select` does not select a list in the page; correct it";
                    return Err(Trouble::Permanent(message.to_owned()));
                }
            };
            read += 1;
            let step = pager.next(&request, &answer, &body, &items);
            // A page that was read already says nothing new.
            if !matches!(step, Step::Cut(PageCut::Repeated)) || read == 1 {
                all.extend(items);
            }
            let cut = match step {
                Step::End => return Ok((Value::Array(all), None)),
                Step::Next(next) => match self.tool.client.check(&next.url) {
                    Ok(()) => {
                        request = *next;
                        continue;
                    }
                    Err(why) => why,
                },
                Step::Cut(why) => why.to_string(),
            };
            let unit = if read == 1 { "page was" } else { "pages were" };
            return Ok((Value::Array(all), Some(format!("Only {read} {unit} read: {cut}"))));
        }
    }

    /// The answer to one request: with a fresh token where the first was refused, and with a second try where that may help
    /// and cannot harm.
    async fn exchange(&mut self, prepared: &Unsigned) -> Result<Answer, Trouble> {
        let tool = self.tool;
        let own = tool.request.base();
        let (mut tries, mut is_fresh) = (1, false);
        loop {
            let signed = tool.signer.sign(self.credentials, &mut self.mask).await;
            let sent = match &signed {
                Ok(signed) => {
                    let limit = self.bytes_left;
                    tool.client
                        .send(prepared, signed, own, limit, &self.departure)
                        .await
                        .map_err(|error| self.unsent(error))
                }
                Err(trouble) => Err(Some(trouble.clone())),
            };
            let trouble = match sent {
                Ok(answer) => {
                    self.bytes_left = self.bytes_left.saturating_sub(answer.body.len());
                    if answer.status == StatusCode::UNAUTHORIZED
                        && !is_fresh
                        && let Ok(signed) = &signed
                        && tool.signer.forget(signed).await
                    {
                        is_fresh = true;
                        continue;
                    }
                    match self.refusal(&answer) {
                        None => return Ok(answer),
                        Some(trouble) => trouble,
                    }
                }
                Err(Some(trouble)) => trouble,
                // It was done, and there is nothing to read of it.
                Err(None) => return Ok(Answer::nothing(own)),
            };
            let wait = match &trouble {
                Trouble::Later(_, after) => *after,
                Trouble::Retryable(_) => PAUSE,
                _ => return Err(trouble),
            };
            let left = self.context.remaining().unwrap_or(TIME_ALONE);
            if !self.is_read() || tries >= TRIES || wait > LONGEST_PAUSE || wait + LEAST_LEFT > left {
                return Err(trouble);
            }
            tries += 1;
            tokio::time::sleep(wait).await;
        }
    }

    fn is_read(&self) -> bool {
        self.tool.declaration.effect.is_none_or(Effect::is_read)
    }

    /// Whether it may be sent again although it may have been done.
    fn is_repeatable(&self) -> bool {
        self.tool.declaration.effect.is_none_or(Effect::is_repeatable)
    }

    /// What follows from a request without an answer. `None`: it was done.
    fn unsent(&self, error: SendError) -> Option<Trouble> {
        Some(match error {
            SendError::Refused(message) if self.departure.has_left() && !self.is_repeatable() => {
                Trouble::InDoubt(message)
            }
            SendError::Refused(message) => Trouble::Permanent(message),
            SendError::Limited(message, wait) => Trouble::Later(message, wait),
            SendError::Unreachable(message) => Trouble::Retryable(message),
            SendError::Lost(message) => self.lost(message),
            // Only the answer to what was done cannot be read.
            SendError::Unreadable { status, .. } if status.is_success() && !self.is_read() => return None,
            SendError::Unreadable { message, passes: true, .. } => self.lost(message),
            SendError::Unreadable { status, message, .. } if status.is_success() => {
                Trouble::Permanent(message)
            }
            SendError::Unreadable { status, .. } => {
                let mut answer = Answer::nothing(self.tool.request.base());
                answer.status = status;
                return self.refusal(&answer).or(Some(Trouble::Permanent(says(status, ""))));
            }
        })
    }

    fn lost(&self, message: String) -> Trouble {
        if self.is_repeatable() { Trouble::Retryable(message) } else { Trouble::InDoubt(message) }
    }

    /// What a call is that was stopped from outside.
    fn cut_off(&self, why: &str) -> Trouble {
        if self.departure.has_left() { self.lost(why.to_owned()) } else { Trouble::Retryable(why.to_owned()) }
    }

    /// What follows from the status of an answer. `None`: it is a success.
    fn refusal(&self, answer: &Answer) -> Option<Trouble> {
        let status = answer.status;
        if status.is_success() {
            return None;
        }
        let text = content(answer).map(|content| message(&self.mask_content(content))).unwrap_or_default();
        Some(match status.as_u16() {
            401 | 403 => Trouble::Permanent(format!("access was refused ({status})")),
            404 | 410 if self.is_read() => Trouble::Empty,
            408 | 425 | 429 => Trouble::passing(says(status, &text), answer.retry_after()),
            500.. if self.is_repeatable() => Trouble::passing(says(status, &text), answer.retry_after()),
            500.. => Trouble::InDoubt(says(status, &text)),
            // What a browser does after a form was taken.
            300..=399 if !self.is_repeatable() => Trouble::InDoubt(says(status, "")),
            301 | 302 | 303 | 307 | 308 => Trouble::Permanent(format!(
                "{}: it redirects, and only a GET is redirected",
                says(status, "")
            )),
            _ => Trouble::Permanent(says(status, &text)),
        })
    }

    /// What of an answer is the result.
    fn value(&self, answer: &Answer) -> Result<Value, Trouble> {
        let content = match content(answer) {
            Ok(content) => content,
            Err(message) if self.is_read() => return Err(Trouble::Permanent(message)),
            Err(_) => Content::Nothing,
        };
        if let Content::Json(body) = &content {
            self.graphql_errors(body)?;
        }
        match self.tool.shape.select(content) {
            Ok(value) => Ok(value),
            Err(message) if self.is_read() => Err(Trouble::Permanent(message)),
            Err(_) => Ok(Value::Null),
        }
    }

    /// The failure that a GraphQL server reports in an answer that is a success for HTTP.
    fn graphql_errors(&self, body: &Value) -> Result<(), Trouble> {
        let errors = body.get("errors").filter(|_| self.tool.request.is_graphql());
        let errors =
            errors.filter(|errors| !errors.is_null() && errors.as_array().is_none_or(|all| !all.is_empty()));
        if errors.is_none() {
            return Ok(());
        }
        let text = message(&self.mask_content(Content::Json(body.clone())));
        let text = if text.is_empty() { "without a message" } else { &text };
        let says = format!("the GraphQL server reports an error: {text}");
        // A document may be done in part.
        let is_partial = body.get("data").is_some_and(|data| !data.is_null());
        if is_partial && !self.is_repeatable() {
            return Err(Trouble::InDoubt(format!("it may have happened in part: {says}")));
        }
        Err(Trouble::Permanent(says))
    }

    fn mask_content(&self, content: Content) -> Content {
        match content {
            Content::Nothing => Content::Nothing,
            Content::Json(value) => Content::Json(self.mask.mask_value(value)),
            Content::Text(text) => Content::Text(self.mask.mask_message(&text)),
        }
    }
}

/// A status in words, with the server's own.
fn says(status: StatusCode, text: &str) -> String {
    if text.is_empty() {
        format!("the server answered {status}")
    } else {
        format!("the server answered {status}: {text}")
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
