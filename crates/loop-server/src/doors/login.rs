//! Login with a one-time code or a token, sessions, and logout.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};
use maud::{DOCTYPE, Markup, html};

use super::form;
use super::guard::{ClientAddress, Doors, IsHttps, Session};
use super::identity::{Identity, unknown};
use super::page_request::is_page;
use super::refusal::Refusal;
use super::sessions::{Holder, SESSION_LIFETIME};
use super::who::of_token;
use crate::pages::PagePlace;
use crate::pages::shell;
use crate::problem::HttpProblem;

pub(super) const LOGIN: &str = "/login";
pub(super) const LOGOUT: &str = "/logout";

pub(super) fn routes(doors: &Doors) -> Router {
    Router::new()
        .route(LOGIN, get(by_code).post(by_token))
        .route(LOGOUT, get(ask).post(leave))
        .with_state(doors.clone())
}

/// `GET /login?code=…`: begins a session for the person at this machine. Without a code it shows the login form.
async fn by_code(
    State(doors): State<Doors>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    Extension(IsHttps(is_https)): Extension<IsHttps>,
    request: Request,
) -> Response {
    let inside = &doors.inside;
    let has_tokens = inside.config.tokens.is_some();
    let query = request.uri().query().unwrap_or_default();
    let Some(code) = form::field(query, "code") else {
        let status = if query.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        return page(status, "Log in", &how(has_tokens), has_tokens);
    };
    // What only looks at a link does not use it up.
    let is_look = request.method() == Method::HEAD || request.headers().contains_key("sec-purpose");
    if is_look {
        return page(StatusCode::OK, "Log in", "Open this address in a browser.", false);
    }
    if !inside.sessions.redeem(&code) {
        let entry = AuditEntry {
            detail: Some("the code is not known, was used or has expired".into()),
            ..unknown(from, AuditAction::Login, AuditResult::Refused)
        };
        if let Err(refused) = inside.fail(entry, from).await {
            return refused.page(has_tokens);
        }
        let text = "This address was used already, or is older than ten minutes. Start the program again (`loopgate view` \
                    or `loopgate serve`) and open the address that it prints.";
        return page(StatusCode::FORBIDDEN, "This address cannot be used", text, has_tokens);
    }
    let identity = inside.local(from);
    begin(&doors, Holder::Local, &identity, is_https, "/").await
}

/// `POST /login` with the field `token`: begins a session for its holder.
async fn by_token(
    State(doors): State<Doors>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    Extension(IsHttps(is_https)): Extension<IsHttps>,
    body: Body,
) -> Response {
    let inside = &doors.inside;
    let has_tokens = inside.config.tokens.is_some();
    let token = to_bytes(body, MAX_FORM).await.ok();
    let form = token.as_deref().and_then(|form| std::str::from_utf8(form).ok()).unwrap_or_default();
    let to = form::field(form, "to").filter(|to| is_page(to));
    let Some(token) = form::field(form, "token") else {
        let text = "The form has one field, `token`, and at most 4,096 bytes. Send it again.";
        return page(StatusCode::BAD_REQUEST, "Log in", text, has_tokens);
    };
    match inside.token(token.trim(), from).await {
        Ok(token) => {
            let to = to.as_deref().unwrap_or("/");
            begin(&doors, Holder::Token(token.hash), &of_token(&token, from), is_https, to).await
        }
        Err(refused) => page_of(refused.problem(), has_tokens, to.as_deref(), false),
    }
}

const MAX_FORM: usize = 4_096;

async fn begin(doors: &Doors, holder: Holder, identity: &Identity, is_https: bool, to: &str) -> Response {
    let inside = &doors.inside;
    let has_tokens = inside.config.tokens.is_some();
    if let Err(refused) = inside.note(identity.entry(AuditAction::Login, AuditResult::Done)).await {
        return refused.page(has_tokens);
    }
    let Ok(session) = inside.sessions.begin(holder) else {
        let text = "The system gives no random bytes. Try again.";
        return page(StatusCode::SERVICE_UNAVAILABLE, "Not available", text, has_tokens);
    };
    let seconds = SESSION_LIFETIME.as_secs();
    see_other(to, inside.set_cookie(session.reveal(), seconds, is_https))
}

