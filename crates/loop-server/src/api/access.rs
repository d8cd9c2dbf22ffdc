//! Who may do what. A run of a domain that the caller does not see is one that does not exist.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use loop_core::RunId;

use super::Api;
use super::refuse::unknown_run;
use crate::caller::{Caller, Role};
use crate::problem::Problem;

/// What a route does with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It shows the run.
    Read,
    /// It stops the run, continues it, or gives it an instruction: for its submitter.
    Steer,
    /// It decides what waits for a person.
    Decide,
}

/// The caller of a request, as the door found out.
#[derive(Clone, Debug)]
pub(super) struct Known(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(unauthorised)
    }
}

impl Known {
    /// Fails where the caller does not have a role in any domain.
    pub(super) fn expect(&self, role: Role) -> Result<(), Problem> {
        if self.0.is(role) { Ok(()) } else { Err(forbidden(role)) }
    }

    /// Fails where the caller may not submit to a domain. One that they do not see does not exist for them.
    pub(super) fn expect_in(&self, role: Role, domain: &str) -> Result<(), Problem> {
        if !self.0.sees(domain) {
            let detail = "domain: there is no such domain; GET /v1/domains lists the domains";
            return Err(Problem::new(StatusCode::NOT_FOUND, "unknown-domain", "Unknown domain", detail));
        }
        self.expect(role)
    }

    /// The id of a run, if the caller may do this with it.
    pub(super) async fn run(&self, api: &Api, id: &str, deed: Deed) -> Result<RunId, Problem> {
        let (run, caller) = (RunId::new(id), &self.0);
        let Some((domain, owner)) = api.engine.owner(&run).await.map_err(super::refuse::problem)? else {
            return Err(unknown_run());
        };
        if !caller.sees(&domain) {
            return Err(unknown_run());
        }
        let is_own = owner.is_some_and(|owner| owner == caller.name);
        let (may, role) = match deed {
            Deed::Read => (caller.may(Role::Read, &domain), Role::Read),
            Deed::Decide => (caller.may(Role::Approve, &domain), Role::Approve),
            Deed::Steer => {
                let is_admin = caller.may(Role::Admin, &domain);
                (is_admin || is_own && caller.may(Role::Submit, &domain), Role::Submit)
            }
        };
        match may {
            true => Ok(run),
            // Only a caller who may read it is told that it is there.
            false if caller.may(Role::Read, &domain) || is_own => Err(match deed {
                Deed::Steer if caller.may(Role::Submit, &domain) => others(),
                _ => forbidden(role),
            }),
            false => Err(unknown_run()),
        }
    }
}

fn unauthorised() -> Problem {
    let detail = "the request names no caller; send a token as `Authorization: Bearer TOKEN`";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorised", "Unauthorised", detail)
}

fn forbidden(role: Role) -> Problem {
    let role = match role {
        Role::Submit => "submit",
        Role::Read => "read",
        Role::Approve => "approve",
        Role::Admin => "admin",
    };
    let detail = format!("your token does not have the role `{role}`; ask the operator for one that has it");
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}

fn others() -> Problem {
    let detail = "another caller submitted this run; ask them, or use a token with the role `admin`";
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}
