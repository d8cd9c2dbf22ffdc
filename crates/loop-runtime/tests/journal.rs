//! Journals: what was appended is there, one process writes a run, and what was changed is noticed.

#[path = "journal/audit.rs"]
mod audit;
#[path = "journal/audit_log.rs"]
mod audit_log;
#[path = "journal/conformance.rs"]
mod conformance;
#[path = "journal/cut.rs"]
mod cut;
#[path = "journal/damage.rs"]
mod damage;
#[path = "journal/group.rs"]
mod group;
#[path = "journal/history.rs"]
mod history;
#[path = "journal/keys.rs"]
mod keys;
#[path = "journal/pruned.rs"]
mod pruned;
#[path = "journal/tampered.rs"]
mod tampered;
#[path = "journal/transfer.rs"]
mod transfer;
#[path = "journal/trust.rs"]
mod trust;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use history::{MANIFEST, blank, history};
use loop_core::StopReason;
use loop_core::types::RunId;
use loop_runtime::journal::{
    Durability, Entry, Header, Journal, JournalError, MemoryJournal, RunWriter, StoredJournal,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// Names the journal of a process that these tests start from themselves.
const CHILD: &str = "LOOPGATE_TEST_JOURNAL";

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/loopgate/journal.db");
    (folder, path)
}

fn run() -> RunId {
    RunId::new("r1")
}

/// Opens a run with the first of these entries.
async fn open(
    journal: &dyn Journal,
    header: &Header,
    entries: &[Entry],
) -> Result<Box<dyn RunWriter>, JournalError> {
    journal.create(header, &Arc::new(entries[0].clone())).await
}

/// Writes a whole run down and closes it.
async fn write(journal: &dyn Journal, header: &Header, entries: &[Entry]) {
    let mut writer = journal.create(header, &Arc::new(entries[0].clone())).await.unwrap();
    for entry in &entries[1..] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
}

/// A journal at `path` with a whole run in it, closed.
async fn written(path: &Path) -> Vec<Entry> {
    let (header, entries) = history("r1");
    write(&StoredJournal::open(path).unwrap(), &header, &entries).await;
    entries
}

/// The file that lies beside a journal.
fn beside(path: &Path, what: &str) -> PathBuf {
    PathBuf::from(format!("{}{what}", path.display()))
}

/// Copies what is in a folder.
fn copy_all(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
        let at = to.join(file.file_name().unwrap());
        if file.is_dir() {
            fs::create_dir(&at).unwrap();
            copy_all(&file, &at);
        } else {
            fs::copy(&file, at).unwrap();
        }
    }
}

/// One line that names the path and says what to do.
#[track_caller]
fn check_line(error: &JournalError, path: &Path, expected: &str) {
    let line = error.to_string();
    assert!(line.starts_with(&path.display().to_string()) && !line.contains('\n'), "{line}");
    assert!(line.contains(expected) && line.contains("--journal"), "{line}");
}

// ---- what is kept ----

#[tokio::test]
async fn journals_in_memory_and_in_a_file_do_the_same() {
    let (_folder, path) = place();
    conformance::any_journal(&MemoryJournal::new()).await;
    conformance::any_journal(&StoredJournal::open(&path).unwrap()).await;
    let (_folder, path) = place();
    conformance::stored_journal(&StoredJournal::open(&path).unwrap()).await;
}

#[tokio::test]
async fn what_was_appended_is_read_back_from_either_journal() {
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let journals: [Box<dyn Journal>; 2] =
        [Box::new(MemoryJournal::new()), Box::new(StoredJournal::open(&path).unwrap())];
    for journal in journals {
        write(&*journal, &header, &entries).await;
        let read = journal.read(&run()).await.unwrap();
        assert_eq!(
            (read.spec, &*read.manifest, read.entries),
            (header.spec.clone(), MANIFEST, entries.clone())
        );
        let lines = journal.runs().await.unwrap();
        assert_eq!((lines.len(), &*lines[0].title, &*lines[0].domain), (1, "Disk full", "helpdesk"));
        assert_eq!((lines[0].entries, lines[0].stop), (entries.len() as u64, Some(StopReason::Confident)));
    }
}

#[tokio::test]
async fn a_run_that_would_not_be_read_back_does_not_begin() {
    // Issue 40, R1: a reader follows values to a depth of 128.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    let mut spec = (*header.spec).clone();
    let deep = (0..200).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]));
    spec.tools.first_mut().unwrap().args.default = Some(deep);
    let refused = open(&journal, &Header { spec: spec.into(), ..header.clone() }, &entries).await;
    let line = refused.map(drop).unwrap_err().to_string();
    let expected =
        "run r1 did not begin: its spec would not be read back from the journal as it is: recursion limit";
    assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
    assert!(journal.runs().await.unwrap().is_empty() && journal.read(&run()).await.is_err());
    open(&journal, &header, &entries).await.unwrap();
}

