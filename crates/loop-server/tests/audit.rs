//! What callers did is in the audit log, also where the client closes the connection before it has its answer.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use futures::FutureExt as _;
use loop_runtime::journal::AuditFilter;
use loop_server::api;
use loop_server::caller::{Caller, Role};
use loop_server::doors::Identity;
use loop_server::engine::Engine;
use serde_json::json;
use tower::ServiceExt as _;

use crate::bench::{ASKS, Bench, Gate, LONG};

/// A request of an admin, as the door hands it on.
fn request(path: &str, body: &str) -> Request<Body> {
    let caller = Caller { name: "root".into(), roles: [Role::Admin, Role::Submit].into(), domains: None };
    let request =
        Request::post(path).header("content-type", "application/json").header("idempotency-key", "k1");
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    let account: Arc<str> = "token root".into();
    let from = [127, 0, 0, 1].into();
    request.extensions_mut().insert(Identity {
        caller: caller.clone(),
        account,
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
    let router = api::router(engine.clone());
    let submit = json!({ "item": ASKS, "domain": "crm" }).to_string();
    // The first poll begins what is asked. Then the handler is dropped, as when the client closes the connection.
    assert!(router.clone().oneshot(request("/v1/runs", &submit)).now_or_never().is_none());
    assert_eq!(recorded(&engine, 1).await, ["submit done"]);
    // The same key does nothing further, and there is not a second entry of it.
    let again = router.clone().oneshot(request("/v1/runs", &submit)).await.unwrap();
    assert_eq!(again.status(), 200);
    let at = again.headers()["location"].to_str().unwrap().to_owned();
    let stop = json!({ "mode": "now" }).to_string();
    assert!(router.clone().oneshot(request(&format!("{at}/stop"), &stop)).now_or_never().is_none());
    assert_eq!(recorded(&engine, 2).await, ["submit done", "stop done"]);
}
