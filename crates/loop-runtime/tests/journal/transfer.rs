//! Exports and imports: what leaves a journal comes in as it was, or not at all.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use loop_core::types::RunId;
use loop_inspect::audit::JournalAudit;
use loop_runtime::Runner;
use loop_runtime::journal::label::{Label, RunLabel};
use loop_runtime::journal::transfer::{ImportedRuns, NotImported};
use loop_runtime::journal::{Durability, Header, Journal as _, JournalError, Recorded, StoredJournal};
use loop_runtime::run::StartError;

use crate::common::world::{Log, Stage, answer, runner, says, unselected};

use super::history::{Numbers, history, in_doubt, saving};
use super::{beside, copy_all, place, write};

/// Bytes that an export is written into.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn exported(journal: &StoredJournal) -> String {
    let bytes = Bytes::default();
    let runs: Vec<RunId> = journal.runs().await.unwrap().into_iter().rev().map(|line| line.run).collect();
    let exported = journal.export(&runs, "test", "a test", Box::new(bytes.clone())).await.unwrap();
    assert_eq!((exported.runs, exported.left_out), (runs.len() as u64, Vec::new()));
    let bytes = bytes.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

async fn imported(journal: &StoredJournal, text: &str) -> Result<ImportedRuns, NotImported> {
    journal.import(Box::new(Cursor::new(text.to_owned().into_bytes()))).await
}

/// Some runs: ended, with a request key, in doubt, and begun only.
async fn some(path: &Path) -> StoredJournal {
    let journal = StoredJournal::open(path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &header, &entries).await;
    let (header, entries) = history("r2");
    let origin: Option<Arc<str>> = Some("{\"tags\": [\"a\"]}".into());
    write(&journal, &Header { request_key: Some("order-17".into()), origin, ..header }, &entries).await;
    let (header, entries) = in_doubt("r3");
    write(&journal, &header, &entries).await;
    let (header, entries) = history("r4");
    write(&journal, &header, &entries[..1]).await;
    journal
}

/// A run without what its journal says of it.
fn stored(recorded: Recorded) -> Recorded {
    Recorded { unverified: None, imported: false, since_last_ms: None, ..recorded }
}

fn is_same(a: Recorded, b: Recorded) -> bool {
    format!("{:?}", stored(a)) == format!("{:?}", stored(b))
}

#[tokio::test]
async fn what_is_exported_comes_in_as_it_was_and_once() {
    // H2, H8: the same runs, whole, in another journal; a second import changes nothing.
    let (_folder, path) = place();
    let journal = some(&path).await;
    let text = exported(&journal).await;
    assert_eq!(text.matches("{\"blob\"").count(), 3, "two specs, and their manifest once");
    assert!(!text.contains("\"label\""), "an export without labels is as it was before there were any");
    let label = RunLabel::new(Label::Bad, "wrong customer", "ada").unwrap();
    journal.set_label(&RunId::new("r2"), Some(label.clone())).await.unwrap();
    let text = exported(&journal).await;
    let (_other, there) = place();
    let other = StoredJournal::open(&there).unwrap();
    let first = imported(&other, &text).await.unwrap();
    assert_eq!(first, ImportedRuns { runs: 4, own: 0, skipped: 0 });
    assert_eq!(imported(&other, &text).await.unwrap(), ImportedRuns { runs: 0, own: 0, skipped: 4 });
    for line in journal.runs().await.unwrap() {
        let read = other.read(&line.run).await.unwrap();
        assert!(read.imported && read.unverified.is_some());
        assert!(is_same(read, journal.read(&line.run).await.unwrap()), "{}", line.run);
    }
    assert_eq!(other.run_of_key("order-17").await.unwrap(), Some(RunId::new("r2")));
    let labels = other.labels(None).await.unwrap();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [(RunId::new("r2"), label)]);
    let audit = JournalAudit::of_all(&other).await.unwrap();
    assert!(audit.ok && audit.runs.iter().all(|run| run.imported), "{audit:?}");
    // What comes out of it again is the same but for its seals.
    let seal = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1);
        lines.map(|line| line.split("\"seal\"").next().unwrap().to_owned()).collect()
    };
    assert_eq!(seal(&exported(&other).await), seal(&text));
    // It may have gone on where it is from (I-29).
    let error = other.resume(&RunId::new("r4")).await.map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Unverified { .. }), "{error}");
    // Whoever takes the mark away has not the key: the run is changed then, not resumable.
    let sql = "UPDATE runs SET title = 'Another' WHERE run = 'r4'";
    rusqlite::Connection::open(&there).unwrap().execute_batch(sql).unwrap();
    assert!(!JournalAudit::of_all(&other).await.unwrap().ok);
}

