//! What each caller can do with a run from its page, and what they get who may not.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use loop_core::types::RunId;
use loop_runtime::journal::audit::AuditFilter;
use loop_server::caller::{Caller, Role};
use loop_server::doors::{Audit, Identity};
use loop_server::engine::{Engine, EngineLimits, NewRun, RunState};
use loop_server::pages::{FindPrompts, PageSource, router};
use tower::ServiceExt as _;

use super::inert;
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

struct Pages {
    router: Router,
    engine: Engine,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn to(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.text);
        self.headers["location"].to_str().unwrap()
    }
}

fn caller(name: &str, roles: &[Role], domain: Option<&str>) -> Caller {
    let domains = domain.map(|domain| [Arc::from(domain)].into());
    Caller { name: name.into(), roles: roles.iter().copied().collect(), domains }
}

impl Pages {
    fn of(engine: Engine) -> Self {
        let prompts: FindPrompts = Arc::new(|_, _| None);
        let journal = Arc::clone(engine.journal());
        let audit = Audit::of(Arc::clone(&journal));
        let source = PageSource { journal, engine: Some(engine.clone()), prompts, audit };
        Self { router: router(source), engine }
    }

    async fn send(&self, who: &Caller, line: &str, form: &str) -> Got {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(form.to_owned())).unwrap();
        let (from, csrf) = ([127, 0, 0, 1].into(), Some("a<b>c".into()));
        let identity = Identity { caller: who.clone(), has_token: true, from, budget: None, csrf };
        request.extensions_mut().insert(identity);
        request.extensions_mut().insert(who.clone());
        let answered = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (answered.status().as_u16(), answered.headers().clone());
        let bytes = to_bytes(answered.into_body(), 64 << 20).await.unwrap();
        Got { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    async fn get(&self, who: &Caller, path: &str) -> Got {
        self.send(who, &format!("GET {path}"), "").await
    }

    async fn post(&self, who: &Caller, path: &str, form: &str) -> Got {
        self.send(who, &format!("POST {path}"), form).await
    }

    /// The names of the forms and lists that a page has.
    async fn acts(&self, who: &Caller, path: &str) -> Vec<&'static str> {
        let page = self.get(who, path).await;
        assert_eq!(page.status, 200, "{}", page.text);
        inert(&page.text);
        let all = ["stop", "tell", "resume", "fork", "retry", "files"];
        all.into_iter().filter(|act| page.text.contains(&format!("id=\"act-{act}\""))).collect()
    }

    async fn submitted(&self, new: NewRun) -> String {
        let run = self.engine.submit(new).await.unwrap().run;
        self.engine.wait(&run, LONG).await;
        run.to_string()
    }

    /// What the audit log has, from the oldest on, without the runs.
    async fn recorded(&self) -> Vec<String> {
        let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
        let lines = self.engine.journal().audit_lines(&filter).await.unwrap();
        let entries = lines.into_iter().rev().map(|line| line.entry.unwrap());
        entries.map(|it| format!("{} {} {}", it.who, it.action.name(), it.result.name())).collect()
    }
}

