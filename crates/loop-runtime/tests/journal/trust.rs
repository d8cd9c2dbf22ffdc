//! What the journal notices of what was done to it, and that one bad run hides no other.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::journal::{
    Durability, Entry, Header, Journal as _, JournalError, Recorded, RunWriter, StoredJournal,
};
use rusqlite::Connection;

use super::history::{blank, history};
use super::{beside, open, place, run, write, written};

fn sql(path: &Path, statements: &str) {
    Connection::open(path).unwrap().execute_batch(statements).unwrap();
}

/// A journal with the first `count` entries of a run in it, closed.
async fn begun(path: &Path, count: usize) -> (Header, Vec<Entry>) {
    let (header, entries) = history("r1");
    write(&StoredJournal::open(path).unwrap(), &header, &entries[..count]).await;
    (header, entries)
}

/// Reading gives it with a doubt, and resuming is refused with the same words.
#[track_caller]
fn check_unverified(
    read: Result<Recorded, JournalError>,
    resumed: Result<(Recorded, Box<dyn RunWriter>), JournalError>,
    expected: &str,
) {
    let why = read.unwrap().unverified.expect("it is not to be believed");
    assert!(why.contains(expected), "{why}");
    let error = resumed.map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Unverified { .. }), "{error}");
    assert!(error.to_string().contains(expected) && !error.to_string().contains('\n'), "{error}");
}

#[tokio::test]
async fn a_run_that_was_rolled_back_with_its_own_old_row_is_not_resumed() {
    // B3: otherwise an approved effect would run again.
    let (_folder, path) = place();
    let (header, entries) = begun(&path, 3).await;
    let old: (i64, String, String) = Connection::open(&path)
        .unwrap()
        .query_row("SELECT entries, head, seal FROM runs", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let journal = StoredJournal::open(&path).unwrap();
    let (_, mut writer) = journal.resume(&header.run).await.unwrap();
    for entry in &entries[3..5] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    drop((writer, journal));
    let (count, head, seal) = old;
    let back = format!(
        "DELETE FROM entries WHERE seq >= 3;
         UPDATE runs SET entries = {count}, head = '{head}', seal = '{seal}', epoch = 1"
    );
    sql(&path, &back);
    let journal = StoredJournal::open(&path).unwrap();
    let expected = "the journal has 3 of its entries, and there were 5";
    check_unverified(journal.read(&run()).await, journal.resume(&run()).await, expected);
    let lines = journal.runs().await.unwrap();
    assert!(lines[0].trouble.as_ref().is_some_and(|trouble| trouble.contains(expected)), "{lines:?}");
}

#[tokio::test]
async fn a_journal_that_lost_its_log_is_not_resumed() {
    // B5, I-13, H2: a kill leaves the newest entries in the log, and somebody keeps `journal.db` alone.
    let (folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    let checkpoint = Connection::open(&path).unwrap();
    checkpoint.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).unwrap();
    drop(checkpoint);
    for entry in &entries[1..4] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    // As a kill leaves it: without a last checkpoint.
    let kept = folder.path().join("kept/journal.db");
    fs::create_dir_all(beside(&kept, ".heads")).unwrap();
    fs::copy(&path, &kept).unwrap();
    fs::copy(beside(&path, ".key"), beside(&kept, ".key")).unwrap();
    fs::copy(beside(&path, ".heads").join("r1"), beside(&kept, ".heads").join("r1")).unwrap();
    let copy = StoredJournal::open(&kept).unwrap();
    let expected = "the journal has 1 of its entries, and there were 4";
    check_unverified(copy.read(&run()).await, copy.resume(&run()).await, expected);
    drop(copy);
    // With the log it is whole.
    fs::copy(&path, &kept).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&kept, "-wal")).unwrap();
    let (recorded, _) = StoredJournal::open(&kept).unwrap().resume(&run()).await.unwrap();
    assert_eq!(recorded.entries, entries[..4]);
}

