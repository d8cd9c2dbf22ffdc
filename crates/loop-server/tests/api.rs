//! Every route with its good and bad answers. Each answer has to be one that the OpenAPI document names, and each that it
//! names has to come up here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use loop_server::api;
use loop_server::caller::{Caller, Role};
use loop_server::engine::{Engine, EngineLimits};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bench::{ASKS, Bench, Gate, WRITES, limits, router};

/// What was answered.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// It is a problem of this kind, in one line that names no path of this machine.
    #[track_caller]
    pub(crate) fn refuses(&self, status: u16, kind: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_eq!(
            (&problem["type"], &problem["status"]),
            (&json!(format!("/problems/{kind}")), &json!(status))
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(!detail.contains('\n') && !detail.contains("/tmp") && !detail.contains(".db"), "{detail}");
        assert_eq!(self.headers.contains_key("retry-after"), problem.get("retry_after").is_some());
    }
}

/// A client of the router, which notes which answers there were.
pub(crate) struct Client {
    router: Router,
    pub(crate) seen: Mutex<BTreeSet<(String, u16)>>,
    pub(crate) document: Value,
}

pub(crate) fn caller(name: &str, roles: &[Role], domains: Option<&[&str]>) -> Caller {
    let domains = domains.map(|domains| domains.iter().map(|name| (*name).into()).collect());
    Caller { name: name.into(), roles: roles.iter().copied().collect(), domains }
}

pub(crate) fn admin() -> Caller {
    caller("root", &[Role::Admin], None)
}

impl Client {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self { router: router(engine), seen: Mutex::default(), document: api::document() }
    }

    pub(crate) async fn send(
        &self,
        who: Option<&Caller>,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answered {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        if let Some(who) = who {
            request.extensions_mut().insert(who.clone());
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        if let Some(operation) = self.operation(method, path) {
            assert!(
                operation["responses"].get(status.to_string()).is_some(),
                "{line}: {status} is not in the document: {text}"
            );
            let id = operation["operationId"].as_str().unwrap().to_owned();
            self.seen.lock().unwrap().insert((id, status));
        }
        Answered { status, headers, text }
    }

    pub(crate) async fn get(&self, who: &Caller, path: &str) -> Answered {
        self.send(Some(who), &format!("GET {path}"), &[], "").await
    }

    pub(crate) async fn post(&self, who: &Caller, path: &str, body: Value) -> Answered {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(Some(who), &format!("POST {path}"), &[], &body).await
    }

    /// The operation of the document that a request is of.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap();
        let is_it = |pattern: &str| {
            let (mut steps, mut of) = (path.split('/'), pattern.split('/'));
            loop {
                match (steps.next(), of.next()) {
                    (None, None) => return true,
                    (Some(_), Some(of)) if of.starts_with('{') => {}
                    (Some(step), Some(of)) if step == of => {}
                    _ => return false,
                }
            }
        };
        let paths = self.document["paths"].as_object().unwrap();
        let (_, methods) = paths.iter().find(|(pattern, _)| is_it(pattern))?;
        methods.get(method.to_ascii_lowercase())
    }
}

async fn submitted(client: &Client, who: &Caller, item: &str) -> String {
    let headers = [("prefer", "wait=30")];
    let body = json!({ "domain": "crm", "item": item }).to_string();
    let answered = client.send(Some(who), "POST /v1/runs", &headers, &body).await;
    assert_eq!(answered.status, 202, "{}", answered.text);
    assert_eq!(answered.headers["preference-applied"], "wait");
    let run = answered.json()["run"].as_str().unwrap().to_owned();
    assert_eq!(answered.headers["location"], format!("/v1/runs/{run}"));
    run
}

