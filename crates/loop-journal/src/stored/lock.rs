//! Locks of the operating system: a process that ends, however it ends, gives up what it held.
//!
//! They lie in a folder beside the journal and not in the journal itself, because closing any handle of a SQLite file
//! would release the locks that SQLite has on it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use loop_core::types::{Digest, RunId};
use loop_tools::files as plain;

use super::locks::NotTaken;
use crate::files;

/// The folder of lock files of one journal.
#[derive(Debug)]
pub(super) struct FileLocks {
    folder: PathBuf,
}

/// A run's lock. Dropping it lets another process write the run.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLocks {
    /// The locks of the journal at `path`, which has no links in it.
    pub(super) fn beside(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".locks");
        let folder = folder.into();
        Self { folder }
    }

    /// Takes a run's lock, or says at once who holds it.
    pub(super) fn take(&self, run: &RunId) -> Result<FileLock, NotTaken> {
        let path = self.path(run);
        loop {
            let file = self.file(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                // Held by those who only ask whether it is held, and free in a moment.
                Err(TryLockError::WouldBlock) if file.try_lock_shared().is_ok() => continue,
                Err(TryLockError::WouldBlock) => {
                    let pid = plain::text(&path, 64).ok().and_then(|text| text.trim().parse().ok());
                    return Err(NotTaken::Held(pid));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let lock = FileLock { file, path: path.clone() };
            // Its last owner may have removed the file after it was opened here: then the lock has no owner.
            if lock.is_in_place() {
                lock.sign().map_err(failed)?;
                return Ok(lock);
            }
        }
    }

    /// Whether a process may hold a run's lock. Asking takes it from no process: askers share it, and a process that wants
    /// it waits for them. Where that cannot be found out, as with a file of another user, it counts as held.
    pub(super) fn is_held(&self, run: &RunId) -> bool {
        match plain::open(&self.path(run)) {
            Ok(file) => file.try_lock_shared().is_err(),
            // Its owner removes it at the end.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Waits until no other process creates or changes the journal's tables.
    pub(super) fn alone(&self) -> io::Result<File> {
        // No run's lock file begins with a dot.
        let file = self.file(&self.folder.join(".tables.lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn path(&self, run: &RunId) -> PathBuf {
        self.folder.join(format!("{}.lock", file_name(run)))
    }

    fn file(&self, path: &Path) -> io::Result<File> {
        files::create_folder(&self.folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        files::private(&mut options).open(path)
    }
}

impl FileLock {
    /// Writes down who holds it.
    fn sign(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(&self.file, "{}", std::process::id())
    }

    /// Whether the path still leads to the file that is locked.
    #[cfg(unix)]
    fn is_in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(here), Ok(there)) = (self.file.metadata(), fs::metadata(&self.path)) else { return false };
        (here.dev(), here.ino()) == (there.dev(), there.ino())
    }

    /// An open file cannot be removed here, so it is the one at the path.
    #[cfg(not(unix))]
    fn is_in_place(&self) -> bool {
        true
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed while it is locked: who opens it after this makes another file, who opened it before looks again.
        if cfg!(unix) && self.is_in_place() {
            _ = fs::remove_file(&self.path);
        }
    }
}

/// A file name for any run id: the id itself where that is safe on every file system, else its digest.
pub(super) fn file_name(run: &RunId) -> String {
    let id = run.as_str();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !id.is_empty() && id.len() < 64 && id.chars().all(is_plain) {
        id.to_owned()
    } else {
        Digest::of("run", id.as_bytes()).to_string()
    }
}

fn failed(error: io::Error) -> NotTaken {
    NotTaken::Failed(error.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn a_lock_has_one_owner_though_its_file_comes_and_goes() {
        // I-29, H8
        let folder = tempfile::tempdir().unwrap();
        let (locks, run) = (FileLocks::beside(&folder.path().join("journal.db")), RunId::new("r1"));
        let (is_owned, taken) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while taken.load(Ordering::SeqCst) < 200 {
                        // A process that only asks does not hinder the owner.
                        locks.is_held(&run);
                        match locks.take(&run) {
                            Ok(_lock) => {
                                assert!(!is_owned.swap(true, Ordering::SeqCst), "two owners");
                                std::thread::sleep(Duration::from_micros(200));
                                taken.fetch_add(1, Ordering::SeqCst);
                                is_owned.store(false, Ordering::SeqCst);
                            }
                            Err(NotTaken::Held(_)) => {}
                            Err(NotTaken::Failed(error)) => panic!("{error:?}"),
                        }
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&locks.folder).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_cannot_be_asked_about_counts_as_held() {
        // I-29, L22: the run of another user may be live, and what it has reserved is not settled from outside.
        let folder = tempfile::tempdir().unwrap();
        let (locks, run) = (FileLocks::beside(&folder.path().join("journal.db")), RunId::new("r1"));
        assert!(!locks.is_held(&run), "there is no folder yet");
        fs::create_dir(&locks.folder).unwrap();
        assert!(!locks.is_held(&run), "there is no file yet");
        // Links in a circle can be opened by no user, also not by root.
        std::os::unix::fs::symlink(locks.path(&run), locks.path(&run)).unwrap();
        assert!(locks.is_held(&run));
    }

    #[test]
    fn asking_who_holds_a_lock_never_takes_it_from_anyone() {
        // I-29
        let folder = tempfile::tempdir().unwrap();
        let (locks, run) = (FileLocks::beside(&folder.path().join("journal.db")), RunId::new("r1"));
        assert!(!locks.is_held(&run), "there is no file yet");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        locks.is_held(&run);
                    }
                });
            }
            let refused = (0..2_000).filter(|_| locks.take(&run).is_err()).count();
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(refused, 0);
        });
        let lock = locks.take(&run).unwrap();
        assert!(locks.is_held(&run) && locks.is_held(&run));
        assert!(matches!(locks.take(&run), Err(NotTaken::Held(_))), "it was asked for, not given up");
        drop(lock);
        assert!(!locks.is_held(&run));
    }
}
