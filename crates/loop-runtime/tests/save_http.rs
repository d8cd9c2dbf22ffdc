//! Saving to a URL: one report however often it is sent, and no credential in what is told.

use crate::common;

use common::world::{Log, Stage, answer, notes, runner, says, unselected};
use loop_core::EventKind;
use loop_core::run::SaveState;
use loop_runtime::{
    Outcome, Runner, StopReason,
    run::StopClass,
    save::{HttpTarget, SaveTarget},
};
use serde_json::Value;
use std::sync::Arc;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const TOKEN: &str = "t0ken-of-this-test";

fn saving(url: &str) -> Runner {
    let target = HttpTarget::new(url).unwrap().with_bearer(TOKEN).unwrap();
    let target = target.with_header("x-team", "team-of-this-test").unwrap();
    assert!(!format!("{target:?}").contains("of-this-test"));
    to(SaveTarget::Http(target))
}

fn to(target: SaveTarget) -> Runner {
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    runner(unselected(), &log, stage).with_saver(Arc::new(target))
}

/// A server that answers in this order, the last for ever.
async fn server(answers: impl IntoIterator<Item = ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    let answers: Vec<_> = answers.into_iter().collect();
    let last = answers.len();
    for (n, answer) in answers.into_iter().enumerate() {
        let mock = Mock::given(method("POST")).and(path("/reports")).respond_with(answer);
        if n + 1 < last { mock.up_to_n_times(1).mount(&server).await } else { mock.mount(&server).await }
    }
    server
}

fn code(status: u16) -> ResponseTemplate {
    ResponseTemplate::new(status)
}

/// Runs to the end and gives what the server got.
async fn ran(server: &MockServer) -> (Outcome, Vec<Request>) {
    let outcome = saving(&format!("{}/reports", server.uri())).run(common::item()).await.unwrap();
    (outcome, server.received_requests().await.unwrap())
}

/// The message of an outcome that could not be saved and lacks nothing else.
#[track_caller]
fn unsaved(outcome: &Outcome) -> &str {
    assert_eq!((outcome.stop.reason(), outcome.stop.class), (StopReason::Confident, StopClass::Answered));
    assert_eq!(outcome.document.sections.len(), 3);
    let Some(SaveState::Not { message }) = &outcome.saved else { panic!("{:?}", outcome.saved) };
    assert!(!message.contains('\n') && !message.contains("of-this-test"), "{message}");
    message
}

#[tokio::test]
async fn a_report_is_posted_as_the_file_would_be() {
    // S0-31, U7
    let server = MockServer::start().await;
    let given = Mock::given(method("POST"))
        .and(path("/reports"))
        .and(header("authorization", format!("Bearer {TOKEN}")))
        .and(header("x-team", "team-of-this-test"))
        .and(header("content-type", "application/json"));
    given.respond_with(code(201)).expect(1).mount(&server).await;
    let (outcome, requests) = ran(&server).await;
    assert_eq!(
        outcome.saved,
        Some(SaveState::At { location: server.uri().into() }),
        "a key may stand in the path"
    );
    assert_eq!(requests[0].headers["idempotency-key"], format!("{}/0/save", outcome.run).as_str());
    let report: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&report["run"], &report["saved"]), (&outcome.run.as_str().into(), &Value::Null));

    // The same run's report in a file: only names and times differ.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let filed = to(SaveTarget::File(file.clone())).run(common::item()).await.unwrap();
    let wall = |text: &str, outcome: &Outcome| {
        let wall = format!("\"wall_ms\": {}", outcome.totals.wall_ms);
        let text = text.replace(outcome.run.as_str(), "RUN").replace(&wall, "WALL");
        let text = text.replace(&outcome.run.as_str().replace('-', ""), "TRACE");
        let is_instant = |line: &&str| !line.contains("unix_ms\"");
        text.lines().filter(is_instant).collect::<Vec<_>>().join("\n")
    };
    let posted = wall(std::str::from_utf8(&requests[0].body).unwrap(), &outcome);
    assert_eq!(posted, wall(&std::fs::read_to_string(&file).unwrap(), &filed));
}

#[tokio::test]
async fn a_server_may_say_where_the_report_is() {
    let named = |location: &str| code(201).insert_header("location", location);
    let long = format!("/reports/{}", "7".repeat(600));
    let cut = format!("URI{long}");
    for (location, expected) in [
        ("/reports/7", "URI/reports/7"),
        ("7", "URI/7"),
        ("https://archive.example/7", "https://archive.example/7"),
        ("https://me:pass@archive.example/7?key=1&sig=2#top", "https://archive.example/7"),
        (&format!("/{TOKEN}/7"), "URI/•••/7"),
        (&long, &cut),
        // None of these says where.
        ("", "URI"),
        ("  ", "URI"),
        ("?id=7", "URI"),
        ("#7", "URI"),
        ("javascript:alert(1)", "URI"),
        ("http://[", "URI"),
        (&format!("/reports?key={TOKEN}"), "URI"),
    ] {
        let server = server([named(location)]).await;
        let (outcome, _) = ran(&server).await;
        let mut expected = expected.replace("URI", &server.uri());
        if expected.chars().count() > 500 {
            expected = expected.chars().take(499).chain(['…']).collect();
        }
        assert_eq!(outcome.saved, Some(SaveState::At { location: expected.into() }));
    }
}