#[tokio::test]
async fn a_journal_knows_its_own_runs_once_they_have_ended() {
    // I-29: the same key in two places seals both, so what has not ended is not resumed in the second. A run that has
    // stopped and is not saved yet has not ended.
    let (folder, path) = place();
    let journal = some(&path).await;
    let (header, entries) = saving("r5");
    write(&journal, &header, &entries).await;
    let stop = journal.runs().await.unwrap().into_iter().find(|line| line.run.as_str() == "r5").unwrap().stop;
    assert_eq!(stop, Some(loop_core::StopReason::Confident));
    let text = exported(&journal).await;
    let (_other, there) = place();
    drop(StoredJournal::open(&there).unwrap());
    std::fs::copy(beside(&path, ".key"), beside(&there, ".key")).unwrap();
    let other = StoredJournal::open(&there).unwrap();
    assert_eq!(imported(&other, &text).await.unwrap(), ImportedRuns { runs: 5, own: 2, skipped: 0 });
    for (run, own) in [("r1", true), ("r2", true), ("r3", false), ("r4", false), ("r5", false)] {
        let read = other.read(&RunId::new(run)).await.unwrap();
        assert_eq!((read.imported, read.unverified.is_none()), (!own, own), "{run}");
        assert_eq!(other.resume(&RunId::new(run)).await.is_ok(), own, "{run}");
    }
    assert!(JournalAudit::of_all(&other).await.unwrap().ok);
    drop(folder);
}

#[tokio::test]
async fn a_line_that_was_changed_is_refused_or_changes_nothing() {
    // H2, H3: single bytes of an export, at places that a seed draws; a run comes in whole and as it was, or not at all.
    let (_folder, path) = place();
    let journal = some(&path).await;
    let text = exported(&journal).await;
    let mut numbers = Numbers(17);
    let (mut refused, mut taken) = (0, 0);
    let (empty, clean) = place();
    drop(StoredJournal::open(&clean).unwrap());
    for round in 0..if super::history::is_full() { 4_000 } else { 60 } {
        let mut changed = text.clone().into_bytes();
        let at = numbers.below(changed.len());
        match numbers.below(4) {
            0 => changed.truncate(at),
            1 => drop(changed.remove(at)),
            2 => changed.insert(at, b'1'),
            _ => changed[at] ^= 1 << numbers.below(7),
        }
        let there = tempfile::tempdir().unwrap();
        copy_all(empty.path(), there.path());
        let other = StoredJournal::open(there.path().join("state/loopgate/journal.db")).unwrap();
        let came = other.import(Box::new(Cursor::new(changed))).await;
        let before = match came {
            Ok(imported) => {
                taken += 1;
                imported
            }
            Err(error) => {
                refused += 1;
                assert!(error.line > 0 && !error.to_string().contains('\n'), "{round}: {error}");
                error.before
            }
        };
        let lines = other.runs().await.unwrap();
        assert_eq!(lines.len() as u64, before.runs, "{round}");
        for line in lines {
            let read = other.read(&line.run).await.unwrap();
            assert!(is_same(read, journal.read(&line.run).await.unwrap()), "{round}, at {at}");
        }
        assert!(JournalAudit::of_all(&other).await.unwrap().ok, "{round}");
    }
    // What may change and leave the runs as they are: the program's name, the time, the seals, spaces.
    assert!(refused > taken * 3 && taken > 0, "{refused} refused, {taken} taken");
}

