//! K15: requests that must not get in, over a real socket, and the legal ones next to them. The table of what each got is
//! `docs/reference/attacks.md`; `UPDATE_ATTACKS=1` writes it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use loop_server::doors::DoorLimits;
use tokio::io::AsyncWriteExt as _;

use super::socket::{PUBLIC, Reply, Server, Setup};

/// One request of the table. In its bytes `{host}`, `{cookie}`, `{csrf}`, `{code}` and the names of tokens are replaced.
struct Attack {
    group: &'static str,
    what: &'static str,
    bytes: String,
    /// Whether it is a legal request: all others change nothing and get nothing.
    is_legal: bool,
}

/// The table under way.
#[derive(Default)]
struct Table {
    group: &'static str,
    attacks: Vec<Attack>,
}

impl Table {
    fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// A request with `Host` and `Connection: close`.
    fn request(&mut self, what: &'static str, line: &str, headers: &[&str]) {
        self.raw(what, &of(line, headers, ""));
    }

    /// A post of JSON.
    fn json(&mut self, what: &'static str, path: &str, headers: &[&str], body: &str) {
        let length = format!("Content-Length: {}", body.len());
        let json = "Content-Type: application/json";
        let headers: Vec<&str> = headers.iter().copied().chain([json, &length]).collect();
        self.raw(what, &of(&format!("POST {path}"), &headers, body));
    }

    /// A post of a form.
    fn form(&mut self, what: &'static str, path: &str, headers: &[&str], body: &str) {
        // What is put in for a placeholder has another length.
        let length = body.replace("{csrf}", &"x".repeat(64)).len();
        let length = format!("Content-Length: {length}");
        let form = "Content-Type: application/x-www-form-urlencoded";
        let headers: Vec<&str> = headers.iter().copied().chain([form, &length]).collect();
        self.raw(what, &of(&format!("POST {path}"), &headers, body));
    }

