//! A journal that cannot be read: each route says so as a problem that names no path, and the server continues.

use loop_core::types::RunId;
use serde_json::{Value, json};

use crate::api::{Client, admin};
use crate::bench::{ASKS, Bench, Gate};

#[tokio::test]
async fn each_route_whose_journal_fails_says_when_to_send_the_request_again() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let (client, root) = (Client::new(&engine), admin());
    let body = json!({ "item": ASKS });
    let headers = [("prefer", "wait=30")];
    let submitted = client.send(Some(&root), "POST /v1/runs", &headers, &body.to_string()).await.json();
    assert_eq!(submitted["state"], "ended", "{submitted}");
    let run = submitted["run"].as_str().unwrap().to_owned();
    // Another program has taken the tables away.
    let tables = ["runs", "entries", "submissions", "outbox", "audit"];
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        other.execute_batch(&sql)
    };
    let is_gone = |table: &&str| rename(table, &format!("{table}_away")).is_ok();
    let gone: Vec<&str> = tables.into_iter().filter(is_gone).collect();
    let decision = json!({ "key": "1/action-0", "binding": "0", "text": "yes" });
    let mut failing = 0;
    for (pattern, methods) in client.document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_of_journal = operation["responses"].get("503").is_some()
                && !matches!(pattern.as_str(), "/readyz" | "/v1/domains" | "/metrics");
            if !is_of_journal {
                continue;
            }
            let path = pattern.replace("{run}", &run).replace("{message}", "m1");
            let sent = match path.rsplit('/').next().unwrap() {
                "runs" => body.clone(),
                "approve" | "deny" => json!({ "key": decision["key"], "binding": decision["binding"] }),
                "answer" => decision.clone(),
                "instructions" => json!({ "text": "be brief" }),
                "label" => json!({ "label": "good" }),
                _ => Value::Null,
            };
            let is_sent = matches!(method.as_str(), "post" | "put") && !sent.is_null();
            let sent = if is_sent { sent.to_string() } else { String::new() };
            let line = format!("{} {path}", method.to_uppercase());
            let answered = client.send(Some(&root), &line, &[], &sent).await;
            if matches!(pattern.as_str(), "/v1/outbox" | "/v1/outbox/{message}" | "/v1/audit")
                && !gone.contains(&pattern.split('/').nth(2).unwrap())
            {
                // A journal without such a table has nothing of it.
                assert_ne!(answered.status, 500, "{line}");
                continue;
            }
            assert_eq!(answered.status, 503, "{line}: {}", answered.text);
            answered.refuses(503, "journal");
            failing += 1;
        }
    }
    assert!(failing >= 12, "{failing}");
    assert_eq!(client.send(None, "GET /healthz", &[], "").await.status, 200);
    for table in gone {
        // What was written meanwhile has made its table anew.
        other.execute_batch(&format!("DROP TABLE IF EXISTS {table}")).unwrap();
        rename(&format!("{table}_away"), table).unwrap();
    }
    let again = client.get(&root, &format!("/v1/runs/{}", RunId::new(run.as_str()))).await;
    assert_eq!(again.json()["state"], "ended", "{}", again.text);
}
