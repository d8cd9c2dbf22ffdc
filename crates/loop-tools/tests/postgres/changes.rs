//! Changes: whole or not at all, and what is in doubt.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loop_core::types::{Effect, Status};
use loop_tools::connectors::{Postgres, PostgresTls};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::world::{Caller, LONG, connections, credentials, data, server, settings_at, source};

fn count(query: &str) -> String {
    server().sql("shop", &format!("SELECT count(*) FROM {query}"))
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_change_is_made_once_for_one_key() {
    // S0-64, S4-64
    let query = "INSERT INTO orders (id, account, note, call_key) VALUES (:id, :scope_account, :note, :call_key) \
                 ON CONFLICT (call_key) DO NOTHING RETURNING id, note";
    let tool = Caller::new(&source("writer"), Effect::WriteKeyed, query).of_account(Some("c"));
    let first = tool.call_with(json!({ "id": 101, "note": "new" }), &credentials(), "key-1").await;
    let expected = "## Orders — c\n\nChanged 1 row\n\n| id | note |\n| --- | --- |\n| 101 | new |";
    assert_eq!((first.status, &*first.markdown), (Status::Ok, expected));
    let again = tool.call_with(json!({ "id": 102, "note": "new" }), &credentials(), "key-1").await;
    assert_eq!((again.status, count("orders WHERE call_key = 'key-1'").as_str()), (Status::Empty, "1"));
    let update = Caller::new(
        &source("writer"),
        Effect::WriteIdempotent,
        "UPDATE orders SET note = :note WHERE id = :id",
    );
    let update = update.of_account(Some("c"));
    let seen = update.call(json!({ "id": 101, "note": "newer" })).await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Changed 1 row"));
    let seen = update.clone().of_account(Some("b")).call(json!({ "id": 101, "note": "of another" })).await;
    assert_eq!(seen.status, Status::Empty, "row level security is for changes as well");
    assert_eq!(server().sql("shop", "SELECT note FROM orders WHERE id = 101"), "newer");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_change_that_fails_changes_nothing() {
    let tool = |query: &str| Caller::new(&source("writer"), Effect::WriteIrreversible, query);
    let insert = "INSERT INTO orders (id, account) SELECT i, 'a' FROM generate_series(900, 3, -1) AS t(i)";
    let seen = tool(insert).call(json!({})).await;
    assert_eq!(
        (seen.status, &*seen.summary),
        (Status::PermanentError, "duplicate key value violates unique constraint \"orders_pkey\"")
    );
    let other = tool("INSERT INTO orders (id, account) VALUES (901, 'b')").call(json!({})).await;
    assert!(other.summary.contains("row-level security"), "{}", other.summary);
    // One that fails only at COMMIT.
    let late = "CREATE TABLE late (id int, CONSTRAINT once UNIQUE (id) DEFERRABLE INITIALLY DEFERRED); \
                INSERT INTO late VALUES (1); GRANT INSERT, SELECT ON late TO writer";
    server().sql("shop", late);
    let seen = tool("INSERT INTO late VALUES (1)").call(json!({})).await;
    assert_eq!(
        (seen.status, &*seen.summary),
        (Status::PermanentError, "duplicate key value violates unique constraint \"once\"")
    );
    assert_eq!((count("orders WHERE id > 200 AND id < 1000").as_str(), count("late").as_str()), ("0", "1"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn many_rows_of_a_change_are_all_made_and_not_all_shown() {
    let insert = "INSERT INTO log (text) SELECT 'many' FROM generate_series(1, 1000) RETURNING text";
    let seen = Caller::new(&source("writer"), Effect::WriteIrreversible, insert).call(json!({})).await;
    assert_eq!(
        (&*seen.summary, count("log WHERE text = 'many'").as_str()),
        ("Changed 1000 rows, shows 200", "1000")
    );
    assert_eq!(data(&seen).as_array().unwrap().len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_deadlock_and_a_lock_that_is_not_released_may_pass() {
    server().sql(
        "shop",
        "CREATE TABLE pair (id int PRIMARY KEY, n int); INSERT INTO pair VALUES (1, 0), (2, 0); \
                          GRANT SELECT, UPDATE ON pair TO writer",
    );
    let source = source("writer");
    // Each takes its first row, waits, and asks for the row of the other.
    let tool = |pause: f64, first: u32, second: u32| {
        let query = format!(
            "WITH a AS (UPDATE pair SET n = n + 1 WHERE id = {first} RETURNING n), \
             w AS (SELECT pg_sleep({pause}) FROM a) \
             UPDATE pair SET n = n + 1 WHERE id = {second} AND EXISTS (SELECT FROM w)"
        );
        Caller::new(&source, Effect::WriteIrreversible, &query)
    };
    // On a busy machine the second may begin only when the first is done.
    let mut last = None;
    for pause in [0.4, 3.0, 10.0] {
        let (one, two) = (tool(pause, 1, 2), tool(pause, 2, 1));
        let (one, two) = tokio::join!(one.call(json!({})), two.call(json!({})));
        let statuses = [one.status, two.status];
        let is_detected = [&one, &two].iter().any(|seen| seen.summary.contains("deadlock detected"));
        last = Some((statuses, is_detected, one.summary, two.summary));
        if is_detected {
            break;
        }
    }
    let (statuses, is_detected, one, two) = last.unwrap();
    assert!(is_detected, "{one} {two}");
    assert!(statuses.contains(&Status::RetryableError) && statuses.contains(&Status::Ok), "{one} {two}");
    // A lock that another connection holds.
    let mut holder =
        server().psql("shop").args(["-c", "BEGIN; LOCK TABLE pair; SELECT pg_sleep(600)"]).spawn().unwrap();
    let locked = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'pair' AND l.mode = 'AccessExclusiveLock' AND l.granted";
    while server().sql("shop", locked) != "1" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = Caller::new(&source, Effect::WriteIrreversible, "UPDATE pair SET n = 0").call(json!({})).await;
    let says = "another transaction holds a lock for too long: canceling statement due to lock timeout";
    assert_eq!((seen.status, &*seen.summary), (Status::RetryableError, says));
    holder.kill().unwrap();
    holder.wait().unwrap();
    server().sql(
        "shop",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%LOCK TABLE pair%' AND pid <> pg_backend_pid()",
    );
}

/// A server between a tool and the database, which ends both connections once it has passed COMMIT on.
async fn ends_after_commit(passes_on: bool) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let commits = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&commits);
    let to = server().port();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let database = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_database, mut to_database) = database.into_split();
            let seen = Arc::clone(&seen);
            let back = tokio::spawn(async move { tokio::io::copy(&mut from_database, &mut to_client).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    if buffer[..read].windows(6).any(|word| word == b"COMMIT") {
                        seen.fetch_add(1, Ordering::SeqCst);
                        back.abort();
                        if passes_on {
                            to_database.write_all(&buffer[..read]).await.unwrap();
                            tokio::time::sleep(Duration::from_millis(200)).await;
                        }
                        return;
                    }
                    to_database.write_all(&buffer[..read]).await.unwrap();
                }
            });
        }
    });
    (port, commits)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_commit_without_an_answer_is_in_doubt_and_not_sent_twice() {
    // S4-64
    for (effect, passes_on, status) in [
        (Effect::WriteIrreversible, true, Status::InDoubt),
        (Effect::WriteIrreversible, false, Status::InDoubt),
        (Effect::WriteIdempotent, true, Status::RetryableError),
    ] {
        let (port, commits) = ends_after_commit(passes_on).await;
        let mut settings = settings_at("127.0.0.1", port, "writer");
        settings.tls = PostgresTls::Off;
        settings.writable = true;
        let source = Postgres::new("shop", settings).unwrap();
        let text = format!("doubt {port}");
        let insert = format!("INSERT INTO log (text) VALUES ('{text}')");
        let seen = Caller::new(&source, effect, &insert).call(json!({})).await;
        let says = "it may or may not have been changed: the server did not answer to COMMIT: the connection to the server broke";
        assert_eq!((seen.status, &*seen.summary), (status, says));
        assert_eq!(commits.load(Ordering::SeqCst), 1);
        // The server may still be at it.
        let expected = if passes_on { "1" } else { "0" };
        let since = std::time::Instant::now();
        let made = loop {
            let made = count(&format!("log WHERE text = '{text}'"));
            if made == expected || since.elapsed() > LONG {
                break made;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(made, expected, "it cannot be known, and was as the network had it");
    }
    assert_eq!(connections(server(), "state = 'idle in transaction'", "0"), "0");
}
