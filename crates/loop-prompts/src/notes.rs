//! Notes about repeats, as a model reads them with a result.

use std::sync::Arc;

use loop_core::{Evidence, Run};

use crate::dialogue::offered;
use crate::text::{cut, line_without};

/// How much of a failure's text a note quotes, in characters.
const ERROR_CHARS: usize = 160;

/// How long the name of a tool is in a note, in characters.
const NAME_CHARS: usize = 64;

/// The note that a result carries, as one line in parentheses. `None`: it repeats nothing.
///
/// The text of a failure is cleaned, cut and without the nonce, so that it cannot end a fence.
pub(crate) fn note(run: &Run, evidence: &Evidence) -> Option<String> {
    let note = run.repeat_note(evidence.id)?;
    let (spec, nonce) = (run.spec(), &*run.started().nonce);
    let output = spec.protocol.output();
    let is_ending = |name: &str| {
        output.is_some_and(|output| name == &*output.tool || output.submit.as_deref() == Some(name))
    };
    let short = |text: &str, max: usize| cut(&line_without(nonce, text), max);
    let names: Vec<String> = offered(spec)
        .filter(|tool| tool.name != evidence.tool && !is_ending(&tool.name))
        .map(|tool| short(&tool.name, NAME_CHARS))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = short(evidence.observation.text(), ERROR_CHARS);
    Some(format!("(note: {})", note.message(&short(&evidence.tool, NAME_CHARS), &error, &names)))
}

/// A result followed by its note.
pub(crate) fn with_note(text: &str, note: &str) -> Arc<str> {
    format!("{text}\n\n{note}").into()
}
