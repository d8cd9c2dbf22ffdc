//! Pruned runs: gone from the file, known to the journal, and told from runs that vanished.

use std::io::Cursor;

use loop_core::types::RunId;
use loop_inspect::audit::JournalAudit;
use loop_runtime::journal::evals::KeptEval;
use loop_runtime::journal::label::{Label, RunLabel};
use loop_runtime::journal::prune::KeepReason;
use loop_runtime::journal::prune::Retention;
use loop_runtime::journal::{Header, Journal as _, JournalError, StoredJournal};
use rusqlite::Connection;

use super::history::{history, in_doubt};
use super::{beside, open, place, write};

fn run(id: &str) -> RunId {
    RunId::new(id)
}

#[tokio::test]
async fn a_pruned_run_is_gone_and_known() {
    // H2, U2: no byte of it is left in the files; verify does not miss it; its request key stays taken.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    let header = Header { title: "Laptop HAR-LT-014".into(), ..header };
    let mut entries = entries;
    let marked = serde_json::to_string(&entries[0])
        .unwrap()
        .replace(&serde_json::to_string(&*history("r1").0.title).unwrap(), "\"Laptop HAR-LT-014\"");
    entries[0] = serde_json::from_str(&marked).unwrap();
    write(&journal, &Header { request_key: Some("order-17".into()), ..header }, &entries).await;
    let (other, others) = history("r2");
    write(&journal, &other, &others).await;
    let holds = |what: &str| {
        let files = [path.clone(), beside(&path, "-wal")];
        let bytes = files.iter().flat_map(|file| std::fs::read(file).unwrap_or_default());
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).contains(what)
    };
    assert!(holds("HAR-LT-014"));
    journal.prune(&run("r1")).await.unwrap();
    journal.tidy_up(true).await.unwrap();
    assert!(!holds("HAR-LT-014"));
    let error = journal.read(&run("r1")).await.unwrap_err();
    assert!(matches!(error, JournalError::Pruned { .. }), "{error}");
    assert!(matches!(journal.resume(&run("r1")).await, Err(JournalError::Pruned { .. })));
    assert!(matches!(journal.prune(&run("r1")).await, Err(JournalError::Pruned { .. })));
    assert!(matches!(journal.prune(&run("r9")).await, Err(JournalError::Unknown { .. })));
    let audit = JournalAudit::of_all(&journal).await.unwrap();
    assert!(audit.ok && audit.runs.len() == 1, "{audit:?}");
    let (again, entries) = history("r3");
    let again = Header { request_key: Some("order-17".into()), ..again };
    let error = open(&journal, &again, &entries).await.map(drop).unwrap_err();
    assert!(matches!(&error, JournalError::KeyTaken { run: of, .. } if *of == run("r1")), "{error}");
    // A record without the key's seal excuses no missing run.
    let sql =
        "INSERT INTO pruned SELECT 'r2', unix_ms, entries, head, NULL, seal FROM pruned WHERE run = 'r1';
               DELETE FROM entries WHERE run = 'r2'; DELETE FROM runs WHERE run = 'r2'";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    assert_eq!(JournalAudit::of_all(&journal).await.unwrap().missing, ["r2"]);
    assert!(matches!(journal.read(&run("r2")).await, Err(JournalError::Unknown { .. })));
}

