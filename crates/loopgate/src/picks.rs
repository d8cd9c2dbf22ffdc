//! `loopgate run --explain-picks`: why each tool was called before the first pass, or was not.

use loop_domain::Domain;
use loop_runtime::journal::{Journal, replay};
use loop_runtime::run::RunId;

use crate::stream;

/// Prints on standard error what the selection of a run did with each tool.
pub(crate) async fn explain(domain: &Domain, journal: &dyn Journal, id: &RunId) {
    let recorded = match journal.read(id).await {
        Ok(recorded) => recorded,
        Err(error) => return stream::note(format!("picks:   unknown: {error}")),
    };
    let run = match replay(id, &recorded) {
        Ok(run) => run,
        Err(error) => return stream::note(format!("picks:   unknown: {error}")),
    };
    let picks = domain.picks(&run);
    if picks.is_empty() {
        return stream::note("picks:   none: only a document has a selection before its first pass");
    }
    for pick in picks {
        for call in &pick.calls {
            stream::note(format!("picked:  {} {call}", pick.tool));
        }
        if pick.calls.is_empty() {
            let why = pick.why_not.as_deref().unwrap_or("the model does not say why");
            stream::note(format!("not:     {}: {why}", pick.tool));
        }
    }
}
