//! The journal in a database is that of a file: the same suite passes, and the same runs are exported byte by byte.

use std::io::Cursor;
use std::io::Write;
use std::sync::{Arc, Mutex};

use loop_core::types::RunId;
use loop_runtime::journal::{Journal as _, StoredJournal};

use super::World;
use super::conformance::{any_journal, stored_journal, write_all};

/// What is written into it is kept.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An export without its first line, which has the time.
async fn exported(journal: &StoredJournal) -> String {
    let runs: Vec<RunId> = journal.runs().await.unwrap().into_iter().map(|line| line.run).collect();
    let out = Shared::default();
    let done = journal.export(&runs, "test", "memory", Box::new(out.clone())).await.unwrap();
    assert_eq!(done.left_out, []);
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn the_suite_of_all_journals_passes_on_a_server() {
    // I-13, I-29
    let world = World::new();
    any_journal(&world.journal("")).await;
    world.database("more");
    stored_journal(&StoredJournal::open(world.url_of("more", "")).unwrap()).await;
    // Entries of the audit log stay: the database refuses what would change them.
    for change in
        ["DELETE FROM loopgate.audit", "UPDATE loopgate.audit SET body = ''", "TRUNCATE loopgate.audit"]
    {
        let refused = world.server.psql("more").args(["-c", change]).output().unwrap();
        assert!(!refused.status.success(), "{change}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_server_and_a_file_export_the_same_bytes_and_take_each_others_runs_in() {
    // I-11: one format, one chain, one seal.
    let world = World::new();
    let on_server = world.journal("");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    std::fs::copy(world.key("loops"), folder.path().join("journal.db.key")).unwrap();
    let in_file = StoredJournal::open(&path).unwrap();
    let ids = ["x1", "x2", "x3"];
    write_all(&on_server, &ids).await;
    write_all(&in_file, &ids).await;
    // A take-over raises the epoch in both.
    for journal in [&on_server, &in_file] {
        drop(journal.resume(&RunId::new("x2")).await.unwrap());
    }
    let lines = exported(&on_server).await;
    assert_eq!(lines, exported(&in_file).await);
    assert!(lines.lines().count() > 20);
    // With its key, each journal takes the runs of the other as its own.
    let whole = format!("{{\"format\":\"loopgate-journal\",\"version\":2}}\n{lines}");
    world.database("copy");
    let copy = StoredJournal::open(world.url_of("copy", "")).unwrap();
    std::fs::copy(world.key("loops"), world.key("copy")).unwrap();
    let name = world.server.sql("loops", "SELECT key_name FROM loopgate.journal");
    world.server.sql("copy", &format!("UPDATE loopgate.journal SET key_name = '{name}'"));
    drop(copy);
    let copy = StoredJournal::open(world.url_of("copy", "")).unwrap();
    let imported = copy.import(Box::new(Cursor::new(whole.clone()))).await.unwrap();
    assert_eq!((imported.runs, imported.own), (3, 3));
    assert_eq!(exported(&copy).await, lines);
    let again = in_file.import(Box::new(Cursor::new(whole))).await.unwrap();
    assert_eq!((again.runs, again.skipped), (0, 3));
}
