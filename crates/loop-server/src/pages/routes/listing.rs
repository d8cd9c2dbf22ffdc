//! The list of runs.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use loop_runtime::journal::Journal as _;
use serde::Deserialize;

use super::{Pages, failed, made, shown};
use crate::caller::{Caller, Role};
use crate::pages::runs::KeptRuns;
use crate::pages::{RunsFilter, RunsPage, runs};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    domain: String,
    outcome: String,
    tag: String,
    text: String,
    since: String,
    before: Option<String>,
}

/// `GET /`.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListQuery>,
) -> Result<Response, HttpProblem> {
    let kept = pages.kept().await?;
    let ListQuery { domain, outcome, tag, text, since, before } = query;
    let filter = RunsFilter { domain, outcome, tag, text, since };
    let page = made(move || {
        let sees = |domain: &str| caller.may(Role::Read, domain);
        RunsPage::kept(&kept, &sees, filter, before.as_deref())
    });
    let mut page = page.await?;
    let lines = pages.source.journal.lines(&page.ids()).await.map_err(|_| failed())?;
    page.count_entries(&lines);
    page.set_labels(pages.source.journal.labels(Some(&page.ids())).await.map_err(|_| failed())?);
    Ok(shown(StatusCode::OK, made(move || runs(&page)).await?))
}

impl Pages {
    /// The runs as they are now.
    pub(super) async fn kept(&self) -> Result<Arc<KeptRuns>, HttpProblem> {
        let kept = self.known.now(&self.source.journal, self.source.engine.as_ref());
        kept.await.map_err(|_| failed())
    }
}