#[tokio::test]
async fn every_route_answers_what_the_document_says_and_nothing_else() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("other", "[serve]\nmax_queued = 1\n");
    bench.notes();
    let engine =
        bench.engine_of(&["crm", "notes", "other"], &gate, EngineLimits { max_runs: 2, ..limits() }).await;
    let client = Client::new(&engine);
    let root = admin();
    let ada = caller("ada", &[Role::Submit, Role::Read], Some(&["crm"]));
    let bob = caller("bob", &[Role::Submit, Role::Read], Some(&["crm"]));
    let eve = caller("eve", &[Role::Approve], Some(&["crm"]));
    let stranger = caller("mallory", &[Role::Submit, Role::Read, Role::Approve], Some(&["other"]));

    // Submissions.
    let run = submitted(&client, &ada, ASKS).await;
    let body = json!({ "item": ASKS }).to_string();
    let keyed = [("idempotency-key", "k"), ("prefer", "respond-async, wait=30")];
    assert_eq!(client.send(Some(&ada), "POST /v1/runs", &keyed, &body).await.status, 202);
    assert_eq!(client.send(Some(&ada), "POST /v1/runs", &keyed, &body).await.status, 200);
    let other = json!({ "item": WRITES }).to_string();
    client.send(Some(&ada), "POST /v1/runs", &keyed, &other).await.refuses(422, "other-request");
    // Issue 40, H8: two keys are no key.
    let twice = [("idempotency-key", "k1"), ("idempotency-key", "k2")];
    client.send(Some(&ada), "POST /v1/runs", &twice, &body).await.refuses(400, "bad-request");
    client.send(None, "POST /v1/runs", &[], &body).await.refuses(401, "unauthorized");
    client.send(Some(&eve), "POST /v1/runs", &[], &body).await.refuses(403, "forbidden");
    client.send(Some(&ada), "POST /v1/runs", &[], "{").await.refuses(400, "body");
    client.post(&ada, "/v1/runs", json!({ "item": 7 })).await.refuses(400, "body");
    client.post(&ada, "/v1/runs", json!({ "item": ASKS, "cost": 7 })).await.refuses(400, "body");
    client.post(&ada, "/v1/runs", json!({ "item": " " })).await.refuses(422, "invalid");
    client.post(&ada, "/v1/runs", json!({ "item": ASKS, "priority": 101 })).await.refuses(422, "invalid");
    client.post(&root, "/v1/runs", json!({ "item": ASKS })).await.refuses(422, "invalid");
    client
        .post(&ada, "/v1/runs", json!({ "domain": "other", "item": ASKS }))
        .await
        .refuses(404, "unknown-domain");
    client
        .post(&root, "/v1/runs", json!({ "domain": "no", "item": ASKS }))
        .await
        .refuses(404, "unknown-domain");
    let setting = json!({ "item": ASKS, "settings": { "limits.passes": 1 } });
    client.post(&ada, "/v1/runs", setting).await.refuses(422, "setting");
    let long = json!({ "item": "x".repeat(7 << 20) });
    client.post(&ada, "/v1/runs", long).await.refuses(413, "too-large");

    // One run.
    let one = format!("/v1/runs/{run}");
    let seen = client.get(&ada, &one).await;
    assert_eq!((seen.json()["state"].as_str(), seen.json()["caller"].as_str()), (Some("ended"), Some("ada")));
    let tag = seen.headers["etag"].to_str().unwrap().to_owned();
    let same = client.send(Some(&ada), &format!("GET {one}"), &[("if-none-match", &tag)], "").await;
    assert_eq!((same.status, same.text.as_str()), (304, ""));
    // Another tenant's run is one that is not there.
    let unknown = client.get(&stranger, "/v1/runs/01a21603-4261-70fc-84b4-a34fcab0c9db").await;
    for path in ["", "/document", "/outcome", "/events"] {
        let path = format!("{one}{path}");
        let others = client.get(&stranger, &path).await;
        others.refuses(404, "unknown-run");
        assert_eq!(others.text, unknown.text);
        client.send(None, &format!("GET {path}"), &[], "").await.refuses(401, "unauthorized");
        client.get(&caller("ada", &[Role::Submit], None), &path).await.refuses(403, "forbidden");
    }
    let markdown = client.get(&ada, &format!("{one}/document")).await;
    assert_eq!(markdown.headers["content-type"], "text/markdown; charset=utf-8");
    let accept = [("accept", "application/json")];
    let json = client.send(Some(&ada), &format!("GET {one}/document"), &accept, "").await.json();
    assert_eq!((json["markdown"].as_str(), &json["ended"]), (Some(markdown.text.as_str()), &json!(true)));
    let outcome = client.get(&ada, &format!("{one}/outcome")).await.json();
    assert_eq!((&outcome["run"], &outcome["stop"]["class"]), (&json!(run), &json!("answered")));
    assert_eq!(client.get(&ada, &format!("{one}/events")).await.status, 200);
    let last = [("last-event-id", "99999")];
    assert_eq!(client.send(Some(&ada), &format!("GET {one}/events"), &last, "").await.status, 204);
    let last = [("last-event-id", "x")];
    client.send(Some(&ada), &format!("GET {one}/events"), &last, "").await.refuses(400, "event-id");
    let last = [("last-event-id", "1"), ("last-event-id", "2")];
    client.send(Some(&ada), &format!("GET {one}/events"), &last, "").await.refuses(400, "bad-request");

    // Lists.
    let page = client.get(&ada, "/v1/runs?limit=1&state=ended&domain=crm&text=bob").await.json();
    assert_eq!(page["runs"].as_array().unwrap().len(), 1);
    let next = page["next"].as_str().unwrap();
    let rest = client.get(&ada, &format!("/v1/runs?cursor={next}")).await.json();
    assert_eq!(rest["runs"][0]["run"], json!(run));
    assert_eq!(client.get(&stranger, "/v1/runs").await.json()["runs"], json!([]));
    // A filter that never fits is refused, and a domain that the caller does not see is one that is not there.
    client.get(&stranger, "/v1/runs?domain=crm").await.refuses(404, "not-found");
    client.get(&root, "/v1/runs?domain=nope").await.refuses(404, "not-found");
    client.get(&ada, "/v1/runs?reason=odd").await.refuses(404, "not-found");
    assert_eq!(client.get(&ada, "/v1/runs?reason=max_passes").await.json()["runs"], json!([]));
    client.get(&ada, "/v1/runs?cursor=odd").await.refuses(404, "not-found");
    for name in ["since", "until"] {
        let answered = client.get(&ada, &format!("/v1/runs?{name}=2026-11-26")).await;
        answered.refuses(400, "query");
        assert!(
            answered.text.contains("is not a time in milliseconds since 1970 (UTC)"),
            "{}",
            answered.text
        );
    }
    let later = client.get(&ada, "/v1/runs?since=32503680000000").await.json();
    assert_eq!(later["runs"], json!([]));
    client.get(&ada, "/v1/runs?limit=0").await.refuses(422, "invalid");
    client.get(&ada, "/v1/runs?state=odd").await.refuses(400, "query");
    client.get(&ada, "/v1/runs?nope=1").await.refuses(400, "query");
    client.get(&eve, "/v1/runs").await.refuses(403, "forbidden");
    client.send(None, "GET /v1/runs", &[], "").await.refuses(401, "unauthorized");

    labels(&client, [&ada, &bob, &eve, &stranger], &run).await;
    people(&client, [&root, &ada, &bob, &eve, &stranger], &run).await;
    continued(&client, [&root, &ada, &bob, &eve, &stranger], &run).await;
    system(&client, &engine, [&root, &ada, &stranger]).await;
    full(&client, &engine, &gate, &stranger).await;

    // Every answer that the document names came up, except for those of a journal that fails.
    let mut missing: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    for methods in client.document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            for status in operation["responses"].as_object().unwrap().keys() {
                let status: u16 = status.parse().unwrap();
                let is_of_journal = status == 503 && !matches!(id, "submit_run" | "resume_run" | "readiness");
                // A request that no program reads in one way, and one too many with a wrong token, are refused by the
                // door: see its tests, and that of the number of readers.
                let is_of_door = id != "submit_run" && matches!(status, 400 | 429);
                if !is_of_journal
                    && !is_of_door
                    && !client.seen.lock().unwrap().contains(&(id.to_owned(), status))
                {
                    missing.entry(id.to_owned()).or_default().push(status);
                }
            }
        }
    }
    // The stub that replies here asks no question: see `serve` of the command's tests.
    let expected = BTreeMap::from([("answer_question".to_owned(), vec![202])]);
    assert_eq!(missing, expected);
}

