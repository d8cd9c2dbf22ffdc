//! A blob store in a folder, with atomic writes.
//!
//! A blob is written to a temporary file, synced and renamed, and then its folder is synced. The lock file `.lock`
//! keeps sweeps and puts apart. Without it, a sweep could delete an old blob that a put has just found.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::blobs::error::{BlobError, BlobErrorKind};
use crate::blobs::id::BlobId;
use crate::blobs::sweep::{StoredBlob, Sweep};

#[cfg(test)]
mod tests;

/// The folder of a store. Its functions block.
pub(crate) struct Folder {
    root: PathBuf,
    max_bytes: u64,
    /// How long a put or a sweep waits for the lock.
    lock_wait: Duration,
    /// For tests: called before each step. Its error becomes that of the step.
    #[cfg(test)]
    before: Option<Hook>,
}

#[cfg(test)]
type Hook = Box<dyn Fn(Step) -> io::Result<()> + Send + Sync>;

/// The steps of a put. Each can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Write,
    Sync,
    Rename,
    SyncFolder,
}

impl Folder {
    /// Creates the folder and its parents if they do not exist.
    pub(crate) fn open(root: PathBuf, max_bytes: u64) -> Result<Self, BlobError> {
        let folder = Self {
            root,
            max_bytes,
            lock_wait: LOCK_WAIT,
            #[cfg(test)]
            before: None,
        };
        let created = folder.root.ancestors().take_while(|above| !above.exists()).count();
        let made = private_folder(&folder.root).and_then(|()| {
            // What was made is in the folder above it.
            folder.root.ancestors().skip(1).take(created).try_for_each(sync_folder)
        });
        made.map_err(|error| BlobError::of_store(folder.root.display().to_string(), made_kind(error)))?;
        Ok(folder)
    }

    pub(crate) fn path(&self, id: BlobId) -> PathBuf {
        let (folder, name) = id.place();
        self.root.join(folder).join(name)
    }

    /// Writes the blob. If it exists and is complete, its age is reset instead.
    pub(crate) fn put(&self, id: BlobId, bytes: &[u8]) -> Result<(), BlobErrorKind> {
        let (folder, name) = id.place();
        let folder = self.root.join(folder);
        let path = folder.join(&name);
        if self.is_refreshed(&path, id)? {
            return Ok(());
        }
        if !folder.exists() {
            private_folder(&folder).map_err(made_kind)?;
            sync_folder(&self.root).map_err(made_kind)?;
        }
        let (mut file, temporary) = self.temporary(&folder, &name)?;
        let mut write = || -> io::Result<()> {
            self.reached(Step::Write)?;
            file.write_all(bytes)?;
            self.reached(Step::Sync)?;
            // Otherwise a power cut after the rename could leave an empty file under the blob's name.
            file.sync_all()?;
            self.reached(Step::Rename)?;
            let _locked = self.lock(File::try_lock_shared)?;
            fs::rename(&temporary, &path)
        };
        if let Err(error) = write() {
            // A file that stays behind is deleted by a sweep.
            let _ = fs::remove_file(&temporary);
            return Err(made_kind(error));
        }
        self.reached(Step::SyncFolder).and_then(|()| sync_folder(&folder)).map_err(made_kind)
    }

    /// Whether the blob exists and is complete. If so, its age is reset and it is durable.
    fn is_refreshed(&self, path: &Path, id: BlobId) -> Result<bool, BlobErrorKind> {
        let opened = {
            // A read-only store has no lock file; then the write says what is wrong.
            if !path.exists() {
                return Ok(false);
            }
            let _locked = self.lock(File::try_lock_shared).map_err(made_kind)?;
            let opened = OpenOptions::new().read(true).write(true).open(path);
            opened.and_then(|file| file.set_modified(SystemTime::now()).map(|()| file))
        };
        // Where the file cannot be read, it is written anew.
        let Ok(mut file) = opened else { return Ok(false) };
        let is_whole = read(&mut file, self.max_bytes).is_ok_and(|bytes| BlobId::of(&bytes) == id);
        if is_whole {
            // Another writer may have renamed it and not synced it yet.
            file.sync_all().map_err(made_kind)?;
            path.parent().map_or(Ok(()), sync_folder).map_err(made_kind)?;
        }
        Ok(is_whole)
    }

