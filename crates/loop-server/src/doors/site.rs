//! Origin checks: whether a request is from a page of this server, by the headers that browsers set.

use axum::http::{HeaderMap, HeaderValue, header};

use super::hosts::Name;
use super::refusal::{Refusal, forbidden};

/// Fails for requests from pages of another origin, with whatever credentials. Forms of this server's pages send the
/// origin `null`, since the pages have the policy `no-referrer`. For these, the browser says in Sec-Fetch-Site, which
/// no page can set, that they are of the same origin.
pub(super) fn check_origin(headers: &HeaderMap, name: &Name) -> Result<(), Refusal> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if origin.to_str().is_ok_and(|origin| name.is_origin(origin)) => Ok(()),
        (Some(origin), None) if origin.as_bytes() == b"null" && is_same_origin(headers) => Ok(()),
        _ => Err(forbidden("the request comes from a page of another origin; open the page of this server")),
    }
}

/// Fails for requests with a cookie that neither a page of this server nor the address bar sent.
pub(super) fn check_site(headers: &HeaderMap, name: &Name, is_change: bool) -> Result<(), Refusal> {
    let site = headers.get(SITE).map(HeaderValue::as_bytes);
    let is_own = match site {
        Some(b"same-origin") => true,
        // A person who types an address changes nothing.
        Some(b"none") => !is_change,
        Some(_) => false,
        // Browsers without it, and programs, name the origin when they change something.
        None => {
            let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
            !is_change || origin.is_some_and(|origin| name.is_origin(origin))
        }
    };
    if is_own {
        Ok(())
    } else {
        Err(forbidden("the request does not come from a page of this server; open its page"))
    }
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    matches!((sites.next(), sites.next()), (Some(site), None) if site.as_bytes() == b"same-origin")
}

pub(super) const SITE: &str = "sec-fetch-site";
