//! The head of each run, kept beside the journal: how many entries it had at the last, and the hash of the last one.
//!
//! A journal that was rolled back, or that lost the log which holds its last entries, knows less than the head. A head
//! is written after its entry is durable, so it may lag by an entry after a kill and by more after a power cut; it is
//! never ahead of an honest journal.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use loop_core::{Digest, RunId};

use super::clock;
use super::lock::file_name;
use super::seal::Key;
use crate::files;

/// The folder of heads of one journal.
#[derive(Debug)]
pub(super) struct Heads {
    folder: PathBuf,
}

/// What is known of a run's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// How many entries there were.
    pub(super) entries: u64,
    /// The hash of the last one; of the run itself where there were none.
    pub(super) hash: Digest,
    /// When it was written, by the clock of the machine that counts from its start.
    pub(super) written: Option<clock::SinceBoot>,
}

/// Where a run's head is written.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    run: RunId,
}

impl Heads {
    /// The heads of the journal at `path`, which has no links in it.
    pub(super) fn beside(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".heads");
        Self { folder: folder.into() }
    }

    /// The file of a new run's head, with nothing of it. It is there before the run is, so that no run is without one.
    pub(super) fn create(&self, run: &RunId, key: &Key, hash: Digest) -> io::Result<HeadFile> {
        files::create_folder(&self.folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = files::private(&mut options).open(self.path(run))?;
        let head = HeadFile { file, run: run.clone() };
        head.write(key, 0, hash)?;
        head.file.sync_all()?;
        Ok(head)
    }

    /// The file of a run's head, to continue writing it.
    pub(super) fn open(&self, run: &RunId) -> io::Result<HeadFile> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(run))?;
        Ok(HeadFile { file, run: run.clone() })
    }

    /// A run's head: the newest whole record of its file. `None` where there is none that the key made.
    pub(super) fn read(&self, run: &RunId, key: &Key) -> io::Result<Option<Head>> {
        let text = match fs::read(self.path(run)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = text.lines().filter_map(|line| parse(line.trim_end(), run, key));
        Ok(found.max_by_key(|head| head.entries))
    }

    /// Where a run's head lies.
    pub(super) fn path(&self, run: &RunId) -> PathBuf {
        self.folder.join(file_name(run))
    }
}

impl HeadFile {
    /// Writes the head after an entry. Two records take turns, so that one that is torn leaves the one before it.
    pub(super) fn write(&self, key: &Key, entries: u64, hash: Digest) -> io::Result<()> {
        let (count, hash, written) = (entries.to_string(), hash.to_string(), clock::now());
        let (boot, since) = written.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |written| (written.boot, written.millis.to_string()),
        );
        let seal = key.seal(TAG, &[self.run.as_str(), &count, &hash, &boot, &since]);
        let text = format!("{count} {hash} {boot} {since} {seal}");
        let record = format!("{text:<width$}\n", width = RECORD - 1);
        write_at(&self.file, record.as_bytes(), (entries % 2) * RECORD as u64)
    }
}

fn parse(line: &str, run: &RunId, key: &Key) -> Option<Head> {
    let [count, hash, boot, since, seal] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    if key.check(seal, TAG, &[run.as_str(), count, hash, boot, since]).is_some() {
        return None;
    }
    let written = since.parse().ok().map(|millis| clock::SinceBoot { boot: boot.to_owned(), millis });
    Some(Head { entries: count.parse().ok()?, hash: hash.parse().ok()?, written })
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
const RECORD: usize = 256;

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
        let file = heads.create(&run, &key, hash(0)).unwrap();
        for entries in 0..=12 {
            file.write(&key, entries, hash(entries)).unwrap();
            let head = heads.read(&run, &key).unwrap().unwrap();
            assert_eq!((head.entries, head.hash), (entries, hash(entries)));
        }
        let whole = fs::read(heads.path(&run)).unwrap();
        assert_eq!(whole.len(), 2 * RECORD);
        for cut in 0..RECORD - 40 {
            let mut torn = whole.clone();
            torn[cut] ^= 1;
            fs::write(heads.path(&run), &torn).unwrap();
            let head = heads.read(&run, &key).unwrap().unwrap();
            assert!(head.entries == 11 || head.entries == 12, "{head:?}");
        }
        fs::write(heads.path(&run), &whole).unwrap();
        let other = RunId::new("r2");
        fs::copy(heads.path(&run), heads.path(&other)).unwrap();
        assert_eq!(heads.read(&other, &key).unwrap(), None, "it is of another run");
    }
}