#[tokio::test]
async fn entries_survive_reopening_and_a_writer_goes_on_behind_them() {
    // I-12, I-13
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    write(&StoredJournal::open(&path).unwrap(), &header, &entries[..3]).await;
    let journal = StoredJournal::open_existing(&path).unwrap();
    let (recorded, mut writer) = journal.resume(&run()).await.unwrap();
    assert_eq!(recorded.entries, entries[..3]);
    for entry in &entries[3..] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    assert_eq!(journal.read(&run()).await.unwrap().entries, entries);
}

#[tokio::test]
async fn a_number_that_does_not_follow_is_refused_and_nothing_is_written() {
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let journal = StoredJournal::open(&path).unwrap();
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    for wrong in [0, 2, u64::MAX] {
        let error = writer.append(&Arc::new(blank(wrong)), Durability::Committed).await.unwrap_err();
        assert!(error.to_string().contains("cannot follow 1 entries"), "{error}");
    }
    writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap();
    assert_eq!(journal.read(&run()).await.unwrap().entries, entries[..2]);
}

#[tokio::test]
async fn runs_are_listed_newest_first_with_their_stop_reason() {
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (mut header, entries) = history("done");
    write(&journal, &header, &entries).await;
    for (id, later) in [("b", 1), ("a", 2), ("c", 2)] {
        header = Header { run: RunId::new(id), unix_ms: 1_700_000_000_000 + later, ..header };
        write(&journal, &header, &entries[..2]).await;
    }
    let lines = journal.runs().await.unwrap();
    let seen: Vec<_> = lines.iter().map(|line| (line.run.as_str(), line.entries, line.stop)).collect();
    let done = ("done", entries.len() as u64, Some(StopReason::Confident));
    assert_eq!(seen, [("c", 2, None), ("a", 2, None), ("b", 2, None), done]);
}

#[tokio::test]
async fn a_list_says_of_an_open_run_whether_it_is_being_written() {
    // H1
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let journals: [Box<dyn Journal>; 2] =
        [Box::new(MemoryJournal::new()), Box::new(StoredJournal::open(&path).unwrap())];
    for journal in journals {
        let is_written = || async { journal.runs().await.unwrap()[0].is_written };
        let writer = open(&*journal, &header, &entries).await.unwrap();
        assert!(is_written().await);
        assert!(
            matches!(journal.resume(&run()).await, Err(JournalError::Busy { .. })),
            "asking took nothing"
        );
        drop(writer);
        assert!(!is_written().await);
        let (_, mut writer) = journal.resume(&run()).await.unwrap();
        for entry in &entries[1..] {
            writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
        }
        assert!(!is_written().await, "it has stopped");
    }
}

#[tokio::test]
async fn spec_and_manifest_are_stored_once_for_two_runs() {
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for id in ["r1", "r2"] {
        let (header, entries) = history(id);
        write(&journal, &header, &entries).await;
    }
    let sql = Connection::open(&path).unwrap();
    let blobs: i64 = sql.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap();
    assert_eq!(blobs, 2);
    assert_eq!(journal.read(&RunId::new("r2")).await.unwrap().spec, history("r2").0.spec);
}

#[tokio::test]
async fn a_name_is_taken_once_and_an_unknown_one_says_where_to_look() {
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    let writer = open(&journal, &header, &entries).await.unwrap();
    let again = open(&journal, &header, &entries).await;
    assert!(matches!(again, Err(JournalError::Exists { .. })), "while it is written");
    drop(writer);
    assert!(matches!(open(&journal, &header, &entries).await, Err(JournalError::Exists { .. })));
    let unknown = RunId::new("r9");
    assert!(matches!(journal.read(&unknown).await, Err(JournalError::Unknown { .. })));
    let error = journal.resume(&unknown).await.unwrap_err().to_string();
    assert!(error.contains("no run r9 in ") && error.contains("loopgate runs"), "{error}");
}