#[tokio::test]
async fn what_is_not_an_export_is_one_line() {
    // H2, B14
    let (_folder, path) = place();
    let journal = some(&path).await;
    let text = exported(&journal).await;
    let (_other, there) = place();
    let other = StoredJournal::open(&there).unwrap();
    let newer = text.replacen("\"version\":2", "\"version\":3", 1);
    let older = text.replacen("\"version\":2", "\"version\":1", 1);
    let lines: Vec<&str> = text.lines().collect();
    let without_last = lines[..lines.len() - 1].join("\n") + "\n";
    let without_blobs: String =
        lines.iter().filter(|line| !line.starts_with("{\"blob\"")).map(|line| format!("{line}\n")).collect();
    let twice = format!("{text}{text}");
    for (text, line, says) in [
        ("", 1, "not an export"),
        ("\n", 1, "not an export"),
        ("{\"id\": \"a\", \"steps\": []}\n", 1, "not an export"),
        ("\u{1f}\u{8b}", 1, "not an export"),
        (&newer, 1, "is of version 3, and this program reads 2; use test"),
        (&older, 1, "is of version 1, and this program reads 2"),
        (&without_blobs, 2, "its spec or its tool manifest is missing"),
        (text.trim_end(), lines.len() as u64, "cut off"),
        (&without_last, lines.len() as u64, "cut off"),
        (&twice, lines.len() as u64 + 1, "a line follows the last one"),
    ] {
        let error = imported(&other, text).await.unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
    // Another run of this name, and another run with this request key.
    let (_third, there) = place();
    let third = StoredJournal::open(&there).unwrap();
    let (header, entries) = history("r1");
    write(&third, &header, &entries[..2]).await;
    let error = imported(&third, &text).await.unwrap_err();
    assert!(error.message.contains("run r1: it is in this journal already, with other entries"), "{error}");
    let (_fourth, there) = place();
    let fourth = StoredJournal::open(&there).unwrap();
    let (header, entries) = history("r9");
    write(&fourth, &Header { request_key: Some("order-17".into()), ..header }, &entries).await;
    let error = imported(&fourth, &text).await.unwrap_err();
    assert!(error.message.contains("`order-17` is of run r9") && error.before.runs == 1, "{error}");
    assert!(JournalAudit::of_all(&fourth).await.unwrap().ok, "nothing of the refused run is left");
}

/// Deletes a run from the file, as a program without the key can.
fn vanish(path: &Path, run: &str) {
    let sql = format!("DELETE FROM entries WHERE run = '{run}'; DELETE FROM runs WHERE run = '{run}'");
    rusqlite::Connection::open(path).unwrap().execute_batch(&sql).unwrap();
}

#[tokio::test]
async fn an_import_hides_no_run_that_was_rolled_back_or_vanished() {
    // H2, H3, I-29: what this journal knew of a run is more than what an older export, or another one, has.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let (header, entries) = history("r1");
    write(&journal, &header, &entries[..2]).await;
    let older = exported(&journal).await;
    let (_recorded, mut writer) = journal.resume(&RunId::new("r1")).await.unwrap();
    for entry in &entries[2..] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    drop(writer);
    let whole = exported(&journal).await;
    vanish(&path, "r1");
    let missing = || async { JournalAudit::of_all(&journal).await.unwrap().missing };
    assert_eq!(missing().await, ["r1"]);
    let error = imported(&journal, &older).await.unwrap_err();
    assert!(error.message.contains("run r1: the export has 2 of its entries"), "{error}");
    assert!(!error.to_string().contains('\n') && error.message.contains("import a later export"), "{error}");
    // Another run of this name, with as many entries.
    let (_other, there) = place();
    let other = StoredJournal::open(&there).unwrap();
    let titled: Header = Header { origin: Some("{}".into()), ..history("r1").0 };
    write(&other, &titled, &entries).await;
    let error = imported(&journal, &exported(&other).await).await.unwrap_err();
    assert!(error.message.contains("run r1: this journal had other entries of it"), "{error}");
    assert_eq!((missing().await, journal.runs().await.unwrap()), (vec!["r1".to_owned()], Vec::new()));
    // All that it had restores it.
    assert_eq!(imported(&journal, &whole).await.unwrap(), ImportedRuns { runs: 1, own: 1, skipped: 0 });
    let audit = JournalAudit::of_all(&journal).await.unwrap();
    assert!(audit.ok && audit.missing.is_empty(), "{audit:?}");
    assert!(journal.resume(&RunId::new("r1")).await.is_ok());
}

#[tokio::test]
async fn an_import_that_fails_leaves_the_record_of_a_run_that_vanished() {
    // H2
    let (_folder, path) = place();
    let journal = some(&path).await;
    let text = exported(&journal).await;
    vanish(&path, "r2");
    let head = beside(&path, ".heads").join("r2");
    let before = std::fs::read(&head).unwrap();
    // Its request key is of another run by now.
    let (header, entries) = history("r9");
    write(&journal, &Header { request_key: Some("order-17".into()), ..header }, &entries).await;
    let error = imported(&journal, &text).await.unwrap_err();
    assert!(error.message.contains("`order-17` is of run r9"), "{error}");
    assert_eq!(std::fs::read(&head).unwrap(), before);
    assert_eq!(JournalAudit::of_all(&journal).await.unwrap().missing, ["r2"]);
    // The transaction itself fails.
    let refuse = "DELETE FROM entries WHERE run = 'r9'; DELETE FROM runs WHERE run = 'r9';
                  CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'refused'); END";
    rusqlite::Connection::open(&path).unwrap().execute_batch(refuse).unwrap();
    imported(&journal, &text).await.unwrap_err();
    assert_eq!(std::fs::read(&head).unwrap(), before);
    // A record that is not this key's is evidence as well.
    std::fs::write(&head, before.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()).unwrap();
    let error = imported(&journal, &text).await.unwrap_err();
    assert!(error.message.contains("was changed, or made with another key"), "{error}");
}

