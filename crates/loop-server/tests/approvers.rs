//! The pages of an approver behind the door: what waits, links of messages, problems as pages, and who reads each.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use loop_core::types::RunId;
use loop_runtime::hooks::DecisionLinks as _;
use loop_runtime::journal::{Journal as _, StoredJournal, replay};
use loop_runtime::people::PersonRequest;
use loop_server::caller::Role;
use loop_server::doors::tokens::{NewToken, TokenFile};
use loop_server::doors::{Audit, DoorLimits, Doors, DoorsConfig, Hosts, WatchedTokens};
use loop_server::engine::Engine;
use loop_server::links::SignedLinks;
use loop_server::pages::{self, FindPrompts, PageSource, SCRIPT, STYLE};
use loop_testkit::page::inert;

use crate::bench::{Bench, Gate, LONG, WRITES, asks, limits, router};

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml");
const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");
const HOST: &str = "127.0.0.1:8787";

/// The tokens: name, roles, domain.
const TOKENS: [(&str, &[Role], Option<&str>); 6] = [
    ("ada", &[Role::Approve, Role::Read], None),
    ("bob", &[Role::Approve], None),
    ("reader", &[Role::Read], None),
    ("stranger", &[Role::Approve, Role::Read], Some("other")),
    ("submitter", &[Role::Submit], None),
    ("admin", &[Role::Admin], None),
];

struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The text of the page, which is inert.
    #[track_caller]
    fn seen(&self) -> String {
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8", "{}", self.text);
        inert(&self.text, &[STYLE, SCRIPT]).seen()
    }
}

/// A server of one journal.
struct Site {
    router: Router,
    file: TokenFile,
    folder: tempfile::TempDir,
}

