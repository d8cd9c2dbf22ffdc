//! Saving to a file: whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loop_core::Started;

use crate::save::SaveError;

/// Writes the report to the place that the template names, and gives it.
pub(super) async fn write(template: &Path, started: &Started, text: String) -> Result<Arc<str>, SaveError> {
    let path = resolved(template, started);
    let written = tokio::task::spawn_blocking(move || {
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
    // An id comes from outside: it must not lead to another folder.
    let plain = |id: &str| -> String {
        let safe = id.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' });
        let safe: String = safe.collect();
        safe.trim_start_matches('.').to_owned()
    };
    let parts = template.components().map(|part| {
        let text = part.as_os_str().to_string_lossy();
        text.replace("{item}", &plain(&started.item.id)).replace("{run}", &plain(started.run.as_str()))
    });
    parts.collect()
}

/// Writes beside the target, then renames: a reader sees the old file or the new one, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
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
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        // Otherwise a power cut after the rename could leave an empty file under the right name.
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    let written = write();
    if written.is_err() {
        // The target is untouched; what lies beside it is of no use to anyone.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
