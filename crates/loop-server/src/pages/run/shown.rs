//! At which event a page is, and what is hidden for that.

use loop_core::CommandKey;

use super::super::shell::Place;
use super::super::span::Span;

/// At which event a page is.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) at: u64,
    pub(super) last: u64,
    pub(super) place: Place,
    /// How the whole of a cut text is had.
    pub(super) rest: String,
}

impl Shown {
    /// Whether what has this span is hidden.
    pub(super) fn hides(&self, span: Span) -> bool {
        !span.shows(self.at)
    }

    /// Whether what begins with this event is hidden.
    pub(super) fn is_before(&self, from: u64) -> bool {
        self.at < from
    }
}

/// The name of a place on the page for an action or call: `2/action-0` is `c2-action-0`.
pub(super) fn anchor(key: CommandKey) -> String {
    format!("c{}", key.to_string().replace('/', "-"))
}
