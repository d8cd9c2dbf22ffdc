//! The route of the list of runs.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use loop_core::types::Digest;
use loop_runtime::journal::Journal as _;
use loop_runtime::journal::list::SearchTerms;
use serde::Deserialize;

use super::{Pages, failed, made, no_store, shown};
use crate::caller::{Caller, Role};
use crate::engine::INDEXES;
use crate::pages::runs::{KeptRuns, SearchHits};
use crate::pages::{RunsFilter, RunsPage, runs};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    #[serde(flatten)]
    filter: RunsFilter,
    before: Option<String>,
}

/// `GET /`. It has an ETag, so that an open page is reloaded only if it changed.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let found = pages.found(&query.filter.words).await?;
    let kept = pages.kept().await?;
    let ListQuery { filter, before } = query;
    let read = Arc::clone(&kept);
    let page = made(move || {
        let sees = |domain: &str| caller.may(Role::Read, domain);
        RunsPage::kept(&kept, &sees, filter, before.as_deref(), found)
    });
    let mut page = page.await?;
    let lines = pages.source.journal.lines(&page.ids()).await.map_err(|_| failed())?;
    page.count_entries(&lines);
    page.set_labels(pages.source.journal.labels(Some(&page.ids())).await.map_err(|_| failed())?);
    let (html, tag) = made(move || {
        let html = runs(&page);
        let tag = format!("\"{}\"", Digest::of("page", html.as_bytes()).short());
        (html, tag)
    })
    .await?;
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { no_store(StatusCode::NOT_MODIFIED, ()) } else { shown(StatusCode::OK, html) };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.extensions_mut().insert(read);
    Ok(response)
}

impl Pages {
    /// The runs whose document or evidence contains these words.
    async fn found(&self, words: &str) -> Result<SearchHits, HttpProblem> {
        if words.trim().is_empty() {
            return Ok(SearchHits::default());
        }
        let terms = match SearchTerms::parse(words) {
            Ok(terms) => terms,
            Err(wrong) => return Ok(SearchHits { wrong: Some(wrong.to_owned()), ..SearchHits::default() }),
        };
        let journal = &self.source.journal;
        let left = journal.index_words(INDEXES).await.map_err(|_| failed())?;
        let runs = journal.runs_with(&terms).await.map_err(|_| failed())?;
        Ok(SearchHits { runs: Some(runs), left, wrong: None })
    }

    /// The current runs.
    pub(super) async fn kept(&self) -> Result<Arc<KeptRuns>, HttpProblem> {
        let kept = self.known.now(&self.source.journal, self.source.engine.as_ref());
        kept.await.map_err(|_| failed())
    }
}
