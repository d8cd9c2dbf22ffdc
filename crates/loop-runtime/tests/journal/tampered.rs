//! Journals that were tampered with: any change is noticed, or changes nothing that a run is resumed from.

use std::fs;
use std::path::Path;

use loop_core::types::RunId;
use loop_inspect::audit::JournalAudit;
use loop_runtime::journal::{Header, Journal as _, JournalError, Recorded, StoredJournal};
use rusqlite::Connection;

use super::history::{Numbers, history, in_doubt, is_full};
use super::{beside, copy_all, write};

/// What a run was before anything was changed.
type Whole = (Header, Recorded);

const RUNS: [&str; 3] = ["r1", "r2", "r3"];

/// A journal with a run that has ended, one whose effect is in flight, and one that has only begun.
async fn journal(path: &Path) -> Vec<Whole> {
    let journal = StoredJournal::open(path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &Header { request_key: Some("order-17".into()), ..header.clone() }, &entries).await;
    let (second, begun) = in_doubt("r2");
    write(&journal, &Header { origin: Some(r#"{"domain":"/d"}"#.into()), ..second.clone() }, &begun).await;
    let (third, entries) = history("r3");
    write(&journal, &third, &entries[..2]).await;
    let mut whole = Vec::new();
    for (header, run) in [header, second, third].into_iter().zip(RUNS) {
        whole.push((header, journal.read(&RunId::new(run)).await.unwrap()));
    }
    whole
}

const TABLES: [(&str, &[&str]); 3] = [
    ("blobs", &["hash", "kind", "body"]),
    (
        "runs",
        &[
            "run",
            "unix_ms",
            "domain",
            "item",
            "title",
            "spec",
            "manifest",
            "origin",
            "request_key",
            "stop",
            "epoch",
            "writer_pid",
            "writer_token",
            "entries",
            "head",
            "seal",
        ],
    ),
    ("entries", &["run", "seq", "epoch", "prev_hash", "event", "notes"]),
];

fn number(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_default()
}

/// One change by SQL, in words. The database itself may refuse it.
fn by_sql(path: &Path, numbers: &mut Numbers) -> String {
    let database = Connection::open(path).unwrap();
    database.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let (table, columns) = TABLES[numbers.below(8) % 3];
    let column = columns[numbers.below(columns.len())];
    let rowid = |numbers: &mut Numbers| {
        let rows = number(&database, &format!("SELECT count(*) FROM {table}"));
        let nth = numbers.below(usize::try_from(rows).unwrap());
        number(&database, &format!("SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {nth}"))
    };
    let (one, other) = (rowid(numbers), rowid(numbers));
    let all = columns.join(", ");
    let at = numbers.below(60);
    let changed = format!(
        "CASE typeof({column}) WHEN 'integer' THEN {column} + {} WHEN 'null' THEN 'x'
         ELSE substr({column}, 1, {at} % max(length({column}), 1)) || char({}) ||
              substr({column}, {at} % max(length({column}), 1) + {}) END",
        [1, -1, 1_000][numbers.below(3)],
        33 + numbers.below(90),
        1 + numbers.below(3)
    );
    let change = match numbers.below(10) {
        0..=3 => format!("UPDATE {table} SET {column} = {changed} WHERE rowid = {one}"),
        4 => format!("DELETE FROM {table} WHERE rowid = {one}"),
        5 => format!("INSERT OR REPLACE INTO {table} ({all}) SELECT {all} FROM {table} WHERE rowid = {one}"),
        // A copy of an entry behind its run, or of another run's.
        6 => format!(
            "INSERT INTO entries (run, seq, epoch, prev_hash, event, notes)
             SELECT '{}', (SELECT max(seq) + 1 FROM entries WHERE run = '{0}'), epoch, prev_hash, event, notes
             FROM entries ORDER BY rowid LIMIT 1 OFFSET {}",
            RUNS[numbers.below(3)],
            numbers.below(8)
        ),
        // Two cells or two whole rows change places.
        7 => format!(
            "UPDATE {table} SET {column} = CASE rowid
                WHEN {one} THEN (SELECT {column} FROM {table} WHERE rowid = {other})
                ELSE (SELECT {column} FROM {table} WHERE rowid = {one}) END
             WHERE rowid IN ({one}, {other})"
        ),
        // The end of a run, and all of it.
        8 => {
            let run = RUNS[numbers.below(3)];
            let from = numbers.below(6);
            format!(
                "DELETE FROM entries WHERE run = '{run}' AND seq >= {from};
                 UPDATE runs SET entries = {from}, head = coalesce((SELECT prev_hash FROM entries
                    WHERE run = '{run}' AND seq = {from}), head) WHERE run = '{run}'"
            )
        }
        _ => {
            let run = RUNS[numbers.below(3)];
            format!("DELETE FROM entries WHERE run = '{run}'; DELETE FROM runs WHERE run = '{run}'")
        }
    };
    _ = database.execute_batch(&change);
    change
}

/// One change of the bytes of a file, in words.
fn by_bytes(path: &Path, numbers: &mut Numbers) -> String {
    let heads = beside(path, ".heads");
    let head = |numbers: &mut Numbers| heads.join(RUNS[numbers.below(3)]);
    match numbers.below(8) {
        0..=3 => {
            let mut bytes = fs::read(path).unwrap();
            let at = numbers.below(bytes.len());
            bytes[at] ^= 1 << numbers.below(8);
            fs::write(path, bytes).unwrap();
            format!("a bit of byte {at} of the journal")
        }
        4 => {
            let file = head(numbers);
            // A change before may have removed it.
            let mut bytes = fs::read(&file).ok().filter(|bytes| !bytes.is_empty()).unwrap_or_else(|| vec![0]);
            let at = numbers.below(bytes.len());
            bytes[at] ^= 1 << numbers.below(8);
            fs::write(&file, bytes).unwrap();
            format!("a bit of byte {at} of {}", file.display())
        }
        5 => {
            let (one, other) = (head(numbers), head(numbers));
            // Onto itself a file would be emptied.
            if one != other {
                _ = fs::copy(&one, &other);
            }
            format!("{} in place of {}", one.display(), other.display())
        }
        6 => {
            let file = head(numbers);
            _ = fs::remove_file(&file);
            format!("{} is gone", file.display())
        }
        _ => {
            let key = beside(path, ".key");
            let mut text = fs::read(&key).unwrap();
            let at = numbers.below(64);
            text[at] = if text[at] == b'a' { b'b' } else { b'a' };
            fs::write(&key, text).unwrap();
            format!("digit {at} of the key")
        }
    }
}

fn is_same(recorded: &Recorded, whole: &Recorded) -> bool {
    recorded.entries == whole.entries
        && recorded.spec == whole.spec
        && recorded.manifest == whole.manifest
        && recorded.origin == whole.origin
}

#[tokio::test]
#[allow(clippy::print_stdout)]
async fn whatever_is_changed_is_noticed_or_changes_nothing() {
    // K16, B3, I-11: a run that is resumed is the one that was written, so no effect is dispatched by a changed journal;
    // and `verify` calls a journal whole only where each run in it is.
    let count = if is_full() { 10_000 } else { loop_testkit::share(1_600).into() };
    let folder = tempfile::tempdir().unwrap();
    let whole = journal(&folder.path().join("journal.db")).await;
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..count {
        let mut numbers = Numbers(seed);
        let copy = tempfile::tempdir().unwrap();
        copy_all(folder.path(), copy.path());
        let path = copy.path().join("journal.db");
        // One change in two of three journals, up to four in the others.
        let changes = if seed % 3 == 0 { 1 + numbers.below(4) } else { 1 };
        let changes: Vec<String> = (0..changes)
            .map(|_| match numbers.below(4) {
                0 => by_bytes(&path, &mut numbers),
                _ if Connection::open(&path)
                    .and_then(|it| it.execute_batch("SELECT * FROM runs"))
                    .is_ok() =>
                {
                    by_sql(&path, &mut numbers)
                }
                _ => by_bytes(&path, &mut numbers),
            })
            .collect();
        let changes = format!("seed {seed}: {changes:#?}");
        let Ok(journal) = StoredJournal::open_existing(&path) else {
            refused += 1;
            continue;
        };
        let mut are_same = true;
        let audit = JournalAudit::of_all(&journal).await;
        for ((header, whole), run) in whole.iter().zip(RUNS) {
            let run = RunId::new(run);
            let read = journal.read(&run).await;
            // A run that was deleted together with its record leaves no trace, and nothing is resumed from it.
            let is_gone = matches!(read, Err(JournalError::Unknown { .. }))
                && !beside(&path, ".heads").join(run.as_str()).exists();
            are_same &=
                is_gone || read.as_ref().is_ok_and(|read| read.unverified.is_none() && is_same(read, whole));
            match journal.resume(&run).await {
                Ok((recorded, _writer)) => assert!(is_same(&recorded, whole), "{changes}"),
                // It is refused with a line.
                Err(error) => assert!(!error.to_string().contains('\n'), "{changes}: {error}"),
            }
            // A key leads to its own run or to none.
            if header.run.as_str() == "r1"
                && let Ok(Some(other)) = journal.run_of_key("order-17").await
                && other != run
            {
                assert!(journal.read(&other).await.is_err(), "{changes}");
            }
        }
        match audit {
            Ok(audit) if audit.ok => {
                assert!(are_same, "{changes}: {audit:#?}");
                harmless += 1;
            }
            Ok(_) | Err(JournalError::Storage { .. } | JournalError::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("{changes}: {error}"),
        }
    }
    assert!(refused > count * 2 / 3, "{refused} of {count} were noticed, {harmless} changed nothing");
    if is_full() {
        println!(
            "{count} journals: {refused} noticed, {harmless} changed nothing that a run is resumed from"
        );
    }
}

#[tokio::test]
async fn a_trigger_or_a_view_of_another_program_refuses_the_journal() {
    // Issue 40, H6: each of these lets an entry vanish that counts as written.
    let id = RunId::new("r2");
    for (make, named) in [
        ("CREATE TRIGGER skip BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END", "the trigger skip"),
        (
            "CREATE TRIGGER undo AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE rowid = NEW.rowid; END",
            "the trigger undo",
        ),
        (
            // Under a name that the journal gives, with another text.
            "CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON runs BEGIN SELECT RAISE(IGNORE); END",
            "the trigger audit_is_not_changed",
        ),
        ("CREATE VIEW v AS SELECT * FROM runs", "the view v"),
    ] {
        let (_folder, path) = super::place();
        journal(&path).await;
        let open = StoredJournal::open(&path).unwrap();
        let (recorded, mut writer) = open.resume(&id).await.unwrap();
        let append = std::sync::Arc::new(super::history::blank(recorded.entries.len() as u64));
        Connection::open(&path).unwrap().execute_batch(make).unwrap();
        // Where it is open already, nothing is written.
        let refused = writer.append(&append, loop_runtime::journal::Durability::Committed).await.unwrap_err();
        assert!(refused.to_string().contains(named), "{refused}");
        assert_eq!(open.read(&id).await.unwrap().entries.len(), recorded.entries.len(), "{make}");
        let refused = StoredJournal::open_existing(&path).unwrap_err().to_string();
        let says = "which is not of loopgate and may change what is written; drop it, or restore a copy";
        assert!(refused.contains(named) && refused.contains(says), "{refused}");
        assert_eq!(refused.lines().count(), 1);
    }
}

#[tokio::test]
async fn an_entry_that_the_database_leaves_out_counts_as_not_written() {
    // Issue 40, H6: without a trigger, a table that was made anew may leave a row out as well.
    let (_folder, path) = super::place();
    journal(&path).await;
    let anew = "PRAGMA foreign_keys = OFF; ALTER TABLE entries RENAME TO old;
                CREATE TABLE entries (run, seq, epoch, prev_hash, event, notes, one DEFAULT 1 UNIQUE ON CONFLICT IGNORE);
                INSERT INTO entries (run, seq, epoch, prev_hash, event, notes, one) SELECT *, rowid + 1 FROM old;
                UPDATE entries SET one = 1 WHERE rowid = 1; DROP TABLE old";
    Connection::open(&path).unwrap().execute_batch(anew).unwrap();
    let open = StoredJournal::open(&path).unwrap();
    let (recorded, mut writer) = open.resume(&RunId::new("r2")).await.unwrap();
    let append = std::sync::Arc::new(super::history::blank(recorded.entries.len() as u64));
    let refused = writer.append(&append, loop_runtime::journal::Durability::Committed).await.unwrap_err();
    assert!(refused.to_string().contains("did not take what was written"), "{refused}");
}

#[tokio::test]
async fn a_run_is_not_found_by_a_request_key_that_was_changed() {
    // Issue 40, H3: the key's column is compared with the seal of its row.
    let (_folder, path) = super::place();
    journal(&path).await;
    let change = "UPDATE runs SET request_key = 'order-18' WHERE run = 'r1'";
    Connection::open(&path).unwrap().execute_batch(change).unwrap();
    let open = StoredJournal::open(&path).unwrap();
    let refused = open.run_of_key("order-18").await.unwrap_err().to_string();
    assert!(refused.contains("changed since it was written"), "{refused}");
}
