//! What callers did is in the audit log, also where the client closes the connection before it has its answer.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use futures::FutureExt as _;
use loop_runtime::journal::audit::AuditFilter;
use loop_server::api;
use loop_server::caller::{Caller, Role};
use loop_server::doors::{Audit, Identity, MAX_REFUSALS};
use loop_server::engine::{Engine, EngineLimits};
use serde_json::json;
use tower::ServiceExt as _;

use crate::bench::{ASKS, Bench, Gate, LONG, limits, router};

/// A request of an admin, as the door hands it on.
fn request(path: &str, body: &str) -> Request<Body> {
    let caller = Caller { name: "root".into(), roles: [Role::Admin, Role::Submit].into(), domains: None };
    let request =
        Request::post(path).header("content-type", "application/json").header("idempotency-key", "k1");
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    let from = [127, 0, 0, 1].into();
    request.extensions_mut().insert(Identity {
        caller: caller.clone(),
        has_token: true,
        from,
        budget: None,
        csrf: None,
    });
    request.extensions_mut().insert(caller);
    request
}

/// Waits until the log has so many entries: their actions and results, from the oldest on.
async fn recorded(engine: &Engine, count: usize) -> Vec<String> {
    let read = async {
        loop {
            let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
            let lines = engine.journal().audit_lines(&filter).await.unwrap();
            if lines.len() >= count {
                let entries = lines.iter().rev().map(|line| line.entry.as_ref().unwrap());
                return entries
                    .map(|entry| format!("{} {}", entry.action.name(), entry.result.name()))
                    .collect();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, read).await.expect("the entry is written")
}

#[tokio::test]
async fn what_is_done_is_recorded_though_the_client_is_gone_and_once_for_a_key() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let router = router(&engine);
    let submit = json!({ "item": ASKS, "domain": "crm" }).to_string();
    // The first poll begins what is asked. Then the handler is dropped, as when the client closes the connection.
    assert!(router.clone().oneshot(request("/v1/runs", &submit)).now_or_never().is_none());
    assert_eq!(recorded(&engine, 1).await, ["submit done"]);
    // The same key does nothing further, which its entry says.
    let again = router.clone().oneshot(request("/v1/runs", &submit)).await.unwrap();
    assert_eq!(again.status(), 200);
    let at = again.headers()["location"].to_str().unwrap().to_owned();
    let stop = json!({ "mode": "now" }).to_string();
    assert!(router.clone().oneshot(request(&format!("{at}/stop"), &stop)).now_or_never().is_none());
    assert_eq!(recorded(&engine, 3).await, ["submit done", "submit again", "stop done"]);
}

#[tokio::test]
async fn each_label_is_in_the_log_with_its_words() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let router = router(&engine);
    let mut submit = request("/v1/runs", &json!({ "item": ASKS, "domain": "crm" }).to_string());
    submit.headers_mut().insert("prefer", "wait=30".parse().unwrap());
    let submitted = router.clone().oneshot(submit).await.unwrap();
    let at = format!("{}/label", submitted.headers()["location"].to_str().unwrap());
    let sent = async |method: &str, body: &str| {
        let mut request = request(&at, body);
        *request.method_mut() = method.parse().unwrap();
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(sent("PUT", r#"{"label":"bad","note":"wrong customer"}"#).await, 200);
    assert_eq!(sent("PUT", r#"{"label":"fine"}"#).await, 400);
    assert_eq!(sent("DELETE", "").await, 200);
    let entries = ["submit done", "label done", "label refused", "unlabel done"];
    assert_eq!(recorded(&engine, 4).await, entries);
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    let lines = engine.journal().audit_lines(&filter).await.unwrap();
    let label = lines[2].entry.as_ref().unwrap();
    assert_eq!((label.detail.as_deref(), &*label.account), (Some("bad: wrong customer"), "token root"));
}

#[tokio::test]
async fn a_refused_submission_or_decision_is_recorded_and_one_for_which_there_is_no_place_is_not() {
    // K8
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine =
        bench.engine_of(&["crm"], &gate, EngineLimits { max_queued: 1, max_runs: 0, ..limits() }).await;
    let router = router(&engine);
    let sent = async |path: &str, body: &str| {
        router.clone().oneshot(request(path, body)).await.unwrap().status().as_u16()
    };
    let body = |item: &str| json!({ "item": item, "domain": "crm" }).to_string();
    assert_eq!(sent("/v1/runs", "{").await, 400);
    assert_eq!(sent("/v1/runs", &json!({ "item": ASKS, "domain": "no" }).to_string()).await, 404);
    assert_eq!(sent("/v1/runs", &json!({ "item": ASKS, "priority": 101 }).to_string()).await, 422);
    assert_eq!(sent("/v1/runs", &body(ASKS)).await, 202);
    assert_eq!(sent("/v1/runs", &body("Another item")).await, 422, "the key is of another request");
    for what in ["approve", "deny", "answer"] {
        assert_eq!(sent(&format!("/v1/runs/r1/{what}"), "{}").await, 400);
    }
    let blank = json!({ "key": "1/action-0", "binding": "0", "text": " " }).to_string();
    assert_eq!(sent("/v1/runs/r1/answer", &blank).await, 422);
    let refused = ["submit refused"; 3];
    let then = ["submit done", "submit refused", "approve refused", "deny refused", "answer refused"];
    let expected = [&refused[..], &then, &["answer refused"]].concat();
    assert_eq!(recorded(&engine, 9).await, expected);
    // A request that can be sent again later is not a refusal.
    let mut full = request("/v1/runs", &body(ASKS));
    full.headers_mut().insert("idempotency-key", "k2".parse().unwrap());
    assert_eq!(router.clone().oneshot(full).await.unwrap().status().as_u16(), 429);
    assert_eq!(recorded(&engine, 9).await, expected);
}

#[tokio::test]
async fn refused_requests_of_a_caller_do_not_fill_the_log() {
    // K8, U8
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let audit = Audit::of(Arc::clone(engine.journal()));
    let router = api::router(engine.clone(), audit.clone());
    for _ in 0..3 * MAX_REFUSALS {
        let refused = router.clone().oneshot(request("/v1/runs/r1/approve", "{}")).await.unwrap();
        assert_eq!(refused.status(), 400, "it is refused whether it is recorded or not");
    }
    // How many a minute has is a test of the counter itself.
    let recorded = recorded(&engine, 1).await.len() as u64;
    assert!(audit.left_out() > 0);
    assert_eq!(recorded + audit.left_out(), u64::from(3 * MAX_REFUSALS));
}
