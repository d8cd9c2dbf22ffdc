//! Tables that come about, change with the program, and come back from a backup.

use std::process::{Command, Stdio};
use std::thread;

use loop_core::types::RunId;
use loop_runtime::journal::{Journal as _, StoredJournal};

use super::World;
use super::conformance::{begun, history, write_all};
use crate::common::ticket;

/// What `pg_dump` writes of a database.
fn dump(world: &World, database: &str) -> Vec<u8> {
    let psql = world.server.psql(database);
    let mut dump = Command::new(std::path::Path::new(psql.get_program()).with_file_name("pg_dump"));
    dump.args(["-h", "127.0.0.1", "-p", &world.server.port().to_string(), "-U", "looper", database]);
    let dumped = dump.output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    dumped.stdout
}

fn restore(world: &World, database: &str, dumped: &[u8]) {
    let psql = world.server.psql(database);
    let mut restore = Command::new(psql.get_program());
    restore.args(["-h", "127.0.0.1", "-p", &world.server.port().to_string(), "-U", "looper", "-d", database]);
    restore.args(["-q", "-v", "ON_ERROR_STOP=1"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = restore.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), dumped).unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn tables_are_made_once_migrated_once_and_restored() {
    // H6, H11, I-11
    let world = World::new();
    // Processes that start at once on an empty database: each has the same journal.
    let opened: Vec<String> = thread::scope(|scope| {
        let url = world.url();
        let open = |_| {
            let url = url.clone();
            scope.spawn(move || StoredJournal::open(url).map(|journal| journal.path().display().to_string()))
        };
        let opening: Vec<_> = (0..6).map(open).collect();
        opening.into_iter().map(|opening| opening.join().unwrap().unwrap()).collect()
    });
    assert_eq!(opened.len(), 6);
    assert_eq!(world.server.sql("loops", "SELECT count(*), max(format) FROM loopgate.journal"), "1|3");
    // A journal of the first format, with a run, as the program of that time left it.
    let journal = world.journal("");
    write_all(&journal, &["x1"]).await;
    drop(journal);
    let back = "DROP TABLE loopgate.remote_requests; DROP TRIGGER runs_are_taken_out ON loopgate.runs; \
                DROP FUNCTION loopgate.count_removal; ALTER TABLE loopgate.runs DROP COLUMN born; \
                ALTER TABLE loopgate.journal DROP COLUMN removals; DROP INDEX loopgate.runs_open; \
                DROP INDEX loopgate.runs_of_domain; DROP INDEX loopgate.runs_of_reason; \
                DROP INDEX loopgate.submissions_queued; DROP TABLE loopgate.labels, loopgate.evals, loopgate.run_summaries; \
                DROP TABLE loopgate.search_words; DROP TABLE loopgate.search_runs; UPDATE loopgate.journal SET format = 1";
    world.server.sql("loops", back);
    let reads = world.run(&["runs"]);
    reads.fails_with(&["the journal is of an older loopgate; a command that writes it"]);
    let migrated = thread::scope(|scope| {
        let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| world.journal(""))).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(world.server.sql("loops", "SELECT format FROM loopgate.journal"), "3");
    assert_eq!(migrated[0].read(&RunId::new("x1")).await.unwrap().unverified, None);
    // A program of today meets a format of tomorrow.
    world.server.sql("loops", "UPDATE loopgate.journal SET format = 4");
    let item = ticket(1042);
    for args in [&["runs"][..], &["run", "examples/helpdesk", &item, "--no-save"]] {
        world.run(args).fails_with(&["written by a newer loopgate (format 4", "use that version"]);
    }
    world.server.sql("loops", "UPDATE loopgate.journal SET format = 3");
    // A backup is restored into an empty database: what it has is whole, and what it lost is noticed here.
    let dumped = dump(&world, "loops");
    let (header, entries) = history("after");
    drop(begun(&migrated[0], &header, &entries).await);
    drop(migrated);
    world.database("restored");
    restore(&world, "restored", &dumped);
    let restored = StoredJournal::open(world.url_of("restored", "")).unwrap();
    assert_eq!(restored.read(&RunId::new("x1")).await.unwrap().unverified, None);
    assert_eq!(restored.missing_runs().await.unwrap(), ["after".into()]);
    write_all(&restored, &["x9"]).await;
    assert_eq!(restored.runs().await.unwrap().len(), 2);
}