#[tokio::test]
async fn a_label_or_an_eval_that_was_changed_counts_for_nothing() {
    // Labels are counted by a calibration, which ends runs.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for id in ["r1", "r2"] {
        let (header, entries) = history(id);
        write(&journal, &header, &entries).await;
        let label = RunLabel::new(Label::Bad, "", "ada").unwrap();
        journal.set_label(&run(id), Some(label)).await.unwrap();
    }
    let kept = KeptEval { name: "nightly".into(), ..KeptEval::default() };
    let ids = [0, 1].map(|_| kept.clone());
    let (first, second) = (
        journal.keep_eval(&ids[0], "{}".to_owned()).await.unwrap(),
        journal.keep_eval(&ids[1], "{}".to_owned()).await.unwrap(),
    );
    let sql = format!(
        "UPDATE labels SET body = replace(body, 'bad', 'good') WHERE run = 'r1';
         UPDATE evals SET body = '{{\"cases\": []}}' WHERE id = '{first}';
         UPDATE evals SET head = replace(head, 'nightly', 'best') WHERE id = '{second}'"
    );
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let labels = journal.labels(None).await.unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), [&run("r2")]);
    assert_eq!((journal.eval(&first).await.unwrap(), journal.eval(&second).await.unwrap()), (None, None));
    let listed = journal.evals().await.unwrap();
    assert_eq!(listed.iter().map(|it| &it.id).collect::<Vec<_>>(), [&first], "its head is as it was");
}

#[tokio::test]
async fn only_what_is_over_may_be_pruned() {
    // I-29, H8: an open run, one in doubt and one that is written are kept, whatever their age.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    for id in ["r1", "r2"] {
        let (header, entries) = history(id);
        write(&journal, &header, &entries).await;
    }
    let (header, entries) = in_doubt("r3");
    write(&journal, &header, &entries).await;
    let (header, entries) = history("r4");
    let _writer = open(&journal, &header, &entries).await.unwrap();
    let all = journal.runs().await.unwrap();
    let retention = Retention::of(&journal, all.clone(), &all, u64::MAX).await.unwrap();
    let names: Vec<&str> = retention.prune.iter().map(|line| line.run.as_str()).collect();
    assert_eq!(names, ["r2", "r1"]);
    let kept: Vec<_> = retention.kept.iter().map(|(line, why)| (line.run.as_str(), why.clone())).collect();
    assert_eq!(kept, [("r4", KeepReason::Written), ("r3", KeepReason::NotEnded)]);
    let young = Retention::of(&journal, all.clone(), &all, all[0].unix_ms).await.unwrap();
    assert_eq!((young.prune.len(), young.kept.len()), (0, 0), "nothing ended before the first began");
    for id in ["r3", "r4"] {
        assert!(journal.prune(&run(id)).await.is_err(), "{id}");
    }
    assert_eq!(journal.runs().await.unwrap().len(), 4);
    // What was changed is not deleted: it is to be looked at.
    let sql = "UPDATE runs SET title = 'Another' WHERE run = 'r1'";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    assert!(matches!(journal.prune(&run("r1")).await, Err(JournalError::Corrupt { .. })));
}

#[tokio::test]
async fn an_export_takes_a_pruned_run_back() {
    // H2
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &header, &entries).await;
    let file = path.with_file_name("export.jsonl");
    let out = std::fs::File::create(&file).unwrap();
    journal.export(&[run("r1")], "test", "a test", Box::new(out)).await.unwrap();
    journal.prune(&run("r1")).await.unwrap();
    let text = std::fs::read(&file).unwrap();
    let imported = journal.import(Box::new(Cursor::new(text))).await.unwrap();
    assert_eq!((imported.runs, imported.own), (1, 1));
    let read = journal.read(&run("r1")).await.unwrap();
    assert!(read.unverified.is_none() && read.entries == entries);
    assert!(JournalAudit::of_all(&journal).await.unwrap().ok);
    assert_eq!(journal.stats().await.unwrap().pruned, 0);
}

#[tokio::test]
async fn summaries_are_read_once_and_never_trusted_without_their_seal() {
    // K16
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &header, &entries).await;
    let first = journal.summaries(&[run("r1"), run("r9")]).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(first[&run("r1")].class, Some(loop_core::types::StopClass::Answered));
    let kept = |sql: &str| {
        let connection = Connection::open(&path).unwrap();
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(kept("SELECT count(*) FROM run_summaries"), 1);
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE run_summaries SET body = replace(body, 'answered', 'failed')")
        .unwrap();
    assert_eq!(journal.summaries(&[run("r1")]).await.unwrap(), first);
}
