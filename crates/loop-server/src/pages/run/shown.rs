//! The event that a page shows, and what is hidden at that event.

use loop_core::types::CommandKey;
use maud::{Markup, html};

use super::super::shell::PagePlace;
use super::super::span::EventSpan;

/// The event that a page shows.
#[derive(Clone, Debug)]
pub(super) struct PagePosition {
    pub(super) at: u64,
    pub(super) last: u64,
    pub(super) place: PagePlace,
    /// Whether the caller may begin a run of the same item.
    pub(super) begins_again: bool,
    /// How to get the rest of a cut text.
    pub(super) rest: String,
}

impl PagePosition {
    /// Whether something with this span is hidden.
    pub(super) fn hides(&self, span: EventSpan) -> bool {
        !span.shows(self.at)
    }

    /// Whether something that begins with this event is hidden.
    pub(super) fn is_before(&self, from: u64) -> bool {
        self.at < from
    }
}

/// The placeholder of an empty part, until the event with which it gets content.
pub(super) fn nothing(shown: &PagePosition, until: Option<u64>, text: &str) -> Markup {
    let span = EventSpan { from: 0, until };
    html! {
        @if until != Some(0) { p data-from="0" data-until=[until] hidden[shown.hides(span)] { (text) } }
    }
}

/// The anchor of an action or call: `2/action-0` is `c2-action-0`.
pub(in crate::pages) fn anchor(key: CommandKey) -> String {
    format!("c{}", key.to_string().replace('/', "-"))
}

/// The value of `display` of an SVG element, which has no attribute `hidden`. The script treats both alike.
pub(super) fn none_if(is_hidden: bool) -> Option<&'static str> {
    is_hidden.then_some("none")
}
