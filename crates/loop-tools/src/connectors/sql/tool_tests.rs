//! Tests of the SQL tool: what is refused when it is made, and what comes out of a call.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use crate::{CancellationToken, Registry};
use loop_core::types::{Effect, Observation, Scope, Status};
use serde_json::json;

use super::*;

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c FROM n";

struct World {
    folder: tempfile::TempDir,
    database: Database,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("shop.sql");
    let text = "CREATE TABLE devices (host TEXT, free REAL, ram INTEGER, account_id TEXT, blob BLOB);
        INSERT INTO devices VALUES ('LT-1', 3.5, 16, 'a', x'0102'), ('LT-2', NULL, 8, 'b', NULL);
        CREATE TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 201) SELECT i FROM n;";
    std::fs::write(&script, text).unwrap();
    let database = Database::made_from(&script, folder.path()).unwrap();
    World { folder, database }
}

fn declaration() -> ToolDeclaration {
    ToolDeclaration::new("fetch_device_info")
        .schema(json!({
            "type": "object",
            "properties": { "target": { "type": "string" }, "min": { "type": "number" }, "on": { "type": "boolean" } },
        }))
        .effect(Effect::Read)
}

#[track_caller]
fn refused(query: &str) -> String {
    let world = world();
    let error = SqlTool::new(declaration(), &world.database, query).unwrap_err().to_string();
    assert!(error.starts_with("tool `fetch_device_info`: ") && !error.contains('\n'), "{error}");
    error.replacen("tool `fetch_device_info`: its query ", "", 1)
}

async fn call(world: &World, query: &str, parameters: Value, cancel: CancellationToken) -> Observation {
    let tool = SqlTool::new(declaration(), &world.database, query).unwrap();
    let registry = Registry::builder().tool(tool).build().unwrap();
    let scope = Scope { account: Some("a".into()), account_name: Some("Contoso".into()), ..Scope::default() };
    let context = ToolContext::new(scope, "x", "r/1/action-0").with_cancel(cancel);
    registry.dispatch("fetch_device_info", &parameters, context, &Credentials::none(), 5_000, 4_000).await
}

async fn answer(query: &str, parameters: Value) -> Observation {
    call(&world(), query, parameters, CancellationToken::new()).await
}

#[test]
fn a_query_that_does_not_prepare_says_what_sqlite_says() {
    assert_eq!(
        refused("SELECT host,\n  gadget FROM devices"),
        "does not prepare: no such column: gadget in its line 2; correct the SQL"
    );
    assert!(refused("SELEC 1").contains("syntax error"));
}

#[test]
fn a_query_that_does_more_than_look_is_refused() {
    // S0-64: a tool that looks must not be able to do anything else.
    let says = |what: &str| format!("must be one SELECT that changes nothing: {what}; write one SELECT");
    assert_eq!(refused("SELECT 1; SELECT 2"), says("it is more than one statement"));
    assert_eq!(refused("SELECT 1; DROP TABLE devices"), says("it is more than one statement"));
    assert_eq!(refused("DELETE FROM devices"), says("it would write"));
    assert_eq!(refused("INSERT INTO devices (host) VALUES ('x') RETURNING host"), says("it would write"));
    assert_eq!(refused("ATTACH 'x.db' AS x"), says("it brings no columns"));
    assert_eq!(refused(""), says("it brings no columns"));
    assert_eq!(refused("pragma table_info(devices)"), says("it begins with `pragma`"));
}

#[test]
fn a_query_that_names_what_nobody_gives_is_refused() {
    let error = refused("SELECT 1 AS a WHERE :taget");
    assert_eq!(
        error,
        "names `:taget`, which nobody gives it; use one of :min, :on, :target, :scope_account, :scope_account_name, \
         :scope_asset, :scope_item, :scope_person"
    );
    for query in ["SELECT 1 AS a WHERE ?", "SELECT 1 AS a WHERE @target", "SELECT 1 AS a WHERE :scope_x"] {
        assert!(refused(query).starts_with("names `"), "{query}");
    }
    assert_eq!(refused("SELECT 1 AS a, 2 AS a"), "has two columns `a`; rename one with AS");
}

