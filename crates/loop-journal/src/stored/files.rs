//! Whether the files that are open are still the ones at their paths: who removes or replaces a journal under a run that
//! is being driven would leave its effects without a record.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::fault::Fault;

/// The files of a journal, as they were when it was opened.
#[derive(Debug)]
pub(super) struct JournalFiles {
    /// `None`: the journal is not a file.
    journal: Option<FileId>,
    /// Where the log beside it lies.
    log_path: PathBuf,
    /// The log, once it was written.
    log: OnceLock<FileId>,
}

/// Names a file whatever it is called.
type FileId = (u64, u64);

impl JournalFiles {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { journal: Some(file(path)?), log_path: log(path), log: OnceLock::new() })
    }

    /// Of a journal on a server.
    #[cfg(feature = "postgres")]
    pub(super) fn of_server() -> Self {
        Self { journal: None, log_path: PathBuf::new(), log: OnceLock::new() }
    }

    /// Fails where another file lies at the path by now, or none.
    pub(super) fn holds(&self, path: &Path) -> Result<(), Fault> {
        let Some(journal) = self.journal else { return Ok(()) };
        let log = &self.log_path;
        let is_own = file(path).is_ok_and(|found| found == journal);
        let is_whole = match (file(log), self.log.get()) {
            (Ok(found), None) => {
                // Another thread that was first has seen the same file.
                self.log.get_or_init(|| found);
                true
            }
            (Ok(found), Some(known)) => found == *known,
            (Err(_), None) => true,
            (Err(_), Some(_)) => false,
        };
        if is_own && is_whole {
            return Ok(());
        }
        let what = if is_own { format!("its log {}", log.display()) } else { "it".to_owned() };
        Err(Fault::Stated(format!(
            "{what} was moved, removed or replaced while it was written, so nothing more is done; put it back and resume \
             the run, or use another file with --journal"
        )))
    }
}

fn log(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

#[cfg(unix)]
fn file(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// An open file cannot be removed here.
#[cfg(not(unix))]
fn file(path: &Path) -> io::Result<FileId> {
    std::fs::metadata(path).map(|_| (0, 0))
}