/// Who decides in a domain labels its runs, and a submitter their own.
async fn labels(client: &Client, [ada, bob, eve, stranger]: [&Caller; 4], run: &str) {
    let (one, label) = (format!("/v1/runs/{run}"), format!("/v1/runs/{run}/label"));
    let (put, delete) = (format!("PUT {label}"), format!("DELETE {label}"));
    let put = async |who: Option<&Caller>, body: Value| client.send(who, &put, &[], &body.to_string()).await;
    let delete = async |who: Option<&Caller>| client.send(who, &delete, &[], "").await;
    let tag = client.get(ada, &one).await.headers["etag"].clone();
    let good = json!({ "label": "good" });
    put(None, good.clone()).await.refuses(401, "unauthorized");
    put(Some(bob), good.clone()).await.refuses(403, "forbidden");
    put(Some(stranger), good.clone()).await.refuses(404, "unknown-run");
    put(Some(&caller("ada", &[Role::Read], None)), good.clone()).await.refuses(403, "forbidden");
    put(Some(ada), json!({ "label": "fine" })).await.refuses(400, "body");
    put(Some(ada), json!({ "label": "good", "note": "x".repeat(2_001) })).await.refuses(422, "invalid");
    put(Some(ada), json!({ "label": "good", "note": "x".repeat(7 << 20) })).await.refuses(413, "too-large");
    delete(None).await.refuses(401, "unauthorized");
    delete(Some(bob)).await.refuses(403, "forbidden");
    delete(Some(stranger)).await.refuses(404, "unknown-run");
    assert_eq!(client.get(ada, &one).await.json()["label"], Value::Null, "nothing of it counts");
    let labelled = put(Some(ada), good).await;
    assert_eq!((labelled.status, &labelled.json()["label"]["label"]), (200, &json!("good")));
    // The last one counts, and the run has another tag.
    let body = json!({ "label": "bad", "note": " <b>wrong customer " });
    let labelled = put(Some(eve), body).await.json();
    let is = &labelled["label"];
    assert_eq!((&is["label"], &is["note"]), (&json!("bad"), &json!("<b>wrong customer")));
    let seen = client.get(ada, &one).await;
    assert!(seen.json()["label"] == *is && seen.headers["etag"] != tag, "{}", seen.text);
    assert_eq!(client.get(ada, "/v1/runs?state=ended&text=bob").await.json()["runs"][1]["label"], *is);
    assert_eq!(delete(Some(eve)).await.json()["label"], Value::Null);
    // What has not ended cannot be judged.
    let waits = submitted(client, ada, WRITES).await;
    for method in ["PUT", "DELETE"] {
        let line = format!("{method} /v1/runs/{waits}/label");
        let body = json!({ "label": "good" }).to_string();
        client.send(Some(ada), &line, &[], &body).await.refuses(409, "state");
    }
    let stop = json!({ "mode": "now" });
    assert_eq!(client.post(ada, &format!("/v1/runs/{waits}/stop"), stop).await.status, 202);
    client.send(Some(ada), &format!("GET /v1/runs/{waits}"), &[("prefer", "wait=30")], "").await;
}