#[tokio::test]
async fn a_caller_sees_the_forms_that_they_may_send_and_no_other_is_taken() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.notes();
    let pages = Pages::of(bench.engine_of(&["crm", "notes"], &gate, limits()).await);
    let root = caller("root", &[Role::Admin], None);
    let ada = caller("ada", &[Role::Submit, Role::Read], Some("crm"));
    let bob = caller("bob", &[Role::Submit, Role::Read], Some("crm"));
    let eve = caller("eve", &[Role::Read, Role::Approve], Some("crm"));
    let mallory = caller("mallory", &[Role::Submit, Role::Read, Role::Approve], Some("notes"));
    let run = pages.submitted(NewRun { domain: Some("crm".to_owned()), ..asks(WRITES) }).await;
    let one = format!("/runs/{run}");
    for (who, acts) in [
        (&root, &["stop", "tell", "fork", "files"][..]),
        (&ada, &["stop", "tell", "fork", "files"]),
        (&bob, &["files"]),
        (&eve, &["files"]),
    ] {
        assert_eq!(pages.acts(who, &one).await, acts, "{}", who.name);
    }
    let page = pages.get(&eve, &one).await.text;
    assert!(
        page.contains("Decide</a>") && !page.contains("a&lt;b"),
        "the approver decides, and steers nothing"
    );
    assert!(pages.get(&ada, &one).await.text.contains("See what waits"));
    // The value against forged requests is a text.
    assert!(pages.get(&ada, &one).await.text.contains("name=\"csrf\" value=\"a&lt;b&gt;c\""));
    assert_eq!(pages.get(&mallory, &one).await.status, 404);
    for (act, form) in [
        ("stop", "mode=now"),
        ("instructions", "text=hurry"),
        ("resume", ""),
        ("fork", "entry=0&once=1"),
        ("retry", "once=1"),
    ] {
        let path = format!("{one}/{act}");
        for (who, status) in [(&bob, 403), (&eve, 403), (&mallory, 404)] {
            let got = pages.post(who, &path, form).await;
            assert_eq!(got.status, status, "{act} of {}: {}", who.name, got.text);
            assert!(status == 404 || got.text.contains("It was not done"), "{}", got.text);
            assert!(status == 403 || !got.text.contains("42"), "{}", got.text);
        }
    }
    assert!(pages.engine.read(&RunId::new(&*run)).await.unwrap().1.outcome().is_none(), "nothing was done");
    assert_eq!(pages.engine.journal().open_submissions().await.unwrap().len(), 1, "nothing was begun");
    let refused = pages.recorded().await;
    assert_eq!(
        (refused.len(), refused.iter().all(|entry| entry.ends_with(" refused"))),
        (15, true),
        "{refused:?}"
    );
    // What is not a form of the page is not taken.
    for (act, form) in
        [("stop", "mode=later"), ("stop", ""), ("instructions", ""), ("instructions", "text=a&text=b")]
    {
        let got = pages.post(&ada, &format!("{one}/{act}"), form).await;
        assert_eq!(got.status, 400, "{act} {form}");
    }
    assert_eq!(pages.post(&ada, &format!("{one}/delete"), "").await.status, 404);
    assert_eq!(pages.post(&ada, &format!("{one}/fork"), "entry=x").await.status, 400);
    // The owner does it, and sees that it was done.
    let told = pages.post(&ada, &format!("{one}/instructions"), "text=be+brief%0D%0A%3Cb%3E").await;
    assert_eq!(told.to(), format!("{one}?did=instructions"));
    let page = pages.get(&ada, told.to()).await.text;
    let text = inert(&page).seen();
    assert!(text.contains("Your instruction is recorded") && text.contains("be brief <b>"), "{text}");
    let stopped = pages.post(&ada, &format!("{one}/stop"), "mode=gate").await;
    assert_eq!(stopped.to(), format!("{one}?did=stop"));
    pages.engine.wait(&RunId::new(&*run), LONG).await;
    assert_eq!(pages.acts(&ada, &one).await, ["fork", "files"], "of a conversation there is no retry");
    let late = pages.post(&ada, &format!("{one}/stop"), "mode=now").await;
    assert_eq!(late.status, 409);
    assert!(inert(&late.text).seen().contains("It was not done: run"), "{}", late.text);
    let last = pages.recorded().await;
    assert_eq!(last[15..], ["ada instruct done", "ada stop done", "ada stop refused"]);
}

#[tokio::test]
async fn a_fork_and_a_retry_lead_to_the_new_run_and_a_form_that_is_sent_twice_begins_one() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.notes();
    let pages = Pages::of(bench.engine_of(&["notes"], &gate, limits()).await);
    let ada = caller("ada", &[Role::Submit, Role::Read], None);
    let run = pages.submitted(asks("Buy milk")).await;
    let one = format!("/runs/{run}");
    assert_eq!(pages.acts(&ada, &one).await, ["fork", "retry", "files"]);
    let page = pages.get(&ada, &format!("{one}?at=0")).await.text;
    assert!(
        page.contains("name=\"set.limits.passes\"") && page.contains("name=\"entry\" min=\"0\""),
        "{page}"
    );
    for (act, form) in
        [("fork", "entry=0&set.limits.passes=2&once=1"), ("retry", "set.limits.passes=&once=1")]
    {
        let first = pages.post(&ada, &format!("{one}/{act}"), form).await;
        let to = first.to().to_owned();
        assert_eq!(pages.post(&ada, &format!("{one}/{act}"), form).await.to(), to);
        let other = pages.post(&ada, &format!("{one}/{act}"), &form.replace("once=1", "once=2")).await;
        assert_ne!(other.to(), to);
        let id = to.strip_prefix("/runs/").unwrap().strip_suffix(&format!("?did={act}")).unwrap();
        pages.engine.wait(&RunId::new(id), LONG).await;
        let text = inert(&pages.get(&ada, &to).await.text).seen();
        assert!(
            text.contains(&format!("This is the {act}")) && text.contains(&format!("continues {run}")),
            "{text}"
        );
        let (_, state) = pages.engine.read(&RunId::new(id)).await.unwrap();
        assert_eq!(state.spec().limits.passes == 2, act == "fork", "the setting of the form");
    }
    // What cannot be is said on the page of the run, and a setting that the domain does not name is not read.
    for (form, says) in [
        ("entry=99&once=3", "has no entry 99"),
        ("entry=0&set.limits.passes=500&once=3", "more than the domain allows"),
    ] {
        let got = pages.post(&ada, &format!("{one}/fork"), form).await;
        assert!((400..500).contains(&got.status) && inert(&got.text).seen().contains(says), "{}", got.text);
    }
    let got = pages.post(&ada, &format!("{one}/fork"), "entry=0&set.gate.people=false&once=4").await;
    let id = got.to().strip_prefix("/runs/").unwrap().split('?').next().unwrap().to_owned();
    pages.engine.wait(&RunId::new(&*id), LONG).await;
    let (_, forked) = pages.engine.read(&RunId::new(&*id)).await.unwrap();
    assert!(forked.started().provenance.overridden.is_empty());
}

