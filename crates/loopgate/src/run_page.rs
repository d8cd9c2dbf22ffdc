//! `loopgate show RUN --html`: a run as a page in a file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::types::RunId;
use loop_runtime::journal::{Recorded, StoredJournal};
use loop_runtime::spec::Prompts;
use loop_server::pages::{self, OneRunPage, OneRunView};

use crate::failure::Failure;
use crate::places::ReportFile;
use crate::replay::opened;
use crate::resume::Found;

/// Writes the page of a run into a file.
pub(crate) fn written(
    path: &Path,
    id: &RunId,
    recorded: Recorded,
    journal: Arc<StoredJournal>,
) -> Result<ExitCode, Failure> {
    let Some(file) = ReportFile::open("--html", Some(path))? else { return Ok(ExitCode::SUCCESS) };
    let prompts = prompts_of(journal, &recorded);
    let view = OneRunView { prompts: prompts.as_deref(), ..OneRunView::default() };
    file.write(&pages::run(&OneRunPage::of(id, &recorded, view)?))?;
    Ok(ExitCode::SUCCESS)
}

/// The templates that a run was begun with: the built-in ones, or those of its domain if that is where it was and as it
/// was. `None`: they are not at hand.
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
    let found = Found { run, recorded, journal };
    let domain = found.domain(None).ok()?;
    Some(domain.prompts).filter(|prompts| prompts.hash() == wanted)
}