#[tokio::test]
async fn a_request_is_not_answered_by_a_run_of_another_journal() {
    // U2, K16: the run of a key that was imported is what another journal says.
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let here = runner(unselected(), &log, stage).with_journal(Arc::new(journal.clone()));
    let request = |runner: &Runner| runner.run(crate::common::item()).with_key("order-17");
    let run = request(&here).await.unwrap().run;
    assert_eq!(request(&here).earlier().await.unwrap(), Some(run.clone()));
    let (_other, there) = place();
    let other = StoredJournal::open(&there).unwrap();
    assert_eq!(imported(&other, &exported(&journal).await).await.unwrap().runs, 1);
    let there = here.clone().with_journal(Arc::new(other.clone()));
    let attached = request(&there).attach().await.map(drop).unwrap_err();
    let earlier = request(&there).earlier().await.map(drop).unwrap_err();
    for error in [attached, earlier] {
        assert!(matches!(&error, StartError::ImportedRequest { .. }), "{error}");
        let says =
            "of the key `order-17` was imported and is not this journal's own; use another key, or delete";
        assert!(error.to_string().starts_with(&format!("run {run} {says}")), "{error}");
    }
    // Pruned, it gives back the key, which a run of the journal's own does not.
    other.prune(&run).await.unwrap();
    assert_eq!(request(&there).earlier().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_imports_at_once_take_each_run_once() {
    // H8, I-29
    let (_folder, path) = place();
    let text = exported(&some(&path).await).await;
    let (_other, there) = place();
    drop(StoredJournal::open(&there).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (journal, text) = (StoredJournal::open(&there).unwrap(), text.clone());
            tokio::spawn(async move { imported(&journal, &text).await })
        })
        .collect();
    let mut runs = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(imported) => runs += imported.runs,
            // The other one is writing it; what is left comes with the next import.
            Err(error) => {
                assert!(error.message.contains("another process"), "{error}");
                runs += error.before.runs;
            }
        }
    }
    let journal = StoredJournal::open(&there).unwrap();
    runs += imported(&journal, &text).await.unwrap().runs;
    assert_eq!((runs, journal.runs().await.unwrap().len()), (4, 4));
    assert!(JournalAudit::of_all(&journal).await.unwrap().ok);
}
