//! Saving to a file: whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loop_core::run::Started;
use loop_core::types::{Digest, StopClass};
use loop_journal::files::{create_folder, private};
use serde::Deserialize;

use crate::drive::save::SaveError;

/// Writes the report to the place that the template names, and gives it. A better outcome of another run of the same item
/// stays there, and this one is written beside it.
pub(super) async fn write(template: &Path, started: &Started, text: String) -> Result<Arc<str>, SaveError> {
    let (mut path, run) = (resolved(template, started), file_name(started.run.as_str()));
    let written = tokio::task::spawn_blocking(move || {
        if is_better(&path, &text) {
            path.as_mut_os_string().push(format!(".{run}"));
        }
        write_whole(&path, text.as_bytes())
            .map(|()| path.clone())
            .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    });
    match written.await {
        Ok(Ok(path)) => Ok(path.display().to_string().into()),
        Ok(Err(error)) => Err(SaveError { message: error.to_string().into(), retry: retry_of(&error) }),
        Err(error) => Err(SaveError { message: error.to_string().into(), retry: None }),
    }
}

/// What of a saved report decides whether another one takes its place.
#[derive(Deserialize)]
struct SavedHead {
    run: String,
    item_digest: String,
    stop: SavedStop,
}

#[derive(Deserialize)]
struct SavedStop {
    class: StopClass,
}

/// Whether the file holds the report of another run of the same item, and of a better class than `text`.
fn is_better(path: &Path, text: &str) -> bool {
    // Whatever else is there, a device or a link too, is not read.
    if !std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
        return false;
    }
    let there = File::open(path).map(|file| BufReader::new(file.take(MAX_COMPARED_BYTES)));
    let there = there.ok().and_then(|there| serde_json::from_reader::<_, SavedHead>(there).ok());
    let (Some(there), Ok(new)) = (there, serde_json::from_str::<SavedHead>(text)) else { return false };
    there.run != new.run
        && there.item_digest == new.item_digest
        && rank(there.stop.class) < rank(new.stop.class)
}

/// The place of a class among those of outcomes of one item, the best first: what is done, what is left for a person, what is
/// not done.
fn rank(class: StopClass) -> u8 {
    match class {
        StopClass::Answered => 0,
        StopClass::Partial => 1,
        StopClass::NeedsHuman => 2,
        StopClass::InDoubt => 3,
        StopClass::Refused => 4,
        StopClass::Cancelled => 5,
        StopClass::Failed => 6,
    }
}

/// A file that is larger is no report of a run, and is replaced.
const MAX_COMPARED_BYTES: u64 = 1 << 30;

/// What may pass by itself is tried again; a missing right or a wrong path is not.
fn retry_of(error: &std::io::Error) -> Option<Duration> {
    use std::io::ErrorKind;
    let passes = matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ResourceBusy
    );
    passes.then_some(Duration::from_millis(200))
}

fn resolved(template: &Path, started: &Started) -> PathBuf {
    let (item, run) = (file_name(&started.item.id), file_name(started.run.as_str()));
    let parts = template.components().map(|part| {
        let text = part.as_os_str().to_string_lossy();
        text.replace("{item}", &item).replace("{run}", &run)
    });
    parts.collect()
}

/// An id as it is in a file's name. It comes from outside: it must not lead to another folder, and two ids must not
/// lead to one file. So what is not plain is written as its bytes, `a/b` as `a%2Fb`.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for (at, c) in id.char_indices() {
        let is_plain = c.is_alphanumeric() || "-_".contains(c) || c == '.' && at > 0;
        if is_plain {
            name.push(c);
        } else {
            let bytes = id.as_bytes().get(at..at + c.len_utf8()).unwrap_or_default();
            name.extend(bytes.iter().map(|byte| format!("%{byte:02X}")));
        }
    }
    if name.is_empty() {
        // No id is written as a mark without a number behind it.
        return "%".to_owned();
    }
    match name.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_NAME_BYTES).last() {
        Some(cut) if name.len() > MAX_NAME_BYTES => {
            let digest = Digest::of("file-name", id.as_bytes()).short();
            format!("{}%-{digest}", name.get(..cut).unwrap_or_default())
        }
        _ => name,
    }
}

/// File systems take names of 255 bytes, and a template adds some of its own.
const MAX_NAME_BYTES: usize = 160;

/// Writes beside the target, then renames: a reader sees the old file or the new one, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_folder(folder)?;
    }
    // A rename would put a file in the place of whatever is there, a device or a socket too.
    if std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file() && !there.is_symlink()) {
        return Err(std::io::Error::other("it is there already and no file; give another path"));
    }
    // A name of its own for each write: two runs may save to one place at the same time.
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}-{}.tmp", std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed)));
    let beside = PathBuf::from(beside);
    let write = || {
        let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&beside)?;
        file.write_all(bytes)?;
        // Otherwise a power cut after the rename could leave an empty file under the right name.
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    let written = write();
    if written.is_err() {
        // The target is untouched. The file next to it is of no use.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn two_ids_never_lead_to_one_file_and_none_leads_out_of_its_folder() {
        // B14
        let long = "x".repeat(400);
        let other = format!("{}y", &long[1..]);
        let ids = [
            "a/b", "a_b", "a%2Fb", "a%b", "a b", "a.b", ".a", "..", "../a", "", "%", "_", "-", "\u{0}", "ä",
            "a\nb", &long, &other,
        ];
        let names: BTreeSet<String> = ids.iter().map(|id| file_name(id)).collect();
        assert_eq!(names.len(), ids.len(), "{names:?}");
        for name in &names {
            assert!(!name.is_empty() && !name.starts_with('.') && name.len() < 200, "{name}");
            assert!(!name.contains(['/', '\\', '\0', '\n']), "{name}");
        }
        assert_eq!((file_name("T-1"), file_name("INC.42_x")), ("T-1".to_owned(), "INC.42_x".to_owned()));
        assert_eq!(file_name("a/b"), "a%2Fb");
    }
}