#[tokio::test]
async fn a_save_that_may_pass_is_sent_again_with_the_same_key() {
    // U7
    for status in [408, 425, 429, 500, 503] {
        let busy = || code(status).insert_header("retry-after", "0");
        let server = server([busy(), busy(), code(200)]).await;
        let (outcome, requests) = ran(&server).await;
        assert!(matches!(outcome.saved, Some(SaveState::At { .. })), "{status}: {:?}", outcome.saved);
        let key = format!("{}/0/save", outcome.run);
        let keys: Vec<_> =
            requests.iter().map(|request| request.headers["idempotency-key"].clone()).collect();
        assert_eq!(keys, [key.as_str(); 3]);
        assert!(requests.iter().all(|request| request.body == requests[0].body));
    }
    let server = server([code(503).insert_header("retry-after", "0").set_body_string("full")]).await;
    let (outcome, requests) = ran(&server).await;
    assert_eq!(requests.len(), 3);
    assert_eq!(unsaved(&outcome), format!("{}: 503 Service Unavailable: full", server.uri()));
}

#[tokio::test]
async fn a_server_says_how_long_to_wait_and_not_for_ever() {
    let date = httpdate::fmt_http_date(std::time::SystemTime::UNIX_EPOCH);
    let server = server([code(503).insert_header("retry-after", date), code(200)]).await;
    let (outcome, requests) = ran(&server).await;
    assert_eq!((requests.len(), matches!(outcome.saved, Some(SaveState::At { .. }))), (2, true));

    let server = self::server([code(429).insert_header("retry-after", "1")]).await;
    let runner = saving(&format!("{}/reports", server.uri()));
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let waits: Vec<u64> = recorded
        .entries
        .iter()
        .filter_map(|entry| match &entry.event.kind {
            EventKind::SaveFinished {
                result: loop_core::run::SaveResult::Failed { retry_at, .. }, ..
            } => retry_at.map(|at| at.since(entry.event.at)),
            _ => None,
        })
        .collect();
    assert_eq!(waits.len(), 3);
    assert!(waits.iter().all(|wait| (990..=1_000).contains(wait)), "{waits:?}");
    assert!(!notes(&runner, &outcome.run).await.is_empty());

    let server = self::server([code(503).insert_header("retry-after", "3600")]).await;
    let (outcome, requests) = ran(&server).await;
    assert_eq!(requests.len(), 1);
    assert!(unsaved(&outcome).ends_with("(to be tried again after 3600 s)"), "{:?}", outcome.saved);
}

#[tokio::test]
async fn a_refusal_is_final_and_says_why_in_one_line() {
    // U7
    let long = format!("no\u{1b}[31m\n  such\u{202e} team, {TOKEN} {}", "x".repeat(9_000));
    let server = server([code(400).set_body_string(long)]).await;
    let (outcome, requests) = ran(&server).await;
    assert_eq!(requests.len(), 1);
    let message = unsaved(&outcome);
    let (_, body) = message.split_once(": 400 Bad Request: ").unwrap();
    assert!(body.starts_with("no [31m such team, ••• xxx"), "{body}");
    assert_eq!(body.chars().count(), 200);

    let server = self::server([code(404)]).await;
    assert_eq!(unsaved(&ran(&server).await.0), format!("{}: 404 Not Found", server.uri()));

    // Servers repeat the path, and the path may be the key.
    let server = self::server([code(404).set_body_string("no POST /reports here")]).await;
    assert!(unsaved(&ran(&server).await.0).ends_with("404 Not Found: no POST ••• here"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    // K10: a credential would travel along.
    let elsewhere = MockServer::start().await;
    let server = server([code(307).insert_header("location", elsewhere.uri())]).await;
    let (outcome, requests) = ran(&server).await;
    assert!(unsaved(&outcome).contains("307"));
    assert_eq!((requests.len(), elsewhere.received_requests().await.unwrap().len()), (1, 0));
}

#[test]
fn an_address_that_cannot_be_used_is_refused_without_being_repeated() {
    for (url, message) in [
        ("reports", "is not a URL; write `https://HOST/PATH`"),
        ("ftp://example.org/x", "begins neither with `https://` nor with `http://`; correct it"),
        ("https://me:t0ken@example.org/x", "holds a user or a password; use a token instead"),
        ("https://example.org/{run}", "has a brace; the report names item and run, the address does not"),
    ] {
        assert_eq!(HttpTarget::new(url).unwrap_err().to_string(), message, "{url}");
    }
    let target = HttpTarget::new("https://example.org/x?key=1#y").unwrap();
    assert_eq!(target.to_string(), "https://example.org/x");
    assert_eq!(target.clone().with_bearer(" \n").unwrap_err().to_string(), "the token is empty");
    let bad = target.clone().with_bearer("a\nb").unwrap_err();
    assert_eq!(bad.to_string(), "has a character that no header may hold");
    assert!(target.clone().with_header("content-type", "text/plain").is_err());
    assert!(target.with_header("not a name", "x").is_err());
}
