//! The door as callers find it: who gets in, what a session can do, and what a slow client costs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use loop_runtime::journal::audit::{AuditFilter, AuditLine};
use loop_server::doors::{
    Audit, DoorLimits, Doors, DoorsConfig, Hosts, MAX_FAILURES, NotADoor, SESSION_LIFETIME,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::socket::{PUBLIC, Reply, Server, Setup};

#[tokio::test]
async fn a_token_is_a_caller_with_its_roles_domains_and_budget() {
    let server = Server::start(Setup::default()).await;
    let list = server.request("GET /v1/runs", &[&server.bearer("reader")]).await;
    assert_eq!((list.status, &*list.body), (200, "[\"r1\"]"), "its own domain alone");
    let json = "Content-Type: application/json";
    let bearer = server.bearer("submitter");
    let submit = server.text("POST /v1/runs", &[&bearer, json, "Content-Length: 2"], "{}");
    let reply = server.send(submit.as_bytes()).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.body, r#"{"who":"submitter","limit":5,"item":{},"from":"127.0.0.1"}"#);
    let reply = server.post("/v1/runs/r2/approve", &[&server.bearer("approver")], "").await;
    assert_eq!(reply.body, "approver (token approver)", "the account is what the server checked");
}

#[tokio::test]
async fn a_removed_token_stops_at_once_and_a_broken_file_is_reported() {
    let server = Server::start(Setup::default()).await;
    let admin = server.bearer("admin");
    // A session of a token ends with it.
    let form = format!("token={}", server.secrets["admin"]);
    let login = server.post("/login", &["Sec-Fetch-Site: same-origin"], &form).await;
    let cookie = login.cookie();
    for header in [&admin, &cookie] {
        assert_eq!(server.request("GET /v1/runs", &[header]).await.status, 200, "{header}");
    }
    assert!(server.file.remove("admin").unwrap());
    for header in [&admin, &cookie] {
        assert_eq!(server.request("GET /v1/runs", &[header]).await.status, 401, "{header}");
    }
    std::fs::write(server.file.path(), "not a list").unwrap();
    assert_eq!(server.request("GET /v1/runs", &[&server.bearer("reader")]).await.status, 200);
    let told = server.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn a_code_is_exchanged_for_a_session_once() {
    // K15
    let server = Server::start(Setup { has_tokens: false, ..Setup::default() }).await;
    let code = server.doors.invite().unwrap().unwrap();
    let path = format!("/login?code={}", code.reveal());
    let preview = server.request(&format!("HEAD {path}"), &[]).await;
    assert_eq!(preview.status, 200, "a preview does not use the code up");
    let prefetch = server.request(&format!("GET {path}"), &["Sec-Purpose: prefetch"]).await;
    assert_eq!((prefetch.status, prefetch.header("set-cookie")), (200, ""));
    let reply = server.request(&format!("GET {path}"), &["Sec-Fetch-Site: none"]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/"));
    assert_eq!((reply.header("referrer-policy"), reply.header("cache-control")), ("no-referrer", "no-store"));
    let set = reply.header("set-cookie");
    let name = format!("loopgate_{}=", server.at.port());
    assert!(set.starts_with(&name), "{set}");
    let age = format!("; Path=/; Max-Age={}; HttpOnly; SameSite=Strict", SESSION_LIFETIME.as_secs());
    assert!(set.ends_with(&age), "{set}");
    assert_eq!(server.request("GET /v1/runs", &[&reply.cookie()]).await.body, "[\"r1\",\"r2\"]");
    let again = server.request(&format!("GET {path}"), &[]).await;
    assert_eq!(again.status, 403);
    assert!(again.body.contains("Start the program again"), "{}", again.body);
}

#[tokio::test]
async fn a_session_changes_something_with_what_its_page_was_given() {
    // K15
    let server = Server::start(Setup::default()).await;
    let (cookie, csrf) = server.session().await;
    let origin = format!("Origin: http://{}", server.at);
    let form = format!("a=1&csrf={csrf}");
    let reply = server.post("/v1/runs/r1/approve", &[&cookie, &origin], &form).await;
    assert_eq!((reply.status, &*reply.body), (200, "an unverified account"));
    let header = format!("X-CSRF-Token: {csrf}");
    let same = "Sec-Fetch-Site: same-origin";
    let reply = server.post("/v1/runs/r1/approve", &[&cookie, same, &header], "").await;
    assert_eq!(reply.status, 200);
    assert_eq!(server.changes(), 2);
    // As Chromium sends the form of a page with the policy `no-referrer`.
    let reply = server.post("/v1/runs/r1/approve", &[&cookie, "Origin: null", same], &form).await;
    assert_eq!((reply.status, server.changes()), (200, 3));
    for site in
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: none", "X-A: none"]
    {
        let reply = server.post("/v1/runs/r1/approve", &[&cookie, "Origin: null", site], &form).await;
        assert_eq!((reply.status, server.changes()), (403, 3), "{site}");
    }
    let page = server.request("GET /logout", &[&cookie]).await;
    assert!(page.status == 200 && page.body.contains(&format!("value=\"{csrf}\"")), "{page:?}");
    let out = server.post("/logout", &[&cookie, same], &form).await;
    assert_eq!((out.status, out.header("location")), (303, "/login"));
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(server.request("GET /v1/runs", &[&cookie]).await.status, 401);
}

#[tokio::test]
async fn a_form_with_files_is_read_once_its_first_part_is_known() {
    let server = Server::start(Setup::default()).await;
    let (cookie, csrf) = server.session().await;
    let kind = "Content-Type: multipart/form-data; boundary=b1";
    let same = "Sec-Fetch-Site: same-origin";
    let first = format!("--b1\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--b1\r\n");
    let send = async |server: &Server, body: &str, length: usize| {
        let length = format!("Content-Length: {length}");
        let text = server.text("POST /v1/runs/r1/approve", &[&cookie, same, kind, &length], body);
        server.send(text.as_bytes()).await
    };
    // It may be as large as any body, and a form without files may not.
    let large = format!("{first}{}", "x".repeat(1 << 20));
    assert_eq!((send(&server, &large, large.len()).await.status, server.changes()), (200, 1));
    let huge = format!("{first}{}", "x".repeat(3 << 20));
    assert_eq!(send(&server, &huge, huge.len()).await.kind(), "too-large");
    // Not more of it is waited for than before.
    let short = Duration::from_millis(200);
    let limits = DoorLimits { body_time: short, ..DoorLimits::default() };
    let slow = Server::start(Setup { limits, ..Setup::default() }).await;
    let (cookie, _) = slow.session().await;
    let text =
        slow.text("POST /v1/runs/r1/approve", &[&cookie, same, kind, "Content-Length: 900"], &first[..30]);
    let mut stream = slow.connect().await;
    stream.write_all(text.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&mut stream).await.kind(), "too-slow");
    assert_eq!((server.changes(), slow.changes()), (1, 0));
}

#[tokio::test]
async fn a_session_by_tls_has_a_cookie_that_needs_it() {
    let server = Server::start(Setup::default()).await;
    let code = server.doors.invite().unwrap().unwrap();
    let text =
        format!("GET /login?code={} HTTP/1.1\r\nHost: {PUBLIC}\r\nConnection: close\r\n\r\n", code.reveal());
    let reply = server.send(text.as_bytes()).await;
    let set = reply.header("set-cookie");
    assert!(set.starts_with("__Host-loopgate_") && set.ends_with("; SameSite=Strict; Secure"), "{set}");
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tokens() {
    let listen = "192.0.2.1:8787".parse().unwrap();
    let config = DoorsConfig {
        listen,
        hosts: Hosts::new(listen, &[]).unwrap(),
        tokens: None,
        proxies: Vec::new(),
        limits: DoorLimits::default(),
        audit: Audit::none(),
    };
    let error = Doors::new(config).unwrap_err();
    assert_eq!(error, NotADoor::WithoutTokens(listen));
    assert!(!error.to_string().contains('\n') && error.to_string().contains("--tokens FILE"), "{error}");
}

#[tokio::test]
async fn what_a_caller_did_and_who_was_refused_is_in_the_audit_log() {
    let server = Server::start(Setup::default()).await;
    let (cookie, csrf) = server.session().await;
    server.request("GET /v1/runs", &[&server.bearer("old")]).await;
    server.request("GET /v1/runs", &["Authorization: Bearer lgt_guess"]).await;
    server.request("GET /login?code=guess", &[]).await;
    let same = "Sec-Fetch-Site: same-origin";
    server.post("/logout", &[&cookie, same], &format!("csrf={csrf}")).await;
    let lines = lines(&server).await;
    let told: Vec<String> = lines.iter().rev().map(shown).collect();
    assert_eq!(
        told,
        [
            "local (this machine) login done",
            "old (token old) login refused: the token has expired",
            " () login refused: the token is not known",
            " () login refused: the code is not known, was used or has expired",
            "local (this machine) logout done",
        ]
    );
    assert!(lines.iter().all(|line| line.sealed && &*line.entry.as_ref().unwrap().from == "127.0.0.1"));
    // It is listed for an admin of all domains.
    let page = server.request("GET /v1/audit?limit=2", &[&server.bearer("admin")]).await;
    let page: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!((&page["before"], &page["entries"][0]["entry"]["action"]), (&4.into(), &"logout".into()));
    for (path, name, status) in [
        ("/v1/audit", "approver", 403),
        ("/v1/audit?limit=0", "admin", 400),
        ("/v1/audit?x=1", "admin", 400),
        ("/v1/audit?before=1", "admin", 200),
    ] {
        assert_eq!(
            server.request(&format!("GET {path}"), &[&server.bearer(name)]).await.status,
            status,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_change_that_the_door_refuses_is_in_the_audit_log() {
    // K8, K15
    let server = Server::start(Setup::default()).await;
    let (cookie, csrf) = server.session().await;
    let (approver, evil) = (server.bearer("approver"), "Origin: https://evil.example");
    let form = format!("csrf={csrf}");
    let same = "Sec-Fetch-Site: same-origin";
    for (path, headers, form) in [
        ("/v1/runs/r1/approve", [&*cookie, evil], &*form),
        ("/v1/runs/r1/deny", [&approver, evil], ""),
        ("/v1/runs/r1/stop", [&cookie, "Sec-Fetch-Site: cross-site"], &form),
        ("/runs/r1/approve", [&cookie, same], "csrf=guess"),
        ("/v1/runs", ["Authorization: Bearer lgt_guess", evil], ""),
    ] {
        assert_eq!(server.post(path, &headers, form).await.status, 403, "{path}");
    }
    // A look is not a change.
    assert_eq!(server.request("GET /v1/runs", &[&cookie, evil]).await.status, 403);
    let origin = "the request comes from a page of another origin; open the page of this server";
    let site = "the request does not come from a page of this server; open its page";
    let expired = "the form has expired or is not of this session; load its page again";
    let told: Vec<String> = lines(&server).await.iter().rev().map(shown).collect();
    assert_eq!(
        told,
        [
            "local (this machine) login done".to_owned(),
            format!("local (this machine) approve refused: {origin}"),
            format!("approver (token approver) deny refused: {origin}"),
            format!("local (this machine) stop refused: {site}"),
            format!("local (this machine) decide refused: {expired}"),
            format!(" () submit refused: {origin}"),
        ]
    );
    // Callers that are not known cannot fill the log, and do not use up what logins have.
    for _ in 0..2 * MAX_FAILURES {
        assert_eq!(server.post("/v1/runs/r1/approve", &[evil], "").await.status, 403);
    }
    assert_eq!(lines(&server).await.len() as u32, 5 + MAX_FAILURES);
    assert_eq!(server.request("GET /v1/runs", &["Authorization: Bearer lgt_guess"]).await.status, 401);
}

async fn lines(server: &Server) -> Vec<AuditLine> {
    server.journal.audit_lines(&AuditFilter { limit: 1_000, ..AuditFilter::default() }).await.unwrap()
}

fn shown(line: &AuditLine) -> String {
    let entry = line.entry.as_ref().unwrap();
    let detail = entry.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
    format!("{} ({}) {} {}{detail}", entry.who, entry.account, entry.action.name(), entry.result.name())
}

#[tokio::test]
async fn too_many_refused_logins_are_not_recorded_and_a_valid_token_gets_in() {
    let server = Server::start(Setup::default()).await;
    let guess = "Authorization: Bearer lgt_guess";
    for _ in 0..MAX_FAILURES {
        assert_eq!(server.request("GET /v1/runs", &[guess]).await.status, 401);
    }
    for line in ["GET /v1/runs", "GET /login?code=guess"] {
        let reply = server.request(line, &[guess]).await;
        assert_eq!(reply.status, 429, "{line}");
        assert!(reply.header("retry-after").parse::<u64>().unwrap() <= 61);
    }
    assert_eq!(server.request("GET /v1/runs", &[&server.bearer("admin")]).await.status, 200);
    assert_eq!(lines(&server).await.len() as u32, MAX_FAILURES);
}

#[tokio::test]
async fn nothing_is_opened_that_cannot_be_recorded() {
    let server = Server::start(Setup::default()).await;
    let code = server.doors.invite().unwrap().unwrap();
    // Another file in the place of the journal: nothing is written to it.
    let journal = server.folder.path().join("journal.db");
    std::fs::rename(&journal, server.folder.path().join("moved.db")).unwrap();
    std::fs::write(&journal, "").unwrap();
    let reply = server.request(&format!("GET /login?code={}", code.reveal()), &[]).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (503, ""), "{reply:?}");
    assert!(!reply.body.contains("journal.db"), "{}", reply.body);
}

#[tokio::test]
async fn the_address_of_a_client_is_that_of_a_known_proxy_alone() {
    let json = "Content-Type: application/json";
    for (is_behind_proxy, from) in [(false, "127.0.0.1"), (true, "203.0.113.7")] {
        let server = Server::start(Setup { is_behind_proxy, ..Setup::default() }).await;
        let bearer = server.bearer("submitter");
        let forwarded = "X-Forwarded-For: 10.9.9.9, 203.0.113.7";
        let text = server.text("POST /v1/runs", &[&bearer, json, forwarded, "Content-Length: 2"], "{}");
        let reply: serde_json::Value =
            serde_json::from_str(&server.send(text.as_bytes()).await.body).unwrap();
        assert_eq!(reply["from"], from);
    }
}

#[tokio::test]
async fn head_and_options_behave() {
    let server = Server::start(Setup::default()).await;
    let head = server.request("HEAD /v1/runs", &[&server.bearer("admin")]).await;
    assert_eq!((head.status, &*head.body, head.header("content-length")), (200, "", "11"));
    let options = server.request("OPTIONS /v1/runs", &[&server.bearer("admin")]).await;
    assert_eq!((options.status, options.header("allow")), (405, "GET,HEAD,POST"));
    assert_eq!(options.kind(), "method");
    let health = server.request("GET /healthz", &[]).await;
    assert_eq!((health.status, &*health.body), (200, "ok"));
    // Issue 43, K8: the routes behind the door say what they are to all, and which methods they take.
    assert_eq!(server.request("GET /openapi.json", &[]).await.status, 404);
    let post = server.request("POST /healthz", &["Content-Length: 0"]).await;
    assert_eq!((post.status, post.kind(), post.header("allow")), (405, "method".to_owned(), "GET,HEAD"));
    // A body does not hide that the path takes another method. Where it takes this one, no route runs.
    let admin = server.bearer("admin");
    for (line, expected) in [
        ("GET /v1/runs/r/approve", (405, "method")),
        ("HEAD /v1/runs/r/approve", (405, "")),
        ("OPTIONS /v1/runs", (405, "method")),
        ("GET /v1/runs", (400, "bad-request")),
        ("GET /v1/panic", (400, "bad-request")),
        ("GET /healthz", (400, "bad-request")),
        ("GET /v1/nowhere", (404, "not-found")),
    ] {
        let text = server.text(line, &[&admin, "Content-Length: 2"], "{}");
        let reply = server.send(text.as_bytes()).await;
        let kind = if reply.body.is_empty() { String::new() } else { reply.kind() };
        assert_eq!((reply.status, &*kind), expected, "{line}");
    }
    let text = server.text("GET /v1/runs", &["Content-Length: 2"], "{}");
    assert_eq!(server.send(text.as_bytes()).await.status, 401);
}

#[tokio::test]
async fn a_panic_of_a_route_is_a_problem_without_its_text() {
    let server = Server::start(Setup::default()).await;
    let reply = server.request("GET /v1/panic", &[&server.bearer("admin")]).await;
    assert_eq!((reply.status, reply.kind()), (500, "internal".to_owned()));
    assert!(!reply.body.contains("lgt_") && !reply.body.contains("panicked"), "{}", reply.body);
    assert_eq!(server.request("GET /v1/runs", &[&server.bearer("admin")]).await.status, 200);
}

/// Limits in tenths of a second for what a client does, so that a test waits for what is cut. What the server does has its
/// usual time: it may be slow on a busy machine.
fn impatient() -> DoorLimits {
    let short = Duration::from_millis(200);
    // A test that sends whole headers may be slow as well.
    let header_time = Duration::from_secs(1);
    DoorLimits { header_time, body_time: short, stall_time: short, ..DoorLimits::default() }
}

#[tokio::test]
async fn a_client_that_sends_its_headers_or_its_body_slowly_is_cut() {
    // H10: slowloris.
    let server = Server::start(Setup { limits: impatient(), ..Setup::default() }).await;
    let mut silent = server.connect().await;
    assert_eq!(Reply::read(&mut silent).await, Reply::default());
    let mut headers = server.connect().await;
    headers.write_all(b"GET /v1/runs HTTP/1.1\r\nHost: x\r\nX-A: ").await.unwrap();
    assert_eq!(Reply::read(&mut headers).await, Reply::default());
    let mut body = server.connect().await;
    let bearer = server.bearer("submitter");
    let text =
        server.text("POST /v1/runs", &[&bearer, "Content-Type: application/json", "Content-Length: 9"], "{");
    body.write_all(text.as_bytes()).await.unwrap();
    let reply = Reply::read(&mut body).await;
    assert_eq!((reply.status, reply.kind()), (408, "too-slow".to_owned()));
    // A form is read by the door itself.
    let (cookie, _) = server.session().await;
    let mut form = server.connect().await;
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let same = "Sec-Fetch-Site: same-origin";
    let text = server.text("POST /v1/runs/r1/approve", &[&cookie, same, kind, "Content-Length: 99"], "csrf=");
    form.write_all(text.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&mut form).await.status, 408);
    assert_eq!(server.changes(), 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_answer() {
    let server = Server::start(Setup { limits: impatient(), ..Setup::default() }).await;
    let mut stream = server.connect().await;
    let text = server.text("GET /healthz", &[], "").replace("Connection: close\r\n", "");
    stream.write_all(text.as_bytes()).await.unwrap();
    let reply = Reply::read(&mut stream).await;
    assert_eq!((reply.status, &*reply.body), (200, "ok"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    // H10
    let limits = DoorLimits { connections_of_one: 1, ..impatient() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(server.text("GET /v1/large", &[&server.bearer("admin")], "").as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    // It has the one place until then.
    let is_cut = async { while server.request("GET /v1/runs", &[]).await.status != 401 {} };
    tokio::time::timeout(crate::bench::LONG, is_cut).await.expect("it keeps its place");
    let (mut bytes, mut part) = (0, vec![0; 1 << 20]);
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        bytes += count;
    }
    assert!(bytes < 64 << 20, "{bytes}");
}

#[tokio::test]
async fn a_client_that_reads_a_byte_at_a_time_is_cut() {
    // H10: that a socket has nothing to flush is not progress, and neither is a byte that leaves its buffer.
    let limits = DoorLimits { connections_of_one: 1, ..impatient() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(server.text("GET /v1/large", &[&server.bearer("admin")], "").as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    let is_cut = async {
        loop {
            stream.read_exact(&mut [0; 1]).await.unwrap();
            if server.request("GET /v1/runs", &[]).await.status == 401 {
                break;
            }
        }
    };
    tokio::time::timeout(crate::bench::LONG, is_cut).await.expect("it keeps its place");
}

#[tokio::test]
async fn a_route_that_takes_too_long_is_answered_for() {
    let limits = DoorLimits { answer_time: Duration::from_millis(200), ..DoorLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let reply = server.request("GET /v1/slow", &[&server.bearer("admin")]).await;
    assert_eq!((reply.status, reply.kind()), (504, "timeout".to_owned()));
}

#[tokio::test]
async fn too_many_connections_are_refused_and_do_not_queue() {
    // H10
    let limits = DoorLimits { connections: 3, ..DoorLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        // Each is accepted once it has its answer.
        let mut stream = server.connect().await;
        let text = server.text("GET /healthz", &[], "").replace("Connection: close\r\n", "");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        kept.push(stream);
    }
    // A reserve is left for short requests.
    assert_eq!(server.request("GET /healthz", &[]).await.status, 200);
    let refused = server.request("GET /v1/runs", &[&server.bearer("admin")]).await;
    assert_eq!(
        (refused.status, refused.kind(), refused.header("retry-after")),
        (503, "connections".into(), "5")
    );
    assert_eq!(refused.header("content-type"), "application/problem+json");
    drop(kept.pop());
    // The server notices that at its next look at the connection.
    let mut status = 0;
    while status != 401 {
        status = server.request("GET /v1/runs", &[]).await.status;
    }
    assert_eq!(server.changes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_reserve_is_bounded_too() {
    // H10
    let limits = DoorLimits { connections: 0, ..DoorLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(server.connect().await);
    }
    let refused = Reply::read(&mut server.connect().await).await;
    assert_eq!(
        (refused.status, refused.kind(), refused.header("retry-after")),
        (503, "connections".into(), "5")
    );
    // Those that send nothing lose their places.
    for mut stream in silent {
        Reply::ended(&mut stream).await;
    }
    assert_eq!(server.request("GET /healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn one_address_does_not_take_all_connections() {
    let limits = DoorLimits { connections_of_one: 1, ..DoorLimits::default() };
    for (is_behind_proxy, status) in [(false, 503), (true, 401)] {
        let server =
            Server::start(Setup { limits: limits.clone(), is_behind_proxy, ..Setup::default() }).await;
        let mut kept = server.connect().await;
        let text = server.text("GET /healthz", &[], "").replace("Connection: close\r\n", "");
        kept.write_all(text.as_bytes()).await.unwrap();
        kept.read_exact(&mut [0; 12]).await.unwrap();
        assert_eq!(server.request("GET /v1/runs", &[]).await.status, status);
        assert_eq!(server.request("GET /healthz", &[]).await.status, 200);
    }
}

#[tokio::test]
async fn a_server_that_ends_answers_what_is_under_way() {
    let limits = DoorLimits { drain_time: Duration::from_secs(60), ..DoorLimits::default() };
    let mut server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    let bearer = server.bearer("submitter");
    let text = server.text(
        "POST /v1/runs",
        &[&bearer, "Content-Type: application/json", "Expect: 100-continue", "Content-Length: 2"],
        "",
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    // The route asks for the body.
    let mut asked = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut asked).await.unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100 "));
    server.leave();
    stream.write_all(b"{}").await.unwrap();
    assert_eq!(Reply::read(&mut stream).await.status, 201);
    (&mut server.task).await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.at).await.is_err());
}