#[tokio::test]
async fn a_journal_without_its_key_or_its_heads_is_read_and_not_resumed() {
    // B3
    let (_folder, path) = place();
    begun(&path, 3).await;
    let (key, heads, aside) = (beside(&path, ".key"), beside(&path, ".heads"), beside(&path, ".aside"));
    fs::rename(&key, &aside).unwrap();
    let journal = StoredJournal::open_existing(&path).unwrap();
    check_unverified(journal.read(&run()).await, journal.resume(&run()).await, "journal.db.key back");
    drop(journal);
    // Whoever writes next makes another key: what the old one sealed is not believed.
    let journal = StoredJournal::open(&path).unwrap();
    check_unverified(journal.read(&run()).await, journal.resume(&run()).await, "written with another key");
    drop(journal);
    fs::rename(&aside, &key).unwrap();
    fs::rename(&heads, &aside).unwrap();
    let journal = StoredJournal::open(&path).unwrap();
    check_unverified(journal.read(&run()).await, journal.resume(&run()).await, "journal.db.heads/r1 back");
    fs::rename(&aside, &heads).unwrap();
    assert!(journal.resume(&run()).await.is_ok());
}

#[tokio::test]
async fn a_head_that_lags_behind_is_no_fault() {
    // H1: killed between an entry and its head.
    let (_folder, path) = place();
    let (header, entries) = begun(&path, 3).await;
    let head = beside(&path, ".heads").join("r1");
    let before = fs::read(&head).unwrap();
    let journal = StoredJournal::open(&path).unwrap();
    let (_, mut writer) = journal.resume(&header.run).await.unwrap();
    writer.append(&Arc::new(entries[3].clone()), Durability::Committed).await.unwrap();
    drop(writer);
    fs::write(&head, before).unwrap();
    assert_eq!(journal.resume(&run()).await.unwrap().0.entries, entries[..4]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_journal_that_is_moved_removed_or_replaced_takes_no_more_entries() {
    // B5, H12
    let harms: [fn(&Path); 5] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::rename(path, beside(path, ".moved")).unwrap(),
        |path| {
            fs::copy(path, beside(path, ".copy")).unwrap();
            fs::rename(beside(path, ".copy"), path).unwrap();
        },
        |path| fs::rename(path.parent().unwrap(), path.parent().unwrap().with_extension("moved")).unwrap(),
        |path| fs::remove_file(beside(path, "-wal")).unwrap(),
    ];
    for (at, harm) in harms.into_iter().enumerate() {
        let (_folder, path) = place();
        let (header, entries) = history("r1");
        let journal = StoredJournal::open(&path).unwrap();
        let mut writer = open(&journal, &header, &entries).await.unwrap();
        writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap();
        harm(&path);
        let error = writer
            .append(&Arc::new(entries[2].clone()), Durability::Committed)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("moved, removed or replaced") && error.contains("--journal"), "{at}: {error}");
        assert!(!error.contains('\n'), "{at}: {error}");
    }
}

#[tokio::test]
async fn one_bad_run_hides_no_other() {
    // B2
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for id in ["a", "b", "c"] {
        let (header, entries) = history(id);
        write(&journal, &header, &entries[..3]).await;
    }
    for change in [
        "UPDATE runs SET stop = 'bored' WHERE run = 'b'",
        "UPDATE runs SET title = CAST(x'ff00' AS TEXT) WHERE run = 'b'",
        "UPDATE runs SET entries = -1 WHERE run = 'b'",
        "DELETE FROM entries WHERE run = 'b'; UPDATE runs SET entries = 0 WHERE run = 'b'",
    ] {
        sql(&path, change);
        let lines = journal.runs().await.unwrap();
        let seen: Vec<_> = lines.iter().map(|line| (line.run.as_str(), line.trouble.is_some())).collect();
        assert_eq!(seen, [("c", false), ("b", true), ("a", false)], "{change}");
        assert!(journal.read(&RunId::new("a")).await.is_ok(), "{change}");
        assert!(journal.resume(&RunId::new("c")).await.is_ok(), "{change}");
        assert!(journal.read(&RunId::new("b")).await.is_err(), "{change}");
    }
}

