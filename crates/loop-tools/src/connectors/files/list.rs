//! Listing: the files that there are, with sizes and times.

use crate::CancellationToken;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::connectors::files::folder::{Folder, Refusal};
use crate::connectors::files::walk::{FolderWalk, Step};

/// What was found.
pub(crate) struct ListedFiles {
    pub(crate) rows: Vec<Value>,
    /// Whether there are more.
    pub(crate) is_cut: bool,
    pub(crate) left_out: Vec<String>,
}

/// The files below the path.
pub(crate) fn list(
    folder: &Folder,
    parameters: &Value,
    max_results: usize,
    cancel: &CancellationToken,
) -> Result<ListedFiles, Refusal> {
    let text = |name: &str| parameters.get(name).and_then(Value::as_str);
    let mut walk = FolderWalk::new(folder, text("glob"), cancel)?;
    let (mut rows, mut is_cut) = (Vec::new(), false);
    walk.below(text("path"), &mut |found| {
        if rows.len() >= max_results {
            is_cut = true;
            return Ok(Step::Enough);
        }
        let modified = found.about.modified().ok().and_then(|time| Timestamp::try_from(time.into_std()).ok());
        let modified = modified.and_then(|time| time.round(Unit::Second).ok());
        rows.push(json!({
            "path": found.place.shown(),
            "bytes": found.about.len(),
            "modified": modified.map(|time| time.to_string()),
        }));
        Ok(Step::Next)
    })?;
    Ok(ListedFiles { rows, is_cut, left_out: walk.left_out })
}
