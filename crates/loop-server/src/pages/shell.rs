//! The layout of every page: its head with the content security policy, the navigation, and the link to skip it.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::text::t;
#[cfg(feature = "http")]
use super::text::{counted, grouped};
#[cfg(feature = "http")]
use crate::caller::{Caller, Role};
#[cfg(feature = "http")]
use crate::problem::HttpProblem;

/// The CSS of every page.
pub const STYLE: &str = include_str!("assets/style.css");
/// The script of every page. Each page also works without it.
pub const SCRIPT: &str = include_str!("assets/page.js");

/// Where a page is: in a file of its own, or on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PagePlace {
    /// In a file that contains the CSS and the script.
    #[default]
    File,
    /// On a server, which serves the CSS and the script and links to the other pages.
    Server,
}

impl PagePlace {
    pub(super) fn is_server(self) -> bool {
        self == Self::Server
    }
}

/// The content security policy of a page in a file: only its own CSS and script.
static FILE_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

/// The content security policy that a server sends with each page.
pub const SERVER_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                                 form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The placeholder for the name of the reader. A page is the same for each reader, and the door inserts the name.
pub(crate) const READER: &str = "<span class=\"reader\"></span>";

/// The number of waiting runs that the reader may see.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingCount(pub(crate) usize);

/// The reader of a page, their roles, and what waits for a person. `waiting`: how much. `None`: it was not counted.
#[cfg(feature = "http")]
pub(crate) fn reader(account: &str, caller: &Caller, waiting: Option<WaitingCount>) -> String {
    let roles: Vec<&str> = caller.roles.iter().map(|role| role.name()).collect();
    let content = html! {
        @if caller.is(Role::Read) || caller.is(Role::Approve) {
            a href="/pending" {
                "Pending"
                @if let Some(WaitingCount(count)) = waiting {
                    " " span.pill.warn[count > 0] { (grouped(count as u64)) }
                    span.sr { " " (if count == 1 { "run waits" } else { "runs wait" }) " for a person" }
                }
            }
        }
        span.who { (t(account)) " (" (roles.join(", ")) ")" }
    };
    content.into_string()
}

/// The page of a problem, with links back from the path of the request.
#[cfg(feature = "http")]
pub(crate) fn trouble(problem: &HttpProblem, path: &str) -> String {
    let mut segments = path.split('/').skip(1);
    let run = match (segments.next(), segments.next()) {
        (Some("runs"), Some(run)) if problem.status != 404 && !run.is_empty() => Some(run),
        _ => None,
    };
    let is_path = problem.kind == "/problems/not-found";
    let content = html! {
        h1 { (t(&problem.title)) }
        p.notice.bad { @if is_path { "There is nothing at this address." } @else { (t(&problem.sentence())) } }
        @if let Some(seconds) = problem.retry_after { p { "It can be tried again in " (counted(seconds, "second", "seconds")) "." } }
        ul.links {
            @if let Some(run) = run { li { a href={ "/runs/" (t(run)) } { "The page of the run" } } }
            li { a href="/pending" { "What waits for a person" } }
            li { a href="/" { "All runs" } }
        }
    };
    page(PagePlace::Server, &problem.title, &content)
}

/// A whole page.
pub(crate) fn page(place: PagePlace, title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                @match place {
                    PagePlace::File => { meta http-equiv="Content-Security-Policy" content=(*FILE_POLICY); }
                    PagePlace::Server => { link rel="stylesheet" href="/assets/style.css"; }
                }
                title { (t(title)) }
                @match place {
                    PagePlace::File => { style { (PreEscaped(STYLE)) } }
                    PagePlace::Server => { script src="/assets/page.js" defer {} }
                }
            }
            body {
                a.skip href="#content" { "Skip to content" }
                @if place.is_server() {
                    header.site {
                        nav aria-label="Pages" {
                            a.brand href="/" { "Loopgate" }
                            a href="/" { "Runs" }
                            a href="/compare" { "Compare" }
                            a href="/domains" { "Domains" }
                            a href="/evals" { "Evals" }
                            (PreEscaped(READER))
                            a.last href="/logout" { "Log out" }
                        }
                    }
                }
                main #content tabindex="-1" { (content) }
                @if place == PagePlace::File {
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}

/// The beginning and the end of a page, around its content.
#[cfg(feature = "http")]
pub(super) fn around(place: PagePlace, title: &str) -> (String, String) {
    // No text of a page has this character: each such is spelt.
    let whole = page(place, title, &PreEscaped("\0".to_owned()));
    let (begin, end) = whole.split_once('\0').unwrap_or((&whole, ""));
    (begin.to_owned(), end.to_owned())
}

/// The SHA-256 of a text in Base64, as a policy names it.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
