//! Tests of changes: what is refused when the tool is made, that they are whole or not at all, and that they say what they did.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::{Credentials, Registry, ToolContext, ToolDeclaration};
use loop_core::types::{Observation, Scope, Status};
use serde_json::{Value, json};

use super::*;
use crate::connectors::SqlTool;

const UPDATE: &str = "UPDATE people SET company = :company WHERE id = :id";
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                       UPDATE people SET company = (SELECT count(*) FROM n)";

struct World {
    folder: tempfile::TempDir,
    database: Database,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("crm.sql");
    let text = "CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, company TEXT);
        INSERT INTO people VALUES (1, 'Ann', 'Acme'), (2, 'Bob', 'Acme'), (3, 'Cid', 'Brix');
        CREATE TABLE notes (key TEXT PRIMARY KEY, person INTEGER REFERENCES people ON DELETE CASCADE, text TEXT);
        INSERT INTO notes VALUES ('k', 3, 'old');
        CREATE VIEW brief AS SELECT id, name FROM people;
        CREATE TRIGGER renamed INSTEAD OF UPDATE ON brief
            BEGIN UPDATE people SET name = new.name WHERE id = old.id; END;";
    std::fs::write(&script, text).unwrap();
    let database = Database::working_copy(&script, folder.path()).unwrap();
    World { folder, database }
}

fn declaration(effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new("update_user")
        .schema(json!({
            "type": "object",
            "properties": { "id": { "type": "integer" }, "company": { "type": "string" } },
        }))
        .effect(effect)
}

fn registry(database: &Database, query: &str) -> Registry {
    let tool = SqlTool::new(declaration(Effect::WriteIdempotent), database, query).unwrap();
    Registry::builder().tool(tool).build().unwrap()
}

async fn ask(registry: &Registry, parameters: Value, key: &str) -> Observation {
    let context = context(key);
    registry.dispatch("update_user", &parameters, context, &Credentials::none(), 12_000, 4_000).await
}

async fn call(world: &World, query: &str, parameters: Value) -> Observation {
    ask(&registry(&world.database, query), parameters, "r/1/action-0").await
}

fn context(key: &str) -> ToolContext {
    ToolContext::new(Scope::default(), "x", key)
}

