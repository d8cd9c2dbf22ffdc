//! The head of each run, kept beside the journal: how many entries it had at the last, and the hash of the last one.
//!
//! A journal that was rolled back, or that lost the log which holds its last entries, knows less than the head. A head
//! is written after its entry is committed, so it may lag by an entry after a kill and by more after a power failure.
//! Until the machine restarts, it is never ahead of an honest journal. A power failure may take entries that were not
//! synced. The head therefore names the last synced entry as well, and every honest journal has that one.

use std::fs::{self, File, OpenOptions};
use std::io::{
    self,
    ErrorKind::{FileTooLarge, InvalidInput, NotFound},
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use loop_core::types::{Digest, RunId};
use loop_tools::files as plain;

use super::clock;
use super::lock::file_name;
use super::seal::Key;
use crate::Durability;
use crate::files;

/// The folder of heads of one journal.
#[derive(Debug)]
pub(super) struct Heads {
    folder: PathBuf,
}

/// What is known of a run's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The last entry that was committed.
    pub(super) committed: ChainEnd,
    /// The last entry that was synced to the disk.
    pub(super) synced: ChainEnd,
    /// When it was written, by the clock of the machine that counts from its start.
    pub(super) written: Option<clock::SinceBoot>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// The number of entries.
    pub(super) entries: u64,
    /// The hash of the last one; of the run itself if there are none.
    pub(super) hash: Digest,
}

impl Head {
    /// What a journal must have that was not rolled back: all that was committed, or, if the machine was restarted since,
    /// all that was synced.
    pub(super) fn required(&self, now: Option<&clock::SinceBoot>) -> ChainEnd {
        let is_same_start = self.written.as_ref().zip(now).is_some_and(|(then, now)| then.boot == now.boot);
        if is_same_start { self.committed } else { self.synced }
    }
}

/// Where a run's head is written.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    run: RunId,
    next: Mutex<NextSlot>,
}

/// What the next record needs to know of those before it.
#[derive(Clone, Copy, Debug)]
struct NextSlot {
    synced: ChainEnd,
    /// Which of the two records of the file is the older one.
    slot: u64,
}

