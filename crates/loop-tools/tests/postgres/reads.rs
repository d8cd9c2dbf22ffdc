//! Queries: what they see, what they cannot do, and what bounds them.

use std::time::Instant;

use loop_core::types::{Effect, Status};
use loop_tools::connectors::{Postgres, ROWS_MAX};
use serde_json::json;

use super::world::{Caller, LONG, data, read, server, settings, source};

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_query_returns_a_table() {
    // S0-64, S0-69, S0-70, S0-79
    let query =
        "SELECT id, note, total FROM orders WHERE account = :scope_account AND id >= :id ORDER BY id DESC;";
    let seen = read(query).call(json!({ "id": 1 })).await;
    let expected = "## Orders — a\n\n| id | note | total |\n| --- | --- | --- |\n| 2 | bolts | 3.00 |\n| 1 | nuts | 12.50 |";
    assert_eq!((seen.status, &*seen.markdown, &*seen.summary), (Status::Ok, expected, "Found 2 items"));
    let seen = read(query).call(json!({ "id": 7 })).await;
    assert_eq!((seen.status, &*seen.summary), (Status::Empty, "No data found"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn row_level_security_sees_the_scope_and_a_used_connection_does_not_keep_it() {
    // S0-80
    let mut one = settings("reader");
    one.pool = 1;
    one.scope = vec![("app.tenant".to_owned(), "account".to_owned())];
    let source = Postgres::new("shop", one).unwrap();
    let notes = Caller::new(&source, Effect::Read, "SELECT note FROM orders ORDER BY id");
    let other = "SELECT current_setting('loopgate.account', true) AS account, current_setting('app.tenant', true) AS tenant, \
                 pg_backend_pid() AS pid";
    let other = Caller::new(&source, Effect::Read, other);
    let a = notes.call(json!({})).await;
    assert_eq!(data(&a), json!([{ "note": "nuts" }, { "note": "bolts" }]));
    let first = data(&other.clone().of_account(Some("b")).call(json!({})).await);
    assert_eq!((&first[0]["account"], &first[0]["tenant"]), (&json!("b"), &json!("b")));
    let b = notes.clone().of_account(Some("b")).call(json!({})).await;
    assert_eq!(data(&b), json!([{ "note": "secret of b" }]));
    let none = notes.clone().of_account(None).call(json!({})).await;
    assert_eq!(none.status, Status::Empty, "without an account no row is one's own");
    let second = data(&other.of_account(None).call(json!({})).await);
    assert_eq!(second[0]["account"], json!(""));
    assert_eq!(first[0]["pid"], second[0]["pid"], "it was the same connection");
    for account in ["' OR true --", "a', true), set_config('loopgate.account', 'b", "a\\", "\u{1}"] {
        let seen = notes.clone().of_account(Some(account)).call(json!({})).await;
        assert_eq!(seen.status, Status::Empty, "{account}: {}", seen.summary);
    }
    let nul = notes.of_account(Some("a\0")).call(json!({})).await;
    assert_eq!(nul.status, Status::PermanentError);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn what_comes_from_outside_is_a_value_and_never_sql() {
    // S0-64
    for attack in ["x' OR '1' = '1", "x'; DROP TABLE orders; --", "$1", "\\'; --", "x\u{0}"] {
        let seen = read("SELECT id FROM orders WHERE note = :note").call(json!({ "note": attack })).await;
        assert!(matches!(seen.status, Status::Empty | Status::InvalidInput), "{attack}: {}", seen.summary);
    }
    assert_eq!(server().sql("shop", "SELECT count(*) FROM orders WHERE account = 'b'"), "1");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_read_changes_nothing_whatever_it_calls() {
    // S0-64: the role `writer` may write, and the transaction may not.
    let source = source("writer");
    let before = server().sql("shop", "SELECT count(*) FROM log WHERE text = 'x'");
    for (query, status) in [
        ("SELECT note_it('x') AS n", Status::PermanentError),
        (
            "WITH x AS (INSERT INTO log (text) VALUES ('x') RETURNING text) SELECT * FROM x",
            Status::PermanentError,
        ),
        ("SELECT * FROM orders FOR UPDATE", Status::PermanentError),
        ("SELECT pg_read_file('/etc/passwd') AS text", Status::PermanentError),
        (
            "SELECT set_config('transaction_read_only', 'off', false) AS x, note_it('x') AS n",
            Status::PermanentError,
        ),
        ("SELECT set_config('role', 'postgres', false) AS x", Status::PermanentError),
        ("SELECT 1 AS a INTO other", Status::PermanentError),
        ("SELECT nextval('numbers') AS x", Status::PermanentError),
    ] {
        let seen = Caller::new(&source, Effect::Read, query).call(json!({})).await;
        assert_eq!(seen.status, status, "{query}: {}", seen.markdown);
    }
    // Servers before version 16 run it, and it is rolled back.
    let large = Caller::new(&source, Effect::Read, "SELECT lo_create(0) AS x").call(json!({})).await;
    assert_ne!(large.status, Status::InDoubt);
    assert_eq!(server().sql("shop", "SELECT count(*) FROM pg_largeobject_metadata"), "0");
    assert_eq!(server().sql("shop", "SELECT count(*) FROM log WHERE text = 'x'"), before);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn what_a_call_sets_is_gone_in_the_next() {
    // S0-80: settings, locks of the session and notifications do not outlive a call.
    let mut one = settings("reader");
    one.pool = 1;
    let source = Postgres::new("shop", one).unwrap();
    let sets = "SELECT set_config('loopgate.account', 'b', false) AS a, set_config('work_mem', '1MB', false) AS b, \
                pg_advisory_lock(4711) AS c, pg_backend_pid() AS pid";
    let sets = Caller::new(&source, Effect::Read, sets).call(json!({})).await;
    assert_eq!(sets.status, Status::Ok, "{}", sets.summary);
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711";
    assert_eq!(server().sql("shop", locks), "0");
    let reads = "SELECT current_setting('loopgate.account') AS a, current_setting('work_mem') AS b, pg_backend_pid() AS pid";
    let reads = data(&Caller::new(&source, Effect::Read, reads).of_account(None).call(json!({})).await);
    assert_eq!((&reads[0]["a"], &reads[0]["b"]), (&json!(""), &json!("4MB")));
    assert_eq!(reads[0]["pid"], data(&sets)[0]["pid"], "it was the same connection");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn many_rows_are_not_all_made_and_long_values_are_cut() {
    // B10
    let began = Instant::now();
    let seen = read("SELECT generate_series(1, 2000000000) AS i").call(json!({})).await;
    assert_eq!(
        (data(&seen).as_array().unwrap().len(), &*seen.summary),
        (ROWS_MAX, "Found more than 200 items, shows 200")
    );
    let seen = read("SELECT i FROM generate_series(1, 200) AS t(i)").call(json!({})).await;
    assert_eq!(&*seen.summary, "Found 200 items");
    // 200 rows of 5 MB each, of which 4 MiB in all are kept.
    let seen = read("SELECT i, repeat('é', 2500000) AS text FROM generate_series(1, 200) AS t(i)")
        .call(json!({}))
        .await;
    assert!(seen.summary.starts_with("Found more than 64 items"), "{}", seen.summary);
    assert!(data(&seen)[0]["text"].as_str().unwrap().ends_with("é… [cut: 65536 of 5000000 bytes]"));
    // To make all of them takes many minutes.
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_value_beyond_what_memory_should_hold_is_an_error_before_it_is_read() {
    // B10
    let source = source("reader");
    let seen = Caller::new(&source, Effect::Read, "SELECT repeat('x', 100000000) AS v").call(json!({})).await;
    assert_eq!(
        (seen.status, &*seen.summary),
        (
            Status::PermanentError,
            "a row has more than 64 MiB; select a part of its values with left() or substr()"
        )
    );
    let seen = Caller::new(&source, Effect::Read, "SELECT repeat('x', 60000000) AS v").call(json!({})).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
    let list = "SELECT array_agg(i) AS v FROM generate_series(1, 100000) AS t(i)";
    let seen = Caller::new(&source, Effect::Read, list).call(json!({})).await;
    let list = data(&seen)[0]["v"].as_array().unwrap().clone();
    assert_eq!((list.len(), list.last().unwrap()), (8_193, &json!("… [cut: 65536 of 800000 bytes]")));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_table_that_changes_behind_a_prepared_query_is_read_as_it_is_now() {
    let mut one = settings("reader");
    one.pool = 1;
    let source = Postgres::new("shop", one).unwrap();
    let reset = "DROP TABLE IF EXISTS moving; CREATE TABLE moving (id int); INSERT INTO moving VALUES (1); \
                 GRANT SELECT ON moving TO reader";
    server().sql("shop", reset);
    let reads = Caller::new(&source, Effect::Read, "SELECT * FROM moving WHERE id::text = :note");
    let before = reads.call(json!({ "note": "1" })).await;
    assert_eq!(data(&before), json!([{ "id": 1 }]));
    server().sql("shop", "ALTER TABLE moving ALTER id TYPE text, ADD name text DEFAULT 'new'");
    let after = reads.call(json!({ "note": "1" })).await;
    assert_eq!(data(&after), json!([{ "id": "1", "name": "new" }]));
    server().sql("shop", "DROP TABLE moving");
    let gone = reads.call(json!({ "note": "1" })).await;
    assert_eq!(
        (gone.status, &*gone.summary),
        (Status::PermanentError, "relation \"moving\" does not exist in its line 1")
    );
    server().sql("shop", reset);
    assert_eq!(data(&reads.call(json!({ "note": "1" })).await), json!([{ "id": 1 }]));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn names_are_looked_for_in_the_search_path() {
    let setup = "CREATE SCHEMA \"my \\ \"\"shop\"; CREATE TABLE \"my \\ \"\"shop\".only_here AS SELECT 1 AS id; \
                 GRANT USAGE ON SCHEMA \"my \\ \"\"shop\" TO reader; GRANT SELECT ON \"my \\ \"\"shop\".only_here TO reader";
    server().sql("shop", setup);
    let mut settings = settings("reader");
    settings.search_path = vec!["my \\ \"shop".to_owned(), "public".to_owned()];
    let source = Postgres::new("shop", settings).unwrap();
    for _ in 0..2 {
        let seen = Caller::new(&source, Effect::Read, "SELECT id FROM only_here").call(json!({})).await;
        assert_eq!(data(&seen), json!([{ "id": 1 }]), "also in a connection that was used");
    }
}
