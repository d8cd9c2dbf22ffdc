//! A small real run, and what a journal is asked to keep of it.

use crate::common::world::header_of;

use loop_core::{Digest, Event, EventKind, Millis, SectionSpec, StopReason};
use loop_runtime::journal::{Entry, Header};
use loop_testkit::{Setup, draft, read, target};

pub(crate) const MANIFEST: &str = r#"[{"name":"fetch_device"}]"#;

/// A run that asks for a tool, reads what it brings, and is confident: its entries in order.
pub(crate) fn history(id: &str) -> (Header, Vec<Entry>) {
    let mut setup = Setup::document("helpdesk")
        .goal("Help.")
        .section(SectionSpec::new("situation", "Situation").required())
        .tool(read("fetch_device"));
    setup.facts.tools = Digest::of("manifest", MANIFEST.as_bytes());
    let world = setup
        .start_as(id)
        .wait(10)
        .replied(&draft("medium").asks("fetch_device", target("srv-1")))
        .wait(10)
        .all_finished()
        .wait(10)
        .replied(&draft("high"))
        .ends(StopReason::Confident);
    let entries = (0..).zip(world.journal).map(|(seq, (event, notes, _))| Entry { seq, event, notes });
    let entries: Vec<_> = entries.collect();
    (header_of(&entries[0], &world.spec, &MANIFEST.into()), entries)
}

/// An entry that says nothing: for tests that count.
pub(crate) fn blank(seq: u64) -> Entry {
    Entry { seq, event: Event { at: Millis(seq), kind: EventKind::StopWithdrawn }, notes: Vec::new() }
}