impl Heads {
    /// The heads of the journal at `path`, which has no links in it.
    pub(super) fn beside(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".heads");
        Self { folder: folder.into() }
    }

    /// The file of a new run's head, with nothing of it. It is there before the run is, so that no run is without one.
    pub(super) fn create(
        &self,
        run: &RunId,
        key: &Key,
        hash: Digest,
        is_synced: bool,
    ) -> io::Result<HeadFile> {
        files::create_folder(&self.folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = files::private(&mut options).open(self.path(run))?;
        let none = ChainEnd { entries: 0, hash };
        let head = HeadFile { file, run: run.clone(), next: Mutex::new(NextSlot { synced: none, slot: 0 }) };
        head.write(key, none, Durability::Committed)?;
        if is_synced {
            head.file.sync_all()?;
        }
        Ok(head)
    }

    /// The file of a run's head, to continue it from what the journal has now.
    pub(super) fn open(&self, run: &RunId, key: &Key, head: &Head, has: ChainEnd) -> io::Result<HeadFile> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(run))?;
        let slot = self.newest(run, key)?.map_or(0, |(slot, _)| 1 - slot.min(1));
        let next = Mutex::new(NextSlot { synced: head.synced, slot });
        let opened = HeadFile { file, run: run.clone(), next };
        if has.entries < head.committed.entries {
            // A power failure took the rest. Both records are replaced, so that neither names it.
            opened.write(key, has, Durability::Committed)?;
            opened.write(key, has, Durability::Committed)?;
        }
        Ok(opened)
    }

    /// A run's head: the newest whole record of its file. `None` where there is none that the key made.
    pub(super) fn read(&self, run: &RunId, key: &Key) -> io::Result<Option<Head>> {
        Ok(self.newest(run, key)?.map(|(_, head)| head))
    }

    /// The newest whole record of a run's file, and which of the two it is.
    fn newest(&self, run: &RunId, key: &Key) -> io::Result<Option<(u64, Head)>> {
        let text = match plain::bytes(&self.path(run), 4 * RECORD as u64) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // What is no file, or too long for one of these, has no record of the key either.
            Err(error) if matches!(error.kind(), NotFound | InvalidInput | FileTooLarge) => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = (0..).zip(text.lines());
        let found = found.filter_map(|(slot, line)| Some((slot, parse(line.trim_end(), run, key)?)));
        Ok(found.max_by_key(|(_, head)| head.committed.entries))
    }

    /// The names of all heads, in their order. Empty where there is no folder.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let files = match fs::read_dir(&self.folder) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for file in files {
            names.extend(file?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether the file of this name has two records, whatever they say: its run has at least one entry.
    pub(super) fn is_whole(&self, name: &str) -> bool {
        fs::metadata(self.folder.join(name)).is_ok_and(|file| file.len() >= 2 * RECORD as u64)
    }

    /// Removes the head of a run that was pruned.
    pub(super) fn remove(&self, run: &RunId) -> io::Result<()> {
        match fs::remove_file(self.path(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where a run's head lies.
    pub(super) fn path(&self, run: &RunId) -> PathBuf {
        self.folder.join(file_name(run))
    }
}

impl HeadFile {
    /// Writes the head after a commit. Two records take turns, so that one that is torn leaves the one before it.
    pub(super) fn write(&self, key: &Key, committed: ChainEnd, durability: Durability) -> io::Result<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if durability == Durability::Synced {
            next.synced = committed;
        }
        let head = Head { committed, synced: next.synced, written: clock::now() };
        let mut record = record(&self.run, key, &head);
        record.extend(std::iter::repeat_n(' ', (RECORD - 1).saturating_sub(record.len())));
        record.push('\n');
        write_at(&self.file, record.as_bytes(), next.slot * RECORD as u64)?;
        next.slot = 1 - next.slot;
        Ok(())
    }
}

/// The line that holds a head.
pub(super) fn record(run: &RunId, key: &Key, head: &Head) -> String {
    let (count, hash) = (head.committed.entries.to_string(), head.committed.hash.to_string());
    let (synced, synced_hash) = (head.synced.entries.to_string(), head.synced.hash.to_string());
    let (boot, since) = match &head.written {
        None => ("-", "-".to_owned()),
        Some(written) => (&*written.boot, written.millis.to_string()),
    };
    let seal = key.seal(TAG, &[run.as_str(), &count, &hash, &synced, &synced_hash, boot, &since]);
    format!("{count} {hash} {synced} {synced_hash} {boot} {since} {seal}")
}

fn parse(line: &str, run: &RunId, key: &Key) -> Option<Head> {
    let fields: [&str; 7] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let [count, hash, synced, synced_hash, boot, since, seal] = fields;
    if key.check(seal, TAG, &[run.as_str(), count, hash, synced, synced_hash, boot, since]).is_some() {
        return None;
    }
    let written = since.parse().ok().map(|millis| clock::SinceBoot { boot: boot.into(), millis });
    let committed = ChainEnd { entries: count.parse().ok()?, hash: hash.parse().ok()? };
    let synced = ChainEnd { entries: synced.parse().ok()?, hash: synced_hash.parse().ok()? };
    Some(Head { committed, synced, written })
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

const TAG: &str = "head";
/// Bytes of one record, its line break included.
const RECORD: usize = 384;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_leaves_the_one_before_it_and_a_foreign_one_counts_for_nothing() {
        // B3, H2
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let (key, heads, run) = (Key::make(&path).unwrap(), Heads::beside(&path), RunId::new("R 1"));
        let hash = |n: u64| Digest::of("test", &n.to_be_bytes());
        assert_eq!(heads.read(&run, &key).unwrap(), None);
        let file = heads.create(&run, &key, hash(0), false).unwrap();
        let mut file = file;
        let at = |entries| ChainEnd { entries, hash: hash(entries) };
        // Several entries may share a commit, so the numbers of two records need not follow each other.
        for entries in [0, 1, 2, 4, 6, 9, 11, 13] {
            file.write(&key, at(entries), Durability::Committed).unwrap();
            let head = heads.read(&run, &key).unwrap().unwrap();
            assert_eq!(head.committed, at(entries));
            if entries == 4 {
                file = heads.open(&run, &key, &head, head.committed).unwrap();
            }
            let whole = fs::read(heads.path(&run)).unwrap();
            for torn_at in [0, RECORD] {
                let mut torn = whole.clone();
                torn.get_mut(torn_at).into_iter().for_each(|byte| *byte ^= 1);
                fs::write(heads.path(&run), &torn).unwrap();
                let left = heads.read(&run, &key).unwrap().unwrap().committed.entries;
                assert!(left == entries || left + 3 >= entries, "{left} of {entries}");
            }
            fs::write(heads.path(&run), &whole).unwrap();
        }
        let whole = fs::read(heads.path(&run)).unwrap();
        assert_eq!(whole.len(), 2 * RECORD);
        for cut in 0..RECORD - 40 {
            let mut torn = whole.clone();
            torn[cut] ^= 1;
            fs::write(heads.path(&run), &torn).unwrap();
            let head = heads.read(&run, &key).unwrap().unwrap();
            assert!(matches!(head.committed.entries, 11 | 13), "{head:?}");
        }
        fs::write(heads.path(&run), &whole).unwrap();
        let other = RunId::new("r2");
        fs::copy(heads.path(&run), heads.path(&other)).unwrap();
        assert_eq!(heads.read(&other, &key).unwrap(), None, "it is of another run");
    }
}
