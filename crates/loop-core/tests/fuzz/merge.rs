//! Merging a reply into a document. I-18.

use std::sync::Arc;

use loop_core::reply::{Document, MergeContext, PREAMBLE, ProposedSection};
use loop_core::types::{EvidenceId, Millis};
use loop_testkit::fuzz::{Bytes, sections};

const HEADINGS: [(&str, &str, bool); 5] = [
    ("situation", "🔍 Situation", true),
    ("findings", "Findings", true),
    ("next_steps", "➡️ Next steps", true),
    ("other", "Other", false),
    (PREAMBLE, "", true),
];

/// The bytes choose the proposals of three replies: how many, which sections, and their bodies.
pub(crate) fn target(data: &[u8]) {
    let mut bytes = Bytes::of(data);
    let declared = sections();
    let citable = [EvidenceId(0), EvidenceId(1), EvidenceId(3)];
    let mut document = Document::default();
    for pass in 1..=3 {
        let proposed: Vec<ProposedSection> = (0..bytes.take() % 5).map(|_| proposal(&mut bytes)).collect();
        let at = Millis(u64::from(pass) * 10);
        let context = MergeContext { declared: &declared, pass, at, citable: &citable };
        let (same, nothing) = document.merged(&[], context);
        assert_eq!(same, document, "nothing changes nothing");
        assert_eq!(nothing, loop_core::reply::Merge::default());
        let (merged, merge) = document.merged(&proposed, context);
        let (twice, again) = merged.merged(&proposed, context);
        // With two proposals of one section the last one counts, and the first is a change to it again.
        let ids: std::collections::BTreeSet<_> = proposed.iter().map(|it| &it.id).collect();
        if ids.len() == proposed.len() {
            assert_eq!(twice, merged, "merging twice is merging once");
            assert!(again.changed.is_empty(), "{again:?}");
        }
        for section in &document.sections {
            let proposals: Vec<_> = proposed.iter().filter(|proposal| proposal.id == section.id).collect();
            let Some(kept) = merged.get(&section.id) else {
                // An empty body takes out a section that is not demanded.
                assert!(proposals.iter().any(|proposal| proposal.body.is_empty()), "{section:?} is lost");
                continue;
            };
            if proposals.is_empty() {
                assert_eq!(kept, section, "what is not proposed stays, byte for byte");
            }
            // A section that was taken out and proposed again is a new one, of a later pass.
            assert!(kept.pass >= section.pass && kept.at >= section.at, "{kept:?} after {section:?}");
        }
        for section in &merged.sections {
            assert!(section.evidence.iter().all(|id| citable.contains(id)), "{section:?}");
            let is_changed = document.get(&section.id).is_none_or(|before| before.body != section.body);
            // Changes of the text before the first section are not told.
            let is_reported =
                *section.id == *PREAMBLE || merge.changed.iter().any(|change| change.section == section.id);
            assert!(
                !is_changed || is_reported || ids.len() != proposed.len(),
                "{section:?} changed untold: {merge:?}"
            );
        }
        document = merged;
    }
}

fn proposal(bytes: &mut Bytes<'_>) -> ProposedSection {
    let (id, heading, known) = *bytes.one(&HEADINGS);
    let body: Arc<str> = bytes.text().trim().into();
    ProposedSection { id: id.into(), heading: heading.into(), body, known }
}