#[tokio::test]
async fn parameters_and_scope_are_bound_by_name() {
    // S0-64, S0-69, S0-70, S0-80
    let query =
        "SELECT host, ram, free, blob FROM devices WHERE account_id = :scope_account AND host LIKE :target";
    let seen = answer(query, json!({ "target": "LT-%" })).await;
    let expected = "## Device info — Contoso\n\n| host | ram | free | blob |\n| --- | --- | --- | --- |\n\
                    | LT-1 | 16 | 3.5 | <2 bytes> |";
    assert_eq!((seen.status, &*seen.markdown, &*seen.summary), (Status::Ok, expected, "Found 1 items"));
    let data: Value = serde_json::from_str(&seen.data).unwrap();
    assert_eq!(data, json!([{ "host": "LT-1", "ram": 16, "free": 3.5, "blob": "<2 bytes>" }]));
    let query = "SELECT :min + 1 AS n, :on AS yes, :scope_person AS nobody, :target AS none";
    let seen = answer(query, json!({ "min": 2, "on": true })).await;
    let data: Value = serde_json::from_str(&seen.data).unwrap();
    assert_eq!(data, json!([{ "n": 3, "yes": 1, "nobody": null, "none": null }]));
}

#[tokio::test]
async fn what_comes_from_outside_is_a_value_and_never_sql() {
    let query = "SELECT host FROM devices WHERE host = :target";
    let seen = answer(query, json!({ "target": "x' OR 1 = 1 --" })).await;
    assert_eq!((seen.status, &*seen.summary), (Status::Empty, "No data found"));
}

#[tokio::test]
async fn no_rows_are_no_data() {
    // S0-68
    let seen = answer("SELECT host FROM devices WHERE host = :target", json!({ "target": "LT-9" })).await;
    let failure = seen.failure.as_ref().map(|failure| (&*failure.title, &*failure.message));
    assert_eq!((seen.status, failure), (Status::Empty, Some(("Device info", "No data found"))));
}

#[tokio::test]
async fn more_rows_than_are_shown_are_mentioned() {
    let seen = answer("SELECT i FROM n", json!({})).await;
    assert_eq!(&*seen.summary, "Found more than 200 items, shows 200");
    assert!(seen.markdown.contains("\n\n_Only the first 200 rows are shown; there are more._\n\n| i |"));
    let seen = answer("SELECT i FROM n LIMIT 200", json!({})).await;
    assert_eq!(&*seen.summary, "Found 200 items");
}

#[tokio::test]
async fn a_locked_database_is_a_failure_that_may_pass() {
    let world = world();
    let writer = rusqlite::Connection::open(world.database.path()).unwrap();
    let tool = "SELECT host FROM devices";
    let database = world.database.clone().with_busy_timeout(Duration::from_millis(100));
    let registry = {
        let tool = SqlTool::new(declaration(), &database, tool).unwrap();
        Registry::builder().tool(tool).build().unwrap()
    };
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let context = ToolContext::new(Scope::default(), "x", "k");
    let seen =
        registry.dispatch("fetch_device_info", &json!({}), context, &Credentials::none(), 5_000, 4_000).await;
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
}

