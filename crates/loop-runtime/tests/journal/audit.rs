//! What `verify` finds, and what can be read of a damaged run.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loop_core::types::RunId;
use loop_inspect::audit::{AuditFault, JournalAudit, RunAudit};
use loop_runtime::journal::transfer::LostEntries;
use loop_runtime::journal::{Journal as _, JournalError, StoredJournal};
use rusqlite::Connection;

use super::history::{history, in_doubt};
use super::{beside, place, run, write, written};

fn sql(path: &Path, statements: &str) {
    Connection::open(path).unwrap().execute_batch(statements).unwrap();
}

async fn audited(path: &Path) -> RunAudit {
    RunAudit::of(&StoredJournal::open_existing(path).unwrap(), &run()).await.unwrap()
}

#[tokio::test]
async fn a_whole_run_is_whole() {
    // H3, I-11
    let (_folder, path) = place();
    let entries = written(&path).await;
    let audit = audited(&path).await;
    assert!(audit.ok && audit.findings.is_empty(), "{audit:?}");
    let count = entries.len() as u64;
    assert_eq!((audit.entries, audit.last_good, audit.lost), (count, Some(count - 1), Some(0)));
    assert_eq!(audit.stop.as_deref(), Some("confident"));
    let unknown = RunAudit::of(&StoredJournal::open(&path).unwrap(), &RunId::new("r9")).await;
    assert!(matches!(unknown, Err(JournalError::Unknown { .. })));
}

#[tokio::test]
async fn each_fault_is_named_with_the_last_good_entry() {
    // H2, H3, H11, K16
    let count = history("r1").1.len() as u64;
    for (change, fault, entry, last_good, lost) in [
        ("UPDATE entries SET event = '{' WHERE seq = 3", AuditFault::Damaged, Some(3), None, Some(count - 3)),
        ("DELETE FROM entries WHERE seq = 2", AuditFault::Damaged, Some(2), None, Some(count - 2)),
        ("UPDATE entries SET epoch = 2 WHERE seq = 1", AuditFault::Damaged, Some(1), None, Some(count - 1)),
        ("DELETE FROM blobs WHERE kind = 'spec'", AuditFault::Damaged, Some(0), None, None),
        ("UPDATE runs SET title = 'x'", AuditFault::Damaged, Some(count - 1), Some(count - 1), Some(0)),
    ] {
        let (_folder, path) = place();
        written(&path).await;
        sql(&path, &format!("PRAGMA foreign_keys = OFF; {change}"));
        let audit = audited(&path).await;
        let found = audit.findings.first().unwrap_or_else(|| panic!("{change}: {audit:?}"));
        assert_eq!((found.fault, found.entry, audit.lost), (fault, entry, lost), "{change}: {audit:?}");
        assert!(!audit.ok && !found.next.is_empty(), "{change}");
        if last_good.is_some() {
            assert_eq!(audit.last_good, last_good, "{change}");
        } else {
            assert!(audit.last_good < entry, "{change}: {audit:?}");
        }
    }
    // Behind its own row: the head counts more.
    let (_folder, path) = place();
    let (header, entries) = history("r1");
    write(&StoredJournal::open(&path).unwrap(), &header, &entries[..3]).await;
    let old = fs::read(&path).unwrap();
    let journal = StoredJournal::open(&path).unwrap();
    let (_, mut writer) = journal.resume(&run()).await.unwrap();
    let next = Arc::new(entries[3].clone());
    writer.append(&next, loop_runtime::journal::Durability::Synced).await.unwrap();
    drop((writer, journal));
    fs::write(&path, old).unwrap();
    let audit = audited(&path).await;
    assert_eq!(audit.findings[0].fault, AuditFault::Unverified, "{audit:?}");
    assert!(audit.findings[0].message.contains("there were 4"), "{audit:?}");
    fs::remove_file(beside(&path, ".key")).unwrap();
    let audit = audited(&path).await;
    assert_eq!(audit.findings[0].fault, AuditFault::Unverified, "{audit:?}");
    assert!(audit.findings[0].message.contains("journal.db.key back"), "{audit:?}");
}

