//! Converts engine errors to problem documents. They never contain a path of this machine.

use axum::http::StatusCode;
use loop_core::run::AnswerFault;

use crate::engine::EngineError;
use crate::problem::HttpProblem;

pub(crate) fn problem(error: EngineError) -> HttpProblem {
    // With the seconds after which it may pass by itself.
    let (status, name, title, retry) = match &error {
        EngineError::UnknownRun => return unknown_run(),
        EngineError::UnknownDomain { .. } => {
            (StatusCode::NOT_FOUND, "unknown-domain", "Unknown domain", None)
        }
        EngineError::NoDomain | EngineError::Item(_) | EngineError::Invalid(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid request", None)
        }
        EngineError::Setting(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "setting", "Setting not accepted", None)
        }
        EngineError::OtherRequest { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "other-request", "Key of another request", None)
        }
        EngineError::Full { .. } => (StatusCode::TOO_MANY_REQUESTS, "full", "Queue full", Some(RETRY_FULL_S)),
        EngineError::Draining => {
            (StatusCode::SERVICE_UNAVAILABLE, "ending", "Server is ending", Some(RETRY_S))
        }
        EngineError::State(_) | EngineError::Rejected(_) | EngineError::NotResumed(_) => {
            (StatusCode::CONFLICT, "state", "Not in this state", None)
        }
        EngineError::OtherVersion(_) => {
            (StatusCode::CONFLICT, "other-version", "Another version has the run", None)
        }
        EngineError::OnEngine(_) => (StatusCode::CONFLICT, "on-engine", "An engine drives the run", None),
        EngineError::Elsewhere => (StatusCode::CONFLICT, "elsewhere", "Driven elsewhere", Some(RETRY_S)),
        EngineError::NoAction { .. } => (StatusCode::NOT_FOUND, "unknown-action", "Unknown action", None),
        EngineError::Binding { .. } => (StatusCode::CONFLICT, "binding", "Something else was shown", None),
        EngineError::Answer { fault: AnswerFault::NotYet, .. } => {
            (StatusCode::CONFLICT, "not-yet", "Not asked yet", Some(RETRY_S))
        }
        EngineError::Answer { .. } => (StatusCode::CONFLICT, "decision", "Decision does not count", None),
        EngineError::Journal(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "journal", "Journal not available", Some(RETRY_S))
        }
    };
    if let Some(why) = error.for_operator() {
        crate::log::note(why);
    }
    HttpProblem { retry_after: retry, ..HttpProblem::new(status, name, title, error.to_string()) }
}

/// The response for a run that does not exist or that the caller may not see.
pub(super) fn unknown_run() -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "unknown-run", "Unknown run", EngineError::UnknownRun.to_string())
}

/// The `Retry-After` of a full queue, in seconds.
const RETRY_FULL_S: u64 = 5;
/// The `Retry-After` of other temporary failures, in seconds.
const RETRY_S: u64 = 1;
