//! The pages after the first: where the next one is, and when to stop.

use std::collections::BTreeSet;
use std::fmt;

use reqwest::header::LINK;
use serde_json::Value;
use url::Url;

use crate::connectors::http::client::Answer;
use crate::connectors::http::definition::{HttpPages, HttpPaging};
use crate::connectors::http::request::Unsigned;
use crate::connectors::http::template::text_of;

/// The most pages that a tool may read.
pub(crate) const MAX_PAGES: u32 = 100;

/// Walks from page to page.
#[derive(Debug)]
pub(crate) struct Pager<'a> {
    pages: &'a HttpPages,
    is_graphql: bool,
    read: u32,
    /// What named the pages so far: a server that names one of them again goes in a cycle.
    seen: BTreeSet<String>,
}

/// What comes after a page.
#[derive(Debug)]
pub(crate) enum Step {
    Next(Box<Unsigned>),
    /// That was the last one.
    End,
    /// There is more, and it is not read for this reason.
    Cut(PageCut),
}

/// Why no further page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageCut {
    /// The server names a page that was read before.
    Repeated,
    /// The maximum number of pages is read, and the server names another page.
    More,
    /// The maximum number of pages is read, and whether there is another page is unknown.
    MayBeMore,
}

impl fmt::Display for PageCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeated => "the server names a page that was read already",
            Self::More => "there are more",
            Self::MayBeMore => "there may be more",
        })
    }
}

impl HttpPages {
    /// What is wrong with them: the key, and what to do about it.
    pub(crate) fn problem(&self) -> Option<(String, String)> {
        let is_pointer = |pointer: &str| pointer.starts_with('/');
        let wrong = |key: &str, message: &str| Some((format!("pages.{key}"), message.to_owned()));
        if self.max == 0 || self.max > MAX_PAGES {
            return wrong("max", &format!("it is from 1 to {MAX_PAGES}; correct it"));
        }
        match &self.by {
            HttpPaging::Link => None,
            HttpPaging::Cursor { pointer, .. } if !is_pointer(pointer) => {
                wrong("cursor", "it is not a JSON pointer; write it as `/next`")
            }
            HttpPaging::Cursor { more: Some(more), .. } if !is_pointer(more) => {
                wrong("more", "it is not a JSON pointer; write it as `/has_more`")
            }
            HttpPaging::Cursor { parameter, .. } | HttpPaging::Number { parameter, .. }
                if parameter.trim().is_empty() =>
            {
                wrong("parameter", "the name is empty; correct it")
            }
            HttpPaging::Cursor { .. } | HttpPaging::Number { .. } => None,
        }
    }
}

impl<'a> Pager<'a> {
    pub(crate) fn new(pages: &'a HttpPages, is_graphql: bool) -> Self {
        Self { pages, is_graphql, read: 0, seen: BTreeSet::new() }
    }

    /// The request for the first page.
    pub(crate) fn first(&mut self, prepared: &Unsigned) -> Unsigned {
        let first = match &self.pages.by {
            HttpPaging::Number { parameter, first } => {
                prepared.with_page(self.is_graphql, parameter, &Value::from(*first))
            }
            HttpPaging::Link | HttpPaging::Cursor { .. } => prepared.clone(),
        };
        if self.pages.by == HttpPaging::Link {
            self.seen.insert(first.url.to_string());
        }
        first
    }

    /// What comes after a page with this answer, whose body is `body` and whose list has `items` in it.
    pub(crate) fn next(
        &mut self,
        prepared: &Unsigned,
        answer: &Answer,
        body: &Value,
        items: &[Value],
    ) -> Step {
        self.read += 1;
        let (name, next) = match &self.pages.by {
            HttpPaging::Link => {
                let Some(url) = next_link(answer) else { return Step::End };
                let mut next = prepared.clone();
                next.url = url;
                (next.url.to_string(), next)
            }
            HttpPaging::Cursor { pointer, parameter, more } => {
                if more.as_ref().is_some_and(|more| body.pointer(more) == Some(&Value::Bool(false))) {
                    return Step::End;
                }
                let cursor = match body.pointer(pointer) {
                    None | Some(Value::Null | Value::Bool(false)) => return Step::End,
                    Some(cursor) => cursor,
                };
                let name = text_of(cursor);
                if name.is_empty() {
                    return Step::End;
                }
                (name, prepared.with_page(self.is_graphql, parameter, cursor))
            }
            HttpPaging::Number { parameter, first } => {
                if items.is_empty() {
                    return Step::End;
                }
                let number = Value::from(first.saturating_add(self.read));
                // A server that does not know the parameter answers with the first page again.
                (
                    loop_core::types::canonical(&Value::from(items)),
                    prepared.with_page(self.is_graphql, parameter, &number),
                )
            }
        };
        if !self.seen.insert(name) {
            return Step::Cut(PageCut::Repeated);
        }
        if self.read >= self.pages.max {
            let is_known = !matches!(self.pages.by, HttpPaging::Number { .. });
            return Step::Cut(if is_known { PageCut::More } else { PageCut::MayBeMore });
        }
        Step::Next(Box::new(next))
    }
}

/// Where the header `link` says that the next page is.
fn next_link(answer: &Answer) -> Option<Url> {
    let links = answer.headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    links.flat_map(links_of).find_map(|(target, parameters)| {
        let is_next = parameters.split(';').any(|parameter| {
            let Some((name, value)) = parameter.split_once('=') else { return false };
            let mut kinds = value.trim().trim_matches('"').split_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && kinds.any(|kind| kind.eq_ignore_ascii_case("next"))
        });
        let mut url = answer.url.join(target).ok().filter(|_| is_next)?;
        url.set_fragment(None);
        Some(url)
    })
}

/// The links of a header: each target, and what is said of it.
fn links_of(header: &str) -> Vec<(&str, &str)> {
    let mut links = Vec::new();
    let mut rest = header;
    while let Some((target, after)) = rest.split_once('<').and_then(|(_, link)| link.split_once('>')) {
        // The next link begins behind a comma; a comma within quotes is not followed by `<`.
        let end = after
            .match_indices(',')
            .find(|(at, _)| after.get(at + 1..).is_some_and(|next| next.trim_start().starts_with('<')));
        let (parameters, next) = match end {
            Some((at, _)) => (after.get(..at).unwrap_or_default(), after.get(at + 1..).unwrap_or_default()),
            None => (after, ""),
        };
        links.push((target.trim(), parameters));
        rest = next;
    }
    links
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
