//! Files that are no journal, rows that were changed, logs that were torn, and what older versions wrote.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loop_core::{Run, StopReason};
use loop_runtime::journal::{Journal as _, JournalError, StoredJournal};
use rusqlite::Connection;

use super::history::history;
use super::{check_line, place, run, write, written};

// ---- what is no journal ----

#[test]
fn a_missing_journal_is_made_for_writing_and_named_for_reading() {
    let (_folder, path) = place();
    check_line(
        &StoredJournal::open_existing(&path).unwrap_err(),
        &path,
        "no journal here; `loopgate run` makes one",
    );
    assert!(!path.exists());
    StoredJournal::open(&path).unwrap();
    StoredJournal::open_existing(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_journal_of_another_version_is_refused() {
    // H11
    let (_folder, path) = place();
    StoredJournal::open(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    for error in [StoredJournal::open(&path).unwrap_err(), StoredJournal::open_existing(&path).unwrap_err()] {
        assert!(matches!(error, JournalError::Newer { found: 7, known: 2, .. }), "{error:?}");
        check_line(&error, &path, "newer loopgate");
    }
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    for error in [StoredJournal::open(&path).unwrap_err(), StoredJournal::open_existing(&path).unwrap_err()] {
        assert!(matches!(error, JournalError::Older { found: 1, known: 2, .. }), "{error:?}");
        check_line(&error, &path, "older loopgate");
    }
}

#[test]
fn what_is_no_journal_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    Connection::open(at("foreign.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1")
        .unwrap();
    Connection::open(at("empty.db")).unwrap().execute_batch("PRAGMA application_id = 17").unwrap();
    fs::write(at("notes.txt"), "Buy milk. ".repeat(500)).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (name, expected) in [
        ("foreign.db", "not a loopgate journal"),
        ("empty.db", "not a loopgate journal"),
        ("notes.txt", "not a SQLite database"),
        ("folder", "a folder"),
        ("notes.txt/journal.db", "cannot be"),
    ] {
        let path = at(name);
        let before = fs::read(&path).ok();
        check_line(&StoredJournal::open(&path).unwrap_err(), &path, expected);
        assert_eq!(fs::read(&path).ok(), before, "{name}");
    }
    assert!(StoredJournal::open_existing(at("folder")).is_err());
}

// ---- what was changed ----

#[tokio::test]
async fn a_changed_row_is_noticed_and_named() {
    // I-11, H3
    let last = history("r1").1.len() as u64 - 1;
    for (change, seq) in [
        ("UPDATE entries SET event = replace(event, 'Disk full', 'Disk fine') WHERE seq = 0", 0),
        ("UPDATE entries SET notes = '[]' WHERE seq = (SELECT max(seq) FROM entries)", last),
        ("UPDATE entries SET epoch = 2 WHERE seq = 2", 2),
        ("UPDATE entries SET event = '{\"at\":20' WHERE seq = 2", 2),
        ("UPDATE entries SET event = CAST(x'ff00' AS TEXT) WHERE seq = 2", 2),
        ("UPDATE entries SET prev_hash = '' WHERE seq = 3", 2),
        ("DELETE FROM entries WHERE seq = 1", 1),
        ("DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)", last),
        ("UPDATE entries SET seq = 99 WHERE seq = (SELECT max(seq) FROM entries)", last),
        ("UPDATE runs SET head = '', entries = entries", last),
        ("UPDATE blobs SET body = replace(body, 'Help.', 'Harm.') WHERE kind = 'spec'", 0),
        // B3: what was outside of the chain, and what lists are made from.
        ("UPDATE blobs SET body = replace(body, 'fetch', 'wipe') WHERE kind = 'manifest'", 0),
        ("UPDATE runs SET origin = '{}'", last),
        ("UPDATE runs SET stop = NULL", last),
        ("UPDATE runs SET stop = 'bored'", last),
        ("UPDATE runs SET title = 'Disk fine'", last),
        ("UPDATE runs SET item = 'T-2'", last),
        ("UPDATE runs SET domain = 'other'", last),
        ("UPDATE runs SET unix_ms = unix_ms + 1", last),
        ("UPDATE runs SET epoch = epoch + 1", last),
        ("PRAGMA foreign_keys = OFF; DELETE FROM blobs", 0),
    ] {
        let (_folder, path) = place();
        written(&path).await;
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let journal = StoredJournal::open(&path).unwrap();
        let error = journal.read(&run()).await.unwrap_err();
        let JournalError::Corrupt { run, seq: named, .. } = &error else { panic!("{change}: {error}") };
        assert_eq!((run.as_str(), *named), ("r1", seq), "{change}: {error}");
        assert!(matches!(journal.resume(run).await, Err(JournalError::Corrupt { .. })), "{change}");
    }
}

#[tokio::test]
async fn a_torn_tail_leaves_the_entries_before_it() {
    // H2, I-12: what stands in the log behind the last whole commit is ignored.
    let (folder, path) = place();
    StoredJournal::open(&path).unwrap();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &header, &entries).await;
    let log = fs::read(format!("{}-wal", path.display())).unwrap();
    let mut seen = Vec::new();
    for cut in (0..=log.len()).step_by(997).chain([log.len()]) {
        let torn = folder.path().join(format!("torn-{cut}.db"));
        fs::copy(&path, &torn).unwrap();
        fs::write(format!("{}-wal", torn.display()), &log[..cut]).unwrap();
        match StoredJournal::open(&torn).unwrap().read(&run()).await {
            Ok(recorded) => {
                assert!(recorded.unverified.is_some(), "a copy without its key and its heads: cut at {cut}");
                assert_eq!(recorded.entries, entries[..recorded.entries.len()], "cut at {cut}");
                seen.push(recorded.entries.len());
            }
            Err(error) => assert!(matches!(error, JournalError::Unknown { .. }), "cut at {cut}: {error}"),
        }
    }
    // The run and its first entry are there together, or neither is.
    assert!(seen.is_sorted() && seen.first() == Some(&1) && seen.last() == Some(&entries.len()), "{seen:?}");
}

// ---- the stored format ----

/// A journal of this day; `UPDATE_SAMPLES=1` writes it.
const SAMPLE: &str = "journal.db";

#[tokio::test]
async fn the_sample_journal_still_loads_and_replays() {
    // H11, I-11
    replays(SAMPLE).await;
}

async fn replays(name: &str) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let (_folder, path) = place();
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        written(&path).await;
        fs::copy(&path, &sample).unwrap();
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(&sample, &path).unwrap();
    let journal = StoredJournal::open_existing(&path).unwrap();
    assert_eq!(journal.runs().await.unwrap()[0].stop, Some(StopReason::Confident));
    let recorded = journal.read(&run()).await.unwrap();
    assert_eq!(recorded.spec.version, loop_core::spec::SPEC_VERSION);
    let (first, rest) = recorded.entries.split_first().unwrap();
    let (mut replayed, notes) = Run::open(&first.event, Arc::clone(&recorded.spec)).unwrap();
    assert_eq!(notes, first.notes);
    for entry in rest {
        assert_eq!(replayed.apply(&entry.event).unwrap(), entry.notes, "entry {}", entry.seq);
    }
    assert!(replayed.is_done());
}
