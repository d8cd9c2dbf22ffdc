//! Routes of labels, and of the eval case that a run can become.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use loop_core::types::RunId;
use loop_eval::case::case_of_run;
use loop_runtime::journal::audit::AuditAction;
use loop_runtime::journal::label::{Label, RunLabel};
use loop_runtime::journal::{Journal as _, Recorded};

use super::{Pages, failed, made, see};
use crate::api::access::{AuditSubject, DoorIdentity};
use crate::api::problem;
use crate::caller::{Caller, Role};
use crate::doors::{Identity, field};
use crate::pages::{LabelPart, encoded};
use crate::problem::HttpProblem;

impl Pages {
    /// The label part of a run's page, with what this caller may do.
    pub(super) async fn label_part(
        &self,
        caller: &Caller,
        identity: Option<&Identity>,
        id: &RunId,
        recorded: &Recorded,
    ) -> Result<LabelPart, HttpProblem> {
        let labels = self.source.journal.labels(Some(std::slice::from_ref(id))).await;
        let may = self.may_label(caller, id, &recorded.spec.domain).await?;
        let csrf = identity.filter(|_| may).and_then(|identity| identity.csrf.as_deref());
        Ok(LabelPart {
            label: labels.map_err(|_| failed())?.remove(id),
            csrf: csrf.unwrap_or_default().to_owned(),
            makes_case: caller.may(Role::Submit, &recorded.spec.domain),
        })
    }

    async fn may_label(&self, caller: &Caller, id: &RunId, domain: &str) -> Result<bool, HttpProblem> {
        let Some(engine) = &self.source.engine else { return Ok(false) };
        let owner = engine.owner(id).await.map_err(|_| failed())?.and_then(|(_, owner)| owner);
        Ok(caller.may_label(domain, owner.is_some_and(|owner| owner == caller.name)))
    }
}

/// `POST /runs/{run}/label`, from the form of the run's page. The door has checked the CSRF token.
pub(super) async fn set(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let (id, recorded) = pages.read(&caller, &id, Role::Read).await?;
    let may = pages.may_label(&caller, &id, &recorded.spec.domain).await?;
    let (Some(engine), Some(Extension(identity)), true) = (pages.source.engine.clone(), identity, may) else {
        let detail =
            "you may read this run and not label it; the role `approve` labels, and the submitter of the run";
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail));
    };
    let form = std::str::from_utf8(&body).unwrap_or_default();
    let (note, by) = (field(form, "note").unwrap_or_default(), identity.approver().to_string());
    let new = |label| RunLabel::new(label, &note, &by).map(Some);
    let label =
        match field(form, "label").as_deref() {
            Some("good") => new(Label::Good),
            Some("bad") => new(Label::Bad),
            Some("none") => Ok(None),
            _ => Err("label: it is not `good`, `bad` or `none`; open the page of the run and label it there"
                .into()),
        };
    let label = label.map_err(|detail| {
        HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid request", detail)
    })?;
    let words = label.as_ref().map(RunLabel::in_words);
    let action = if label.is_some() { AuditAction::Label } else { AuditAction::Unlabel };
    let of = AuditSubject::run(action, id.as_str());
    let to = format!("/runs/{}#label", encoded(id.as_str()));
    let labelling = async move { engine.label(&id, label).await.map_err(problem) };
    DoorIdentity(Some(identity)).done_saying(&pages.source.audit, of, words, labelling).await?;
    see(&to)
}

/// `GET /runs/{run}/case`: the eval case that `loopgate eval record` writes, for callers who may submit such work.
/// Nothing is written into the domain's folder.
pub(super) async fn case(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, HttpProblem> {
    let (id, recorded) = pages.read(&caller, &id, Role::Read).await?;
    if !caller.may(Role::Submit, &recorded.spec.domain) {
        let detail = "you may read this run and make no case of it; ask for the role `submit`";
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail));
    }
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = id.as_str().chars().filter(is_plain).take(MAX_NAME).collect();
    let name = format!("run-{name}");
    let file = format!("attachment; filename=\"{name}.case.json\"");
    let text = made(move || {
        let case = case_of_run(&name, &recorded).map_err(|error| error.to_string())?;
        serde_json::to_string_pretty(&case).map_err(|error| error.to_string())
    });
    let text = text.await?.map_err(|why| {
        let detail = format!("the run cannot become a case: {why}");
        HttpProblem::new(StatusCode::CONFLICT, "no-case", "Not a case", detail)
    })?;
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CONTENT_DISPOSITION, &file)];
    Ok(super::no_store(StatusCode::OK, (headers, format!("{text}\n"))))
}

/// The most characters of an id in the name of a case.
const MAX_NAME: usize = 64;