async fn people(client: &Client, [root, ada, bob, eve, stranger]: [&Caller; 5], over: &str) {
    let run = submitted(client, ada, WRITES).await;
    let one = format!("/v1/runs/{run}");
    assert_eq!(client.get(ada, &one).await.json()["state"], "waiting");
    client.get(ada, &format!("{one}/outcome")).await.refuses(409, "state");
    let pending = client.get(eve, "/v1/pending").await.json();
    let [action] = &pending["pending"].as_array().unwrap()[..] else { panic!("{pending}") };
    assert_eq!(client.get(eve, &format!("/v1/pending?run={run}")).await.json(), pending);
    assert_eq!(client.get(ada, "/v1/pending?domain=crm").await.json(), pending);
    assert_eq!(client.get(stranger, "/v1/pending").await.json()["pending"], json!([]));
    client.get(stranger, &format!("/v1/pending?run={run}")).await.refuses(404, "unknown-run");
    client.get(ada, "/v1/pending?x=1").await.refuses(400, "query");
    client.get(stranger, "/v1/pending?domain=crm").await.refuses(404, "not-found");
    client.get(&caller("sub", &[Role::Submit], None), "/v1/pending").await.refuses(403, "forbidden");
    client.send(None, "GET /v1/pending", &[], "").await.refuses(401, "unauthorized");

    let (key, binding) = (&action["action"], &action["binding"]);
    for (path, mut body) in
        [("approve", json!({})), ("deny", json!({ "why": "not today" })), ("answer", json!({ "text": "42" }))]
    {
        let path = format!("{one}/{path}");
        body["key"] = key.clone();
        body["binding"] = binding.clone();
        client.send(None, &format!("POST {path}"), &[], &body.to_string()).await.refuses(401, "unauthorized");
        client.post(ada, &path, body.clone()).await.refuses(403, "forbidden");
        client.post(stranger, &path, body.clone()).await.refuses(404, "unknown-run");
        client.post(eve, &path, json!({})).await.refuses(400, "body");
        let long = json!({ "key": "x".repeat(7 << 20) });
        client.post(eve, &path, long).await.refuses(413, "too-large");
        let mut wrong = body.clone();
        wrong["binding"] = json!("0".repeat(64));
        client.post(eve, &path, wrong).await.refuses(409, "binding");
        let mut wrong = body.clone();
        wrong["key"] = json!("8/action-8");
        client.post(eve, &path, wrong).await.refuses(404, "unknown-action");
    }
    let decision = |more: Value| {
        let mut body = json!({ "key": key, "binding": binding });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    client
        .post(eve, &format!("{one}/answer"), decision(json!({ "text": "42" })))
        .await
        .refuses(409, "decision");
    client
        .post(eve, &format!("{one}/answer"), decision(json!({ "text": " " })))
        .await
        .refuses(422, "invalid");
    client.post(eve, &format!("{one}/deny"), decision(json!({ "why": " " }))).await.refuses(422, "invalid");

    // Instructions, and a resume of what waits.
    let instruct = format!("{one}/instructions");
    client.post(bob, &instruct, json!({ "text": "hurry" })).await.refuses(403, "forbidden");
    client.post(stranger, &instruct, json!({ "text": "hurry" })).await.refuses(404, "unknown-run");
    client.post(ada, &instruct, json!({ "text": " " })).await.refuses(422, "invalid");
    client.post(ada, &instruct, json!({ "txt": "hurry" })).await.refuses(400, "body");
    client.post(ada, &instruct, json!({ "text": "x".repeat(7 << 20) })).await.refuses(413, "too-large");
    client.send(None, &format!("POST {instruct}"), &[], "").await.refuses(401, "unauthorized");
    assert_eq!(client.post(ada, &instruct, json!({ "text": "be brief" })).await.status, 202);
    client
        .post(ada, &format!("/v1/runs/{over}/instructions"), json!({ "text": "x" }))
        .await
        .refuses(409, "state");
    // The engine may look at it because of the instruction, and a run that is looked at is under way.
    let looked = client.send(Some(ada), &format!("GET {one}"), &[("prefer", "wait=30")], "").await.json();
    assert_eq!(looked["state"], "waiting", "{looked}");
    client.post(ada, &format!("{one}/resume"), Value::Null).await.refuses(409, "state");
    client.post(bob, &format!("{one}/resume"), Value::Null).await.refuses(403, "forbidden");
    client.post(stranger, &format!("{one}/resume"), Value::Null).await.refuses(404, "unknown-run");
    client.send(None, &format!("POST {one}/resume"), &[], "").await.refuses(401, "unauthorized");

    // The approval, with who gave it.
    assert_eq!(client.post(eve, &format!("{one}/approve"), decision(json!({}))).await.status, 202);
    let wait = [("prefer", "wait=30")];
    let ended = client.send(Some(ada), &format!("GET {one}"), &wait, "").await.json();
    assert_eq!(ended["class"], "answered", "{ended}");
    let outcome = client.get(ada, &format!("{one}/outcome")).await.json();
    // A router without a door has checked no account: see `doors` of the command's tests for one with a door.
    let approver = &outcome["people"]["requested"][0]["approvers"][0];
    assert_eq!((&approver["account"], &approver["user"]), (&json!(""), &json!("eve")));
    assert_eq!(outcome["stop"]["effects"]["executed"], 1);
    client.post(eve, &format!("{one}/approve"), decision(json!({}))).await.refuses(409, "decision");

    // A denial ends another one, and so does a stop.
    let run = submitted(client, ada, &WRITES.replace("EPAM", "Acme")).await;
    let pending = client.get(eve, &format!("/v1/pending?run={run}")).await.json();
    let action = &pending["pending"][0];
    let body = json!({ "key": action["action"], "binding": action["binding"] });
    assert_eq!(client.post(eve, &format!("/v1/runs/{run}/deny"), body).await.status, 202);
    let run = submitted(client, ada, &WRITES.replace("EPAM", "Acme")).await;
    let stop = format!("/v1/runs/{run}/stop");
    client.post(bob, &stop, json!({})).await.refuses(403, "forbidden");
    client.post(stranger, &stop, json!({})).await.refuses(404, "unknown-run");
    client.post(ada, &stop, json!({ "mode": "later" })).await.refuses(400, "body");
    client.post(ada, &stop, json!({ "mode": "x".repeat(7 << 20) })).await.refuses(413, "too-large");
    client.send(None, &format!("POST {stop}"), &[], "").await.refuses(401, "unauthorized");
    assert_eq!(client.post(root, &stop, json!({ "mode": "now" })).await.status, 202);
    let ended = client.send(Some(ada), &format!("GET /v1/runs/{run}"), &wait, "").await.json();
    assert_eq!(ended["reason"], "manual_stop", "{ended}");
    client.post(ada, &stop, Value::Null).await.refuses(409, "state");
}

/// Runs that begin from another one.
async fn continued(client: &Client, [root, ada, bob, eve, stranger]: [&Caller; 5], over: &str) {
    let note = json!({ "domain": "notes", "item": "Buy milk" }).to_string();
    let wait = [("prefer", "wait=30")];
    let noted = client.send(Some(root), "POST /v1/runs", &wait, &note).await.json();
    assert_eq!(noted["state"], "ended", "{noted}");
    let noted = format!("/v1/runs/{}", noted["run"].as_str().unwrap());
    let over = format!("/v1/runs/{over}");
    for (of, act, who) in [(&over, "fork", ada), (&noted, "retry", root)] {
        let path = format!("{of}/{act}");
        client.send(None, &format!("POST {path}"), &[], "").await.refuses(401, "unauthorized");
        client.post(eve, &path, json!({})).await.refuses(404, "unknown-run");
        client.post(stranger, &path, json!({})).await.refuses(404, "unknown-run");
        client.post(who, &path, json!({ "at": 1 })).await.refuses(400, "body");
        let long = json!({ "settings": { "x": "x".repeat(7 << 20) } });
        client.post(who, &path, long).await.refuses(413, "too-large");
        let wide = json!({ "settings": { "gate.people": false } });
        client.post(who, &path, wide).await.refuses(422, "setting");
        let twice = [("idempotency-key", "k1"), ("idempotency-key", "k2")];
        client.send(Some(who), &format!("POST {path}"), &twice, "").await.refuses(400, "bad-request");
        let keyed = [("idempotency-key", act), ("prefer", "wait=30")];
        let first = client.send(Some(who), &format!("POST {path}"), &keyed, "{}").await;
        assert_eq!((first.status, &*first.json()["state"].to_string()), (202, "\"ended\""), "{}", first.text);
        let run = first.json()["run"].as_str().unwrap().to_owned();
        assert_eq!(first.headers["location"], format!("/v1/runs/{run}"));
        let again = client.send(Some(who), &format!("POST {path}"), &keyed, "").await;
        assert_eq!((again.status, again.json()["run"].as_str()), (200, Some(&*run)));
        let outcome = client.get(who, &format!("/v1/runs/{run}/outcome")).await.json();
        let parent = of.strip_prefix("/v1/runs/").unwrap();
        assert_eq!((&outcome["parent"]["run"], &outcome["parent"]["how"]), (&json!(parent), &json!(act)));
    }
    // Who may read a run of another caller may not continue it, and a reader continues none.
    client.post(bob, &format!("{over}/fork"), json!({})).await.refuses(403, "forbidden");
    client
        .post(&caller("ada", &[Role::Read], None), &format!("{over}/fork"), json!({}))
        .await
        .refuses(403, "forbidden");
    client
        .post(&caller("ann", &[Role::Submit, Role::Read], None), &format!("{noted}/retry"), json!({}))
        .await
        .refuses(403, "forbidden");
    client.post(ada, &format!("{over}/fork"), json!({ "entry": 9_999 })).await.refuses(409, "state");
    // A conversation has no evidence that a retry could know.
    client.post(ada, &format!("{over}/retry"), json!({})).await.refuses(409, "state");
    // A limit can be lowered, and not raised.
    let lowered = json!({ "settings": { "limits.passes": 2 } });
    assert_eq!(client.post(root, &format!("{noted}/retry"), lowered).await.status, 202);
    let raised = json!({ "settings": { "limits.passes": 500 } });
    client.post(root, &format!("{noted}/retry"), raised).await.refuses(422, "setting");
}

async fn system(client: &Client, engine: &Engine, [root, ada, stranger]: [&Caller; 3]) {
    let names = async |who: &Caller| {
        let domains = client.get(who, "/v1/domains").await.json();
        let names =
            domains["domains"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(root).await, ["crm", "notes", "other"]);
    assert_eq!(names(ada).await, ["crm"]);
    client.send(None, "GET /v1/domains", &[], "").await.refuses(401, "unauthorized");
    for path in ["/healthz", "/readyz"] {
        let answered = client.send(None, &format!("GET {path}"), &[], "").await;
        assert_eq!((answered.status, answered.json()), (200, json!({ "status": "ok" })));
    }
    assert_eq!(client.send(None, "GET /openapi.json", &[], "").await.json(), client.document);
    let figures = client.get(stranger, "/metrics").await.text;
    assert!(figures.contains("loopgate_runs{domain=\"other\",state=\"queued\"} 0"), "{figures}");
    assert!(figures.contains("loopgate_runs_submitted_total{domain=\"other\"} 0"), "{figures}");
    // Neither the totals of other domains nor those of all together.
    for others in ["crm", "loopgate_http", "loopgate_journal", "loopgate_audit"] {
        assert!(!figures.contains(others), "{others}: {figures}");
    }
    let figures = client.get(root, "/metrics").await.text;
    assert!(figures.contains("path=\"/v1/runs/{run}\",status=\"404\""), "{figures}");
    let ended = engine.load().domains["crm"].ended;
    assert!(
        ended > 0 && figures.contains(&format!("loopgate_runs_ended_total{{domain=\"crm\"}} {ended}\n")),
        "{figures}"
    );
    client.get(&caller("sub", &[Role::Submit], None), "/metrics").await.refuses(403, "forbidden");
    client.send(None, "GET /metrics", &[], "").await.refuses(401, "unauthorized");
    assert_eq!(client.get(root, "/v1/audit?limit=1").await.json()["entries"], json!([]));
    client.get(root, "/v1/audit?limit=0").await.refuses(400, "query");
    client.get(ada, "/v1/audit").await.refuses(403, "forbidden");
    client.send(None, "GET /v1/audit", &[], "").await.refuses(401, "unauthorized");
    client.send(Some(root), "GET /v2/runs", &[], "").await.refuses(404, "not-found");
    client.send(Some(root), "PUT /v1/runs", &[], "").await.refuses(405, "method");

    // Messages of a hook that does not succeed.
    assert_eq!(client.get(root, "/v1/outbox").await.json()["messages"], json!([]));
    let headers = [("prefer", "wait=30")];
    let body = json!({ "domain": "other", "item": ASKS }).to_string();
    assert_eq!(client.send(Some(root), "POST /v1/runs", &headers, &body).await.json()["state"], "ended");
    let messages = client.get(root, "/v1/outbox").await.json();
    let [message] = &messages["messages"].as_array().unwrap()[..] else { panic!("{messages}") };
    assert_eq!(
        (&message["hook"], &message["event"], &message["failures"]),
        (&json!("desk"), &json!("ended"), &json!(1))
    );
    let of_crm = caller("op", &[Role::Admin], Some(&["crm"]));
    assert_eq!(client.get(&of_crm, "/v1/outbox").await.json()["messages"], json!([]));
    let drop = format!("DELETE /v1/outbox/{}", message["id"].as_str().unwrap());
    client.send(Some(&of_crm), &drop, &[], "").await.refuses(404, "unknown-message");
    assert_eq!(client.send(Some(root), &drop, &[], "").await.status, 204);
    client.send(Some(root), &drop, &[], "").await.refuses(404, "unknown-message");
    client.get(ada, "/v1/outbox").await.refuses(403, "forbidden");
    client.send(None, "GET /v1/outbox", &[], "").await.refuses(401, "unauthorized");
    client.send(Some(root), "DELETE /v1/outbox/nope", &[], "").await.refuses(404, "unknown-message");
    client.send(Some(ada), "DELETE /v1/outbox/nope", &[], "").await.refuses(403, "forbidden");
    client.send(None, "DELETE /v1/outbox/nope", &[], "").await.refuses(401, "unauthorized");
}

/// A full queue, and a server that ends.
async fn full(client: &Client, engine: &Engine, gate: &Gate, stranger: &Caller) {
    gate.calls.forget_permits(usize::MAX >> 4);
    let body = json!({ "item": ASKS });
    let admin = admin();
    let mut last = String::new();
    let full = async {
        loop {
            let answered = client.post(stranger, "/v1/runs", body.clone()).await;
            if answered.status == 202 {
                last = answered.json()["run"].as_str().unwrap().to_owned();
                continue;
            }
            // A run that begins counts as queued until the journal has it.
            if client.get(&admin, &format!("/v1/runs/{last}")).await.json()["state"] == "queued" {
                break answered;
            }
        }
    };
    let refused = tokio::time::timeout(crate::bench::LONG, full).await.expect("the queue has a bound");
    refused.refuses(429, "full");
    // One that is queued has no document yet, and cannot be told anything.
    assert_eq!(client.post(&admin, &format!("/v1/runs/{last}/resume"), Value::Null).await.status, 202);
    assert!(!engine.drain(Duration::from_millis(1)).await);
    client.post(stranger, "/v1/runs", body).await.refuses(503, "ending");
    client.post(&admin, &format!("/v1/runs/{last}/resume"), Value::Null).await.refuses(503, "ending");
    let ready = client.send(None, "GET /readyz", &[], "").await;
    assert_eq!((ready.status, ready.json()), (503, json!({ "status": "ending" })));
}
