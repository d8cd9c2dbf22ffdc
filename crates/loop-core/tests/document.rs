//! Merging: pure, idempotent, and silent about what a reply does not name.

use loop_testkit::*;

use loop_core::StopReason;
use loop_core::reply::{Document, MergeContext, PREAMBLE, ProposedSection};
use loop_core::spec::{Cite, SectionSpec};
use loop_core::types::{Digest, EvidenceId, Millis};
use proptest::prelude::*;

fn declared() -> Vec<SectionSpec> {
    let mut sections = vec![
        SectionSpec::new("situation", "🔍 Situation"),
        SectionSpec::new("findings", "Findings"),
        SectionSpec::new("steps", "Steps"),
    ];
    sections[0].required = true;
    sections
}

fn proposed(id: &str, body: &str) -> ProposedSection {
    let heading = if id == PREAMBLE { String::new() } else { format!("🔍 {id}") };
    let known = declared().iter().any(|section| &*section.id == id);
    ProposedSection { id: id.into(), heading: heading.into(), body: body.into(), known }
}

const CITABLE: [EvidenceId; 3] = [EvidenceId(0), EvidenceId(1), EvidenceId(3)];

fn merged(
    document: &Document,
    pass: u32,
    sections: &[ProposedSection],
) -> (Document, loop_core::reply::Merge) {
    let declared = declared();
    document.merged(
        sections,
        MergeContext { declared: &declared, pass, at: Millis(u64::from(pass)), citable: &CITABLE },
    )
}

/// A body without words of its own.
const CITES_ALONE: &str = "`[E1]`";

fn sections() -> impl Strategy<Value = Vec<ProposedSection>> {
    let id = prop::sample::select(vec![PREAMBLE, "situation", "findings", "steps", "zebra", "yak"]);
    let body = prop::sample::select(vec!["", "a", "b", "see [E1]", "see [E2, E3]", CITES_ALONE]);
    prop::collection::btree_map(id, body, 0..6).prop_shuffle_sections()
}

trait Shuffled {
    fn prop_shuffle_sections(self) -> BoxedStrategy<Vec<ProposedSection>>;
}

impl<S: Strategy<Value = std::collections::BTreeMap<&'static str, &'static str>> + 'static> Shuffled for S {
    fn prop_shuffle_sections(self) -> BoxedStrategy<Vec<ProposedSection>> {
        let list =
            self.prop_map(|map| map.into_iter().map(|(id, body)| proposed(id, body)).collect::<Vec<_>>());
        list.prop_shuffle().boxed()
    }
}

proptest! {
    #![proptest_config(crate::common::cases(2_000))]

    #[test]
    fn merging_nothing_changes_nothing(first in sections()) {
        // S0-116, I-18
        let (document, _) = merged(&Document::default(), 1, &first);
        let (again, merge) = merged(&document, 2, &[]);
        prop_assert_eq!(again, document);
        prop_assert_eq!(merge, loop_core::reply::Merge::default());
    }

    #[test]
    fn merging_twice_is_merging_once(first in sections(), second in sections()) {
        // S0-116, I-18
        let (document, _) = merged(&Document::default(), 1, &first);
        let (once, _) = merged(&document, 2, &second);
        let (twice, merge) = merged(&once, 3, &second);
        prop_assert_eq!(twice, once);
        prop_assert_eq!(merge.changed, Vec::new());
    }

    #[test]
    fn what_is_not_named_stays_as_it_is(first in sections(), second in sections()) {
        // S0-28, S0-29, S0-108, S0-113, I-18
        let (document, _) = merged(&Document::default(), 1, &first);
        let (next, merge) = merged(&document, 2, &second);
        for before in &document.sections {
            let named = second.iter().find(|proposal| proposal.id == before.id);
            let after = next.get(&before.id);
            match named {
                None => prop_assert_eq!(after, Some(before)),
                Some(named) if named.body == before.body => {
                    prop_assert_eq!(after, Some(before));
                    prop_assert!(merge.identical.contains(&before.id));
                }
                // G1
                Some(named) if &*named.body == CITES_ALONE => {
                    prop_assert_eq!(after, Some(before));
                    prop_assert!(merge.kept.contains(&before.id));
                }
                Some(named) if named.body.is_empty() && &*before.id == "situation" => {
                    prop_assert_eq!(after, Some(before));
                    prop_assert!(merge.kept.contains(&before.id));
                }
                Some(named) if named.body.is_empty() => prop_assert_eq!(after, None),
                Some(named) => {
                    let after = after.unwrap();
                    let replaced = Some(Digest::of("section", before.body.as_bytes()));
                    prop_assert_eq!((&after.body, after.pass, after.replaced), (&named.body, 2, replaced));
                }
            }
        }
        prop_assert!(merge.changed.iter().all(|change| &*change.section != PREAMBLE));
    }

    #[test]
    fn the_order_is_the_domains_whatever_the_order_of_the_reply(first in sections(), second in sections()) {
        let (document, _) = merged(&Document::default(), 1, &first);
        let (next, _) = merged(&document, 2, &second);
        let place = |id: &str| [PREAMBLE, "situation", "findings", "steps"].iter().position(|known| *known == id).unwrap_or(4);
        let places: Vec<usize> = next.sections.iter().map(|section| place(&section.id)).collect();
        prop_assert!(places.is_sorted(), "{:?}", places);
    }

    #[test]
    fn a_document_reads_back_as_it_was_written(first in sections()) {
        let (document, _) = merged(&Document::default(), 1, &first);
        prop_assert_eq!(reread(&document), document);
    }
}

