//! The label of a run on its page, the case that it becomes, and the evals that are kept.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use loop_eval::case::Case;
use loop_eval::eval::{CaseResult, TranscriptLine, run_case};
use loop_eval::report::EvalReport;
use loop_runtime::journal::Journal as _;
use loop_runtime::journal::label::Label;
use loop_server::caller::{Caller, Role};
use loop_server::doors::{Audit, Identity};
use loop_server::pages::{FindPrompts, PageSource, router};
use tower::ServiceExt as _;

use super::inert;
use super::served::{Served, caller, over};
use crate::bench::{ASKS, Bench, Gate, LONG, asks};

/// The pages over an engine, with one run of `ada` that has ended.
struct World {
    router: axum::Router,
    engine: loop_server::engine::Engine,
    run: String,
    _bench: Bench,
}

impl World {
    async fn new() -> Self {
        let (bench, gate) = (Bench::new(), Gate::open());
        let engine = bench.engine(&gate).await;
        let run = engine.submit(asks(ASKS)).await.unwrap().run;
        engine.wait(&run, LONG).await;
        let prompts: FindPrompts = Arc::new(|_, _| None);
        let journal = Arc::clone(engine.journal());
        let audit = Audit::of(Arc::clone(&journal));
        let router = router(PageSource { journal, engine: Some(engine.clone()), prompts, audit });
        Self { router, engine, run: run.to_string(), _bench: bench }
    }

