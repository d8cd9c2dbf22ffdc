//! Lists of runs: by pages, by filters, and what changed since the last look. `LOOPGATE_LOAD=full` measures them with 5,000
//! runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loop_core::types::RunId;
use loop_runtime::journal::list::{ListPosition, RunQuery};
use loop_runtime::journal::{Durability, Journal as _, StoredJournal};

use super::conformance::{begun, blank, history, write_all};
use super::{World, told};
use crate::common::server::{Server, path};

/// The runs that a reader knows: their entries by their ids.
#[derive(Default)]
struct Reader {
    position: Option<ListPosition>,
    runs: BTreeMap<String, u64>,
    wholes: usize,
    nothings: usize,
}

impl Reader {
    /// Looks at the list, knowing what it knows.
    async fn look(&mut self, journal: &StoredJournal, open: &[&str]) {
        let open = open.iter().map(|run| RunId::new(*run)).collect();
        let Some(changes) = journal.list_changes(self.position.clone(), open, 100).await.unwrap() else {
            self.nothings += 1;
            return;
        };
        if changes.is_whole {
            self.wholes += 1;
            self.runs.clear();
        }
        self.runs.extend(changes.lines.into_iter().map(|line| (line.run.to_string(), line.entries)));
        self.position = Some(changes.position);
    }

