//! Sources of the HTML pages of runs.

use std::sync::Arc;

use loop_runtime::journal::{Recorded, StoredJournal};
use loop_runtime::spec::Prompts;
#[cfg(feature = "server")]
use loop_server::{doors::Audit, engine::Engine, pages::PageSource};

use super::found::{FoundRun, opened};

/// The templates of a run: the built-in ones, or those of its domain if it is unchanged and at its recorded path.
/// `None`: they are not available.
pub(crate) fn prompts_of(journal: Arc<StoredJournal>, recorded: &Recorded) -> Option<Arc<Prompts>> {
    let run = opened(recorded).ok()?;
    let wanted = run.started().prompts;
    let builtin = Arc::new(Prompts::builtin());
    if builtin.hash() == wanted {
        return Some(builtin);
    }
    let Recorded { spec, manifest, origin, unverified, imported, since_last_ms, entries: _ } = recorded;
    // The entries are not needed to find the domain.
    let recorded = Recorded {
        spec: Arc::clone(spec),
        manifest: Arc::clone(manifest),
        origin: origin.clone(),
        entries: Vec::new(),
        unverified: unverified.clone(),
        imported: *imported,
        since_last_ms: *since_last_ms,
    };
    let found = FoundRun { run, recorded, journal };
    let domain = found.domain(None).ok()?;
    Some(domain.prompts).filter(|prompts| prompts.hash() == wanted)
}

/// The sources of the pages over a journal.
#[cfg(feature = "server")]
pub(crate) fn pages_source(journal: Arc<StoredJournal>, engine: Option<Engine>, audit: Audit) -> PageSource {
    let of = Arc::clone(&journal);
    PageSource {
        journal,
        engine,
        prompts: Arc::new(move |_, recorded| prompts_of(Arc::clone(&of), recorded)),
        audit,
    }
}