    /// A new temporary file for the content. Two writers never share one.
    fn temporary(&self, folder: &Path, name: &str) -> Result<(File, PathBuf), BlobErrorKind> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = WRITES.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{name}.{}-{number}{TEMPORARY}", std::process::id()));
            let created = self.reached(Step::Create).and_then(|()| {
                let mut options = OpenOptions::new();
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                options.write(true).create_new(true).open(&path)
            });
            match created {
                Ok(file) => return Ok((file, path)),
                // Left by a process of the same number, or written now by one on another machine.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(made_kind(error)),
            }
        }
    }

    /// The blob's content, after its digest was checked.
    pub(crate) fn get(&self, id: BlobId) -> Result<Bytes, BlobErrorKind> {
        let mut file = File::open(self.path(id))?;
        let bytes = file.metadata()?.len();
        if bytes > self.max_bytes {
            return Err(BlobErrorKind::TooLarge { bytes, max: self.max_bytes });
        }
        let content = read(&mut file, self.max_bytes)?;
        check(id, &content)?;
        Ok(content.into())
    }

    /// Deletes the blob, and temporary files of a crash.
    pub(crate) fn delete(&self, id: BlobId) -> Result<(), BlobErrorKind> {
        let (folder, name) = id.place();
        let folder = self.root.join(folder);
        let listed = match fs::read_dir(&folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in listed {
            let entry = entry?;
            let is_of_blob = entry
                .file_name()
                .to_str()
                .is_some_and(|file| file == name || file.starts_with(&name) && file.ends_with(TEMPORARY));
            if is_of_blob {
                remove(&entry.path())?;
            }
        }
        Ok(sync_folder(&folder)?)
    }

    /// The folders with blobs.
    pub(crate) fn folders(&self) -> Result<Vec<String>, BlobErrorKind> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if let (true, Some(name)) = (entry.file_type()?.is_dir(), entry.file_name().to_str()) {
                folders.push(name.to_owned());
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// The blobs of one folder that have not changed since `before`.
    pub(crate) fn older(&self, folder: &str, before: SystemTime) -> Result<Vec<StoredBlob>, BlobErrorKind> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(|name| BlobId::at(folder, name)) else {
                continue;
            };
            if let Some(bytes) = is_older(&entry.path(), before)? {
                found.push(StoredBlob { id, bytes });
            }
        }
        Ok(found)
    }

    /// The first bytes of a blob.
    pub(crate) fn beginning(&self, id: BlobId, max: u64) -> Result<Bytes, BlobErrorKind> {
        let mut content = Vec::new();
        File::open(self.path(id))?.take(max).read_to_end(&mut content)?;
        Ok(content.into())
    }

    /// Deletes a blob that has not changed since `before`. Returns its size in bytes.
    pub(crate) fn delete_older(&self, id: BlobId, before: SystemTime) -> Result<Option<u64>, BlobErrorKind> {
        let path = self.path(id);
        let deleted = self.remove_older(&path, before)?;
        if deleted.is_some() {
            path.parent().map_or(Ok(()), sync_folder)?;
        }
        Ok(deleted)
    }

    /// Removes a file that has not changed since `before`, and whose age no put has reset. Returns its size in bytes.
    fn remove_older(&self, path: &Path, before: SystemTime) -> io::Result<Option<u64>> {
        let _locked = self.lock(File::try_lock)?;
        let bytes = is_older(path, before)?;
        if bytes.is_some() {
            remove(path)?;
        }
        Ok(bytes)
    }

    /// Deletes the blobs in one folder that are not referenced and have not changed since `before`.
    pub(crate) fn sweep(
        &self,
        folder: &str,
        referenced: &HashSet<BlobId>,
        before: SystemTime,
    ) -> Result<Sweep, BlobErrorKind> {
        let mut sweep = Sweep::default();
        let path = self.root.join(folder);
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name.ends_with(TEMPORARY) {
                let unfinished = before.min(SystemTime::now() - WRITES_WITHIN);
                if is_older(&entry.path(), unfinished)?.is_some() {
                    remove(&entry.path())?;
                }
                continue;
            }
            let Some(id) = BlobId::at(folder, &name) else { continue };
            if referenced.contains(&id) {
                sweep.referenced += 1;
                continue;
            }
            match self.remove_older(&entry.path(), before)? {
                Some(bytes) => {
                    sweep.deleted += 1;
                    sweep.deleted_bytes += bytes;
                }
                None => sweep.young += 1,
            }
        }
        if sweep.deleted > 0 {
            sync_folder(&path)?;
        }
        Ok(sweep)
    }

    /// Takes the store's lock by `take`. It is held to check and change one file.
    fn lock(&self, take: fn(&File) -> Result<(), TryLockError>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.create(true).truncate(false).write(true).open(self.root.join(LOCK))?;
        let start = Instant::now();
        loop {
            match take(&file) {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.lock_wait => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let waited = self.lock_wait.as_secs_f32();
                    let message = format!("another process holds {LOCK} for {waited} s");
                    return Err(io::Error::new(ErrorKind::TimedOut, message));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, clippy::unnecessary_wraps))]
    fn reached(&self, _step: Step) -> io::Result<()> {
        #[cfg(test)]
        if let Some(before) = &self.before {
            return before(_step);
        }
        Ok(())
    }
}

/// Checks that the content has the digest of the blob's id.
pub(crate) fn check(id: BlobId, content: &[u8]) -> Result<(), BlobErrorKind> {
    let found = BlobId::of(content);
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if found == id { Ok(()) } else { Err(BlobErrorKind::Damaged { found, bytes }) }
}

/// Reads at most one byte more than a blob may have, so that a file which grows meanwhile counts as damaged.
fn read(file: &mut File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

/// The size of a file, if it exists and was last changed before that instant.
fn is_older(path: &Path, before: SystemTime) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.modified()? < before).then_some(there.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The kind of an error while something is created. Not found means that another process deleted a folder or file
/// meanwhile.
fn made_kind(error: io::Error) -> BlobErrorKind {
    if error.kind() == ErrorKind::NotFound {
        return BlobErrorKind::Unavailable(format!("another process deleted it meanwhile ({error})"));
    }
    error.into()
}

/// Creates a folder that only its owner can access, since blobs contain what runs have read.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the names in a folder durable. Windows has no such call and writes them with the file.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

const LOCK: &str = ".lock";
const LOCK_PAUSE: Duration = Duration::from_millis(5);
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// The suffix of temporary files.
const TEMPORARY: &str = ".tmp";
/// A temporary file that was not written to for this long is left over from a crash.
const WRITES_WITHIN: Duration = Duration::from_secs(3600);
