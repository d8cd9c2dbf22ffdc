//! The route of links in hook messages, which redirects to the page of the decision while it is open.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use loop_core::types::Approver;
use loop_runtime::journal::replay;
use loop_runtime::people::PersonRequest;

use super::{Pages, failed, made, see};
use crate::caller::Caller;
use crate::clock::unix_ms;
use crate::doors::Identity;
use crate::links::LinkTarget;
use crate::pages::encoded;
use crate::pages::run::anchor;
use crate::problem::HttpProblem;

/// `GET /links/{token}`. It changes nothing.
pub(super) async fn open(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path(token): Path<String>,
) -> Result<Response, HttpProblem> {
    let target = LinkTarget::read(&pages.source.journal, &token).ok_or_else(foreign)?;
    // A link to what the caller does not see is one of nowhere.
    let (id, recorded) = pages.asked(&caller, &target.run).await.map_err(|problem| match problem.status {
        404 => foreign(),
        _ => problem,
    })?;
    if target.until_unix_ms <= unix_ms() {
        return Err(over("expired-link", "Link expired", "this link has expired; see what waits now"));
    }
    let run = id.clone();
    let state = made(move || replay(&id, &recorded).map_err(|_| failed())).await??;
    let is_it =
        |it: &PersonRequest| it.key.to_string() == target.action && it.binding.to_string() == target.binding;
    let requested = state.requested().into_iter().find(is_it);
    let requested = requested.ok_or_else(|| {
        over(
            "used-link",
            "Link used",
            "what this link is about has been decided, or waits no more; see what waits now",
        )
    })?;
    let account = identity.map(|Extension(identity)| identity.approver().account).unwrap_or_default();
    let is_own = |by: &Approver| !account.is_empty() && by.account == account;
    if requested.approvers.iter().any(is_own) {
        return Err(over(
            "used-link",
            "Link used",
            "you have approved this already, and another person has to; see what waits now",
        ));
    }
    see(&format!("/runs/{}/approve#{}", encoded(run.as_str()), anchor(requested.key)))
}

fn foreign() -> HttpProblem {
    let detail = "this is not a link of this server, or not for you; see what waits";
    HttpProblem::new(StatusCode::NOT_FOUND, "unknown-link", "Unknown link", detail)
}

fn over(name: &'static str, title: &'static str, detail: &'static str) -> HttpProblem {
    HttpProblem::new(StatusCode::GONE, name, title, detail)
}