    /// It knows what the journal has.
    async fn knows_all(&self, journal: &StoredJournal) {
        let lines = journal.runs().await.unwrap();
        let all: BTreeMap<String, u64> =
            lines.into_iter().map(|line| (line.run.to_string(), line.entries)).collect();
        assert_eq!(self.runs, all);
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_reader_is_told_what_changed_also_by_transactions_that_end_late() {
    // U2: no run is missed, and the list is read whole once.
    let world = World::new();
    let journal = world.journal("");
    write_all(&journal, &["x1", "x2", "x3"]).await;
    let (header, entries) = history("open");
    let mut writer = begun(&journal, &header, &entries).await;
    let mut reader = Reader::default();
    reader.look(&journal, &[]).await;
    reader.knows_all(&journal).await;
    reader.look(&journal, &["open"]).await;
    assert_eq!((reader.wholes, reader.nothings), (1, 1));
    // The run that was open has another entry, and there are new runs.
    writer.append(&Arc::new(blank(1)), Durability::Synced).await.unwrap();
    write_all(&world.journal(""), &["x4", "x5"]).await;
    reader.look(&journal, &["open"]).await;
    reader.knows_all(&journal).await;
    assert_eq!(reader.wholes, 1);
    // A row whose transaction began before another one that is seen first, and is committed after it.
    let mut late = world.server.psql("loops").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = late.stdin.take().unwrap();
    let copy = "BEGIN; INSERT INTO loopgate.runs SELECT (jsonb_populate_record(runs, '{\"run\": \"late\", \
                \"request_key\": null}')).* FROM loopgate.runs WHERE run = 'x1'; \
                UPDATE loopgate.runs SET born = CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT) WHERE run = 'late'; \
                SELECT pg_advisory_lock(4711);\n";
    std::io::Write::write_all(&mut input, copy.as_bytes()).unwrap();
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND granted";
    let since = Instant::now();
    while world.server.sql("loops", waits) != "1" {
        assert!(since.elapsed() < Duration::from_secs(60));
    }
    write_all(&journal, &["x6"]).await;
    reader.look(&journal, &["open"]).await;
    assert!(reader.runs.contains_key("x6") && !reader.runs.contains_key("late"));
    std::io::Write::write_all(&mut input, b"COMMIT;\n").unwrap();
    drop(input);
    assert!(late.wait().unwrap().success());
    reader.look(&journal, &["open"]).await;
    assert!(reader.runs.contains_key("late"), "{:?}", reader.runs.keys());
    assert_eq!(reader.wholes, 1);
    // What is taken out is no longer known.
    world.server.sql("loops", "DELETE FROM loopgate.runs WHERE run = 'late'");
    journal.prune(&RunId::new("x2")).await.unwrap();
    reader.look(&journal, &["open"]).await;
    reader.knows_all(&journal).await;
    assert_eq!(reader.wholes, 2);
}

/// How the database finds the rows of a question.
fn plan(world: &World, question: &str) -> String {
    world
        .server
        .sql("loops", &format!("SET enable_seqscan = off; SET search_path = loopgate; EXPLAIN {question}"))
}

fn found_by_indexes(world: &World) {
    for (question, index) in [
        ("SELECT * FROM runs WHERE stop IS NULL ORDER BY run DESC LIMIT 50", "runs_open"),
        ("SELECT * FROM runs WHERE run < 'r' ORDER BY run DESC LIMIT 50", "runs_pkey"),
        ("SELECT * FROM runs WHERE stop = 'confident' ORDER BY run DESC LIMIT 50", "runs_of_reason"),
        ("SELECT * FROM runs WHERE born >= 9", "runs_born"),
        (
            "SELECT * FROM submissions WHERE state = 0 AND run < 'r' ORDER BY run DESC LIMIT 9",
            "submissions_queued",
        ),
        ("SELECT * FROM remote_requests WHERE answer IS NULL ORDER BY nth LIMIT 9", "remote_requests_open"),
    ] {
        let found = plan(world, question);
        assert!(found.contains(index), "{question}: {found}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn pages_of_a_long_list_are_found_by_indexes() {
    // U2
    let is_full = std::env::var_os("LOOPGATE_LOAD").is_some_and(|plan| plan == "full");
    let world = World::new();
    let journal = world.journal("");
    let count = if is_full { 5_000 } else { 24 };
    let ids: Vec<String> = (0..count).map(|nth| format!("run-{nth:05}")).collect();
    let mut writing = tokio::task::JoinSet::new();
    for part in ids.chunks(24.max(count / 16)) {
        let (journal, part) = (journal.clone(), part.to_vec());
        writing.spawn(async move {
            write_all(&journal, &part.iter().map(String::as_str).collect::<Vec<_>>()).await;
        });
    }
    writing.join_all().await;
    // Page by page, each run once, newest first.
    let (mut query, mut seen) = (RunQuery { ended: Some(true), ..RunQuery::default() }, Vec::new());
    loop {
        let page = journal.page(&query, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        query.before = Some(last.run.clone());
        seen.extend(page.into_iter().map(|line| line.run.to_string()));
        if seen.len() > 100 {
            break;
        }
    }
    let newest: Vec<&String> = ids.iter().rev().take(seen.len()).collect();
    assert_eq!(seen.iter().collect::<Vec<_>>(), newest);
    let tagged = RunQuery { tag: Some("t3".into()), ..RunQuery::default() };
    let tagged = journal.page(&tagged, 7).await.unwrap();
    assert!(is_full || tagged.len() == 1 && tagged[0].run.as_str() == "run-00003", "{tagged:?}");
    if !is_full {
        found_by_indexes(&world);
        return;
    }
    let folder = world.shell.copy_of("examples/crm");
    let server = Server::start(&world.shell, &[path(&folder), "--no-save", "--journal", &world.url()]);
    for (name, address) in [
        ("the newest 50", "/v1/runs?limit=50"),
        ("the newest 50, again", "/v1/runs?limit=50"),
        ("50 in the middle", "/v1/runs?limit=50&cursor=run-02500"),
        ("those that have not ended", "/v1/runs?limit=50&state=running"),
        ("by reason", "/v1/runs?limit=50&reason=confident"),
        ("by text, none has it", "/v1/runs?limit=50&text=nowhere"),
        ("the page of the runs, first", "/"),
        ("the page of the runs, again", "/"),
        ("the page of the runs, again", "/"),
    ] {
        let since = Instant::now();
        let answered = server.ask(&format!("GET {address}"), "", "");
        let took = since.elapsed().as_secs_f64() * 1e3;
        told(&format!("{count} runs, {name}: {took:.1} ms, status {}", answered.status));
    }
    assert_eq!(server.end().0, 0);
}