#[tokio::test]
async fn a_run_is_there_with_its_first_entry_or_not_at_all() {
    // B2: what fails between the two leaves nothing that lists would stumble over.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap().with_entry_limit(10);
    let (header, entries) = history("r1");
    let error = open(&journal, &header, &entries).await.map(drop).unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { seq: 0, limit: 10, .. }), "{error}");
    assert_eq!(journal.runs().await.unwrap(), []);
    // The name is still free.
    let journal = StoredJournal::open(&path).unwrap();
    assert!(open(&journal, &header, &entries).await.is_ok());
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_one_clear_line_and_nothing_is_written() {
    // B10, I-23
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    let max = serde_json::to_string(&entries[0]).unwrap().len();
    let journal = StoredJournal::open(&path).unwrap().with_entry_limit(max as u64);
    let mut writer = open(&journal, &header, &entries).await.unwrap();
    let mut large = blank(1);
    large.event.kind = EventKind::Instruction { text: "x".repeat(max).into() };
    let error = writer.append(&Arc::new(large), Durability::Committed).await.unwrap_err().to_string();
    let expected = format!("more than the journal takes ({max})");
    assert!(error.contains(&expected) && !error.contains('\n'), "{error}");
    assert_eq!(journal.read(&run()).await.unwrap().entries.len(), 1);
    writer.append(&Arc::new(blank(1)), Durability::Committed).await.unwrap();
}

#[tokio::test]
async fn a_machine_that_runs_on_tells_the_time_whatever_its_wall_clock_says() {
    // B11, H7
    let (_folder, path) = place();
    let (_, entries) = begun(&path, 3).await;
    let journal = StoredJournal::open(&path).unwrap();
    let mut recorded = journal.read(&run()).await.unwrap();
    assert_eq!(recorded.since_last_ms.is_some(), cfg!(target_os = "linux"));
    // The wall clock stands before the start of the run.
    if let EventKind::Started(started) = &mut recorded.entries[0].event.kind {
        started.unix_ms = u64::MAX / 2;
    }
    recorded.since_last_ms = Some(5_000);
    assert_eq!(recorded.now(), entries[2].event.at.plus(5_000));
    recorded.since_last_ms = None;
    assert_eq!(recorded.now(), entries[2].event.at);
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_reads_what_lies_beside_the_journal() {
    // B13
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    written(&path).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&beside(&path, ".key"))), (0o600, 0o600));
    assert_eq!(mode(&beside(&path, ".heads")), 0o700);
    assert_eq!(mode(&beside(&path, ".heads").join("r1")), 0o600);
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_or_a_device_in_place_of_a_head_a_lock_or_the_key_is_refused_at_once() {
    // Issue 40, H5: a pipe was waited for, and a device was read without end.
    let (_folder, path) = place();
    begun(&path, 3).await;
    let put = |at: &Path, device: bool| {
        _ = fs::remove_file(at);
        if device {
            std::os::unix::fs::symlink("/dev/zero", at).unwrap();
        } else {
            assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
        }
    };
    for device in [false, true] {
        let (head, key) = (beside(&path, ".heads").join("r1"), beside(&path, ".key"));
        let (own_head, own_key) = (fs::read(&head).unwrap(), fs::read(&key).unwrap());
        put(&head, device);
        let journal = StoredJournal::open(&path).unwrap();
        check_unverified(
            journal.read(&run()).await,
            journal.resume(&run()).await,
            "journal.db.heads/r1 back",
        );
        fs::remove_file(&head).unwrap();
        fs::write(&head, own_head).unwrap();
        let lock = beside(&path, ".locks").join("r1.lock");
        put(&lock, device);
        assert_eq!(journal.runs().await.unwrap().len(), 1);
        fs::remove_file(&lock).unwrap();
        drop(journal);
        put(&key, device);
        let refused = StoredJournal::open(&path).unwrap_err().to_string();
        assert!(refused.contains("journal.db.key is not a key; put it back"), "{refused}");
        fs::remove_file(&key).unwrap();
        fs::write(&key, own_key).unwrap();
        assert!(StoredJournal::open(&path).unwrap().resume(&run()).await.is_ok());
    }
}
