//! `loopgate run --explain-picks`: explains why each tool was called before the first pass, or was not.

use loop_domain::Domain;
use loop_runtime::journal::{Journal, replay};
use loop_runtime::run::RunId;

use crate::output::stream;

/// Prints on standard error the result of a run's tool selection for each tool.
pub(crate) async fn explain(domain: &Domain, journal: &dyn Journal, id: &RunId) {
    let recorded = match journal.read(id).await {
        Ok(recorded) => recorded,
        Err(error) => return stream::note(format!("selected: unknown: {error}")),
    };
    let run = match replay(id, &recorded) {
        Ok(run) => run,
        Err(error) => return stream::note(format!("selected: unknown: {error}")),
    };
    let tools = domain.selection(&run);
    if tools.is_empty() {
        return stream::note("selected: none: only a document has a selection before its first pass");
    }
    for it in tools {
        for call in &it.calls {
            stream::note(format!("selected: {} {call}", it.tool));
        }
        if it.calls.is_empty() {
            let why = it.why_not.as_deref().unwrap_or("the model does not say why");
            stream::note(format!("not:      {}: {why}", it.tool));
        }
    }
}
