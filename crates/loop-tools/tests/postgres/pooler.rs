//! Behind PgBouncer as it comes: in its session mode and in its transaction mode, where each transaction may have another
//! session of the server.

use std::process::Stdio;

use loop_core::types::{Effect, Status};
use loop_testkit::postgres::Pooler;
use loop_tools::connectors::{Postgres, PostgresTls};
use serde_json::{Value, json};

use super::world::{Caller, SECRET, data, server, settings_at};

const MODES: [&str; 2] = ["session", "transaction"];

fn pooler(mode: &str) -> Pooler {
    Pooler::start(server(), mode, 2, &[("reader", SECRET), ("writer", SECRET)])
}

fn source(pooler: &Pooler, user: &str) -> Postgres {
    let mut settings = settings_at("127.0.0.1", pooler.port(), user);
    (settings.tls, settings.writable, settings.pool) = (PostgresTls::Off, user == "writer", 2);
    Postgres::new("shop", settings).unwrap()
}

// Issue 43: poolers
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn calls_behind_a_pooler_see_their_own_rows_and_only_read() {
    for mode in MODES {
        let pooler = pooler(mode);
        let reader = source(&pooler, "reader");
        let notes = "SELECT note FROM orders WHERE id >= :id ORDER BY id";
        let own = |account: &str| match account {
            "a" => json!([{ "note": "nuts" }, { "note": "bolts" }]),
            _ => json!([{ "note": "secret of b" }]),
        };
        // More at a time than there are sessions, and two statements in turn.
        let calls = (0..24).map(|n| {
            let account = if n % 3 == 0 { "b" } else { "a" };
            let query =
                if n % 2 == 0 { notes } else { "SELECT note FROM orders WHERE total > 0 ORDER BY id" };
            let caller = Caller::new(&reader, Effect::Read, query).of_account(Some(account));
            async move { (account, caller.call(json!({ "id": 0 })).await) }
        });
        for (account, seen) in futures::future::join_all(calls).await {
            assert_eq!(seen.status, Status::Ok, "{mode}: {}", seen.summary);
            assert_eq!(data(&seen), own(account), "{mode}");
        }
        let none = Caller::new(&reader, Effect::Read, notes).of_account(None);
        assert_eq!(
            none.call(json!({ "id": 0 })).await.status,
            Status::Empty,
            "{mode}: nothing is left of a scope"
        );
        let writes = Caller::new(&source(&pooler, "writer"), Effect::Read, "SELECT note_it('pooled') AS n");
        let seen = writes.call(json!({})).await;
        assert_eq!(seen.status, Status::PermanentError, "{mode}: {}", seen.summary);
        assert!(seen.summary.contains("only reads"), "{mode}: {}", seen.summary);
    }
    assert_eq!(server().sql("shop", "SELECT count(*) FROM log WHERE text = 'pooled'"), "0");
}

// Issue 43: poolers
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn changes_behind_a_pooler_are_made_once() {
    for mode in MODES {
        let pooler = pooler(mode);
        let change = "INSERT INTO log (text) VALUES (:note) RETURNING text";
        let change = Caller::new(&source(&pooler, "writer"), Effect::WriteIrreversible, change);
        for n in 0..4 {
            let seen = change.call(json!({ "note": format!("{mode} {n}") })).await;
            assert_eq!(seen.status, Status::Ok, "{mode} {n}: {}", seen.summary);
        }
        let count = format!("SELECT count(*) FROM log WHERE text LIKE '{mode} %'");
        assert_eq!(server().sql("shop", &count), "4", "{mode}");
    }
}

// Issue 43: poolers
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn statements_that_other_clients_of_a_pooler_leave_behind_are_worked_around() {
    let pooler = pooler("transaction");
    let call = Caller::new(&source(&pooler, "reader"), Effect::Read, "SELECT id FROM orders ORDER BY id");
    // The names that the client gives its own, in each session of the server.
    let left: String = (0..40).map(|n| format!("PREPARE s{n} AS SELECT 1;")).collect();
    for _ in 0..3 {
        let port = pooler.port().to_string();
        let mut psql = server().psql("shop");
        psql.args(["-h", "127.0.0.1", "-p", &port, "-U", "reader", "-c", &left]).stderr(Stdio::null());
        // They may be there already.
        psql.output().unwrap();
        let seen = call.call(Value::Object(serde_json::Map::new())).await;
        assert_eq!(
            (seen.status, data(&seen)),
            (Status::Ok, json!([{ "id": 1 }, { "id": 2 }])),
            "{}",
            seen.summary
        );
    }
}
