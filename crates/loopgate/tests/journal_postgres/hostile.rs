//! Texts that an attacker chooses: characters that the database does not take, and long ones.

use loop_core::types::RunId;
use loop_runtime::journal::list::RunQuery;
use loop_runtime::journal::{Journal as _, StoredJournal};
use serde_json::json;

use super::World;
use super::conformance::{begun, history};
use crate::common::server::{Server, path};

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn each_text_comes_back_as_it_was_written() {
    // H11, I-13: what is chained and sealed is the text, also where the database takes no NUL.
    let world = World::new();
    let journal = world.journal("");
    let run = RunId::new("r\0\u{10ffff}0");
    let (mut header, entries) = history(run.as_str());
    header.origin = Some(json!({ "tags": ["night"], "settings": ["a\0b"] }).to_string().into());
    header.request_key = Some("k\0".into());
    drop(begun(&journal, &header, &entries).await);
    let again = StoredJournal::open_existing(world.url()).unwrap();
    let recorded = again.read(&run).await.unwrap();
    assert_eq!((recorded.entries.as_slice(), recorded.unverified), (&entries[..1], None));
    assert_eq!(again.run_of_key("k\0").await.unwrap(), Some(run.clone()));
    let line = again.line(&run).await.unwrap().unwrap();
    assert_eq!((&line.title, &line.trouble), (&header.title, &None));
    for query in [
        RunQuery { text: Some(line.title.clone()), ..RunQuery::default() },
        RunQuery { tag: Some("night".into()), ..RunQuery::default() },
        RunQuery { domains: Some(vec!["x\0".into(), line.domain.clone()]), ..RunQuery::default() },
    ] {
        let page = again.page(&query, 5).await.unwrap();
        assert_eq!(page.len(), 1, "{query:?}");
    }
    assert_eq!(again.lines(&[run.clone(), RunId::new("none\0")]).await.unwrap().len(), 1);
    assert_eq!(again.summaries(std::slice::from_ref(&run)).await.unwrap().len(), 1);
    drop(journal.resume(&run).await.unwrap());
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_server_answers_hostile_ids_and_items_as_any_other() {
    // K16, U2: no request makes the journal fail.
    let world = World::new();
    let folder = world.shell.copy_of("examples/crm");
    let server = Server::start(&world.shell, &[path(&folder), "--no-save", "--journal", &world.url()]);
    let long = "a".repeat(6_000);
    for id in ["a%00b", "%F4%8F%BF%BF0", "'%20OR%201=1", &long] {
        let found = server.ask(&format!("GET /v1/runs/{id}"), "", "");
        assert!(matches!(found.status, 400 | 404), "{id}: {found:?}");
        let stopped =
            server.ask(&format!("POST /v1/runs/{id}/stop"), "", &json!({ "mode": "now" }).to_string());
        assert!(matches!(stopped.status, 400 | 404), "{id}: {stopped:?}");
    }
    for query in ["text=%00", "text=%F4%8F%BF%BF", "tag=%00", "cursor=%00", "domain=crm%00"] {
        let listed = server.ask(&format!("GET /v1/runs?{query}"), "", "");
        assert!(matches!(listed.status, 200 | 400 | 404 | 422), "{query}: {listed:?}");
    }
    let nasty =
        format!("Who is Bob?\0 \u{10ffff}0 '; DROP SCHEMA loopgate CASCADE; -- {}", "x".repeat(50_000));
    let items = [
        json!(nasty),
        json!(json!({ "id": "T\0", "kind": "request", "title": nasty, "body": "Who is Bob?" }).to_string()),
    ];
    for item in items {
        let ran = server.submitted(&json!({ "item": item }));
        assert_eq!(ran["state"], "ended", "{ran}");
        let run = ran["run"].as_str().unwrap();
        assert_eq!(server.get(&format!("/v1/runs/{run}"))["trouble"], json!(null));
    }
    let headers = format!("idempotency-key: {}\r\n", "k".repeat(3_000));
    let refused = server.ask("POST /v1/runs", &headers, &json!({ "item": "Who is Bob?" }).to_string());
    assert_eq!(refused.status, 422, "{refused:?}");
    let log = std::fs::read_to_string(world.server.folder().join("data/log")).unwrap();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR:")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let verified = world.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    assert_eq!(server.end().0, 0);
}
