//! Routes of the domains that a caller may see.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::begin::unknown_domain;
use super::{Pages, made, shown};
use crate::caller::{Caller, Role};
use crate::doors::Identity;
use crate::engine::{DomainLoad, Engine, ServedDomain};
use crate::pages::domain::{self, DomainRow, MayDo};
use crate::pages::text::counted;
use crate::problem::HttpProblem;

/// `GET /domains`.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpProblem> {
    let of = |engine| {
        let seen = Engine::domains(engine).filter(|served| caller.sees(served.name()));
        seen.map(|served| row(engine, &caller, served)).collect()
    };
    let rows: Vec<DomainRow> = pages.source.engine.as_ref().map(of).unwrap_or_default();
    Ok(shown(StatusCode::OK, domain::domains(&rows)))
}

/// `GET /domains/{domain}`.
pub(super) async fn one(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Result<Response, HttpProblem> {
    let engine = pages.engine()?;
    let served =
        engine.domain(&name).filter(|served| caller.sees(served.name())).ok_or_else(unknown_domain)?;
    let bound = pages.bound(&engine, served, &identity).await?;
    let (row, spec) = (row(&engine, &caller, served), std::sync::Arc::clone(served.runner.spec()));
    Ok(shown(StatusCode::OK, made(move || domain::domain(&spec, &row, &bound)).await?))
}

fn row(engine: &Engine, caller: &Caller, served: &ServedDomain) -> DomainRow {
    let name = served.name();
    let DomainLoad { queued, running, waiting, .. } =
        engine.load().domains.get(name).copied().unwrap_or_default();
    DomainRow {
        name: name.to_string(),
        goal: served.domain.spec.goal.to_string(),
        limits: served.domain.limits_in_words(),
        open: format!(
            "{queued} queued, {running} running, {} for a person",
            counted(waiting, "waits", "wait")
        ),
        may: MayDo { begin: caller.may(Role::Submit, name), read: caller.may(Role::Read, name) },
    }
}
