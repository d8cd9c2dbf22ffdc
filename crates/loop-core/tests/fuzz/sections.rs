//! Sections of a reply: read the same in any pieces, each once, and without the contract. I-18, I-19.

use std::collections::BTreeSet;

use loop_core::reply::{LiveText, PREAMBLE};
use loop_testkit::fuzz::{FuzzRun, document, sections};

/// The bytes are a reply.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let whole = shown([text.as_str()].into_iter());
    let letters: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(shown(letters.iter().map(String::as_str)), whole, "letter by letter");
    let mut driven = FuzzRun::start(document());
    if !driven.replied(&text) {
        return;
    }
    let document = driven.run.document();
    let ids: BTreeSet<&str> = document.sections.iter().map(|section| &*section.id).collect();
    assert_eq!(ids.len(), document.sections.len(), "a section twice: {document:?}");
    for section in &document.sections {
        let is_declared =
            *section.id == *PREAMBLE || sections().iter().any(|declared| declared.id == section.id);
        assert_eq!(section.known, is_declared, "{section:?}");
        assert!(section.known || !section.id.is_empty(), "{section:?}");
        assert!(*section.id != *PREAMBLE || section.heading.is_empty(), "{section:?}");
        assert_eq!(section.body.trim_end(), &*section.body, "{section:?}");
        // Each line of a body is a line of the reply: nothing is made up.
        for line in section.body.lines() {
            assert!(text.contains(line), "{line:?} is not in the reply");
        }
    }
}

/// What a person sees of a reply that comes in these pieces.
fn shown<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    let mut live = LiveText::default();
    let mut shown: String = pieces.map(|piece| live.push(piece)).collect();
    shown.push_str(&live.finish());
    shown
}
