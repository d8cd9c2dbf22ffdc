//! Protection against cross-site request forgery (CSRF). A change with a cookie must contain the token of its session's
//! page, which no other site knows: in a header, in a form, or in the first part of a form with files.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};

use futures::{StreamExt as _, stream};

use super::body::{BodyCut, limited};
use super::form;
use super::refusal::{Refusal, cut_body, forbidden, malformed};
use super::sessions::is_csrf_of;

/// Checks that a change with a cookie contains the CSRF token of the session.
pub(super) async fn check_csrf(request: Request, session: &str, time: Duration) -> Result<Request, Refusal> {
    let missing = || forbidden("the form has expired or is not of this session; load its page again");
    let given: Vec<_> = request.headers().get_all("x-csrf-token").iter().collect();
    if !given.is_empty() {
        let is_own = |given: &&HeaderValue| given.to_str().is_ok_and(|given| is_csrf_of(session, given));
        let is_own = given.iter().all(is_own);
        return if is_own { Ok(request) } else { Err(missing()) };
    }
    if let Some(boundary) = form::boundary(request.headers()) {
        return check_first_part(request, session, &boundary, time).await?.ok_or_else(missing);
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(missing());
    }
    let (parts, body) = request.into_parts();
    let (body, fate) = limited(body, MAX_FORM, time);
    let bytes = to_bytes(body, usize::MAX).await.map_err(|_| match fate.cut() {
        Some(cut) => Refusal::from(cut_body(cut)).closing(),
        None => not_whole(),
    })?;
    let given = std::str::from_utf8(&bytes).ok().and_then(|form| form::field(form, "csrf"));
    if !given.is_some_and(|given| is_csrf_of(session, &given)) {
        return Err(missing());
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Checks the first part of a form with files, so that nothing more is read before the token is checked. `None`: the
/// first part is not the token.
async fn check_first_part(
    request: Request,
    session: &str,
    boundary: &str,
    time: Duration,
) -> Result<Option<Request>, Refusal> {
    let (parts, body) = request.into_parts();
    let mut rest = body.into_data_stream();
    let mut read: Vec<u8> = Vec::new();
    let reading = async {
        loop {
            if let Some((part, _)) = form::part(&read, boundary) {
                let given = std::str::from_utf8(part.bytes).ok().filter(|_| part.name == "csrf");
                return Ok(given.is_some_and(|given| is_csrf_of(session, given)));
            }
            if read.len() > MAX_FIRST_PART {
                return Ok(false);
            }
            match rest.next().await {
                Some(Ok(bytes)) => read.extend_from_slice(&bytes),
                Some(Err(_)) | None => return Err(not_whole()),
            }
        }
    };
    let is_own = tokio::time::timeout(time, reading).await;
    if !is_own.map_err(|_| Refusal::from(cut_body(BodyCut::TooSlow)).closing())?? {
        return Ok(None);
    }
    let whole = stream::once(async { Ok(Bytes::from(read)) }).chain(rest);
    Ok(Some(Request::from_parts(parts, Body::from_stream(whole))))
}

fn not_whole() -> Refusal {
    malformed(StatusCode::BAD_REQUEST, "the body is not whole; send it again")
}

/// The most bytes of a form that is read before its token is checked.
const MAX_FORM: u64 = 256 << 10;
/// The most bytes of the first part of a form with files.
const MAX_FIRST_PART: usize = 4 << 10;
/// The time limit for reading it.
pub(super) const FORM_TIME: Duration = Duration::from_secs(10);