/// All people in one line.
fn people(database: &Database) -> String {
    let connection = database.connect().unwrap();
    let all = "SELECT group_concat(name || ' ' || company, ', ') FROM (SELECT name, company FROM people ORDER BY id)";
    connection.query_row(all, [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn refused(effect: Effect, query: &str) -> String {
    let world = world();
    let error = SqlTool::new(declaration(effect), &world.database, query).unwrap_err().to_string();
    assert!(error.starts_with("tool `update_user`: ") && !error.contains('\n'), "{error}");
    assert_eq!(people(&world.database), "Ann Acme, Bob Acme, Cid Brix", "{query}");
    error.replacen("tool `update_user`: ", "", 1)
}

#[test]
fn a_tool_that_writes_is_one_insert_update_or_delete() {
    // S0-64
    let says = |what: &str| {
        format!(
            "with the effect `write_idempotent` its query must be one INSERT, UPDATE or DELETE: {what}; write one, or \
             correct the effect"
        )
    };
    let changes_nothing =
        ["SELECT name FROM people", "", "-- nothing", "VACUUM", "EXPLAIN DELETE FROM people", "VALUES (1)"];
    for query in changes_nothing {
        assert_eq!(refused(Effect::WriteIdempotent, query), says("it changes nothing"), "{query}");
    }
    let other = [
        "DROP TABLE people",
        "CREATE TABLE t (a)",
        "CREATE TABLE t AS SELECT 1",
        "ALTER TABLE people ADD COLUMN x",
        "DELETE FROM sqlite_sequence",
        "PRAGMA user_version = 9",
        "ATTACH 'x.db' AS x",
        "BEGIN",
        "REINDEX",
        "ANALYZE",
    ];
    for query in other {
        assert_eq!(refused(Effect::WriteIdempotent, query), says("it does something else"), "{query}");
    }
    let two = "UPDATE people SET company = 'x'; DELETE FROM people";
    assert_eq!(refused(Effect::WriteIdempotent, two), says("it is more than one statement"));
    let error = refused(Effect::WriteIrreversible, "UPDATE people SET town = 'x'");
    assert_eq!(error, "its query does not prepare: no such column: town; correct the SQL");
    let error = refused(Effect::WriteIrreversible, "DELETE FROM people WHERE id = :idd");
    assert!(error.contains("names `:idd`") && error.ends_with(":scope_person, :call_key"), "{error}");
    let error = refused(Effect::WriteIdempotent, "DELETE FROM people RETURNING id, name AS id");
    assert_eq!(error, "its query has two columns `id`; rename one with AS");
}

#[test]
fn each_kind_of_change_is_taken() {
    let world = world();
    for query in [
        UPDATE,
        "DELETE FROM people WHERE id = :id",
        "INSERT INTO people (name, company) VALUES (:scope_person, :company) RETURNING id",
        "REPLACE INTO notes (key, text) VALUES (:call_key, :company)",
        "INSERT INTO notes (key) VALUES (:call_key) ON CONFLICT (key) DO NOTHING",
        "WITH gone AS (SELECT id FROM people WHERE id = :id) DELETE FROM people WHERE id IN (SELECT id FROM gone)",
        "UPDATE brief SET name = :company WHERE id = :id",
    ] {
        SqlTool::new(declaration(Effect::WriteIdempotent), &world.database, query).unwrap();
    }
}

#[test]
fn a_tool_that_reads_never_writes_even_where_others_may() {
    // S0-64: what may be written by one tool is still only read by the next.
    let says = "its query must be one SELECT that changes nothing: it would write; write one SELECT";
    for effect in [Effect::Read, Effect::Egress, Effect::Exec] {
        assert_eq!(refused(effect, "DELETE FROM people RETURNING id"), says);
    }
    let world = world();
    let error = world.database.connect().unwrap().execute("DELETE FROM people", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
}

#[test]
fn a_database_that_was_opened_for_reading_is_not_written() {
    let world = world();
    let database = Database::open(world.database.path()).unwrap();
    let error = SqlTool::new(declaration(Effect::WriteIdempotent), &database, UPDATE).unwrap_err();
    let expected = format!(
        "tool `update_user`: its effect `write_idempotent` changes data, and {} is opened for reading only; open it for \
         writing",
        database.path().display()
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_change_says_how_many_rows_it_changed() {
    // S1-6
    let world = world();
    let seen = call(&world, UPDATE, json!({ "id": 2, "company": "EPAM" })).await;
    let expected = "## Update user\n\nChanged 1 row\n\n| changed |\n| --- |\n| 1 |";
    assert_eq!((seen.status, &*seen.summary, &*seen.markdown), (Status::Ok, "Changed 1 row", expected));
    assert_eq!(people(&world.database), "Ann Acme, Bob EPAM, Cid Brix");
    let again = call(&world, UPDATE, json!({ "id": 2, "company": "EPAM" })).await;
    assert_eq!((again.status, again.digest), (Status::Ok, seen.digest));
    let all = "UPDATE people SET company = :company";
    let seen = call(&world, all, json!({ "company": "x'; DROP TABLE people --" })).await;
    assert_eq!(&*seen.summary, "Changed 3 rows");
    assert!(people(&world.database).starts_with("Ann x'; DROP TABLE people --, "));
}

#[tokio::test]
async fn what_returning_brings_is_the_result() {
    let world = world();
    let query = format!("{UPDATE} RETURNING id, name, company");
    let seen = call(&world, &query, json!({ "id": 2, "company": "EPAM" })).await;
    let expected =
        "## Update user\n\nChanged 1 row\n\n| id | name | company |\n| --- | --- | --- |\n| 2 | Bob | EPAM |";
    assert_eq!(&*seen.markdown, expected);
    let data: Value = serde_json::from_str(&seen.data).unwrap();
    assert_eq!(data, json!([{ "id": 2, "name": "Bob", "company": "EPAM" }]));
    let many = "INSERT INTO people (name, company) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \
                240) SELECT 'P' || i, 'Crowd' FROM n RETURNING name";
    let seen = call(&world, many, json!({})).await;
    assert_eq!(&*seen.summary, "Changed 240 rows, shows 200");
    let count = "SELECT count(*) FROM people WHERE company = 'Crowd'";
    let stored: i64 = world.database.connect().unwrap().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 240);
}

#[tokio::test]
async fn a_change_that_meets_no_row_is_no_success() {
    // S0-68
    let world = world();
    for query in [UPDATE.to_owned(), format!("{UPDATE} RETURNING id")] {
        let seen = call(&world, &query, json!({ "id": 9, "company": "EPAM" })).await;
        assert_eq!((seen.status, &*seen.summary), (Status::Empty, "No data found"));
    }
    assert_eq!(people(&world.database), "Ann Acme, Bob Acme, Cid Brix");
}

#[tokio::test]
async fn what_a_view_hands_on_to_its_trigger_is_kept_and_counted() {
    let world = world();
    let rename = "UPDATE brief SET name = :company WHERE id = :id";
    let seen = call(&world, rename, json!({ "id": 1, "company": "Anna" })).await;
    assert_eq!(
        (&*seen.summary, &*people(&world.database)),
        ("Changed 1 row", "Anna Acme, Bob Acme, Cid Brix")
    );
    let delete = call(&world, "DELETE FROM people WHERE id = :id", json!({ "id": 3 })).await;
    assert_eq!(&*delete.summary, "Changed 1 row");
    let notes = "SELECT count(*) FROM notes";
    let left: i64 = world.database.connect().unwrap().query_row(notes, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_change_that_fails_midway_leaves_nothing() {
    // The third row is the one that fails, and OR FAIL would keep the two before it.
    let world = world();
    let query = "INSERT OR FAIL INTO people (name, company) VALUES ('Dan', 'x'), ('Eve', 'x'), ('Bob', 'x') RETURNING id";
    let seen = call(&world, query, json!({})).await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(seen.summary.contains("UNIQUE constraint failed"), "{}", seen.summary);
    assert_eq!(people(&world.database), "Ann Acme, Bob Acme, Cid Brix");
}

#[tokio::test]
async fn all_tries_of_one_call_share_its_key() {
    // S4-30
    let world = world();
    let query = "INSERT INTO notes (key, person, text) VALUES (:call_key, :id, :company) \
                 ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING key";
    SqlTool::new(declaration(Effect::WriteKeyed), &world.database, query).unwrap();
    let registry = registry(&world.database, query);
    for key in ["r/1/action-0", "r/1/action-0", "r/1/action-1"] {
        let seen = ask(&registry, json!({ "id": 1, "company": "text" }), key).await;
        assert!(seen.markdown.ends_with(&format!("| {key} |")), "{}", seen.markdown);
    }
    let notes = "SELECT count(*) FROM notes";
    let stored: i64 = world.database.connect().unwrap().query_row(notes, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 3);
    assert_eq!(
        refused(Effect::WriteKeyed, UPDATE),
        "with the effect `write_keyed` its query must store `:call_key`, and does not name it; do so, or correct the effect"
    );
}

#[test]
fn what_is_no_longer_wanted_changes_nothing() {
    // S0-94, S2-49
    let world = world();
    let cancel = CancellationToken::new();
    cancel.cancel();
    for query in [UPDATE, ENDLESS] {
        let parameters = ["id", "company"].map(str::to_owned).into();
        let change =
            Change::check("t", Effect::WriteIdempotent, &world.database, query, &parameters).unwrap();
        let parameters = json!({ "id": 2, "company": "EPAM" });
        let given =
            SqlValues { parameters: &parameters, scope: &Scope::default(), key: Some("k"), time: None };
        assert_eq!(change.run(&given, 1_000, &cancel), Err(Trouble::stopped()), "{query}");
    }
    assert_eq!(people(&world.database), "Ann Acme, Bob Acme, Cid Brix");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_takes_too_long_is_stopped_and_taken_back() {
    // S0-94, C32
    let world = world();
    let registry = registry(&world.database, ENDLESS);
    let seen =
        registry.dispatch("update_user", &json!({}), context("k"), &Credentials::none(), 50, 4_000).await;
    assert_eq!(seen.status, Status::Timeout);
    // The next change gets the lock only when the first one has let go of it.
    let seen = call(&world, UPDATE, json!({ "id": 2, "company": "EPAM" })).await;
    assert_eq!(
        (&*seen.summary, &*people(&world.database)),
        ("Changed 1 row", "Ann Acme, Bob EPAM, Cid Brix")
    );
}

#[test]
fn many_runs_may_write_at_once() {
    let world = world();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let database = world.database.clone();
            std::thread::spawn(move || {
                let add = "UPDATE people SET company = company + 1 WHERE id = 1";
                let change = Change::check("t", Effect::WriteIrreversible, &database, add, &BTreeSet::new());
                let change = change.unwrap();
                let (parameters, scope) = (json!({}), Scope::default());
                let given = SqlValues { parameters: &parameters, scope: &scope, key: None, time: None };
                for _ in 0..5 {
                    assert_eq!(change.run(&given, 1_000, &CancellationToken::new()).unwrap().count, 1);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(people(&world.database), "Ann 20, Bob Acme, Cid Brix");
}

#[tokio::test]
async fn a_lock_is_waited_for_and_then_it_is_a_failure_that_may_pass() {
    let world = world();
    let hasty = registry(&world.database.clone().with_busy_timeout(Duration::from_millis(300)), UPDATE);
    let registry = registry(&world.database, UPDATE);
    let other = rusqlite::Connection::open(world.database.path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let seen = ask(&hasty, json!({ "id": 2, "company": "EPAM" }), "k").await;
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
    let frees = std::thread::spawn(move || {
        // Longer than a connection waits by itself.
        std::thread::sleep(Duration::from_millis(700));
        other.execute_batch("ROLLBACK").unwrap();
    });
    let seen = ask(&registry, json!({ "id": 2, "company": "EPAM" }), "k").await;
    assert_eq!(&*seen.summary, "Changed 1 row");
    frees.join().unwrap();
    drop(world.folder);
}

#[tokio::test]
async fn a_whole_number_that_sqlite_would_round_is_refused() {
    // B12: a person is shown the number exactly, so it is stored exactly or not at all.
    let world = world();
    let refused = [
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        // JSON reads these as reals, and rounds them: whatever is shown of them is not what was written.
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("18446744073709551617", "1.8446744073709552e+19"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("-9223372036854775809", "-9.223372036854776e+18"),
        ("-18446744073709551617", "-1.8446744073709552e+19"),
    ];
    for (written, shown) in refused {
        let parameters = serde_json::from_str(&format!("{{\"id\": {written}, \"company\": \"x\"}}")).unwrap();
        let seen = call(&world, UPDATE, parameters).await;
        let says = format!(
            "`id` is {shown}, and whole numbers of SQLite are from -9223372036854775808 to 9223372036854775807; give it as \
             a text, for a column of type TEXT"
        );
        let expected = match shown.contains('e') {
            true => (Status::InvalidInput, "/id: expected a whole number, found a number"),
            false => (Status::PermanentError, &*says),
        };
        assert_eq!((seen.status, &*seen.summary), expected, "{written}");
    }
    // What SQLite keeps exactly is given exactly, and comes back so.
    for id in [i64::MAX, i64::MIN, (1 << 53) + 1] {
        let insert =
            "INSERT INTO people (id, name, company) VALUES (:id, 'Dee ' || :id, 'Dell') RETURNING id";
        let seen = call(&world, insert, json!({ "id": id, "company": "" })).await;
        assert_eq!((seen.status, seen.data.to_string()), (Status::Ok, format!("[{{\"id\":{id}}}]")));
        assert_eq!(
            call(&world, "DELETE FROM people WHERE id = :id", json!({ "id": id, "company": "" }))
                .await
                .status,
            Status::Ok
        );
    }
    assert_eq!(people(&world.database), "Ann Acme, Bob Acme, Cid Brix");
}