#[tokio::test]
async fn a_run_that_waits_in_the_queue_has_a_page_that_is_loaded_again() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let pages = Pages::of(engine);
    let ada = caller("ada", &[Role::Submit, Role::Read], None);
    pages.engine.submit(asks(ASKS)).await.unwrap();
    let queued = pages.engine.submit(asks("<script>alert(1)</script>")).await.unwrap().run;
    let one = format!("/runs/{queued}");
    let got = pages.get(&ada, &one).await;
    let text = inert(&got.text).seen();
    assert!(
        got.status == 200 && text.contains("It waits in the queue") && text.contains("<script>"),
        "{text}"
    );
    assert_eq!(got.headers["refresh"], format!("2; url={one}"));
    assert_eq!(pages.acts(&ada, &one).await, ["stop"]);
    assert_eq!(pages.acts(&caller("bob", &[Role::Read], None), &one).await, [""; 0]);
    assert_eq!(pages.get(&caller("eve", &[Role::Read], Some("other")), &one).await.status, 404);
    assert_eq!(pages.post(&ada, &format!("{one}/stop"), "mode=gate").await.to(), format!("{one}?did=stop"));
    pages.engine.wait(&queued, LONG).await;
    assert_eq!(pages.engine.view(&queued).await.unwrap().state, RunState::Ended);
}

#[tokio::test]
async fn the_files_of_a_run_are_for_its_readers_and_have_names_that_every_system_takes() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let pages = Pages::of(bench.engine(&gate).await);
    let reader = caller("ann", &[Role::Read], None);
    let run = pages.submitted(asks("..\\..\\\"; filename=\"x.exe\" Who is Bob?")).await;
    let one = format!("/runs/{run}");
    let short = &run[run.len() - 8..];
    for (file, kind, ending) in [
        ("document.md", "text/markdown; charset=utf-8", "md"),
        ("page.html", "text/html; charset=utf-8", "html"),
        ("outcome.json", "application/json", "json"),
    ] {
        let path = format!("{one}/{file}");
        let got = pages.get(&reader, &path).await;
        assert_eq!((got.status, got.headers["content-type"].to_str().unwrap()), (200, kind), "{}", got.text);
        let named = got.headers["content-disposition"].to_str().unwrap();
        let name = named.strip_prefix("attachment; filename=\"").unwrap().strip_suffix('"').unwrap();
        let name = name.strip_suffix(&format!("-{short}.{ending}")).unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{named}");
        for who in
            [caller("m", &[Role::Read], Some("other")), caller("s", &[Role::Submit, Role::Approve], None)]
        {
            let refused = pages.get(&who, &path).await;
            assert_eq!(refused.status, 404, "{file}: {}", refused.text);
        }
        match ending {
            "html" => drop(inert(&got.text)),
            "json" => assert_eq!(serde_json::from_str::<serde_json::Value>(&got.text).unwrap()["run"], *run),
            _ => assert!(!got.text.is_empty()),
        }
    }
    assert_eq!(pages.get(&reader, &format!("{one}/other.exe")).await.status, 404);
    // A run that has not ended has no outcome, and its document is what there is.
    let run = pages.submitted(asks(WRITES)).await;
    assert_eq!(pages.get(&reader, &format!("/runs/{run}/outcome.json")).await.status, 409);
    assert_eq!(pages.get(&reader, &format!("/runs/{run}/document.md")).await.status, 200);
    let page = pages.get(&reader, &format!("/runs/{run}")).await.text;
    assert!(page.contains("document.md") && !page.contains("outcome.json"), "{page}");
}

#[tokio::test]
async fn the_last_decision_leads_to_the_page_of_the_run() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let pages = Pages::of(bench.engine(&gate).await);
    for (roles, to) in
        [(&[Role::Approve, Role::Read][..], "?did=deny"), (&[Role::Approve], "/approve?did=deny")]
    {
        let run = pages.submitted(asks(WRITES)).await;
        let action = pages.engine.pending_of(&RunId::new(&*run)).await.unwrap().remove(0);
        let form = format!(
            "action={}&binding={}&decision=deny&text=no",
            action.request.action.replace('/', "%2F"),
            action.request.binding
        );
        let got = pages.post(&caller("eve", roles, None), &format!("/runs/{run}/approve"), &form).await;
        assert_eq!(got.to(), format!("/runs/{run}{to}"));
    }
}
