//! The pages over HTTP: what a caller may not see does not exist for them.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use loop_core::types::RunId;
use loop_runtime::journal::{Durability, Entry, Header, Journal as _, StoredJournal};
use loop_server::caller::{Caller, Role};
use loop_server::doors::Audit;
use loop_server::pages::{FindPrompts, PageSource, router};
use loop_testkit::World;
use tower::ServiceExt as _;

use super::inert;
use super::runs;

/// Writes a run into a journal under a name.
pub(super) async fn kept(journal: &StoredJournal, world: &World) -> RunId {
    let (id, recorded) = runs::recorded(world);
    let header = Header {
        run: id.clone(),
        unix_ms: world.run.started().unix_ms,
        item: Arc::clone(&world.run.started().item.id),
        title: Arc::clone(&world.run.started().item.title),
        spec: Arc::clone(&recorded.spec),
        manifest_hash: loop_core::types::digest("manifest", &serde_json::json!([])),
        manifest: "[]".into(),
        origin: Some(r#"{"tags": ["night"]}"#.into()),
        request_key: None,
    };
    let entries: Vec<Arc<Entry>> = recorded.entries.into_iter().map(Arc::new).collect();
    let mut writer = journal.create(&header, &entries[0]).await.unwrap();
    writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
    drop(writer);
    journal.read(&id).await.unwrap();
    id
}

pub(super) struct Served {
    router: axum::Router,
    folder: tempfile::TempDir,
}

async fn served(worlds: &[World]) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    for world in worlds {
        kept(&journal, world).await;
    }
    Served { router: over(journal), folder }
}

/// The pages over a journal, for reading.
pub(super) fn over(journal: Arc<StoredJournal>) -> axum::Router {
    let prompts: FindPrompts = Arc::new(|_, _| None);
    router(PageSource { journal, engine: None, prompts, audit: Audit::none() })
}

pub(super) fn caller(roles: &[Role], domains: Option<&[&str]>) -> Caller {
    let domains = domains.map(|domains| domains.iter().map(|name| Arc::from(*name)).collect());
    Caller { name: "ann".into(), roles: roles.iter().copied().collect(), domains }
}

impl Served {
    /// Pages whose journal is kept elsewhere.
    pub(super) fn of(router: axum::Router) -> Self {
        Self { router, folder: tempfile::tempdir().unwrap() }
    }

    pub(super) async fn get(&self, caller: Caller, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answered = self.router.clone().layer(Extension(caller)).oneshot(request).await.unwrap();
        let status = answered.status();
        let body = to_bytes(answered.into_body(), 64 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn what_a_caller_may_not_see_does_not_exist_for_them() {
    let served = served(&[runs::whole(), runs::half_approved()]).await;
    let reader = || caller(&[Role::Read], None);
    let other = || caller(&[Role::Read, Role::Approve], Some(&["crm"]));
    let approver = || caller(&[Role::Approve], None);
    let (status, list) = served.get(reader(), "/").await;
    let text = inert(&list).seen();
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("1 run waits for a person") && text.contains("night"), "{text}");
    for path in ["/runs/run-1", "/runs/run-1?at=3", "/runs/run-2/approve", "/compare?a=run-1&b=run-2"] {
        let (status, page) = served.get(reader(), path).await;
        inert(&page);
        assert_eq!(status, StatusCode::OK, "{path}");
        let (status, page) = served.get(other(), path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(!page.contains("helpdesk") && !page.contains("Disk full"), "{path}: {page}");
    }
    let (_, list) = served.get(other(), "/").await;
    assert!(inert(&list).seen().contains("0 runs") && !list.contains("helpdesk"), "{list}");
    // Who may decide and not read gets what waits, and nothing else.
    assert_eq!(served.get(approver(), "/runs/run-2/approve").await.0, StatusCode::OK);
    assert_eq!(served.get(approver(), "/runs/run-2").await.0, StatusCode::NOT_FOUND);
    for path in ["/runs/nothing", "/runs/..%2f..%2fetc", "/runs/run-1%00"] {
        assert_eq!(served.get(reader(), path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(served.get(reader(), "/runs/run-1?at=x").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_damaged_run_of_another_tenant_does_not_exist_either() {
    let served = served(&[runs::whole()]).await;
    let connection = rusqlite::Connection::open(served.folder.path().join("runs.db")).unwrap();
    let changed = connection.execute("UPDATE entries SET event = '{' WHERE seq = 1", []).unwrap();
    assert_eq!(changed, 1);
    for path in ["/runs/run-1", "/runs/run-1/approve"] {
        let roles = [Role::Read, Role::Approve];
        let (status, _) = served.get(caller(&roles, None), path).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        let (status, page) = served.get(caller(&roles, Some(&["crm"])), path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {page}");
    }
}

#[tokio::test]
async fn a_decision_without_an_engine_is_refused() {
    let served = served(&[runs::half_approved()]).await;
    let (_, page) = served.get(caller(&[Role::Admin], None), "/runs/run-2/approve").await;
    assert!(!page.contains("<form"), "{page}");
    let form = Request::post("/runs/run-2/approve").body(Body::from("decision=approve")).unwrap();
    let router = served.router.clone().layer(Extension(caller(&[Role::Admin], None)));
    assert_eq!(router.oneshot(form).await.unwrap().status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn style_and_script_are_kept_by_their_tags() {
    let served = served(&[]).await;
    for (path, kind) in [("/assets/style.css", "text/css"), ("/assets/page.js", "text/javascript")] {
        let asked = |tag: &str| Request::get(path).header("if-none-match", tag).body(Body::empty()).unwrap();
        let first = served.router.clone().oneshot(asked("\"x\"")).await.unwrap();
        assert!(first.headers()["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        let tag = first.headers()["etag"].to_str().unwrap();
        let again = served.router.clone().oneshot(asked(tag)).await.unwrap();
        assert_eq!((first.status(), again.status()), (StatusCode::OK, StatusCode::NOT_MODIFIED), "{path}");
    }
}
