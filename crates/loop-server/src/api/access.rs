//! Authorisation of the API: which caller may do what. To a caller, a run of a domain that they may not see does not
//! exist.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use loop_core::types::{Approver, RunId};
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};
use serde::de::DeserializeOwned;
use tokio::task::JoinError;

use super::Api;
use super::refuse::unknown_run;
use crate::caller::{Caller, Role};
use crate::doors::{Audit, Identity, short};
use crate::engine::{Engine, Submitted};
use crate::problem::HttpProblem;

/// The right that a route needs for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It shows the run.
    Read,
    /// It stops, continues, instructs, forks or retries the run. The submitter may do this too.
    Steer,
    /// It approves, denies or answers a request of the run.
    Decide,
    /// It labels the run.
    Label,
}

/// The caller of a request, as the door has authenticated them.
#[derive(Clone, Debug)]
pub(super) struct ApiCaller(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for ApiCaller {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(unauthorized)
    }
}

/// What the door knows of a caller besides the [`Caller`]: the approver, the address and the budget. `None` in a router
/// without a door.
#[derive(Clone, Debug)]
pub(crate) struct DoorIdentity(pub(crate) Option<Identity>);

impl<S: Send + Sync> FromRequestParts<S> for DoorIdentity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Identity>().cloned()))
    }
}

/// A request for a run, before its body is read.
pub(super) struct RunTarget {
    pub(super) api: Api,
    pub(super) known: ApiCaller,
    pub(super) checked: DoorIdentity,
    /// The id of the run, as the path has it.
    pub(super) id: String,
}

impl RunTarget {
    /// The run, if the caller may do this with it.
    pub(super) async fn run(self, access: Access) -> Result<(Api, RunId), HttpProblem> {
        let run = self.known.run(&self.api, &self.id, access).await?;
        Ok((self.api, run))
    }
}

impl FromRequestParts<Api> for RunTarget {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Response> {
        let known = ApiCaller::from_request_parts(parts, api).await.map_err(IntoResponse::into_response)?;
        let Ok(checked) = DoorIdentity::from_request_parts(parts, api).await;
        let path = Path::from_request_parts(parts, api).await;
        let Path(id) = path.map_err(IntoResponse::into_response)?;
        Ok(Self { api: api.clone(), known, checked, id })
    }
}

impl DoorIdentity {
    /// Who approves.
    pub(super) fn approver(&self, known: &ApiCaller) -> Approver {
        match &self.0 {
            Some(identity) => identity.approver(),
            // Nothing was checked, so it does not count where two people have to approve.
            None => Approver { account: "".into(), user: Arc::clone(&known.0.name), claim: None },
        }
    }

    /// Runs `work` and records it in the audit log. Both finish even if the client closes the connection, which drops
    /// the handler.
    pub(crate) async fn done<T: Send + Sync + 'static>(
        self,
        audit: &Audit,
        of: AuditSubject,
        action: impl Future<Output = Result<T, HttpProblem>> + Send + 'static,
    ) -> Result<T, HttpProblem> {
        self.done_saying(audit, of, None, action).await
    }

    /// [`done`](Self::done), with these words in the audit entry.
    pub(crate) async fn done_saying<T: Send + Sync + 'static>(
        self,
        audit: &Audit,
        of: AuditSubject,
        words: Option<String>,
        action: impl Future<Output = Result<T, HttpProblem>> + Send + 'static,
    ) -> Result<T, HttpProblem> {
        let audit = audit.clone();
        let task = tokio::spawn(async move {
            let done = action.await;
            let (result, why) = result_of(&done);
            self.record(&audit, of, result, why.or(words.as_deref())).await;
            done
        });
        of_task(task.await)
    }

    /// Reads the body of a request that changes something. A failure is recorded in the audit log.
    pub(super) async fn body<T: DeserializeOwned>(
        &self,
        api: &Api,
        of: &AuditSubject,
        body: Body,
    ) -> Result<T, HttpProblem> {
        let read = super::body::json(api, body).await;
        if let Err(problem) = &read {
            self.record(&api.audit, of.clone(), AuditResult::Refused, Some(&problem.detail)).await;
        }
        read
    }

    /// Refuses a request that changes something, and records it.
    pub(super) async fn refuse<T>(
        &self,
        api: &Api,
        of: AuditSubject,
        problem: HttpProblem,
    ) -> Result<T, HttpProblem> {
        self.record(&api.audit, of, AuditResult::Refused, Some(&problem.detail)).await;
        Err(problem)
    }

    /// Records the result of a submission. For an accepted one, the entry has these words.
    pub(super) async fn record_submitted(
        &self,
        audit: &Audit,
        of: AuditSubject,
        words: Option<&str>,
        submitted: &Result<Submitted, HttpProblem>,
    ) {
        let (result, detail) = match submitted {
            Ok(Submitted { is_new: true, .. }) => (AuditResult::Done, words),
            Ok(Submitted { is_new: false, .. }) => (AuditResult::Again, words),
            // What can be sent again later is not a refusal, and there may be much of it.
            Err(problem) if problem.retry_after.is_some() => return,
            Err(_) => result_of(submitted),
        };
        self.record(audit, of, result, detail).await;
    }

    /// Records what the caller did to a run, or was refused. The action has been carried out already, so a failure to
    /// write the entry is only reported to the operator.
    pub(crate) async fn record(
        &self,
        audit: &Audit,
        of: AuditSubject,
        result: AuditResult,
        detail: Option<&str>,
    ) {
        let Some(identity) = &self.0 else { return };
        let entry = AuditEntry {
            run: of.run.map(|run| RunId::new(&*short(&run))),
            key: of.key.map(|key| short(&key)),
            binding: of.binding.map(|binding| short(&binding)),
            detail: detail.map(short),
            ..identity.entry(of.action, result)
        };
        if let Err(error) = audit.note(entry).await {
            crate::log::note(format!(
                "an entry of the audit log is lost: {} of {}: {error}",
                of.action.name(),
                identity.account()
            ));
        }
    }
}