/// `GET /logout`: the page with the logout button, to which the other pages link. Only this page has a CSRF token for
/// it, so that the other pages are the same for each caller.
async fn ask(Extension(identity): Extension<Identity>) -> Response {
    let Some(csrf) = &identity.csrf else { return no_session().into_response() };
    let content = html! {
        h1 { "Log out" }
        p { "You are logged in as " (identity.caller.name) ", " (identity.account()) "." }
        form method="post" action=(LOGOUT) {
            input type="hidden" name="csrf" value=(csrf);
            p { button { "Log out" } " " a href="/" { "Back to the runs" } }
        }
    };
    axum::response::Html(shell::page(PagePlace::Server, "Log out", &content)).into_response()
}

fn no_session() -> HttpProblem {
    let detail = "a token has no session that could end; remove the token in place of it";
    HttpProblem::new(StatusCode::CONFLICT, "no-session", "No session", detail)
}

/// `POST /logout`: ends the session.
async fn leave(
    State(doors): State<Doors>,
    Extension(identity): Extension<Identity>,
    session: Option<Extension<Session>>,
    headers: HeaderMap,
) -> Response {
    let Some(Extension(Session(session))) = session else { return no_session().into_response() };
    let inside = &doors.inside;
    inside.sessions.end(&session);
    // It has ended in any case.
    let _ = inside.note(identity.entry(AuditAction::Logout, AuditResult::Done)).await;
    let [_, secure] = &inside.cookie;
    let is_https = form::cookie(&headers, secure).is_some();
    see_other(LOGIN, inside.set_cookie("", 0, is_https))
}

impl super::guard::DoorState {
    fn set_cookie(&self, value: &str, seconds: u64, is_https: bool) -> String {
        let [plain, secure] = &self.cookie;
        let (name, more) = if is_https { (secure, "; Secure") } else { (plain, "") };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{more}")
    }
}

fn see_other(to: &str, cookie: String) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, to);
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// A refusal as a page. `to`: the requested page, to which a login leads. `is_linked`: a link on another site leads to
/// it.
pub(super) fn page_of(
    problem: &HttpProblem,
    has_tokens: bool,
    to: Option<&str>,
    is_linked: bool,
) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::FORBIDDEN);
    let content = html! {
        p { (problem.sentence()) }
        @if let Some(to) = to.filter(|_| is_linked) {
            // A browser sends no cookie where another site leads here, and does with this link.
            p { a href=(to) { "I am logged in: open the page" } }
        }
        @if has_tokens { (form_to(to)) }
    };
    let mut response = written(status, &problem.title, &content);
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl Refusal {
    fn page(&self, has_tokens: bool) -> Response {
        page_of(self.problem(), has_tokens, None, false)
    }
}

fn how(has_tokens: bool) -> Arc<str> {
    match has_tokens {
        true => "Paste your token. The session lasts twelve hours.".into(),
        false => {
            "Start the program again (`loopgate view` or `loopgate serve`) and open the address that it prints.".into()
        }
    }
}

fn page(status: StatusCode, title: &str, text: &str, has_form: bool) -> Response {
    written(status, title, &html! { p { (text) } @if has_form { (form_to(None)) } })
}

/// The form for a token. After login the browser goes `to` a page.
fn form_to(to: Option<&str>) -> Markup {
    html! {
        form method="post" action=(LOGIN) {
            @if let Some(to) = to { input type="hidden" name="to" value=(to); }
            p {
                label for="token" { "Token " }
                input id="token" name="token" type="password" autocomplete="current-password" required;
                " "
                button { "Log in" }
            }
        }
    }
}

/// A page of the door with this title and content.
fn written(status: StatusCode, title: &str, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Loopgate" }
                link rel="stylesheet" href="/assets/style.css";
            }
            body {
                main {
                    h1 { (title) }
                    (content)
                }
            }
        }
    };
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, kind, page.into_string()).into_response()
}