#[tokio::test]
async fn a_run_may_be_named_anything_and_its_lock_stays_in_its_folder() {
    let (folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for id in ["../../outside", "", ".", "R1", "a b\n", &"x".repeat(500)] {
        let (header, entries) = history(id);
        let _writer = open(&journal, &header, &entries).await.unwrap();
        assert!(matches!(journal.resume(&header.run).await, Err(JournalError::Busy { .. })), "{id}");
        assert_eq!(entries[0].seq, 0);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

// ---- one writer ----

#[tokio::test]
async fn a_second_writer_is_refused_until_the_first_is_dropped() {
    // I-29, H8
    let (_folder, path) = place();
    let (one, other) = (StoredJournal::open(&path).unwrap(), StoredJournal::open(&path).unwrap());
    let (header, entries) = history("r1");
    let writer = open(&one, &header, &entries).await.unwrap();
    for journal in [&one, &other] {
        let Err(JournalError::Busy { run, pid }) = journal.resume(&header.run).await else {
            panic!("taken twice")
        };
        assert_eq!((run, pid), (header.run.clone(), std::process::id()));
    }
    drop(writer);
    let (_, writer) = other.resume(&header.run).await.unwrap();
    assert!(one.resume(&header.run).await.is_err());
    drop(writer);
    assert!(one.resume(&header.run).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_take_over_raises_the_epoch_and_the_stale_writer_is_refused() {
    // I-29, H8: the lock fails, as it may on a shared folder; the epoch does not.
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let journal = StoredJournal::open(&path).unwrap();
    let mut stale = open(&journal, &header, &entries).await.unwrap();
    fs::remove_dir_all(format!("{}.locks", path.display())).unwrap();
    let (_, mut writer) = journal.resume(&header.run).await.unwrap();
    assert!(matches!(
        stale.append(&Arc::new(entries[1].clone()), Durability::Committed).await,
        Err(JournalError::Busy { .. })
    ));
    writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap();
    assert!(matches!(
        stale.append(&Arc::new(entries[2].clone()), Durability::Committed).await,
        Err(JournalError::Busy { .. })
    ));
    drop(stale);
    assert!(
        matches!(journal.resume(&header.run).await, Err(JournalError::Busy { .. })),
        "not the stale one's lock"
    );
    let sql = Connection::open(&path).unwrap();
    let mut epochs = sql.prepare("SELECT epoch FROM entries ORDER BY seq").unwrap();
    let epochs: Vec<i64> = epochs.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(epochs, [1, 2]);
    assert_eq!(journal.read(&header.run).await.unwrap().entries, entries[..2]);
}

#[tokio::test]
async fn a_killed_process_gives_up_its_lock_and_loses_nothing_that_was_acknowledged() {
    // I-13, H1, H8
    for acknowledged in [1, 7, 30] {
        let (_folder, path) = place();
        let (mut child, mut lines) = start_child(&path);
        let last: u64 = (0..acknowledged).map(|_| lines.next().unwrap().parse().unwrap()).last().unwrap();
        let journal = StoredJournal::open_existing(&path).unwrap();
        let Err(JournalError::Busy { pid, .. }) = journal.resume(&run()).await else { panic!("taken twice") };
        assert_eq!(pid, child.0.id());
        child.kill();
        let last = lines.last().map_or(last, |line| line.parse().unwrap());
        let (recorded, mut writer) = journal.resume(&run()).await.unwrap();
        let next = recorded.entries.len() as u64;
        assert!(next > last, "{last} was acknowledged, {next} entries are there");
        writer.append(&Arc::new(blank(next)), Durability::Committed).await.unwrap();
    }
}

/// Starts a process that appends to a run and says so, without end; gives the numbers that it says.
fn start_child(path: &Path) -> (Killed, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::appends_until_it_is_killed", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let activity = |line: String| line.strip_prefix("appended ").map(str::to_owned);
    (Killed(child), lines.map_while(Result::ok).filter_map(activity))
}

/// A process that does not outlive its test.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)]
async fn appends_until_it_is_killed() {
    // The other half of the test that starts this process and kills it; there is nothing to do by itself.
    let Some(path) = std::env::var_os(CHILD) else { return };
    let journal = StoredJournal::open(path).unwrap();
    let (header, entries) = history("r1");
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    println!("\nappended 0");
    // It ends by itself should nobody kill it.
    for seq in 1..100_000 {
        writer.append(&Arc::new(blank(seq)), Durability::Committed).await.unwrap();
        println!("\nappended {seq}");
    }
}

#[tokio::test]
async fn a_journal_in_use_is_a_clear_line() {
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let journal = StoredJournal::open(&path).unwrap();
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    check_line(
        &writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap_err(),
        &path,
        "in use by another process; try again",
    );
    other.execute_batch("ROLLBACK").unwrap();
    writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap();
}

#[test]
fn a_new_journal_may_be_opened_by_many_at_once() {
    let (_folder, path) = place();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| StoredJournal::open(&path).map(drop))).collect();
        for handle in opened {
            handle.join().unwrap().unwrap();
        }
    });
}
