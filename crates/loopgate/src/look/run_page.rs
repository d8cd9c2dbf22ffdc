//! `loopgate show RUN --html`: writes the page of a run to a file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::types::RunId;
use loop_runtime::journal::label::RunLabel;
use loop_runtime::journal::{Recorded, StoredJournal};
use loop_server::pages::{self, LabelPart, OneRunPage, OneRunView};

use crate::context::{places::ReportFile, prompts_of};
use crate::output::Failure;

/// Writes the page of a run to a file.
pub(crate) fn written(
    path: &Path,
    id: &RunId,
    recorded: Recorded,
    label: Option<RunLabel>,
    journal: Arc<StoredJournal>,
) -> Result<ExitCode, Failure> {
    let Some(file) = ReportFile::open("--html", Some(path))? else { return Ok(ExitCode::SUCCESS) };
    let prompts = prompts_of(journal, &recorded);
    let label = LabelPart { label, ..LabelPart::default() };
    let view = OneRunView { prompts: prompts.as_deref(), label: Some(&label), ..OneRunView::default() };
    file.write(&pages::run(&OneRunPage::of(id, &recorded, view)?))?;
    Ok(ExitCode::SUCCESS)
}
