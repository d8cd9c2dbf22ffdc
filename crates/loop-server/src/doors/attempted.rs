//! Records changes that the door refuses because of the origin of their page, as routes record their refusals.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use loop_core::types::RunId;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};

use super::audit::short;
use super::guard::DoorState;
use super::identity::unknown;
use super::refusal::Refusal;

/// A change that a request asks for.
pub(super) struct AttemptedChange {
    action: AuditAction,
    run: Option<RunId>,
    key: Option<Arc<str>>,
    headers: HeaderMap,
}

impl AttemptedChange {
    /// The change that a request asks for, by its method and path. `None`: it is not recorded.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let steps: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        let (action, run, key) = match (request.method(), steps.as_slice()) {
            (&Method::POST, ["v1", "runs"] | ["new"]) => (AuditAction::Submit, None, None),
            // In a form of a page it is not known which decision it was.
            (&Method::POST, ["runs", run, "approve"]) => (AuditAction::Decide, Some(*run), None),
            (&Method::POST, ["v1", "runs", run, what] | ["runs", run, what]) => {
                let action = match *what {
                    "approve" => AuditAction::Approve,
                    "deny" => AuditAction::Deny,
                    "answer" => AuditAction::Answer,
                    "instructions" => AuditAction::Instruct,
                    "stop" => AuditAction::Stop,
                    "resume" => AuditAction::Resume,
                    "fork" => AuditAction::Fork,
                    "retry" => AuditAction::Retry,
                    "label" if steps.first() == Some(&"runs") => AuditAction::Label,
                    _ => return None,
                };
                (action, Some(*run), None)
            }
            (&Method::PUT, ["v1", "runs", run, "label"]) => (AuditAction::Label, Some(*run), None),
            (&Method::DELETE, ["v1", "runs", run, "label"]) => (AuditAction::Unlabel, Some(*run), None),
            (&Method::DELETE, ["v1", "outbox", message]) => (AuditAction::DropMessage, None, Some(*message)),
            _ => return None,
        };
        let run = run.map(|run| RunId::new(&*short(run)));
        Some(Self { action, run, key: key.map(short), headers: request.headers().clone() })
    }
}

impl DoorState {
    /// Records a refused change. It is refused even if it cannot be recorded.
    pub(super) async fn record(&self, attempted: AttemptedChange, refused: &Refusal, from: IpAddr) {
        let AttemptedChange { action, run, key, headers } = attempted;
        let who = self.recognised(&headers, from);
        // A known caller has a limit in the log itself.
        if who.is_none() && self.changes.fail(from).is_err() {
            return;
        }
        let entry = match who {
            Some(identity) => identity.entry(action, AuditResult::Refused),
            None => unknown(from, action, AuditResult::Refused),
        };
        let detail = Some(short(&refused.problem().detail));
        _ = self.config.audit.note(AuditEntry { run, key, detail, ..entry }).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_change_is_known_by_its_method_and_path() {
        let of = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            AttemptedChange::of(&request).map(|it| {
                let run = it.run.map_or_else(String::new, |run| run.to_string());
                format!("{} {run}{}", it.action.name(), it.key.as_deref().unwrap_or_default())
            })
        };
        for (method, path, expected) in [
            ("POST", "/v1/runs", Some("submit ")),
            ("POST", "/new", Some("submit ")),
            ("POST", "/v1/runs/r1/approve", Some("approve r1")),
            ("POST", "/v1/runs/r1/instructions", Some("instruct r1")),
            ("POST", "/v1/runs/r1/resume", Some("resume r1")),
            ("POST", "/runs/r1/approve", Some("decide r1")),
            ("POST", "/runs/r1/stop", Some("stop r1")),
            ("POST", "/v1/runs/r1/fork", Some("fork r1")),
            ("POST", "/runs/r1/retry", Some("retry r1")),
            ("POST", "/runs/r1/document.md", None),
            ("DELETE", "/v1/outbox/m1", Some("drop_message m1")),
            ("PUT", "/v1/runs/r1/label", Some("label r1")),
            ("DELETE", "/v1/runs/r1/label", Some("unlabel r1")),
            ("POST", "/runs/r1/label", Some("label r1")),
            ("GET", "/v1/runs/r1/approve", None),
            ("POST", "/v1/runs/r1/other", None),
            ("POST", "/login", None),
        ] {
            assert_eq!(of(method, path).as_deref(), expected, "{method} {path}");
        }
    }
}