    /// A post of a form with files, each part with its name.
    fn files(&mut self, what: &'static str, headers: &[&str], parts: &[(&str, &str)]) {
        let part = |(name, value): &(&str, &str)| {
            format!("--b1\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let body = parts.iter().map(part).collect::<String>() + "--b1--\r\n";
        let whole = "x".repeat(64);
        let length = body.replace("{csrf}", &whole).replace("{other}", &whole).len();
        let length = format!("Content-Length: {length}");
        let headers: Vec<&str> = headers.iter().copied().chain([&*length]).collect();
        self.raw(what, &of(&format!("POST {APPROVE}"), &headers, &body));
    }

    fn raw(&mut self, what: &'static str, bytes: &str) {
        self.attacks.push(Attack { group: self.group, what, bytes: bytes.to_owned(), is_legal: false });
    }

    /// The last one is legal.
    fn legal(&mut self) {
        self.attacks.last_mut().unwrap().is_legal = true;
    }
}

fn of(line: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{line} HTTP/1.1\r\nHost: {{host}}\r\n{headers}Connection: close\r\n\r\n{body}")
}

const ADMIN: &str = "Authorization: Bearer {admin}";
const READER: &str = "Authorization: Bearer {reader}";
const SAME: &str = "Sec-Fetch-Site: same-origin";
const OWN: &str = "Origin: http://{host}";
const FILES: &str = "Content-Type: multipart/form-data; boundary=b1";
const APPROVE: &str = "/v1/runs/r2/approve";

fn table() -> Vec<Attack> {
    let mut table = Table::default();
    who(&mut table);
    sessions(&mut table);
    origins(&mut table);
    forms(&mut table);
    smuggling(&mut table);
    paths(&mut table);
    sizes(&mut table);
    table.attacks
}

fn who(t: &mut Table) {
    t.group("Who");
    t.request("a valid token", "GET /v1/runs", &[ADMIN]);
    t.legal();
    t.request("no token", "GET /v1/runs", &[]);
    t.request("no token, a path that is not there", "GET /v1/secret", &[]);
    t.request("an unknown token", "GET /v1/runs", &["Authorization: Bearer lgt_0000"]);
    t.request("the prefix alone", "GET /v1/runs", &["Authorization: Bearer lgt_"]);
    t.request("an empty token", "GET /v1/runs", &["Authorization: Bearer "]);
    t.request("the hash of a token in place of it", "GET /v1/runs", &["Authorization: Bearer {hash}"]);
    t.request("an expired token", "GET /v1/runs", &["Authorization: Bearer {old}"]);
    t.request("a removed token", "GET /v1/runs", &["Authorization: Bearer {removed}"]);
    t.request("the scheme Basic", "GET /v1/runs", &["Authorization: Basic YWRtaW46YWRtaW4="]);
    t.request("two headers Authorization", "GET /v1/runs", &[READER, ADMIN]);
    t.request("the token in the query", "GET /v1/runs?access_token={admin}", &[]);
    t.request("the token as a cookie", "GET /v1/runs", &["Cookie: loopgate_{port}={admin}"]);
    t.request(
        "a role that it does not have: list with submit",
        "GET /v1/runs",
        &["Authorization: Bearer {submitter}"],
    );
    t.json("a role that it does not have: submit with read", "/v1/runs", &[READER], "{}");
    t.json("a role that it does not have: approve with read", "/v1/runs/r1/approve", &[READER], "{}");
    t.json("a run of another domain", "/v1/runs/r2/approve", &[READER], "{}");
    t.json("a run that is not there", "/v1/runs/r9/approve", &[READER], "{}");
    t.request("the audit log without the role admin", "GET /v1/audit", &[READER]);
    t.request(
        "a name of a user in a header of a proxy",
        "GET /v1/runs",
        &["X-Forwarded-User: admin", "X-Remote-User: admin"],
    );
}

/// What a link of a message and a page get where there is no caller: the routes themselves are in `approvers`.
fn links(t: &mut Table) {
    t.group("Links of messages, and pages");
    let html = "Accept: text/html";
    t.request("a link without a session, as a chat tool previews it", "GET /links/e30.00", &[]);
    t.request("the same as a browser", "GET /links/e30.00", &[html]);
    t.request(
        "the same from a page of another site",
        "GET /links/e30.00",
        &[html, "Sec-Fetch-Site: cross-site"],
    );
    t.request("the same before it is opened", "GET /links/e30.00", &[html, "Sec-Purpose: prefetch"]);
    t.request("the list of what waits without a session", "GET /pending", &[html]);
    t.form(
        "a link that is sent a decision, with a token",
        "/links/e30.00",
        &[ADMIN, html],
        "decision=approve",
    );
    t.form(
        "a login with a wrong token that leads to another site",
        "/login",
        &[SAME],
        "token=x&to=//evil.example",
    );
}

fn sessions(t: &mut Table) {
    links(t);
    t.group("Codes and sessions");
    t.request("a session", "GET /v1/runs", &["{cookie}"]);
    t.legal();
    t.request("a forged session", "GET /v1/runs", &["Cookie: loopgate_{port}=00000000"]);
    t.request("a session under another name", "GET /v1/runs", &["Cookie: session=1; loopgate=1"]);
    t.request("two sessions", "GET /v1/runs", &["{cookie}; loopgate_{port}=1"]);
    t.request(
        "a wrong token with a valid session",
        "GET /v1/runs",
        &["{cookie}", "Authorization: Bearer lgt_1"],
    );
    t.request("a code that was used", "GET /login?code={code}", &[]);
    t.request("a wrong code", "GET /login?code=00000000", &[]);
    t.request("the code twice in the query", "GET /login?code={fresh}&code={fresh}", &[]);
    t.request(
        "a code from a link of another site",
        "GET /login?code={fresh}",
        &["Sec-Fetch-Site: cross-site"],
    );
    t.request(
        "a code as a picture of another site",
        "GET /login?code={fresh}",
        &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
    );
    t.form("a login that another site sends", "/login", &["Sec-Fetch-Site: cross-site"], "token=lgt_1");
    t.form("a login without Origin and Sec-Fetch-Site", "/login", &[], "token=lgt_1");
    t.form("a login with an unknown token", "/login", &[SAME], "token=lgt_1");
    t.json("a login that is not a form", "/login", &[SAME], "{\"token\":\"lgt_1\"}");
}

fn origins(t: &mut Table) {
    t.group("Host and Origin");
    let with_host = |host: &str| of("GET /v1/runs", &[ADMIN], "").replace("{host}", host);
    t.raw("a public name of the server", &with_host(PUBLIC));
    t.legal();
    t.raw("DNS rebinding: a foreign name", &with_host("evil.example:{port}"));
    t.raw("DNS rebinding: a name that ends in localhost", &with_host("localhost.evil.example:{port}"));
    t.raw("DNS rebinding: the address as a name", &with_host("127.0.0.1.nip.example:{port}"));
    t.raw("0.0.0.0", &with_host("0.0.0.0:{port}"));
    t.raw("the right name and a wrong port", &with_host("127.0.0.1:1"));
    t.raw("the name without the port", &with_host("localhost"));
    t.raw("the name with a dot behind it", &with_host("localhost.:{port}"));
    t.raw("the name behind a user", &with_host("evil@127.0.0.1:{port}"));
    t.raw("an empty Host", &with_host(""));
    t.raw("a foreign X-Forwarded-Host", &of("GET /login", &["X-Forwarded-Host: evil.example"], ""));
    t.legal();
    t.request("a foreign Origin, with a token", "GET /v1/runs", &[ADMIN, "Origin: https://evil.example"]);
    t.request(
        "a foreign Origin, with a session",
        "GET /v1/runs",
        &["{cookie}", "Origin: https://evil.example"],
    );
    t.request("Origin: null", "GET /v1/runs", &["{cookie}", "Origin: null"]);
    t.request(
        "an Origin of another port of this machine",
        "GET /v1/runs",
        &["{cookie}", "Origin: http://127.0.0.1:1"],
    );
    t.request("an Origin with TLS in place of none", "GET /v1/runs", &["{cookie}", "Origin: https://{host}"]);
    t.request("two headers Origin", "GET /v1/runs", &["{cookie}", OWN, "Origin: https://evil.example"]);
    t.request(
        "Sec-Fetch-Site: cross-site, with a session",
        "GET /v1/runs",
        &["{cookie}", "Sec-Fetch-Site: cross-site"],
    );
    t.request(
        "Sec-Fetch-Site: same-site, with a session",
        "GET /v1/runs",
        &["{cookie}", "Sec-Fetch-Site: same-site"],
    );
    t.request(
        "a preflight of a foreign page",
        "OPTIONS /v1/runs",
        &["Origin: https://evil.example", "Access-Control-Request-Method: POST"],
    );
}

fn forms(t: &mut Table) {
    t.group("CSRF, methods and types");
    t.form("a form of a page of the session", APPROVE, &["{cookie}", OWN], "csrf={csrf}");
    t.legal();
    t.form("a form without the session's value", APPROVE, &["{cookie}", SAME], "a=1");
    t.form("a form with a wrong value", APPROVE, &["{cookie}", SAME], "csrf=00000000");
    t.form("a form with two values", APPROVE, &["{cookie}", SAME], "csrf={csrf}&csrf=1");
    t.form("a form with the value of another session", APPROVE, &["{cookie}", SAME], "csrf={other}");
    t.form("a form without Origin and Sec-Fetch-Site", APPROVE, &["{cookie}"], "csrf={csrf}");
    t.form(
        "a form that a typed address sends",
        APPROVE,
        &["{cookie}", "Sec-Fetch-Site: none"],
        "csrf={csrf}",
    );
    t.form("a form of a foreign page", APPROVE, &["{cookie}", "Origin: https://evil.example"], "csrf={csrf}");
    t.form("a form of a page without an origin", APPROVE, &["{cookie}", "Origin: null"], "csrf={csrf}");
    for (what, path) in [
        ("a stop without the session's value", "/runs/r1/stop"),
        ("an instruction without the session's value", "/runs/r1/instructions"),
        ("a resumption without the session's value", "/runs/r1/resume"),
        ("a fork without the session's value", "/runs/r1/fork"),
        ("a retry without the session's value", "/runs/r1/retry"),
    ] {
        t.form(what, path, &["{cookie}", SAME], "mode=now&text=a&entry=0&once=1");
    }
    t.form(
        "a stop of a foreign page",
        "/runs/r1/stop",
        &["{cookie}", "Origin: https://evil.example"],
        "csrf={csrf}",
    );
    t.form("a stop without a session", "/runs/r1/stop", &[SAME], "csrf={csrf}");
    let own = ["{cookie}", OWN, FILES];
    let csrf = ("csrf", "{csrf}");
    t.files("a form with files of a page of the session", &own, &[csrf, ("file", "x")]);
    t.legal();
    t.files("a form with files without the session's value", &own, &[("file", "x")]);
    t.files("a form with files with a wrong value", &own, &[("csrf", "00000000")]);
    t.files("a form with files with the value of another session", &own, &[("csrf", "{other}")]);
    t.files("a form with files whose value is not in its first part", &own, &[("file", "x"), csrf]);
    t.files("a form with files whose value is in a name", &own, &[("csrf\"; x=\"{csrf}", "")]);
    t.files(
        "a form with files whose first part is of 300 KiB",
        &own,
        &[("file", &"x".repeat(300 << 10)), csrf],
    );
    t.files(
        "a form with files of a foreign page",
        &["{cookie}", "Origin: https://evil.example", FILES],
        &[csrf],
    );
    t.files("a form with files without Origin and Sec-Fetch-Site", &["{cookie}", FILES], &[csrf]);
    t.files(
        "a form with files without a boundary",
        &["{cookie}", OWN, "Content-Type: multipart/form-data"],
        &[csrf],
    );
    let two = "Content-Type: multipart/form-data; boundary=a; boundary=b1";
    t.files("a form with files with two boundaries", &["{cookie}", OWN, two], &[csrf]);
    t.raw(
        "a form as plain text",
        &of(
            &format!("POST {APPROVE}"),
            &["{cookie}", SAME, "Content-Type: text/plain", "Content-Length: 6"],
            "csrf=1",
        ),
    );
    t.json("JSON with the value in the body alone", APPROVE, &["{cookie}", SAME], "{\"csrf\":\"{csrf}\"}");
    t.request(
        "the value in the query alone",
        &format!("POST {APPROVE}?csrf={{csrf}}"),
        &["{cookie}", SAME, "Content-Length: 0"],
    );
    let of_json = ["{cookie}", SAME, "Content-Type: application/json", "Content-Length: 16"];
    t.raw(
        "a label without the session's value",
        &of("PUT /v1/runs/r2/label", &of_json, "{\"label\":\"good\"}"),
    );
    t.request(
        "a label taken away without the session's value",
        "DELETE /v1/runs/r2/label",
        &["{cookie}", SAME],
    );
    t.form(
        "the form of a label without the session's value",
        "/runs/r2/label",
        &["{cookie}", SAME],
        "label=good",
    );
    t.form(
        "the form of a label of a foreign page",
        "/runs/r2/label",
        &["{cookie}", "Origin: https://evil.example"],
        "csrf={csrf}&label=good",
    );
    t.request("GET on what changes", &format!("GET {APPROVE}"), &[ADMIN]);
    t.request(
        "GET with another method in a header",
        &format!("GET {APPROVE}"),
        &[ADMIN, "X-HTTP-Method-Override: POST"],
    );
    t.request("HEAD on what changes", &format!("HEAD {APPROVE}"), &[ADMIN]);
    t.request("PUT", "PUT /v1/runs", &[ADMIN, "Content-Length: 0"]);
    t.request("PATCH", "PATCH /v1/runs", &[ADMIN, "Content-Length: 0"]);
    t.request("TRACE", "TRACE /v1/runs", &[ADMIN]);
    t.request("a method that is not one", "APPROVE /v1/runs", &[ADMIN]);
    t.request("DELETE on what has no such method", "DELETE /v1/runs", &[ADMIN]);
    t.form("a form where JSON is expected, with a token", "/v1/runs", &[ADMIN], "a=1");
    t.json("JSON that is not JSON", "/v1/runs", &[ADMIN], "{");
}

fn smuggling(t: &mut Table) {
    t.group("Two readings of one request");
    let post = |headers: &[&str], body: &str| {
        let json = "Content-Type: application/json";
        of("POST /v1/runs", &[&[ADMIN, json], headers].concat(), body)
    };
    let chunked = "Transfer-Encoding: chunked";
    t.raw(
        "Content-Length and Transfer-Encoding",
        &post(&["Content-Length: 4", chunked], "2\r\n{}\r\n0\r\n\r\n"),
    );
    t.raw(
        "Transfer-Encoding and Content-Length",
        &post(&[chunked, "Content-Length: 4"], "2\r\n{}\r\n0\r\n\r\n"),
    );
    t.raw("Transfer-Encoding alone", &post(&[chunked], "2\r\n{}\r\n0\r\n\r\n"));
    t.raw(
        "Transfer-Encoding twice",
        &post(&[chunked, "Transfer-Encoding: identity"], "2\r\n{}\r\n0\r\n\r\n"),
    );
    t.raw("Transfer-Encoding: xchunked", &post(&["Transfer-Encoding: xchunked"], "{}"));
    t.raw("a tab before chunked", &post(&["Transfer-Encoding:\tchunked", "Content-Length: 2"], "{}"));
    t.raw("a blank before the colon", &post(&["Transfer-Encoding : chunked", "Content-Length: 2"], "{}"));
    t.raw("two different lengths", &post(&["Content-Length: 2", "Content-Length: 3"], "{} "));
    t.raw("one length twice", &post(&["Content-Length: 2", "Content-Length: 2"], "{}"));
    t.raw("a list of lengths", &post(&["Content-Length: 2, 2"], "{}"));
    t.raw("a length with a sign", &post(&["Content-Length: +2"], "{}"));
    t.raw("a negative length", &post(&["Content-Length: -1"], "{}"));
    t.raw("a length beyond 64 bits", &post(&["Content-Length: 99999999999999999999"], "{}"));
    t.raw(
        "a header that continues on the next line",
        &of("GET /v1/runs", &[ADMIN, "X-A: 1\r\n Transfer-Encoding: chunked"], ""),
    );
    t.raw("a null byte in a header", &of("GET /v1/runs", &[ADMIN, "X-A: 1\u{0}2"], ""));
    t.raw("a bare CR in a header", &of("GET /v1/runs", &[ADMIN, "X-A: 1\rX-B: 2"], ""));
    t.raw("a bare LF behind a header", &of("GET /v1/runs", &[ADMIN, "X-A: 1\nX-B: 2"], ""));
    t.raw("lines that end with LF alone", &of("GET /v1/runs", &[ADMIN], "").replace("\r\n", "\n"));
    t.request("two headers Host, both right", "GET /v1/runs", &[ADMIN, "Host: {host}"]);
    t.request("two headers Host, the second foreign", "GET /v1/runs", &[ADMIN, "Host: evil.example"]);
    t.raw("no Host", "GET /v1/runs HTTP/1.1\r\nAuthorization: Bearer {admin}\r\nConnection: close\r\n\r\n");
    t.request("an absolute target of this server", "GET http://{host}/v1/runs", &[ADMIN]);
    t.request("an absolute target of another server", "GET http://evil.example/v1/runs", &[ADMIN]);
    t.request("CONNECT", "CONNECT evil.example:443", &[ADMIN]);
    t.request("OPTIONS *", "OPTIONS *", &[ADMIN]);
    t.raw("a body on GET", &of("GET /v1/runs", &[ADMIN, "Content-Length: 2"], "{}"));
    t.raw(
        "a request behind a refused one",
        &(of("POST /v1/runs", &[chunked], "0\r\n\r\n").replace("Connection: close\r\n", "")
            + &post(&["Content-Length: 2"], "{}")),
    );
    t.raw("HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    t.raw("HTTP/0.9", "GET /v1/runs\r\n");
    t.raw("HTTP/1.0 without Host", "GET /v1/runs HTTP/1.0\r\nAuthorization: Bearer {admin}\r\n\r\n");
    t.raw("an upgrade to another protocol", &of("GET /v1/secret", &[ADMIN, "Upgrade: h2c"], ""));
    t.raw("bytes that are not HTTP", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\r\n\r\n");
}

fn paths(t: &mut Table) {
    t.group("Paths");
    for (what, path) in [
        ("a path upwards", "/assets/../v1/runs"),
        ("an encoded slash", "/assets/..%2f..%2fetc%2fpasswd"),
        ("an encoded dot", "/assets/%2e%2e/v1/runs"),
        ("encoded twice", "/assets/%252e%252e/v1/runs"),
        ("an overlong slash", "/assets/..%c0%af..%c0%afetc/passwd"),
        ("an encoded null", "/assets/style.css%00.png"),
        ("an encoded line break", "/v1/runs%0d%0aX-A:1"),
        ("a backslash", "/assets/..\\..\\etc"),
        ("an encoded backslash", "/assets/..%5c..%5cetc"),
        ("two slashes", "//v1/runs"),
        ("two slashes and a name", "//evil.example/v1/runs"),
        ("a path with a parameter", "/assets/..;/v1/runs"),
        ("upper case", "/V1/RUNS"),
        ("a slash at the end", "/v1/runs/"),
        ("a page of the machine", "/etc/passwd"),
    ] {
        t.request(what, &format!("GET {path}"), &[ADMIN]);
    }
    t.request("a change of an open path", "POST /healthz", &["Content-Length: 0"]);
    t.request("a path that only begins like an open one", "GET /healthz/v1", &[]);
    t.request("a failure of a route", "GET /v1/panic", &[ADMIN]);
}

fn sizes(t: &mut Table) {
    t.group("Sizes");
    let long = "x".repeat(40 << 10);
    t.request("a header of 40 KiB", "GET /v1/runs", &[ADMIN, &format!("X-A: {long}")]);
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain([ADMIN]).collect();
    t.request("200 headers", "GET /v1/runs", &many);
    t.request("a path of 9 KiB", &format!("GET /v1/{}", &long[..9 << 10]), &[ADMIN]);
    t.request("a query of 40 KiB", &format!("GET /v1/runs?q={long}"), &[ADMIN]);
    t.raw(
        "a body that says it has 1 GiB",
        &of("POST /v1/runs", &[ADMIN, "Content-Type: application/json", "Content-Length: 1073741824"], "{"),
    );
    t.form("a form of 300 KiB", APPROVE, &["{cookie}", SAME], &"x".repeat(300 << 10));
    t.form("a login form of 5 KiB", "/login", &[SAME], &format!("token={}", "x".repeat(5 << 10)));
}

/// What a server has of the placeholders.
struct Names {
    cookie: String,
    csrf: String,
    other: String,
    code: String,
    fresh: String,
}

fn filled(server: &Server, names: &Names, text: &str) -> String {
    let mut text = text.to_owned();
    let port = server.at.port().to_string();
    let hash = loop_server::doors::SecretHash::of(&server.secrets["admin"]).to_string();
    let host = server.at.to_string();
    let Names { cookie, csrf, other, code, fresh } = names;
    let names = [("host", &host), ("port", &port), ("hash", &hash), ("cookie", cookie), ("csrf", csrf)];
    let names = names.into_iter().chain([("other", other), ("code", code), ("fresh", fresh)]);
    for (name, value) in names.chain(server.secrets.iter().map(|(name, secret)| (*name, secret))) {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

#[tokio::test]
async fn only_legal_requests_get_something() {
    let mut rows: Vec<(&'static str, &'static str, String)> = Vec::new();
    let (mut legal, mut wrong) = (0, Vec::new());
    let mut server = Server::start(Setup::default()).await;
    for (at, attack) in table().into_iter().enumerate() {
        // Refused logins are limited, which is a row of its own.
        if at % 8 == 0 {
            server = Server::start(Setup::default()).await;
        }
        let code = server.doors.invite().unwrap().unwrap().reveal().to_owned();
        let cookie = server.request(&format!("GET /login?code={code}"), &[]).await.cookie();
        let csrf = server.request("GET /", &[&cookie]).await.body;
        let (_, other) = server.session().await;
        let fresh = server.doors.invite().unwrap().unwrap().reveal().to_owned();
        let names = Names { cookie, csrf, other, code, fresh };
        let Attack { group, what, bytes, is_legal } = attack;
        let before = server.changes();
        let reply = server.send(filled(&server, &names, &bytes).as_bytes()).await;
        check(&server, what, &reply, is_legal);
        if (200..400).contains(&reply.status) != is_legal {
            wrong.push(format!("{what}: {} {}", reply.status, reply.body));
        }
        if !is_legal {
            let code = server.request(&format!("GET /login?code={}", names.fresh), &[]).await;
            if server.changes() != before || code.status != 303 {
                wrong.push(format!("{what}: changed something, or used a code up"));
            }
        }
        legal += usize::from(is_legal);
        rows.push((group, what, got(&reply)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    rows.extend(slow().await);
    assert!(rows.len() - legal >= 60, "{}", rows.len());
    let page = page(&rows, legal);
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/attacks.md");
    if std::env::var_os("UPDATE_ATTACKS").is_some() {
        std::fs::write(&place, &page).unwrap();
    }
    let shown = std::fs::read_to_string(&place).unwrap_or_default();
    assert_eq!(shown, page, "UPDATE_ATTACKS=1 writes it");
}

fn check(server: &Server, what: &str, reply: &Reply, is_legal: bool) {
    let whole = format!("{:?} {}", reply.headers, reply.body);
    let folder = server.folder.path().display().to_string();
    for leak in ["panicked", "src/", "lgt_secret", "/work/", &folder, "RUST_BACKTRACE", "serde", "column"] {
        assert!(!whole.contains(leak), "{what}: {leak} in {whole}");
    }
    for secret in server.secrets.values() {
        assert!(!whole.contains(secret), "{what}: a token in {whole}");
    }
    assert!(!whole.to_lowercase().contains("access-control"), "{what}: {whole}");
    // What the library itself refuses has no body.
    if reply.status == 0
        || reply.body.is_empty() && !is_legal && reply.header("content-security-policy").is_empty()
    {
        return;
    }
    assert!(reply.header("content-security-policy").starts_with("default-src 'none'"), "{what}: {reply:?}");
    assert_eq!(reply.header("x-content-type-options"), "nosniff", "{what}");
    assert_eq!(reply.header("cache-control"), "no-store", "{what}");
    assert_eq!(reply.header("referrer-policy"), "no-referrer", "{what}");
    if reply.status >= 400
        && !reply.body.is_empty()
        && reply.header("content-type") != "text/html; charset=utf-8"
    {
        assert_eq!(reply.header("content-type"), "application/problem+json", "{what}: {reply:?}");
        assert!(!reply.kind().is_empty(), "{what}: {reply:?}");
    }
}

/// Clients that take their time, and clients that repeat themselves.
async fn slow() -> Vec<(&'static str, &'static str, String)> {
    let short = Duration::from_millis(200);
    let limits = DoorLimits { header_time: 5 * short, body_time: short, ..DoorLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let names = Names {
        cookie: String::new(),
        csrf: String::new(),
        other: String::new(),
        code: String::new(),
        fresh: String::new(),
    };
    let mut rows = Vec::new();
    for (what, bytes) in [
        ("nothing is sent", ""),
        ("headers that do not end", "GET /v1/runs HTTP/1.1\r\nHost: {host}\r\nX-A: "),
        (
            "a body that does not end",
            "POST /v1/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {admin}\r\nContent-Type: application/json\r\n\
             Content-Length: 9\r\n\r\n{",
        ),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(filled(&server, &names, bytes).as_bytes()).await.unwrap();
        rows.push(("Slow and repeated", what, got(&Reply::read(&mut stream).await)));
    }
    let mut last = Reply::default();
    for _ in 0..11 {
        last = server.request("GET /v1/runs", &["Authorization: Bearer lgt_1"]).await;
    }
    rows.push(("Slow and repeated", "the eleventh wrong token within a minute", got(&last)));
    assert_eq!(server.changes(), 0);
    let statuses: Vec<&str> = rows.iter().map(|(_, _, got)| &**got).collect();
    assert_eq!(
        statuses,
        ["closed without an answer", "closed without an answer", "408 too-slow", "429 too-many-logins"]
    );
    rows
}

fn got(reply: &Reply) -> String {
    match (reply.status, reply.kind()) {
        (0, _) => "closed without an answer".to_owned(),
        (status, kind) if kind.is_empty() => match reply.header("content-type") {
            "text/html; charset=utf-8" if status >= 400 => format!("{status}, a page"),
            _ => status.to_string(),
        },
        (status, kind) => format!("{status} {kind}"),
    }
}

fn page(rows: &[(&'static str, &'static str, String)], legal: usize) -> String {
    let attacks = rows.len() - legal;
    let mut page = format!(
        "# Attacks on the server, and what each got\n\n\
         This page shows what the [doors of the server](../how-to/secure-a-server.md) refuse, for operators and auditors.\n\
         A test sends each request over a socket and writes this page: `UPDATE_ATTACKS=1 cargo test -p loop-server \
         --all-features --test it attacks::`.\n\n\
         {attacks} requests are attacks or broken. None of them changes anything, uses a code up or shows a path, a token or a \
         stack. {legal} requests are legal and are marked with \"legal\".\n\
         Each line begins with the status and the kind of the problem document.\n"
    );
    for group in rows.chunk_by(|one, next| one.0 == next.0) {
        let _ = write!(page, "\n## {}\n\n", group[0].0);
        let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
        for (_, what, got) in group {
            let is_legal = got.starts_with('2') || got.starts_with('3');
            let answer = if is_legal { format!("{got} (legal)") } else { got.clone() };
            match answers.iter_mut().find(|(other, _)| *other == answer) {
                Some((_, requests)) => requests.push(what),
                None => answers.push((answer, vec![what])),
            }
        }
        for (answer, requests) in answers {
            let _ = writeln!(page, "- **{answer}**: {}.", requests.join("; "));
        }
    }
    page
}