#[tokio::test]
async fn what_is_decided_otherwise_and_what_is_not_sound_is_found_where_the_chain_holds() {
    // I-11, H11: a program with other rules wrote it, under the journal's own key.
    let (_folder, path) = place();
    let (header, mut entries) = history("r1");
    entries[2].notes.clear();
    write(&StoredJournal::open(&path).unwrap(), &header, &entries).await;
    let audit = audited(&path).await;
    let found = &audit.findings[0];
    assert_eq!((found.fault, found.entry), (AuditFault::DecidedOtherwise, Some(2)), "{audit:?}");
    assert_eq!((audit.last_good, audit.entries), (Some(1), entries.len() as u64));
    let (_folder, path) = place();
    let (header, mut entries) = history("r1");
    entries.swap(1, 2);
    (entries[1].seq, entries[2].seq) = (1, 2);
    write(&StoredJournal::open(&path).unwrap(), &header, &entries).await;
    let audit = audited(&path).await;
    assert_eq!((audit.findings[0].fault, audit.findings[0].entry), (AuditFault::Rejected, Some(1)));
}

#[tokio::test]
async fn a_run_that_was_deleted_is_missed() {
    // K16: its record under the key is there.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for (id, long) in [("r1", false), ("R 2", true)] {
        let (header, entries) = if long { history(id) } else { in_doubt(id) };
        write(&journal, &header, &entries).await;
    }
    assert!(JournalAudit::of_all(&journal).await.unwrap().ok);
    for (run, left) in [("r1", 1), ("R 2", 0)] {
        sql(&path, &format!("DELETE FROM entries WHERE run = '{run}'; DELETE FROM runs WHERE run = '{run}'"));
        let audit = JournalAudit::of_all(&journal).await.unwrap();
        assert_eq!((audit.ok, audit.runs.len(), audit.missing.len()), (false, left, 2 - left), "{audit:?}");
        assert!(audit.missing.contains(&"r1".to_owned()), "{audit:?}");
    }
}

#[tokio::test]
async fn the_good_entries_of_a_damaged_run_are_read() {
    // H3
    let count = history("r1").1.len();
    for (change, good, lost, is_vouched) in [
        ("UPDATE runs SET stop = stop", count, LostEntries::Nothing, true),
        ("UPDATE entries SET event = '{' WHERE seq = 3", 3, LostEntries::Entries(count as u64 - 3), false),
        ("DELETE FROM entries WHERE seq >= 4", 4, LostEntries::Entries(count as u64 - 4), false),
        // The row is not what was sealed; the head still vouches.
        ("UPDATE runs SET title = 'x'", count, LostEntries::Nothing, true),
        (
            "DELETE FROM entries WHERE seq >= 4; UPDATE runs SET entries = 4",
            4,
            LostEntries::Entries(count as u64 - 4),
            false,
        ),
    ] {
        let (_folder, path) = place();
        let entries = written(&path).await;
        sql(&path, change);
        let journal = StoredJournal::open_existing(&path).unwrap();
        let salvaged = journal.salvage(&run()).await.unwrap();
        assert_eq!(salvaged.recorded.entries, entries[..good], "{change}");
        assert_eq!(salvaged.lost, lost, "{change}: {salvaged:?}");
        assert_eq!(salvaged.vouched == good as u64, is_vouched, "{change}: {salvaged:?}");
        assert_eq!(salvaged.fault.is_none(), change.contains("stop = stop"), "{change}: {salvaged:?}");
    }
    // Without the key nothing is known of what there was.
    let (_folder, path) = place();
    written(&path).await;
    fs::remove_file(beside(&path, ".key")).unwrap();
    let salvaged = StoredJournal::open_existing(&path).unwrap().salvage(&run()).await.unwrap();
    assert_eq!((salvaged.vouched, salvaged.lost), (0, LostEntries::Unknown));
    assert!(salvaged.recorded.unverified.is_some());
    // Not even a first entry.
    sql(&path, "UPDATE entries SET event = '' WHERE seq = 0");
    let error = StoredJournal::open_existing(&path).unwrap().salvage(&run()).await.unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { seq: 0, .. }), "{error}");
}
