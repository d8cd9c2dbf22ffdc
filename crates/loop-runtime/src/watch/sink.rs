//! The one place through which every text passes that a run reads or emits. Secrets are masked here, before the run
//! decides on the text: what is journaled, shown, saved, traced or sent to a model follows from what the run read.

use std::borrow::Cow;
use std::sync::Arc;

use loop_core::run::{Cause, CheckResult, History, Lack, PersonAnswer, SaveResult, Started};
use loop_core::secrets::Secrets;
use loop_core::types::{Arguments, Data, FailureText, ModelFailure, Observation, Scope, SubCallUse};
use loop_core::{EventKind, WorkItem};
use loop_llm::Message;

use crate::watch::events::CallNews;

/// An event as a run may read it. Exhaustive by intent: a new text must show up here.
pub(crate) fn kind(secrets: &Secrets, mut kind: EventKind) -> EventKind {
    if secrets.is_empty() {
        return kind;
    }
    match &mut kind {
        EventKind::Started(started) => mask_started(secrets, started),
        EventKind::ModelFailed { failure, .. } => mask_failure(secrets, failure),
        EventKind::EagerStarted { name, arguments, .. } => mask_requested(secrets, name, arguments),
        EventKind::ToolFinished { observation, .. } => {
            // Nothing shares it yet.
            mask_observation(secrets, Arc::make_mut(observation));
        }
        EventKind::PersonAnswered { answer, .. } => match answer {
            PersonAnswer::Approved => {}
            PersonAnswer::Denied { why: stated } | PersonAnswer::Answered { text: stated } => {
                text(secrets, stated)
            }
        },
        EventKind::ApprovedBy { by, .. } => {
            if let Some(claim) = &mut by.claim {
                text(secrets, claim);
            }
        }
        EventKind::Instruction { text: reported } => text(secrets, reported),
        EventKind::Checked { result, used, .. } => {
            mask_use(secrets, used.as_deref_mut());
            match result {
                CheckResult::Passed => {}
                CheckResult::Failed { lacks } => lacks.iter_mut().for_each(|it| lack(secrets, it)),
                CheckResult::Broken { by, message } => {
                    [by, message].into_iter().for_each(|it| text(secrets, it));
                }
            }
        }
        EventKind::SaveFinished { result, .. } => match result {
            SaveResult::Saved { location } => text(secrets, location),
            SaveResult::Failed { message, .. } => text(secrets, message),
        },
        // A reply is masked where its texts are made: by the decoder, or as the events of another model are read.
        EventKind::ModelReplied { .. }
        | EventKind::CallStarted { .. }
        | EventKind::CallRefused { .. }
        | EventKind::CheckStarted { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::RunWaits { .. }
        | EventKind::StopRequested { .. }
        | EventKind::StopWithdrawn
        | EventKind::DeadlineReached
        | EventKind::Resumed { .. } => {}
    }
    kind
}

/// What a call waits for, as listeners may receive it.
pub(crate) fn news(secrets: &Secrets, mut news: CallNews) -> CallNews {
    match &mut news {
        CallNews::Retrying { message, .. } => text(secrets, message),
        CallNews::Queued { .. } | CallNews::Sent | CallNews::Silent { .. } => {}
    }
    news
}

/// A work item as a run may read it.
pub(crate) fn item(secrets: &Secrets, mut item: WorkItem) -> WorkItem {
    if !secrets.is_empty() {
        mask_item(secrets, &mut item);
    }
    item
}

/// The messages before a run as it may read them.
pub(crate) fn messages(secrets: &Secrets, messages: Vec<Message>) -> Vec<Message> {
    if secrets.is_empty() {
        return messages;
    }
    let Ok(json) = serde_json::to_string(&messages) else { return messages };
    match secrets.mask_json(&json) {
        Cow::Borrowed(_) => messages,
        // A secret that is spelt across several messages leaves none of them.
        Cow::Owned(masked) => {
            serde_json::from_str(&masked).unwrap_or_else(|_| vec![Message::user("[masked]")])
        }
    }
}

/// A JSON text without secrets.
pub(crate) fn json(secrets: &Secrets, json: &mut Arc<str>) {
    if let Cow::Owned(masked) = secrets.mask_json(json) {
        *json = masked.into();
    }
}

fn lack(secrets: &Secrets, lack: &mut Lack) {
    let Lack { section, sentence, value, place: _, cause } = lack;
    [section, sentence, value].into_iter().for_each(|it| text(secrets, it));
    if let Cause::Own { by, message } = cause {
        [by, message].into_iter().for_each(|it| text(secrets, it));
    }
}

fn text(secrets: &Secrets, text: &mut Arc<str>) {
    if let Cow::Owned(masked) = secrets.mask(text) {
        *text = masked.into();
    }
}

fn mask_started(secrets: &Secrets, started: &mut Started) {
    // The provenance is masked where it is made.
    let Started { item, history, .. } = started;
    mask_item(secrets, item);
    if let Some(History { json: messages, .. }) = history {
        json(secrets, messages);
    }
}

fn mask_item(secrets: &Secrets, item: &mut WorkItem) {
    let WorkItem { id, kind, title, full, compact, scope, caller, trace, form: _, traceparent: _ } = item;
    let Scope { account, account_name, asset, item, person } = scope;
    let named = [account, account_name, asset, item, person, caller, trace];
    let named = named.into_iter().filter_map(Option::as_mut);
    [id, kind, title, full, compact].into_iter().chain(named).for_each(|it| text(secrets, it));
}

/// Masks the name and the arguments of a call as a model wrote them.
pub(crate) fn mask_requested(secrets: &Secrets, name: &mut Arc<str>, arguments: &mut Arguments) {
    text(secrets, name);
    if let Cow::Owned(masked) = secrets.mask_json(arguments) {
        *arguments = masked.into();
    }
}

fn mask_failure(secrets: &Secrets, failure: &mut ModelFailure) {
    let ModelFailure { message, partial, served_model, .. } = failure;
    let optional = [partial, served_model].into_iter().filter_map(Option::as_mut);
    std::iter::once(message).chain(optional).for_each(|it| text(secrets, it));
}

/// What a sub-call used names the model that served it, in its provider's words.
fn mask_use(secrets: &Secrets, used: Option<&mut SubCallUse>) {
    if let Some(served) = used.and_then(|used| used.served_model.as_mut()) {
        text(secrets, served);
    }
}

fn mask_observation(secrets: &Secrets, observation: &mut Observation) {
    let Observation { summary, markdown, failure, data, digest, warnings, sub_call, .. } = observation;
    mask_use(secrets, sub_call.as_deref_mut());
    if let Some(FailureText { title, message }) = failure {
        [title, message].into_iter().for_each(|it| text(secrets, it));
    }
    let is_shared = data.as_text().is_some_and(|text| Arc::ptr_eq(text, markdown));
    [summary, &mut *markdown].into_iter().chain(warnings).for_each(|it| text(secrets, it));
    let masked = match data.as_text() {
        Some(text) if is_shared => (!Arc::ptr_eq(text, markdown)).then(|| Data::text(Arc::clone(markdown))),
        Some(text) => owned(secrets.mask(text)).map(Data::text),
        None => owned(secrets.mask_json(data)).map(Data::from),
    };
    if let Some(masked) = masked.filter(|masked| masked != data) {
        *data = masked;
        // The digest of the data is that of what is kept of it.
        *digest = data.digest();
    }
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use loop_core::types::{CommandKey, Slot};

    use super::*;

    #[test]
    fn what_a_check_reports_holds_no_secret() {
        // Every text of it may be another program's: a validator's, a provider's.
        const KEY: &str = "sk-canary-0123456789";
        let secrets = Secrets::of([KEY]);
        let key = CommandKey::new(1, Slot::Check);
        let with = |result| {
            let used = SubCallUse { served_model: Some(KEY.into()), ..SubCallUse::new(true, None) };
            EventKind::Checked { key, attempt: 1, result, used: Some(used.into()) }
        };
        let lack =
            Lack { section: KEY.into(), sentence: KEY.into(), value: KEY.into(), ..Lack::own(KEY, KEY) };
        for result in [
            CheckResult::Passed,
            CheckResult::Failed { lacks: vec![lack] },
            CheckResult::Broken { by: KEY.into(), message: KEY.into() },
        ] {
            let masked = serde_json::to_string(&kind(&secrets, with(result))).unwrap_or_default();
            assert!(masked.contains("[masked]") && !masked.contains(KEY), "{masked}");
        }
    }
}
