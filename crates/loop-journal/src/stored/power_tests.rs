//! A power failure is simulated: the write-ahead log is cut off, and the head names another boot id.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::spec::SectionSpec;
use loop_core::types::{Digest, Millis, RunId};
use loop_core::{Event, EventKind};
use loop_testkit::Setup;
use tempfile::TempDir;

use super::heads::record;
use super::*;

struct TestMachine {
    folder: TempDir,
    run: RunId,
}

pub(super) fn blank(seq: u64) -> Arc<Entry> {
    Arc::new(Entry {
        seq,
        event: Event { at: Millis(seq), kind: EventKind::StopWithdrawn },
        notes: Vec::new(),
    })
}

/// What a run is opened with: its header and its first entry.
pub(super) fn opening() -> (Header, Arc<Entry>) {
    const MANIFEST: &str = "[]";
    let mut setup = Setup::document("test").section(SectionSpec::new("a", "A"));
    setup.facts.tools = Digest::of("manifest", MANIFEST.as_bytes());
    let world = setup.start_as("r1");
    let (event, notes, _) = world.journal.into_iter().next().unwrap();
    let EventKind::Started(started) = &event.kind else { panic!("{event:?}") };
    let header = Header {
        run: started.run.clone(),
        unix_ms: started.unix_ms,
        item: Arc::clone(&started.item.id),
        title: Arc::clone(&started.item.title),
        spec: Arc::clone(&world.spec),
        manifest_hash: started.tools,
        manifest: MANIFEST.into(),
        origin: None,
        request_key: None,
    };
    (header, Arc::new(Entry { seq: 0, event, notes }))
}

impl TestMachine {
    /// A run with seven entries, of which the third was synced; the power fails behind the fifth.
    async fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap(), run: RunId::new("r1") };
        let journal = StoredJournal::open(machine.path()).unwrap();
        let (header, first) = opening();
        let mut writer = journal.create(&header, &first).await.unwrap();
        let mut log = 0;
        for seq in 1..7 {
            let durability = if seq == 2 { Durability::Synced } else { Durability::Committed };
            writer.append(&blank(seq), durability).await.unwrap();
            if seq == 4 {
                log = fs::metadata(machine.beside("-wal")).unwrap().len();
            }
        }
        assert_eq!(journal.synced_commits(), 1);
        // As a power failure would leave it: not closed, which would move the log into the file.
        let copies = ["", "-wal"].map(|end| (machine.beside(end), fs::read(machine.beside(end)).unwrap()));
        drop(writer);
        drop(journal);
        fs::remove_file(machine.beside("-shm")).unwrap_or_default();
        for (path, bytes) in copies {
            fs::write(path, bytes).unwrap();
        }
        fs::OpenOptions::new().write(true).open(machine.beside("-wal")).unwrap().set_len(log).unwrap();
        machine
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.path().into_os_string();
        path.push(end);
        path.into()
    }

    fn head(&self) -> (Heads, Key, Head) {
        let path = fs::canonicalize(self.path()).unwrap();
        let (heads, key) = (Heads::beside(&path), Key::read(&path).unwrap().unwrap());
        let head = heads.read(&self.run, &key).unwrap().unwrap();
        (heads, key, head)
    }

    /// The head as the start of the machine before this one wrote it.
    fn restarted(&self, change: impl FnOnce(&mut Head)) {
        let (heads, key, mut head) = self.head();
        head.written = head.written.map(|at| clock::SinceBoot { boot: "before".into(), ..at });
        change(&mut head);
        let text = record(&self.run, &key, &head);
        let line = format!("{text:<383}\n");
        fs::write(heads.path(&self.run), line.repeat(2)).unwrap();
    }

    async fn resumed(&self) -> Result<usize, JournalError> {
        let journal = StoredJournal::open(self.path())?;
        let (recorded, mut writer) = journal.resume(&self.run).await?;
        let has = recorded.entries.len();
        for seq in has..has + 3 {
            writer.append(&blank(seq as u64), Durability::Committed).await?;
            // From here on nothing may be missing again: the head speaks of this start alone.
            assert_eq!(self.head().2.committed.entries, seq as u64 + 1);
        }
        drop(writer);
        // What is written behind the gap is read and resumed like everything else.
        let (recorded, _) = journal.resume(&self.run).await?;
        assert_eq!(recorded.entries.len(), has + 3);
        Ok(has)
    }
}

fn why(result: Result<usize, JournalError>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn a_power_failure_takes_entries_that_were_not_synced_and_the_run_resumes_before_them() {
    let machine = TestMachine::new().await;
    let head = machine.head().2;
    assert_eq!((head.committed.entries, head.synced.entries), (7, 3));
    machine.restarted(|_| ());
    let journal = StoredJournal::open(machine.path()).unwrap();
    assert_eq!(journal.runs().await.unwrap()[0].trouble, None);
    drop(journal);
    assert_eq!(machine.resumed().await.unwrap(), 5);
}

#[tokio::test]
async fn the_same_journal_without_a_new_start_of_the_machine_was_rolled_back() {
    let machine = TestMachine::new().await;
    assert!(why(machine.resumed().await).contains("the journal has 5 of its entries, and there were 7"));
}

#[tokio::test]
async fn nothing_that_was_synced_may_be_missing_or_another_also_after_a_new_start() {
    let machine = TestMachine::new().await;
    machine.restarted(|head| head.synced = ChainEnd { entries: 6, hash: head.committed.hash });
    assert!(why(machine.resumed().await).contains("it was rolled back"));
    let journal = StoredJournal::open_existing(machine.path()).unwrap();
    assert!(journal.runs().await.unwrap()[0].trouble.is_some());
    machine.restarted(|head| head.synced = ChainEnd { entries: 4, hash: head.committed.hash });
    assert!(machine.resumed().await.is_err());
}

#[tokio::test]
async fn a_policy_decides_which_commits_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    for (policy, synced) in [(SyncPolicy::Full, 4), (SyncPolicy::Effects, 1), (SyncPolicy::None, 0)] {
        let path: &Path = &folder.path().join(format!("{policy:?}.db"));
        let journal = StoredJournal::open(path).unwrap().with_sync(policy);
        let (header, first) = opening();
        let mut writer = journal.create(&header, &first).await.unwrap();
        writer.append(&blank(1), Durability::Committed).await.unwrap();
        writer.append(&blank(2), Durability::Synced).await.unwrap();
        writer.append(&blank(3), Durability::Committed).await.unwrap();
        assert_eq!(journal.synced_commits(), synced, "{policy:?}");
    }
}