impl Site {
    fn of(engine: &Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::at(folder.path().join("tokens.toml"));
        let audit = Audit::of(Arc::clone(engine.journal()));
        for (name, roles, domain) in TOKENS {
            let domains = domain.map(|domain| [Arc::from(domain)].into());
            let new = NewToken {
                name: name.into(),
                roles: roles.iter().copied().collect(),
                domains,
                ..NewToken::default()
            };
            let secret = file.add(new).unwrap();
            std::fs::write(folder.path().join(name), secret.reveal()).unwrap();
        }
        let listen = HOST.parse().unwrap();
        let doors = Doors::new(DoorsConfig {
            listen,
            hosts: Hosts::new(listen, &[]).unwrap(),
            tokens: Some(WatchedTokens::open(file.clone(), Arc::new(|_| {})).unwrap()),
            proxies: Vec::new(),
            limits: DoorLimits::default(),
            audit: audit.clone(),
        });
        let prompts: FindPrompts = Arc::new(|_, _| None);
        let journal = Arc::clone(engine.journal());
        let source = PageSource { journal, engine: Some(engine.clone()), prompts, audit };
        let router = doors.unwrap().guard(router(engine).merge(pages::router(source)));
        Self { router, file, folder }
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        use tower::ServiceExt as _;
        let mut request = Request::builder().method(method).uri(path).header("host", HOST);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_empty() { Body::empty() } else { Body::from(body.to_owned()) };
        let answered = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let (status, headers) = (answered.status().as_u16(), answered.headers().clone());
        let body = to_bytes(answered.into_body(), 64 << 20).await.unwrap();
        Answer { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn get(&self, path: &str, cookie: &str) -> Answer {
        self.send(Method::GET, path, &[HTML, SAME, ("cookie", cookie)], "").await
    }

    async fn form(&self, path: &str, cookie: &str, form: &str) -> Answer {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        self.send(Method::POST, path, &[HTML, SAME, kind, ("cookie", cookie)], form).await
    }

    /// What a login with a token leads to.
    async fn log_in(&self, name: &str, to: &str) -> Answer {
        let secret = std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        self.form("/login", "", &format!("token={secret}&to={to}")).await
    }

    /// The cookie of a session of a token.
    async fn cookie(&self, name: &str) -> String {
        let answer = self.log_in(name, "").await;
        assert_eq!((answer.status, answer.header("location")), (303, "/"));
        answer.header("set-cookie").split(';').next().unwrap().to_owned()
    }

    /// Approves what waits with the form of its page.
    async fn approve(&self, run: &RunId, cookie: &str) -> Answer {
        let page = self.get(&format!("/runs/{run}/approve"), cookie).await.text;
        let value = |name: &str| {
            let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let form = ["csrf", "action", "binding"].map(|name| format!("{name}={}", value(name))).join("&");
        self.form(&format!("/runs/{run}/approve"), cookie, &format!("{form}&decision=approve")).await
    }
}

/// A run that waits for a person, and what it asks.
async fn waiting(engine: &Engine, domain: &str) -> (RunId, PersonRequest) {
    let new = loop_server::engine::NewRun { domain: Some(domain.to_owned()), ..asks(WRITES) };
    let run = engine.submit(new).await.unwrap().run;
    engine.wait(&run, LONG).await;
    let recorded = engine.journal().read(&run).await.unwrap();
    let requested = replay(&run, &recorded).unwrap().requested().remove(0);
    (run, requested)
}

fn now() -> u64 {
    loop_runtime::journal::unix_ms(std::time::SystemTime::now())
}

/// The path of the link to a request.
fn link(journal: &Arc<StoredJournal>, requested: &PersonRequest, unix_ms: u64) -> String {
    let made = SignedLinks::new(Arc::clone(journal), "https://loops.example.org").link(requested, unix_ms);
    made.unwrap().strip_prefix("https://loops.example.org").unwrap().to_owned()
}

#[tokio::test]
async fn what_waits_is_one_list_with_what_it_does_where_until_when_and_for_how_long() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("timed", "[limits]\nperson_ms = 600000\n");
    let engine = bench.engine_of(&["crm", "timed"], &gate, limits()).await;
    let site = Site::of(&engine);
    let ada = site.cookie("ada").await;
    let empty = site.get("/pending", &ada).await.seen();
    assert!(empty.contains("Nothing waits for a person") && empty.contains("Pending 0"), "{empty}");
    let (first, requested) = waiting(&engine, "crm").await;
    let (second, _) = waiting(&engine, "timed").await;
    let page = site.get("/pending", &ada).await;
    let seen = page.seen();
    for part in ["2 actions wait", "update_user", "connects to", "crm.sql", "none", " UTC (in 9 min)", "Bob"]
    {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    // What ends first is first.
    let place = |run: &RunId| page.text.find(&format!("/runs/{run}/approve#c")).unwrap();
    assert!(place(&second) < place(&first));
    assert!(page.text.contains("<time class=\"when\" datetime=\"20"), "{}", page.text);
    // The number and the reader are on each page, for each reader as far as they see.
    for path in
        ["/", "/pending", "/compare", "/logout", &format!("/runs/{first}"), &format!("/runs/{first}/approve")]
    {
        let page = site.get(path, &ada).await;
        let seen = page.seen();
        assert_eq!(page.status, 200, "{path}");
        assert!(seen.contains("ada (read, approve)") && seen.contains("Log out"), "{path}: {seen}");
        assert!(seen.contains("Pending 2") || path == "/logout", "{path}: {seen}");
    }
    let bob = site.get("/pending", &site.cookie("bob").await).await.seen();
    assert!(bob.contains("Decide update_user") && bob.contains("bob (approve)"), "{bob}");
    let reader = site.get("/pending", &site.cookie("reader").await).await.seen();
    assert!(reader.contains("Look at update_user") && !reader.contains("Decide update_user"), "{reader}");
    let stranger = site.get("/pending", &site.cookie("stranger").await).await.seen();
    assert!(stranger.contains("Nothing waits") && stranger.contains("Pending 0"), "{stranger}");
    let submitter = site.get("/pending", &site.cookie("submitter").await).await;
    assert_eq!(submitter.status, 403);
    assert!(
        !submitter.seen().contains("Pending"),
        "what a caller may not do is not shown: {}",
        submitter.text
    );
    // A decision takes it off the list.
    assert_eq!(requested.key.to_string(), "3/action-0");
    assert_eq!(site.approve(&first, &ada).await.status, 303);
    engine.wait(&first, LONG).await;
    let seen = site.get("/pending", &ada).await.seen();
    assert!(seen.contains("1 action waits") && seen.contains("Pending 1"), "{seen}");
}

#[tokio::test]
async fn a_link_lets_nobody_in_and_ends_with_the_decision() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let site = Site::of(&engine);
    let (run, requested) = waiting(&engine, "crm").await;
    let path = link(engine.journal(), &requested, now());
    // A program that looks at links gets the form of the login, however often, and nothing of the run.
    for headers in
        [&[][..], &[HTML], &[HTML, ("sec-purpose", "prefetch")], &[HTML, ("sec-fetch-site", "cross-site")]]
    {
        for method in [Method::GET, Method::HEAD] {
            let bot = site.send(method, &path, headers, "").await;
            assert_eq!(bot.status, 401, "{headers:?}");
            for text in ["update_user", "EPAM", run.as_str(), "Bob"] {
                assert!(!bot.text.contains(text), "{text}: {}", bot.text);
            }
        }
    }
    // The login leads back, and nowhere else.
    let asked = site.send(Method::GET, &path, &[HTML], "").await.text;
    assert!(
        asked.contains(&format!("name=\"to\" value=\"{path}\"")) && !asked.contains("I am logged in"),
        "{asked}"
    );
    let linked = site.send(Method::GET, &path, &[HTML, ("sec-fetch-site", "cross-site")], "").await.text;
    assert!(linked.contains(&format!("href=\"{path}\"")), "a browser sends no cookie with it: {linked}");
    assert_eq!(site.log_in("ada", &path).await.header("location"), path);
    for to in
        ["//evil.example", "/\\evil.example", "https://evil.example", "/a%0d%0ab", "/v1/runs", "/logout", "a"]
    {
        assert_eq!(site.log_in("ada", to).await.header("location"), "/", "{to}");
    }
    // It leads to the page with each byte, as often as it is opened.
    let ada = site.cookie("ada").await;
    for _ in 0..3 {
        assert_eq!(site.send(Method::HEAD, &path, &[HTML, SAME, ("cookie", &ada)], "").await.status, 303);
        let opened = site.get(&path, &ada).await;
        assert_eq!(
            (opened.status, opened.header("location")),
            (303, &*format!("/runs/{run}/approve#c3-action-0"))
        );
    }
    assert_eq!(site.form(&path, &ada, "decision=approve").await.status, 403, "it takes no decision");
    let shown = site.get(&format!("/runs/{run}/approve"), &ada).await.seen();
    assert!(shown.contains("EPAM") && shown.contains("update_user"), "{shown}");
    // A role is needed as ever.
    let reader = site.cookie("reader").await;
    assert_eq!(site.get(&path, &reader).await.status, 303);
    assert!(
        !site.get(&format!("/runs/{run}/approve"), &reader).await.text.contains("<form class=\"decide\"")
    );
    // To another domain's approver, and to a submitter, it is like one that was made up.
    let forged = site.get(&format!("{path}0"), &ada).await;
    for name in ["stranger", "submitter"] {
        let foreign = site.get(&path, &site.cookie(name).await).await;
        assert_eq!(foreign.status, 404);
        let text = "This is not a link of this server, or not for you";
        assert!(foreign.seen().contains(text) && forged.seen().contains(text), "{}", foreign.text);
    }
    // Another token decides: the link is used up for all, also after a restart.
    assert_eq!(site.approve(&run, &site.cookie("bob").await).await.status, 303);
    engine.wait(&run, LONG).await;
    let used = site.get(&path, &ada).await;
    assert_eq!(used.status, 410);
    let seen = used.seen();
    assert!(seen.contains("has been decided") && used.text.contains("href=\"/pending\""), "{}", used.text);
    assert!(engine.drain(LONG).await);
    drop((site, engine));
    let engine = crate::engine::reopened(&bench, &["crm"], &gate).await;
    let site = Site::of(&engine);
    assert_eq!(site.get(&path, &site.cookie("ada").await).await.status, 410);
}

#[tokio::test]
async fn a_link_that_is_forged_expired_or_of_another_journal_leads_nowhere() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("timed", "[limits]\nperson_ms = 600000\n");
    let engine = bench.engine_of(&["timed"], &gate, limits()).await;
    let site = Site::of(&engine);
    let admin = site.cookie("admin").await;
    let (run, requested) = waiting(&engine, "timed").await;
    let path = link(engine.journal(), &requested, now());
    assert_eq!(site.get(&path, &admin).await.status, 303);
    let (target, seal) = path.strip_prefix("/links/").unwrap().split_once('.').unwrap();
    let other_folder = tempfile::tempdir().unwrap();
    let other = Arc::new(StoredJournal::open(other_folder.path().join("journal.db")).unwrap());
    let later = PersonRequest { until_unix_ms: None, ..requested.clone() };
    let longer = link(engine.journal(), &later, now());
    let (longer, _) = longer.strip_prefix("/links/").unwrap().split_once('.').unwrap();
    for forged in [
        link(&other, &requested, now()),
        format!("/links/{target}"),
        format!("/links/{target}."),
        format!("/links/.{seal}"),
        format!("/links/{longer}.{seal}"),
        format!("/links/{target}A.{seal}"),
        format!("/links/{target}.{}", seal.to_uppercase()),
        "/links/e30.00".to_owned(),
    ] {
        assert_eq!(site.get(&forged, &admin).await.status, 404, "{forged}");
    }
    // Another binding, action or run is nothing that waits.
    let binding = loop_core::types::Digest::of("other", b"binding");
    for wrong in [
        PersonRequest { binding, ..requested.clone() },
        PersonRequest { key: "9/action-9".parse().unwrap(), ..requested.clone() },
    ] {
        assert_eq!(site.get(&link(engine.journal(), &wrong, now()), &admin).await.status, 410);
    }
    let nowhere = PersonRequest { run: RunId::new("none"), ..requested.clone() };
    assert_eq!(site.get(&link(engine.journal(), &nowhere, now()), &admin).await.status, 404);
    // It ends with the deadline, and after seven days where there is none.
    let over = PersonRequest { until_unix_ms: Some(now() - 1), ..requested.clone() };
    let week = 7 * 86_400_000;
    for (request, unix_ms, status) in [
        (&over, now(), 410),
        (&requested, now() - week - 1, 410),
        (&later, now() - week - 1, 410),
        (&later, now() - week + 60_000, 303),
    ] {
        let answer = site.get(&link(engine.journal(), request, unix_ms), &admin).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    // A program gets a problem, and the log has no key, no seal and no token.
    let secret = std::fs::read_to_string(site.folder.path().join("admin")).unwrap();
    let bearer = format!("Bearer {secret}");
    let problem = site.send(Method::GET, "/links/x.y", &[("authorization", &bearer)], "").await;
    assert_eq!((problem.status, problem.header("content-type")), (404, "application/problem+json"));
    assert!(engine.view(&run).await.unwrap().reason.is_none());
    assert!(site.file.path().exists());
}

#[tokio::test]
async fn where_two_people_approve_a_link_serves_each_once() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("two", "");
    let place = bench.folder.path().join("two/loopgate.toml");
    let text = std::fs::read_to_string(&place).unwrap();
    assert!(text.contains("people = true"), "{text}");
    std::fs::write(&place, text.replacen("people = true", "people = true\napprovals = 2", 1)).unwrap();
    let engine = bench.engine_of(&["two"], &gate, limits()).await;
    let site = Site::of(&engine);
    let (run, requested) = waiting(&engine, "two").await;
    let path = link(engine.journal(), &requested, now());
    let (ada, bob) = (site.cookie("ada").await, site.cookie("bob").await);
    assert_eq!(site.approve(&run, &ada).await.status, 303);
    let used = site.get(&path, &ada).await;
    assert_eq!(used.status, 410);
    assert!(used.seen().contains("You have approved this already"), "{}", used.text);
    assert_eq!(site.get(&path, &bob).await.status, 303);
    assert_eq!(site.approve(&run, &bob).await.status, 303);
    engine.wait(&run, LONG).await;
    for cookie in [&ada, &bob] {
        assert_eq!(site.get(&path, cookie).await.status, 410);
    }
}

#[tokio::test]
async fn problems_are_pages_where_a_browser_asks_and_documents_elsewhere() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let site = Site::of(&engine);
    let (run, _) = waiting(&engine, "crm").await;
    let ada = site.cookie("ada").await;
    let reader = site.cookie("reader").await;
    let approve = format!("/runs/{run}/approve");
    let csrf = site.get("/logout", &reader).await.text;
    let csrf = csrf.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let large = "x".repeat(300 << 10);
    for (status, answer) in [
        (404, site.get("/runs/none", &ada).await),
        (404, site.get("/no/such/page", &ada).await),
        (400, site.get(&format!("/runs/{run}?at=x"), &ada).await),
        (403, site.form(&approve, &ada, "decision=approve").await),
        (403, site.form(&approve, &reader, &format!("csrf={csrf}")).await),
        (413, site.form(&approve, &ada, &large).await),
        (405, site.form("/compare", &ada, &format!("csrf={csrf}")).await),
    ] {
        // The form of another session is refused before the method is looked at.
        let status = if status == 405 { 403 } else { status };
        assert_eq!(answer.status, status, "{}", answer.text);
        let seen = answer.seen();
        assert!(seen.contains("What waits for a person") && seen.contains("All runs"), "{seen}");
        assert!(answer.text.contains("<h1>") && !answer.text.contains("problems/"), "{}", answer.text);
    }
    let page = site.get("/runs/none", &ada).await;
    assert!(
        page.seen().contains("ada (read, approve)") && page.seen().contains("Pending 1"),
        "{}",
        page.text
    );
    let back = site.form(&approve, &reader, &format!("csrf={csrf}")).await;
    assert!(back.text.contains(&format!("<a href=\"/runs/{run}\">")), "{}", back.text);
    // A path is text.
    let hostile = site.get("/runs/%22%3e%3cscript%3e/approve", &ada).await;
    assert_eq!(hostile.status, 404);
    hostile.seen();
    // The API answers a browser as it answers a program, and so do pages to a program.
    for (path, accept) in [
        ("/v1/runs/none", HTML),
        ("/runs/none", ("accept", "*/*")),
        ("/none", ("accept", "application/json")),
    ] {
        let problem = site.send(Method::GET, path, &[accept, SAME, ("cookie", &ada)], "").await;
        assert_eq!(
            (problem.status, problem.header("content-type")),
            (404, "application/problem+json"),
            "{path}"
        );
    }
    // Without a session there is the login.
    let out = site.send(Method::GET, "/runs/none", &[HTML], "").await;
    assert_eq!(out.status, 401);
    assert!(out.seen().contains("Token") && !out.text.contains("/pending"), "{}", out.text);
}
