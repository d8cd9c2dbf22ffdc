//! Calls that are cut off, connections that end, and what is left of them on the server.

use std::time::{Duration, Instant};

use loop_core::types::{Effect, Scope, Status};
use loop_testkit::postgres::PostgresServer;
use loop_tools::connectors::{Postgres, PostgresTool};
use loop_tools::{Tool, ToolContext};
use serde_json::json;

use super::world::{
    Caller, LONG, SHOP, connections, credentials, data, declaration, server, settings, settings_at, source,
};

const LOCKS: &str =
    "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'slow'";

/// How many statements the server has stopped because a client asked it to.
fn stops() -> usize {
    server().log().matches("canceling statement due to user request").count()
}

/// The server would notice a closed connection by itself, and later: it is asked to stop.
#[track_caller]
fn asked_to_stop(before: usize) {
    let since = Instant::now();
    while stops() == before {
        assert!(since.elapsed() < LONG, "{}", server().log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn slow_table() {
    let setup = "CREATE TABLE IF NOT EXISTS slow (id int); GRANT SELECT, INSERT, UPDATE ON slow TO writer";
    server().sql("shop", setup);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_call_that_is_cut_off_leaves_no_statement_lock_or_connection() {
    // S0-94
    slow_table();
    let source = source("writer");
    let sleep = "INSERT INTO slow SELECT 1 FROM pg_sleep(600) AS marked_cut";
    let running = "state = 'active' AND query LIKE '%marked_cut%'";
    // By a token, by the dispatcher's time limit, and by dropping the future.
    for way in ["token", "limit", "drop"] {
        let tool = Caller::new(&source, Effect::WriteIrreversible, sleep);
        let before = stops();
        match way {
            "token" => {
                let cancel = tool.cancel.clone();
                let call = tokio::spawn(async move { tool.call(json!({})).await });
                assert_eq!(connections(server(), running, "1"), "1");
                cancel.cancel();
                let seen = call.await.unwrap();
                assert_ne!(seen.status, Status::Ok);
                asked_to_stop(before);
            }
            "limit" => {
                let seen = tool.within(Duration::from_millis(700)).call(json!({})).await;
                assert!(
                    matches!(seen.status, Status::RetryableError | Status::Timeout | Status::InDoubt),
                    "{seen:?}"
                );
            }
            _ => {
                let tool = PostgresTool::new(declaration(Effect::WriteIrreversible), &source, sleep).unwrap();
                let call = tokio::spawn(async move {
                    let (context, credentials) =
                        (ToolContext::new(Scope::default(), "x", "k"), credentials());
                    tool.call(json!({}), &context, &credentials).await
                });
                assert_eq!(connections(server(), running, "1"), "1");
                call.abort();
                asked_to_stop(before);
            }
        }
        assert_eq!(connections(server(), running, "0"), "0", "{way}");
        assert_eq!(server().sql("shop", LOCKS), "0", "{way}");
    }
    assert_eq!(connections(server(), "usename = 'writer' AND query LIKE '%marked_cut%'", "0"), "0");
    assert_eq!(server().sql("shop", "SELECT count(*) FROM slow"), "0");
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_program_that_ends_in_the_middle_leaves_no_statement_behind() {
    // S0-94: nothing can ask the server to stop, and the server notices it by itself.
    let mut long = settings("reader");
    long.statement_timeout = LONG * 10;
    let source = Postgres::new("shop", long).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let tool = Caller::new(&source, Effect::Read, "SELECT 1 AS a FROM pg_sleep(600) AS marked_gone");
    let tool = tool.within(LONG * 10);
    runtime.spawn(async move { tool.call(json!({})).await });
    let running = "query LIKE '%marked_gone%' AND state = 'active'";
    assert_eq!(connections(server(), running, "1"), "1");
    drop(runtime);
    assert_eq!(connections(server(), running, "0"), "0");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn the_server_stops_a_statement_that_takes_too_long() {
    let mut short = settings("reader");
    short.statement_timeout = Duration::from_secs(2);
    let source = Postgres::new("shop", short).unwrap();
    let tool = Caller::new(&source, Effect::Read, "SELECT 1 AS a FROM pg_sleep(600)");
    let seen = tool.call(json!({})).await;
    let says =
        "the server stopped the statement, as it took too long: canceling statement due to statement timeout";
    assert_eq!((seen.status, &*seen.summary), (Status::RetryableError, says));
    let seen = Caller::new(&source, Effect::Read, "SELECT 1 AS a").call(json!({})).await;
    assert_eq!(seen.status, Status::Ok, "the connection is whole");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn all_connections_in_use_is_a_failure_that_may_pass() {
    let mut one = settings("reader");
    one.pool = 1;
    one.connect_timeout = Duration::from_secs(1);
    let source = Postgres::new("shop", one).unwrap();
    let quick = Caller::new(&source, Effect::Read, "SELECT 1 AS a");
    // On a busy machine a connection may take longer than that.
    let since = Instant::now();
    while quick.call(json!({})).await.status != Status::Ok {
        assert!(since.elapsed() < LONG);
    }
    let slow = Caller::new(&source, Effect::Read, "SELECT 1 AS a FROM pg_sleep(600) AS marked_full");
    let cancel = slow.cancel.clone();
    let first = tokio::spawn(async move { slow.call(json!({})).await });
    let running = "state = 'active' AND query LIKE '%marked_full%'";
    assert_eq!(connections(server(), running, "1"), "1");
    let second = quick.call(json!({})).await;
    cancel.cancel();
    assert_ne!(first.await.unwrap().status, Status::Ok);
    let says = "all 1 connections of the source are in use; try again later";
    assert_eq!((second.status, &*second.summary), (Status::RetryableError, says));
    // At most as many connections as the pool has, with any number of calls.
    let mut three = settings("reader");
    three.pool = 3;
    let source = Postgres::new("shop", three).unwrap();
    let tool = Caller::new(&source, Effect::Read, "SELECT pg_backend_pid() AS pid FROM pg_sleep(0.02)");
    let calls = futures::future::join_all((0..30).map(|_| tool.call(json!({})))).await;
    let pids: std::collections::BTreeSet<String> =
        calls.iter().map(|seen| data(seen)[0]["pid"].to_string()).collect();
    assert!((1..=3).contains(&pids.len()), "{pids:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_connection_that_the_server_ends_is_replaced() {
    let source = source("reader");
    let tool = Caller::new(&source, Effect::Read, "SELECT pg_backend_pid() AS pid");
    let pid = data(&tool.call(json!({})).await)[0]["pid"].clone();
    let end = |pid: &serde_json::Value| {
        server().sql("postgres", &format!("SELECT pg_terminate_backend({pid}, 60000)"))
    };
    assert_eq!(end(&pid), "t");
    let seen = tool.call(json!({})).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
    assert_ne!(data(&seen)[0]["pid"], pid);
    // In the middle of a statement, on a connection that no call used before: only a used one is tried a second time.
    let slow = Caller::new(
        &super::world::source("reader"),
        Effect::Read,
        "SELECT 1 AS a FROM pg_sleep(600) AS marked_end",
    );
    let call = tokio::spawn(async move { slow.call(json!({})).await });
    let running = "state = 'active' AND query LIKE '%marked_end%'";
    assert_eq!(connections(server(), running, "1"), "1");
    let ends =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'loopgate' AND ";
    server().sql("postgres", &format!("{ends}{running}"));
    let seen = call.await.unwrap();
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
    assert!(seen.summary.contains("terminating connection due to administrator command"), "{}", seen.summary);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn the_pool_recovers_when_the_server_is_back() {
    let mut own = PostgresServer::start();
    own.sql("postgres", "CREATE DATABASE shop");
    own.sql("shop", SHOP);
    let socket = own.folder().display().to_string();
    let source = Postgres::new("shop", settings_at(&socket, own.port(), "reader")).unwrap();
    let tool = Caller::new(&source, Effect::Read, "SELECT id FROM orders ORDER BY id LIMIT 1");
    assert_eq!(tool.call(json!({})).await.status, Status::Ok, "over the Unix socket");
    own.stop();
    let seen = tool.call(json!({})).await;
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
    assert!(seen.summary.starts_with("no connection to /"), "{}", seen.summary);
    own.run();
    let seen = tool.call(json!({})).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
}