#[tokio::test]
async fn a_database_that_went_away_is_a_failure_for_good() {
    // S0-81, S0-129
    let world = world();
    let tool = SqlTool::new(declaration(), &world.database, "SELECT host FROM devices").unwrap();
    std::fs::remove_file(world.database.path()).unwrap();
    let context = ToolContext::new(Scope::default(), "x", "k");
    let result = tool.call(json!({}), &context, &Credentials::none()).await;
    assert_eq!(result.kind, Some(crate::Failure::Permanent), "{}", result.summary);
    drop(world.folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_query_stops() {
    // S0-94: the time limit of a tool ends its work and not only the waiting for it.
    let world = world();
    let tool = SqlTool::new(declaration(), &world.database, ENDLESS).unwrap();
    let cancel = CancellationToken::new();
    let context = ToolContext::new(Scope::default(), "x", "k").with_cancel(cancel.clone());
    let began = Instant::now();
    let stop = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    });
    let result = tool.call(json!({}), &context, &Credentials::none()).await;
    stop.await.unwrap();
    assert_eq!(result.error.as_deref(), Some("the query was stopped"));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn a_dropped_call_leaves_no_query_behind() {
    // S0-94: a runtime waits for its blocking work when it ends, so this test would not.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let world = world();
    runtime.block_on(async {
        let tool = SqlTool::new(declaration(), &world.database, ENDLESS).unwrap();
        let context = ToolContext::new(Scope::default(), "x", "k");
        let credentials = Credentials::none();
        let call = tool.call(json!({}), &context, &credentials);
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    });
    drop(runtime);
}

#[tokio::test]
async fn a_long_value_is_cut_and_says_so() {
    // B10: the cut goes through a character of two bytes, which is left out.
    let long = "SELECT 'x' || replace(hex(zeroblob(50000)), '00', 'é') AS note, 'x' AS tail";
    let seen = answer(long, json!({})).await;
    let data: Value = serde_json::from_str(&seen.data).unwrap();
    let note = data[0]["note"].as_str().unwrap();
    assert!(
        note.starts_with("xéé") && note.ends_with("é… [cut: 65535 of 100001 bytes]"),
        "{} bytes",
        note.len()
    );
    assert_eq!(data[0]["tail"], "x");
}

// Issue 43, K3
#[tokio::test]
async fn a_text_that_is_not_utf_8_is_read_by_its_mark_or_says_so() {
    let query = "SELECT cast(x'5a6feb' AS text) AS latin, cast(x'fffe5a00eb00' AS text) AS wide, \
        '<?xml encoding=\"latin1\"?>ë' AS xml";
    let seen = answer(query, json!({})).await;
    let expected = json!([{
        "latin": "Zo\u{fffd} [bytes that are not UTF-8 were replaced]", "wide": "Zë",
        "xml": "<?xml encoding=\"latin1\"?>ë",
    }]);
    assert_eq!(serde_json::from_str::<Value>(&seen.data).unwrap(), expected);
}

#[tokio::test]
async fn the_longest_value_is_a_setting_of_the_tool() {
    // B10
    let world = world();
    let tool = SqlTool::new(declaration(), &world.database, "SELECT 'abcdefgh' AS note").unwrap();
    let registry = Registry::builder().tool(tool.with_cell_bytes_max(4)).build().unwrap();
    let context = ToolContext::new(Scope::default(), "x", "r/1/action-0");
    let name = &*declaration().name;
    let seen = registry.dispatch(name, &json!({}), context, &Credentials::none(), 12_000, 4_000).await;
    assert_eq!(&*seen.data, r#"[{"note":"abcd… [cut: 4 of 8 bytes]"}]"#);
}

#[tokio::test]
async fn a_value_beyond_what_memory_should_hold_is_an_error_before_it_is_read() {
    // B10
    let seen = answer("SELECT hex(zeroblob(40000000)) AS note", json!({})).await;
    assert_eq!(
        (seen.status, &*seen.summary),
        (Status::PermanentError, "a value has more than 64 MiB; select a part of it with substr()")
    );
}

#[tokio::test]
async fn many_long_values_end_the_rows_and_say_so() {
    // B10
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) \
                SELECT i, hex(zeroblob(32000)) AS note FROM n";
    let seen = answer(many, json!({})).await;
    assert!(seen.summary.starts_with("Found more than 66 items, shows 66"), "{}", seen.summary);
    assert!(seen.data.len() < (5 << 20), "{} bytes", seen.data.len());
}

// Issue 43, K5
#[tokio::test]
async fn a_lock_of_another_program_is_waited_for_as_long_as_is_said() {
    let world = world();
    let path = world.database.path();
    let open = |ms| Database::open_with(path, /*writable*/ false, Duration::from_millis(ms));
    let tool =
        |database: &Database| SqlTool::new(declaration(), database, "SELECT host FROM devices").unwrap();
    let registry = |ms| Registry::builder().tool(tool(&open(ms).unwrap())).build().unwrap();
    let (patient, hasty) = (registry(20_000), registry(100));
    let hold = |ms: u64| {
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(ms));
            other.execute_batch("ROLLBACK").unwrap();
        })
    };
    let ask = async |registry: &Registry, ms| {
        let context = ToolContext::new(Scope::default(), "x", "r/1/action-0");
        registry.dispatch("fetch_device_info", &json!({}), context, &Credentials::none(), ms, 4_000).await
    };
    let held = hold(2_500);
    let began = Instant::now();
    let says = open(100).unwrap_err().to_string();
    assert!(
        says.ends_with(
            "another program holds it locked; end what that program does with it, or raise `busy_timeout_ms`"
        ),
        "{says}"
    );
    let seen = ask(&hasty, 5_000).await;
    let says = "another program holds the database locked; try again later, or raise `busy_timeout_ms` of its source";
    assert_eq!((seen.status, &*seen.summary), (Status::RetryableError, says));
    assert_eq!(ask(&patient, 300).await.status, Status::Timeout);
    // R70: the lock is what is said, also where the tool has less time.
    let seen = ask(&patient, 1_000).await;
    assert_eq!((seen.status, &*seen.summary), (Status::RetryableError, says));
    assert!(began.elapsed() < Duration::from_millis(2_400), "{:?}", began.elapsed());
    open(20_000).unwrap();
    assert!(began.elapsed() > Duration::from_millis(2_400));
    held.join().unwrap();
    let held = hold(1_000);
    assert_eq!(ask(&patient, 20_000).await.status, Status::Ok);
    held.join().unwrap();
}