#[test]
fn the_first_form_of_a_heading_stays() {
    let (document, _) = merged(&Document::default(), 1, &[proposed("situation", "a")]);
    let mut plain = proposed("situation", "b");
    plain.heading = "situation".into();
    let (next, _) = merged(&document, 2, &[plain]);
    let section = next.get("situation").unwrap();
    assert_eq!(
        (&*section.heading, &*section.emoji, section.pass, section.at),
        ("🔍 situation", "🔍", 2, Millis(2))
    );
}

#[test]
fn citations_of_what_does_not_exist_count_for_nothing_and_are_told() {
    let (document, merge) =
        merged(&Document::default(), 1, &[proposed("findings", "a [E1], b [E2], c [E3, E9], `[E0]`")]);
    let cited: Vec<u32> = document.get("findings").unwrap().evidence.iter().map(|id| id.0).collect();
    let bad: Vec<u32> = merge.bad_citations.iter().map(|bad| bad.evidence.0).collect();
    assert_eq!((cited, bad), (vec![1, 3], vec![2, 9]));
    assert_eq!(merge.changed[0].replaced, None);
}

#[test]
fn an_identical_body_may_cite_what_has_come_since() {
    let (cites, pass) = (
        |document: &Document| document.get("findings").unwrap().evidence.len(),
        |document: &Document| document.get("findings").unwrap().pass,
    );
    let body = [proposed("findings", "a [E1], b [E2]")];
    let declared = declared();
    let merged = |document: &Document, pass, citable: &[EvidenceId]| {
        let at = Millis(u64::from(pass));
        document.merged(&body, MergeContext { declared: &declared, pass, at, citable }).0
    };
    let first = merged(&Document::default(), 1, &[EvidenceId(0)]);
    let second = merged(&first, 2, &CITABLE);
    assert_eq!((cites(&first), cites(&second), pass(&second)), (0, 1, 1));
    assert_eq!(second.get("findings").unwrap().bad_citations, [EvidenceId(2)]);
}

#[test]
fn an_identical_body_keeps_its_pass_across_passes_of_a_run() {
    // S0-11, S0-49: every pass is written down with what it changed.
    let world = run()
        .start()
        .replied(&draft("low").section("Findings", "a").asks("fetch_device", target("a")))
        .all_finished();
    let world = world.replied(&draft("high").section("Findings", "b"));
    let passes: Vec<u32> = world.run.document().sections.iter().map(|section| section.pass).collect();
    assert_eq!(passes, [1, 2]);
    let records: Vec<_> =
        world.run.passes().iter().map(|pass| (pass.pass, pass.evidence_seen, pass.changed.len())).collect();
    assert_eq!(records, [(1, 0, 2), (2, 1, 1)]);
}

#[test]
fn the_document_is_updated_before_the_pass_is_written_down_and_judged() {
    // S0-48, S0-49, S0-52
    use loop_core::Note;
    let world = run().start().replied(&draft("high"));
    let order: Vec<&str> = world
        .notes()
        .iter()
        .map(|note| match note {
            Note::CallCharged { .. } => "charged",
            Note::Merged { .. } => "merged",
            Note::ReplyRead { .. } => "read",
            Note::GateDecided { .. } => "decided",
            Note::Stopped { .. } => "stopped",
            _ => "other",
        })
        .collect();
    assert_eq!(order, ["charged", "merged", "read", "decided", "stopped"]);
}

#[test]
fn evidence_that_does_not_exist_may_be_cited_in_no_section() {
    // T3: in every section, whether it has to cite, is declared, or stands before the first heading.
    let cited = |cite: Cite, text: &str| {
        let section = SectionSpec { cite, ..SectionSpec::new("situation", "Situation").required() };
        let world = run().unrevised().item_text("The pump shows [E7].").sections(vec![section]).start();
        world.replied(&bare_draft("high").section("Situation", text))
    };
    for cite in [Cite::No, Cite::Any] {
        let world = cited(cite, "The disk is full [E0] [E9].").ends(StopReason::EvidenceMissing);
        assert_eq!(world.outcome().missing[0].as_ref(), "evidence for [E9] in section `situation`");
        // A bracket that the item or a result holds as it is written is quoted.
        cited(cite, "It reports [E7], and the disk is full [E0].").ends(StopReason::Confident);
        cited(cite, "It reports [E0, E7].").ends(StopReason::EvidenceMissing);
    }
    let elsewhere = run().unrevised().start().replied(&draft("high").section("Aside", "It is booked [E7]."));
    let world = elsewhere.ends(StopReason::EvidenceMissing);
    assert_eq!(world.outcome().missing[0].as_ref(), "evidence for [E7] in section `aside`");
    // One pass is granted to revise it.
    let world = run().start().replied(&draft("high").section("Findings", "Booked [E7]."));
    let world = world.replied(&draft("high").section("Findings", "Not booked."));
    world.ends(StopReason::Confident);
    let world = run()
        .start()
        .replied(&draft("low").asks("fetch_device", target("a")))
        .finished("1/action-0", found("shows [E9]"));
    world.replied(&draft("high").section("Findings", "It shows [E9].")).ends(StopReason::Confident);
}
