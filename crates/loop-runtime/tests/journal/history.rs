//! A small real run, and what a journal is asked to keep of it.

use crate::common::world::header_of;

use loop_core::EventKind;
use loop_core::types::Digest;
use loop_runtime::journal::{Entry, Header};
use loop_testkit::{draft, run, target};

pub(crate) use super::conformance::{MANIFEST, blank, history};

/// A run that has stopped and is being saved, and whose driver is gone.
pub(crate) fn saving(id: &str) -> (Header, Vec<Entry>) {
    let mut setup = run();
    setup.spec.save = true;
    setup.facts.tools = Digest::of("manifest", MANIFEST.as_bytes());
    let world = setup.start_as(id).wait(10).replied(&draft("high")).expect_phase("saving");
    let entries = (0..).zip(world.journal).map(|(seq, (event, notes, _))| Entry { seq, event, notes });
    let entries: Vec<_> = entries.collect();
    (header_of(&entries[0], &world.spec, &MANIFEST.into()), entries)
}

/// A run that has begun an effect which cannot be made twice, and whose driver is gone.
pub(crate) fn in_doubt(id: &str) -> (Header, Vec<Entry>) {
    let mut setup = run().approving(&["wipe"]);
    setup.facts.tools = Digest::of("manifest", MANIFEST.as_bytes());
    let mut world = setup.start_as(id).wait(10).replied(&draft("low").asks("wipe", target("a")));
    let tool = world.tools().remove(0);
    world.apply(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt });
    let entries = (0..).zip(world.journal).map(|(seq, (event, notes, _))| Entry { seq, event, notes });
    let entries: Vec<_> = entries.collect();
    (header_of(&entries[0], &world.spec, &MANIFEST.into()), entries)
}

/// Numbers that look random, the same each time.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Whether all cases run, and not the share of a test run: `LOOPGATE_JOURNALS=full`.
pub(crate) fn is_full() -> bool {
    std::env::var_os("LOOPGATE_JOURNALS").is_some_and(|share| share == "full")
}
