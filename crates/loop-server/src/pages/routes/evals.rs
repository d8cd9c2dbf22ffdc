//! Routes of stored evals. A caller sees an eval if they may read the domains of all its cases.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use loop_eval::eval::{Baseline, compare};
use loop_eval::report::{EvalReport, page_content};
use loop_runtime::journal::evals::KeptEval;
use serde::Deserialize;

use super::{Pages, made, shown};
use crate::caller::{Caller, Role};
use crate::pages::evals;
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EvalQuery {
    /// The id of the baseline.
    baseline: String,
}

/// `GET /evals`.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpProblem> {
    let kept = pages.evals(&caller).await?;
    Ok(shown(StatusCode::OK, evals::list(&kept)))
}

/// `GET /evals/{id}`.
pub(super) async fn one(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(EvalQuery { baseline }): Query<EvalQuery>,
) -> Result<Response, HttpProblem> {
    let (eval, report) = pages.eval(&caller, &id).await?;
    let before = match &*baseline {
        "" => None,
        id => Some(pages.eval(&caller, id).await?),
    };
    let mut others = pages.evals(&caller).await?;
    others.retain(|other| other.id != eval.id);
    let html = made(move || {
        let results = EvalReport::results(&report).map_err(|_| unreadable())?;
        let before = before.map(|(before, report)| {
            let name = evals::title(&before);
            let baseline = Baseline::parse(&report, &name).map_err(|_| unreadable())?;
            Ok::<_, HttpProblem>(compare(&baseline, &results, &name))
        });
        let report = EvalReport::new(results, before.transpose()?);
        Ok::<_, HttpProblem>(evals::one(&eval, &others, &baseline, page_content(&report, &eval.name)))
    });
    Ok(shown(StatusCode::OK, html.await??))
}

impl Pages {
    /// The evals that the caller may see, newest first.
    async fn evals(&self, caller: &Caller) -> Result<Vec<KeptEval>, HttpProblem> {
        let mut kept = self.source.journal.evals().await.map_err(|_| unreadable())?;
        kept.retain(|eval| sees(caller, eval));
        Ok(kept)
    }

    async fn eval(&self, caller: &Caller, id: &str) -> Result<(KeptEval, Arc<str>), HttpProblem> {
        let found = self.source.journal.eval(id).await.map_err(|_| unreadable())?;
        let found = found.filter(|(eval, _)| sees(caller, eval));
        found.map(|(eval, report)| (eval, report.into())).ok_or_else(|| {
            let detail = "there is no such eval; /evals lists the evals";
            HttpProblem::new(StatusCode::NOT_FOUND, "unknown-eval", "Unknown eval", detail)
        })
    }
}

fn sees(caller: &Caller, eval: &KeptEval) -> bool {
    caller.is(Role::Read) && eval.domains.iter().all(|domain| caller.sees(domain))
}

fn unreadable() -> HttpProblem {
    let detail = "the eval cannot be read; the operator runs it again with `loopgate eval --keep NAME`";
    HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", "Not readable", detail)
}
