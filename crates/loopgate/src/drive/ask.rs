//! Asks the person at this terminal for approvals and answers.

use std::sync::Arc;

use anstyle::Style;
use loop_core::EventKind;
use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::types::{Approver, CommandKey, Digest, Effect};

use crate::output::{TextLine, stream::note, stream::note_part, typed, typed::TypedInput};
use crate::shown::people;

const BOLD: Style = Style::new().bold();

/// Asks for an approval or an answer, after all `details` were shown. Text typed before that, and pasted text, does not
/// count as consent. Only a clear yes does, or for an irreversible effect the action's short key. Any other text goes
/// to the model as the reason. `None`: the input ended.
pub(crate) async fn ask(
    lines: &mut typed::Lines,
    requested: &PersonRequest,
    details: &[String],
) -> Option<PersonAnswer> {
    let PersonRequest { tool, is_question, .. } = requested;
    note(format!("{tool}  ({})", people::kind_of(requested)));
    details.iter().for_each(|line| note(format!("  {line}")));
    let key = short_key(requested);
    loop {
        lines.forget().await;
        note_part(TextLine::new().styled(
            BOLD,
            match &key {
                _ if *is_question => "Answer: ".to_owned(),
                Some(key) => format!("It cannot be undone. Type {key} to allow {tool}, or n: "),
                None => format!("Allow {tool}? [y/N] "),
            },
        ));
        let stated = match lines.next().await {
            TypedInput::Line(line) => line,
            TypedInput::Pasted(text) if *is_question => text,
            TypedInput::Rest if *is_question => {
                note("this is the rest of a text that was pasted before; answer again");
                continue;
            }
            TypedInput::Pasted(_) | TypedInput::Rest => {
                note("pasted text is not an answer; type it");
                continue;
            }
            TypedInput::TooLong => {
                note("this is too long; answer again");
                continue;
            }
            TypedInput::Unreadable => {
                note("");
                return Some(denied("the person's answer could not be read"));
            }
            TypedInput::End => {
                note("");
                return None;
            }
        };
        let stated = stated.trim();
        let lower = stated.to_lowercase();
        let lower = match lower.strip_prefix("/approve").map(str::trim) {
            Some("") => "yes",
            Some(key) => key,
            None => lower.as_str(),
        };
        return Some(match (lower, &key) {
            ("", _) if *is_question => denied("the person did not answer"),
            _ if *is_question => PersonAnswer::Answered { text: stated.into() },
            ("", _) | ("n" | "no" | "/deny", _) => denied("the person said no"),
            (typed, Some(key)) if typed == key => PersonAnswer::Approved,
            ("y" | "yes", None) => PersonAnswer::Approved,
            ("y" | "yes", Some(_)) => continue,
            _ => denied(&format!("the person did not agree and said: {stated}")),
        });
    }
}

/// The beginning of the action's binding, which a person types to allow an irreversible effect, and which no untrusted
/// text can know. `None`: a yes is enough.
fn short_key(requested: &PersonRequest) -> Option<String> {
    let is_undone = matches!(requested.effect, Effect::Read | Effect::WriteIdempotent);
    (!is_undone).then(|| requested.binding.short().chars().take(KEY_DIGITS).collect())
}

/// The digits of a binding in the short key.
const KEY_DIGITS: usize = 4;

pub(crate) fn denied(why: &str) -> PersonAnswer {
    PersonAnswer::Denied { why: why.into() }
}

/// The approver at this terminal, by a claimed name. It is not verified, so it does not count where two people must
/// approve.
pub(crate) fn approver(claim: Option<Arc<str>>) -> Approver {
    Approver { account: "".into(), user: "".into(), claim }
}

/// The event of an answer at this terminal.
pub(crate) fn answered(key: CommandKey, answer: PersonAnswer, binding: Option<Digest>) -> EventKind {
    match answer {
        PersonAnswer::Approved => EventKind::ApprovedBy { key, by: approver(None), binding },
        answer => EventKind::PersonAnswered { key, answer, binding },
    }
}

/// Whether a person at this terminal can answer this request. False if it needs two verified approvals.
pub(crate) fn may_answer_here(requested: &PersonRequest) -> bool {
    requested.approvals < 2
}

/// What a person says to a request.
pub(crate) enum PersonReply {
    /// An approval, with the name that is claimed.
    Approves(Approver),
    Answers(PersonAnswer),
}

/// Whether `given` is the beginning of an action's binding, as `pending` prints it.
pub(crate) fn is_binding(given: &str, own: &Digest) -> bool {
    given.len() >= BINDING_DIGITS && own.to_string().starts_with(&given.to_ascii_lowercase())
}

/// The digits of a binding that must be given.
const BINDING_DIGITS: usize = 12;
