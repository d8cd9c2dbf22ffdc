//! From an error of the engine to a problem document. The caller learns no path of this machine.

use axum::http::StatusCode;
use loop_core::run::AnswerFault;

use crate::engine::EngineError;
use crate::problem::HttpProblem;

pub(super) fn problem(error: EngineError) -> HttpProblem {
    let detail = error.to_string();
    let (status, name, title) = match &error {
        EngineError::UnknownRun => return unknown_run(),
        EngineError::UnknownDomain { .. } => (StatusCode::NOT_FOUND, "unknown-domain", "Unknown domain"),
        EngineError::NoDomain | EngineError::Item(_) | EngineError::Invalid(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid request")
        }
        EngineError::Setting(_) => (StatusCode::UNPROCESSABLE_ENTITY, "setting", "Setting not accepted"),
        EngineError::OtherRequest { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "other-request", "Key of another request")
        }
        EngineError::Full { .. } => {
            let full = HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "full", "Queue full", detail);
            return full.retry_after(RETRY_FULL_S);
        }
        EngineError::Draining => {
            let ending =
                HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "Server is ending", detail);
            return ending.retry_after(RETRY_S);
        }
        EngineError::State(_) | EngineError::Rejected(_) | EngineError::NotResumed(_) => {
            (StatusCode::CONFLICT, "state", "Not in this state")
        }
        EngineError::OtherVersion(_) => {
            (StatusCode::CONFLICT, "other-version", "Another version has the run")
        }
        EngineError::OnEngine(_) => (StatusCode::CONFLICT, "on-engine", "An engine drives the run"),
        EngineError::Elsewhere => {
            let elsewhere = HttpProblem::new(StatusCode::CONFLICT, "elsewhere", "Driven elsewhere", detail);
            return elsewhere.retry_after(RETRY_S);
        }
        EngineError::NoAction { .. } => (StatusCode::NOT_FOUND, "unknown-action", "Unknown action"),
        EngineError::Binding { .. } => (StatusCode::CONFLICT, "binding", "Something else was shown"),
        EngineError::Answer { fault: AnswerFault::NotYet, .. } => {
            let not_yet = HttpProblem::new(StatusCode::CONFLICT, "not-yet", "Not asked yet", detail);
            return not_yet.retry_after(RETRY_S);
        }
        EngineError::Answer { .. } => (StatusCode::CONFLICT, "decision", "Decision does not count"),
        EngineError::Journal(_) => {
            let journal =
                HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "journal", "Journal not available", detail);
            return journal.retry_after(RETRY_S);
        }
    };
    if let Some(why) = error.for_operator() {
        crate::log::note(why);
    }
    HttpProblem::new(status, name, title, detail)
}

/// The answer for a run that is not there, and for one that the caller does not see.
pub(super) fn unknown_run() -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "unknown-run", "Unknown run", EngineError::UnknownRun.to_string())
}

/// Seconds after which a request to a full queue may be sent again.
const RETRY_FULL_S: u64 = 5;
/// The same for what passes by itself.
const RETRY_S: u64 = 1;