/// The result of an audit entry.
pub(crate) fn result_of<T>(done: &Result<T, HttpProblem>) -> (AuditResult, Option<&str>) {
    match done {
        Ok(_) => (AuditResult::Done, None),
        Err(problem) if problem.status >= 500 => (AuditResult::Failed, Some(&problem.detail)),
        Err(problem) => (AuditResult::Refused, Some(&problem.detail)),
    }
}

/// The subject of an audit entry.
#[derive(Clone, Debug)]
pub(crate) struct AuditSubject {
    pub(crate) action: AuditAction,
    pub(crate) run: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) binding: Option<String>,
}

impl AuditSubject {
    /// The subject is a run.
    pub(crate) fn run(action: AuditAction, run: &str) -> Self {
        Self { action, run: Some(run.to_owned()), key: None, binding: None }
    }

    /// The subject is a submission and its run.
    pub(crate) fn submission(run: Option<&RunId>) -> Self {
        Self { action: AuditAction::Submit, run: run.map(ToString::to_string), key: None, binding: None }
    }

    /// The subject is an action or a question of a run, as it was shown.
    pub(super) fn shown(self, key: &str, binding: &str) -> Self {
        Self { key: Some(key.to_owned()), binding: Some(binding.to_owned()), ..self }
    }
}

impl ApiCaller {
    /// Fails if the caller has the role in no domain.
    pub(super) fn expect(&self, role: Role) -> Result<(), HttpProblem> {
        if self.0.is(role) { Ok(()) } else { Err(forbidden(role)) }
    }

    /// The domains that the caller sees. `None`: all.
    pub(super) fn domains(&self) -> Option<Vec<Arc<str>>> {
        self.0.domains.as_ref().map(|domains| domains.iter().cloned().collect())
    }

    /// Fails if the caller may not submit to a domain. A domain that they may not see is reported as unknown.
    pub(super) fn expect_in(&self, role: Role, domain: &str) -> Result<(), HttpProblem> {
        if !self.0.sees(domain) {
            let detail = "domain: there is no such domain; GET /v1/domains lists the domains";
            return Err(HttpProblem::new(StatusCode::NOT_FOUND, "unknown-domain", "Unknown domain", detail));
        }
        self.expect(role)
    }

    /// The id of a run. Fails if the caller does not have this right for it.
    pub(super) async fn run(&self, api: &Api, id: &str, access: Access) -> Result<RunId, HttpProblem> {
        run_for(&api.engine, &self.0, id, access).await
    }
}

/// The id of a run. Fails if the caller does not have this right for it.
pub(crate) async fn run_for(
    engine: &Engine,
    caller: &Caller,
    id: &str,
    access: Access,
) -> Result<RunId, HttpProblem> {
    let run = RunId::new(id);
    let Some((domain, owner)) = engine.owner(&run).await.map_err(super::refuse::problem)? else {
        return Err(unknown_run());
    };
    if !caller.sees(&domain) {
        return Err(unknown_run());
    }
    let is_own = owner.is_some_and(|owner| owner == caller.name);
    let (may, role) = match access {
        Access::Read => (caller.may(Role::Read, &domain), Role::Read),
        Access::Decide => (caller.may(Role::Approve, &domain), Role::Approve),
        Access::Label => (caller.may_label(&domain, is_own), Role::Approve),
        Access::Steer => (may_steer(caller, &domain, is_own), Role::Submit),
    };
    match may {
        true => Ok(run),
        // Only a caller who may read it learns that it is there.
        false if caller.may(Role::Read, &domain) || is_own => Err(match access {
            Access::Steer if caller.may(Role::Submit, &domain) => others(),
            _ => forbidden(role),
        }),
        false => Err(unknown_run()),
    }
}

/// Whether a caller may steer a run of a domain, which they submitted or did not.
pub(crate) fn may_steer(caller: &Caller, domain: &str, is_own: bool) -> bool {
    caller.may(Role::Admin, domain) || is_own && caller.may(Role::Submit, domain)
}

pub(super) fn unauthorized() -> HttpProblem {
    let detail = "the request names no caller; send a token as `Authorization: Bearer TOKEN`";
    HttpProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not logged in", detail)
}

/// The result of a handler's task. A panic in it is a panic of the handler.
pub(super) fn of_task<T>(done: Result<Result<T, HttpProblem>, JoinError>) -> Result<T, HttpProblem> {
    done.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(ending()),
    })
}

fn ending() -> HttpProblem {
    let detail = "the server is ending, and it is not known whether this was done; look at the run, then send it again";
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "Server is ending", detail).retry_after(5)
}

fn forbidden(role: Role) -> HttpProblem {
    let role = role.name();
    let detail = format!("your token does not have the role `{role}`; ask the operator for one that has it");
    HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}

fn others() -> HttpProblem {
    let detail = "another caller submitted this run; ask them, or use a token with the role `admin`";
    HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}