    async fn send(&self, who: &Caller, line: &str, body: &str) -> (StatusCode, String, String) {
        let (method, path) = line.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(path.replace("RUN", &self.run));
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let identity = Identity {
            caller: who.clone(),
            has_token: true,
            from: [127, 0, 0, 1].into(),
            budget: None,
            csrf: Some("c5rf".into()),
        };
        let router = self.router.clone().layer(Extension(who.clone())).layer(Extension(identity));
        let answered = router.oneshot(request).await.unwrap();
        let (status, headers) = (answered.status(), format!("{:?}", answered.headers()));
        let body = to_bytes(answered.into_body(), 64 << 20).await.unwrap();
        (status, headers, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn named(name: &str, roles: &[Role], domains: Option<&[&str]>) -> Caller {
    Caller { name: name.into(), ..caller(roles, domains) }
}

#[tokio::test]
async fn a_run_is_labelled_on_its_page_by_those_who_may() {
    let world = World::new().await;
    let owner = engine_owner(&world).await;
    let own = named(&owner, &[Role::Read, Role::Submit], None);
    let approver = named("eve", &[Role::Read, Role::Approve], Some(&["crm"]));
    let reader = named("rea", &[Role::Read], None);
    let other = named("bob", &[Role::Read, Role::Submit], None);
    let stranger = named("mal", &[Role::Admin], Some(&["other"]));
    for (who, has_form) in [(&own, true), (&approver, true), (&reader, false), (&other, false)] {
        let (_, _, page) = world.send(who, "GET /runs/RUN", "").await;
        assert_eq!(page.contains("action=\"/runs/"), has_form, "{}", who.name);
    }
    for (who, status) in [(&reader, 403), (&other, 403), (&stranger, 404)] {
        let (is, ..) = world.send(who, "POST /runs/RUN/label", "csrf=c5rf&label=good").await;
        assert_eq!(is.as_u16(), status, "{}", who.name);
    }
    for body in ["label=fine", "", "label=good&label=bad", "label=%ff"] {
        assert_eq!(world.send(&own, "POST /runs/RUN/label", body).await.0.as_u16(), 422, "{body}");
    }
    assert_eq!(world.engine.journal().labels(None).await.unwrap().len(), 0, "nothing of it counts");
    // What is not seen is no part of a note.
    let note = "<img%20%00src%1b%3Dx%20%E2%80%AEonerror%3Dalert(1)>";
    let (status, headers, _) =
        world.send(&own, "POST /runs/RUN/label", &format!("csrf=c5rf&label=bad&note={note}")).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    assert!(headers.contains(&format!("/runs/{}#label", world.run)), "{headers}");
    let kept = world.engine.journal().labels(None).await.unwrap().into_values().next().unwrap();
    assert_eq!((kept.label, &*kept.by), (Label::Bad, &*format!("{owner} (token {owner})")));
    let (_, _, page) = world.send(&reader, "GET /runs/RUN", "").await;
    let text = inert(&page).seen();
    assert!(text.contains("Label bad") && text.contains("<img src=x onerror=alert(1)>"), "{text}");
    let (_, _, list) = world.send(&reader, "GET /", "").await;
    assert!(inert(&list).seen().contains("labelled bad"), "{list}");
    let (status, ..) = world.send(&approver, "POST /runs/RUN/label", "csrf=c5rf&label=none").await;
    assert_eq!(
        (status, world.engine.journal().labels(None).await.unwrap().len()),
        (StatusCode::SEE_OTHER, 0)
    );
}

async fn engine_owner(world: &World) -> String {
    let run = loop_core::types::RunId::new(world.run.as_str());
    world.engine.owner(&run).await.unwrap().unwrap().1.unwrap().to_string()
}

#[tokio::test]
async fn a_run_becomes_a_case_for_those_who_may_submit() {
    let world = World::new().await;
    let submitter = named("bob", &[Role::Read, Role::Submit], Some(&["crm"]));
    let (status, headers, text) = world.send(&submitter, "GET /runs/RUN/case", "").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let file = format!("run-{}.case.json", world.run);
    assert!(headers.contains(&format!("attachment; filename=\\\"{file}\\\"")), "{headers}");
    let case = Case::parse(&text, &file).unwrap();
    let result = run_case(&case).await;
    assert!(result.passed, "{:?}", result.failures);
    for (roles, domains, status) in [
        (&[Role::Read][..], None, 403),
        (&[Role::Submit], None, 404),
        (&[Role::Admin], Some(&["other"][..]), 404),
    ] {
        let who = named("mal", roles, domains);
        let (is, _, text) = world.send(&who, "GET /runs/RUN/case", "").await;
        assert_eq!(is.as_u16(), status, "{roles:?}");
        assert!(!text.contains("case_id"), "{text}");
    }
    let (_, _, page) = world.send(&named("rea", &[Role::Read], None), "GET /runs/RUN", "").await;
    assert!(!page.contains("/case\""), "{page}");
    let (_, _, page) = world.send(&submitter, "GET /runs/RUN", "").await;
    assert!(page.contains(&format!("href=\"/runs/{}/case\"", world.run)), "{page}");
}

fn result(case: &str, domain: &str, passed: bool, repeat: u32) -> CaseResult {
    let said = TranscriptLine { by: "model".into(), text: "<script>alert(1)</script>".into() };
    CaseResult {
        case_id: case.to_owned(),
        case_digest: "d".to_owned(),
        domain: domain.to_owned(),
        configuration: "base=p/m".to_owned(),
        repeat,
        passed,
        failures: if passed { Vec::new() } else { vec!["the class is failed, not answered".to_owned()] },
        stop_reason: "confident".to_owned(),
        transcript: vec![said],
        ..CaseResult::default()
    }
}

#[tokio::test]
async fn evals_are_shown_to_those_who_read_all_their_domains_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let journal = Arc::new(loop_runtime::journal::StoredJournal::open(path).unwrap());
    let keep = async |name: &str, results: Vec<CaseResult>| {
        let report = EvalReport::new(results, None);
        let text = serde_json::to_string(&report).unwrap();
        journal.keep_eval(&report.kept(name, 1_795_000_000_000), text).await.unwrap()
    };
    let runs = |passes: bool| (1..=8).map(|nth| result("hours", "crm", passes, nth)).collect::<Vec<_>>();
    let before = keep("before <b>", runs(true)).await;
    let after = keep("after", [runs(false), vec![result("late", "crm", true, 1)]].concat()).await;
    let mixed = keep("mixed", vec![result("a", "crm", true, 1), result("b", "other", true, 1)]).await;
    let broken =
        keep("broken", vec![CaseResult { error: Some("x".into()), ..result("a", "", false, 1) }]).await;
    let served = Served::of(over(Arc::clone(&journal)));
    let of_crm = || caller(&[Role::Read], Some(&["crm"]));
    let (status, list) = served.get(of_crm(), "/evals").await;
    let text = inert(&list).seen();
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("before <b>") && text.contains("0 of 8") | text.contains("1 of 9"), "{text}");
    assert!(text.contains("11.1 %") && text.contains("base=p/m"), "{text}");
    assert!(!list.contains(&mixed) && !list.contains(&broken), "{list}");
    let (_, all) = served.get(caller(&[Role::Admin], None), "/evals").await;
    assert!(all.contains(&mixed) && all.contains(&broken), "{all}");
    for id in [&mixed, &broken, "none"] {
        assert_eq!(served.get(of_crm(), &format!("/evals/{id}")).await.0, StatusCode::NOT_FOUND);
        // Nor as a baseline.
        let path = format!("/evals/{after}?baseline={id}");
        assert_eq!(served.get(of_crm(), &path).await.0, StatusCode::NOT_FOUND);
    }
    for roles in [&[Role::Submit][..], &[Role::Approve]] {
        assert_eq!(
            served.get(caller(roles, None), &format!("/evals/{after}")).await.0,
            StatusCode::NOT_FOUND
        );
        let (_, list) = served.get(caller(roles, None), "/evals").await;
        assert!(!list.contains(&after), "{list}");
    }
    let (status, page) = served.get(of_crm(), &format!("/evals/{after}")).await;
    let text = inert(&page).seen();
    assert_eq!(status, StatusCode::OK);
    // The matrix, the switch, what failed and what was said, as text; and no style that the policy of the server refuses.
    assert!(text.contains("0 of 8") && text.contains("the class is failed, not answered"), "{text}");
    assert!(text.contains("<script>alert(1)</script>") && page.contains("id=\"only-bad\""), "{text}");
    assert!(page.contains("<tr class=\"part-good\">") && !page.contains("style="), "{page}");
    assert!(!text.contains("Baseline"), "{text}");
    let (_, page) = served.get(of_crm(), &format!("/evals/{after}?baseline={before}")).await;
    let text = inert(&page).seen();
    assert!(text.contains("Regression against the baseline") && text.contains("8 of 8"), "{text}");
    let (_, page) = served.get(of_crm(), &format!("/evals/{before}?baseline={after}")).await;
    assert!(inert(&page).seen().contains("No regression"), "{page}");
}
