//! One thread writes for all runs: what waits is committed together, and each run has its own result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::journal::{
    Durability, Journal as _, JournalError, MemoryJournal, RunWriter, StoredJournal,
};
use rusqlite::Connection;
use tempfile::TempDir;

use super::history::{blank, history};
use super::{open, place, run, write};

/// A journal with some runs of one entry each.
async fn several(names: &[&str]) -> (TempDir, StoredJournal, Vec<Box<dyn RunWriter>>) {
    let (folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let mut writers = Vec::new();
    for name in names {
        let (header, entries) = history(name);
        writers.push(open(&journal, &header, &entries).await.unwrap());
    }
    (folder, journal, writers)
}

/// Holds the thread up at its next commit, so that all that is handed over after it waits together.
struct HeldUp(Connection);

impl HeldUp {
    fn at(path: &Path) -> Self {
        let other = Connection::open(path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(other)
    }

    fn release(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// Appends an entry to each run at the same time: the first holds the thread up, the others wait for it together.
async fn append_together(
    journal: &StoredJournal,
    writers: &mut [Box<dyn RunWriter>],
    seqs: &[u64],
) -> Vec<Result<(), JournalError>> {
    let held_up = HeldUp::at(journal.path());
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        held_up.release();
    };
    let entries: Vec<_> = seqs.iter().map(|seq| Arc::new(blank(*seq))).collect();
    let appends = writers.iter_mut().zip(&entries);
    let appends = appends.map(|(writer, entry)| writer.append(entry, Durability::Committed));
    let waiting = async {
        let mut appends = appends.collect::<Vec<_>>().into_iter();
        let mut first = appends.next().unwrap();
        assert!(first.as_mut().now_or_never().is_none());
        // The thread has taken it.
        tokio::time::sleep(Duration::from_millis(30)).await;
        join_all(std::iter::once(first).chain(appends)).await
    };
    tokio::join!(waiting, release).0
}

async fn count(journal: &StoredJournal, run: &str) -> usize {
    journal.read(&RunId::new(run)).await.unwrap().entries.len()
}

#[tokio::test]
async fn entries_that_wait_together_share_a_commit() {
    let names: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_folder, journal, mut writers) = several(&names).await;
    let before = (journal.commits(), journal.synced_commits());
    let appended = append_together(&journal, &mut writers, &[1; 20]).await;
    assert!(appended.iter().all(Result::is_ok), "{appended:?}");
    // One where the thread is so late that it takes the first with the others.
    let commits = journal.commits() - before.0;
    assert!((1..=2).contains(&commits), "{commits} commits of {} entries", names.len());
    assert_eq!(journal.synced_commits() - before.1, 0);
    for name in names {
        assert_eq!(count(&journal, name).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_run_keeps_its_order_among_others() {
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let runs = (0..40).map(|n| {
        let journal = journal.clone();
        tokio::spawn(async move {
            let (header, entries) = history(&format!("r{n}"));
            let mut writer = open(&journal, &header, &entries).await.unwrap();
            for seq in 1..25 {
                let asked = if seq == 12 { Durability::Synced } else { Durability::Committed };
                writer.append(&Arc::new(blank(seq)), asked).await.unwrap();
            }
        })
    });
    join_all(runs).await.into_iter().for_each(Result::unwrap);
    // Reading checks the order and the chain of hashes.
    for n in 0..40 {
        assert_eq!(count(&journal, &format!("r{n}")).await, 25);
    }
    assert!(journal.commits() < 40 * 25, "{} commits", journal.commits());
    assert!((1..=40).contains(&journal.synced_commits()), "{}", journal.synced_commits());
}

#[tokio::test]
async fn an_entry_that_cannot_be_appended_fails_its_own_run_alone() {
    let (_folder, journal, mut writers) = several(&["first", "a", "refused", "stale", "b"]).await;
    // The row was updated when this fails, and a part of a run must not be committed.
    let refuse = "CREATE INDEX refuse ON entries (abs(seq * 0 - 9223372036854775807 - 1))
                  WHERE run = 'refused' AND seq > 0";
    let other = Connection::open(journal.path()).unwrap();
    other.execute_batch(refuse).unwrap();
    let appended = append_together(&journal, &mut writers, &[1, 1, 1, 7, 1]).await;
    let failed: Vec<bool> = appended.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, true, true, false], "{appended:?}");
    assert!(appended[3].as_ref().unwrap_err().to_string().contains("entry 7 cannot follow 1 entries"));
    other.execute_batch("DROP INDEX refuse").unwrap();
    for (name, entries) in [("first", 2), ("a", 2), ("refused", 1), ("stale", 1), ("b", 2)] {
        assert_eq!(count(&journal, name).await, entries, "{name}");
    }
    // Nothing of it is left behind: each continues where it is.
    for (writer, seq) in writers.iter_mut().zip([2, 2, 1, 1, 2]) {
        writer.append(&Arc::new(blank(seq)), Durability::Committed).await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_journal_that_is_gone_fails_every_run_that_waits() {
    let (_folder, journal, mut writers) = several(&["a", "b", "c"]).await;
    let mut log = journal.path().as_os_str().to_owned();
    log.push("-wal");
    std::fs::remove_file(log).unwrap();
    let appends = writers.iter_mut().map(|writer| async {
        writer.append(&Arc::new(blank(1)), Durability::Committed).await.unwrap_err().to_string()
    });
    for error in join_all(appends).await {
        assert!(error.contains("moved, removed or replaced"), "{error}");
    }
}

#[tokio::test]
async fn a_caller_that_stops_waiting_leaves_a_whole_entry_and_gives_the_run_up_after_it() {
    let (_folder, journal, mut writers) = several(&["r1", "first"]).await;
    let held_up = HeldUp::at(journal.path());
    let (mut first, mut writer) = (writers.pop().unwrap(), writers.pop().unwrap());
    let entry = Arc::new(blank(1));
    let mut holds_up = first.append(&entry, Durability::Committed);
    assert!(holds_up.as_mut().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(writer.append(&entry, Durability::Committed).now_or_never().is_none());
    drop(writer);
    // It is still being written: nobody may take it over before the entry is there.
    let lines = journal.runs().await.unwrap();
    assert!(lines.iter().all(|line| line.is_written), "{lines:?}");
    let id = run();
    let mut resumed = journal.resume(&id);
    assert!(resumed.as_mut().now_or_never().is_none());
    held_up.release();
    holds_up.await.unwrap();
    let (recorded, mut writer) = resumed.await.unwrap();
    assert_eq!(recorded.entries.len(), 2);
    writer.append(&Arc::new(blank(2)), Durability::Committed).await.unwrap();
    assert_eq!(count(&journal, "r1").await, 3);
}

#[tokio::test]
async fn a_writer_whose_append_was_dropped_appends_nothing_out_of_order() {
    let (_folder, journal, mut writers) = several(&["r1"]).await;
    let held_up = HeldUp::at(journal.path());
    let entry = Arc::new(blank(1));
    assert!(writers[0].append(&entry, Durability::Committed).now_or_never().is_none());
    held_up.release();
    let error = writers[0].append(&entry, Durability::Committed).await.unwrap_err().to_string();
    assert!(error.contains("entry 1 cannot follow 2 entries"), "{error}");
    writers[0].append(&Arc::new(blank(2)), Durability::Committed).await.unwrap();
    assert_eq!(count(&journal, "r1").await, 3);
}

#[test]
fn the_thread_ends_with_the_journal() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for is_inside in [true, false] {
        let (_folder, path) = place();
        let log = path.with_extension("db-wal");
        let journal = StoredJournal::open(&path).unwrap();
        let (header, entries) = history("r1");
        let runtime = runtime();
        runtime.block_on(write(&journal, &header, &entries));
        // The log is removed when the last connection is closed, and the thread has one.
        assert!(log.exists());
        if is_inside {
            runtime.block_on(async { drop(journal) });
        } else {
            drop(runtime);
            drop(journal);
        }
        assert!(!log.exists(), "inside a runtime: {is_inside}");
    }
}

#[tokio::test]
async fn a_journal_that_is_dropped_commits_what_was_handed_over() {
    let (_folder, journal, mut writers) = several(&["r1"]).await;
    let path = journal.path().to_owned();
    let held_up = HeldUp::at(&path);
    let entry = Arc::new(blank(1));
    assert!(writers[0].append(&entry, Durability::Committed).now_or_never().is_none());
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        held_up.release();
    });
    drop((writers, journal));
    assert_eq!(count(&StoredJournal::open(&path).unwrap(), "r1").await, 2);
    release.join().unwrap();
}

#[tokio::test]
async fn entries_that_are_appended_at_once_are_there_up_to_the_first_that_is_refused() {
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let max = serde_json::to_string(&entries[0]).unwrap().len() as u64;
    let journal = StoredJournal::open(&path).unwrap().with_entry_limit(max);
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    let batch = |from: u64| (from..from + 3).map(|seq| Arc::new(blank(seq))).collect::<Vec<_>>();
    let before = journal.commits();
    writer.append_all(&batch(1), Durability::Committed).await.unwrap();
    assert_eq!(journal.commits(), before + 1);
    let mut large = blank(6);
    large.event.kind = EventKind::Instruction { text: "x".repeat(max as usize).into() };
    let mut refused = batch(4);
    refused[2] = Arc::new(large);
    let (appended, error) = writer.append_all(&refused, Durability::Committed).await.unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { seq: 6, .. }), "{error}");
    assert_eq!((appended, count(&journal, "r1").await), (2, 6));
    writer.append_all(&batch(6), Durability::Committed).await.unwrap();
    // A journal that does nothing of its own for several entries appends one after the other.
    let memory = MemoryJournal::new();
    let mut writer = open(&memory, &header, &entries).await.unwrap();
    writer.append_all(&batch(1), Durability::Committed).await.unwrap();
    let (appended, _) = writer.append_all(&batch(5), Durability::Committed).await.unwrap_err();
    assert_eq!((appended, memory.read(&run()).await.unwrap().entries.len()), (0, 4));
}
