//! The pages that commands write with `--html` (issue 17, part 11): static, whole by themselves, with the figures that the
//! command prints.

use crate::common;

use std::path::Path;

use common::{Shell, ticket};
use loop_testkit::page::inert;
use serde_json::{Value, json};

/// The text that is seen on a page. The page loads nothing and leads nowhere else. `is_still`: it has no script and no link;
/// the pages of runs and backtests have a script of their own, which their policy names by its digest.
#[track_caller]
fn text_of(path: &Path) -> String {
    let html = std::fs::read_to_string(path).unwrap();
    assert!(html.ends_with("</html>\n"), "{html}");
    let is_still = html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\"");
    let has_policy = html.contains("content=\"default-src 'none'; style-src 'sha256-");
    assert!(is_still || has_policy, "{html}");
    let style = html.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).unwrap().0;
    let own = if is_still { [style, ""] } else { [loop_server::pages::STYLE, loop_server::pages::SCRIPT] };
    let page = inert(&html, &own);
    for link in page.all_seen().into_iter().filter_map(|node| node.attribute("href")) {
        // A page that is one file has links within it alone.
        assert!(link.starts_with('#'), "{link}");
    }
    page.seen()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
}

#[test]
fn a_run_is_a_page() {
    let shell = Shell::new();
    let ran = shell.run(&["run", "examples/helpdesk", &ticket(1042)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = shell.state.path().join("run.html");
    let wrote = shell.run(&["show", "last", "--html", page.to_str().unwrap()]);
    let says = format!("wrote {}\n", page.display());
    assert_eq!((wrote.code, wrote.out.as_str(), wrote.err.as_str()), (0, "", says.as_str()));
    let text = text_of(&page);
    let outcome = shell.json(&["show", "last", "--json"]);
    let totals = &outcome["totals"];
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    has(
        &text,
        &[
            &format!("ticket T-1042: {}", word(&outcome["item"]["title"])),
            &format!("run {} of helpdesk", word(&outcome["run"])),
            &format!("{} {}: ", word(&outcome["stop"]["class"]), word(&outcome["stop"]["reason"])),
            &format!("{} Tool calls", totals["model_calls"]),
            &format!("{} Tokens", totals["tool_calls"]),
            // The prompts are those that were sent, rendered again from the journal.
            "You select data-gathering tools",
            "shared with the request before",
        ],
    );
    for section in outcome["document"]["sections"].as_array().unwrap() {
        has(&text, &[&word(&section["heading"])]);
    }
    for action in outcome["actions"].as_array().unwrap() {
        has(&text, &[&word(&action["tool"]), &word(&action["verdict"])]);
    }
    for evidence in outcome["evidence"].as_array().unwrap() {
        has(&text, &[&format!("{} {}", word(&evidence["id"]), word(&evidence["tool"]))]);
    }
    // Only its owner can read it, and the same run is the same page.
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&page).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let again = shell.state.path().join("again.html");
    shell.run(&["show", "last", "--html", again.to_str().unwrap()]);
    assert_eq!(std::fs::read(&page).unwrap(), std::fs::read(&again).unwrap());
    assert_eq!(shell.run(&["show", "last", "--html", "x.html", "--json"]).code, 2);
    shell.run(&["show", "last", "--html", "no/such/x.html"]).fails_with(&["--html no/such/x.html: "]);
}

#[test]
fn a_run_whose_texts_attack_the_page_is_a_page() {
    let shell = Shell::new();
    let reply = json!({ "version": 1, "replies": [
        { "calls": [{ "name": "<script>", "arguments": { "x": "</td><img src=x onerror=y>" } }] },
        { "text": "# <b>\n[x](javascript:alert(1))\n```\n</pre><script>\n```\n\u{202e}![a](http://a.example/p.png)" },
    ] });
    let script = shell.file("script.json", &reply.to_string());
    let model = format!("base=scripted/{}", script.display());
    shell.run(&["run", "examples/crm", "--text", "</title><script>alert(1)</script>", "--model", &model]);
    let page = shell.state.path().join("run.html");
    shell.run(&["show", "last", "--html", page.to_str().unwrap()]);
    has(
        &text_of(&page),
        &[
            "</title><script>alert(1)</script>",
            "[x](javascript:alert(1))",
            "[U+202E]![a](http://a.example/p.png)",
        ],
    );
}

#[test]
fn the_report_of_a_run_answers_an_auditor_on_one_page() {
    let shell = Shell::new();
    let text = "Set the company of user 42 to <script>alert(1)</script>\u{202e}, update_user 42 EPAM";
    shell.run(&["run", "examples/crm", "--text", text]);
    let run = shell.run(&["runs"]).out.split_whitespace().next().unwrap().to_owned();
    let waiting = shell.run(&["report", "last"]);
    assert_eq!(waiting.code, 0, "{}", waiting.err);
    has(
        &waiting.out,
        &[
            "it waits for a person",
            "update_user: waits, approved by 0 of 1",
            "update_user (write_idempotent): waiting",
            "not ended, last entry 20",
        ],
    );
    let binding = waiting.out.split_once("binding ").unwrap().1.lines().next().unwrap();
    // It is the one that the approver is shown.
    assert!(shell.run(&["pending"]).out.contains(&format!("--binding {}", &binding[..12])));
    let approved = shell.run(&["approve", &run, "1/action-0"]);
    assert_eq!(approved.code, 0, "{}", approved.err);
    let printed = shell.run(&["report", &run[..16]]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let json = shell.json(&["report", "last", "--json"]);
    assert_eq!(
        (&json["verify"]["ok"], &json["outcome"]["stop"]["reason"]),
        (&true.into(), &"completed".into())
    );
    let parts = [
        "Why it stopped:\n  completed (answered)",
        "base offline offline-1: $0.000000, ",
        "1/action-0 update_user (write_idempotent): executed\n    target: source crm: crm.sql\n",
        " UTC, 0",
        "\n    ended 20",
        "\n    limits.passes: 2 of ",
        "\n    limits.tool_calls: 1 of ",
        "\n    limits.cost_usd: $0.000000 of $",
        "\n    price of a million tokens: input $0.000000, output $0.000000\n",
        "\n    a person can be asked; ",
        "\n    update_user: write_idempotent: asks: ",
        "\n    decided: approved by an unverified account\n",
        "1/action-0 update_user: approved at ",
        "approved by an unverified account at ",
        &format!("binding {binding}"),
        "\"id\":42",
        "E1 update_user: ok",
        "\n  ok: ",
    ];
    has(&printed.out, &parts);
    let page = shell.state.path().join("report.html");
    let wrote = shell.run(&["report", "last", "--html", page.to_str().unwrap()]);
    assert_eq!((wrote.code, wrote.out.as_str()), (0, ""), "{}", wrote.err);
    has(&text_of(&page), &["<script>alert(1)</script>[U+202E]", "Who approved what", binding, "update_user"]);
}

#[test]
fn a_denied_effect_is_nothing_that_was_read() {
    let shell = Shell::new();
    let text = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";
    shell.run(&["run", "examples/crm", "--text", text]);
    let run = shell.run(&["runs"]).out.split_whitespace().next().unwrap().to_owned();
    shell.run(&["deny", &run, "3/action-0", "--why", "not today"]);
    let printed = shell.run(&["report", "last"]).out;
    let (_, read) = printed.split_once("What it read:").unwrap();
    assert!(read.contains("search_user: ok") && !read.contains("update_user"), "{read}");
    has(
        &printed,
        &[
            "update_user (write_idempotent): denied",
            "decided: a person denied it: not today",
            "denied by a person whose name is not recorded",
        ],
    );
}

#[test]
fn the_report_of_a_damaged_run_has_what_can_be_read_and_the_fault() {
    let shell = Shell::new();
    shell.run(&["run", "examples/crm", "--text", "search_user Bob, get_user_by_id 42"]);
    let path = shell.state.path().join("loopgate/journal.db");
    let sql = |text: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(text).unwrap();
    sql("DROP TRIGGER IF EXISTS entries_are_not_changed; UPDATE entries SET event = '{' WHERE seq = 6");
    let page = shell.state.path().join("report.html");
    shell.run(&["report", "last", "--html", page.to_str().unwrap()]);
    let printed = shell.run(&["report", "last"]);
    let json = shell.json(&["report", "last", "--json"]);
    assert_eq!((printed.code, &json["verify"]["ok"], &json["outcome"]), (1, &false.into(), &Value::Null));
    for text in [&printed.out, &text_of(&page)] {
        has(text, &["search_user Bob", "it has not ended", "not whole: 6 entries", "put an undamaged copy"]);
    }
    sql("PRAGMA foreign_keys = OFF; UPDATE runs SET spec = '{'");
    let printed = shell.run(&["report", "last"]);
    assert_eq!(printed.code, 1, "{}", printed.err);
    has(&printed.out, &["Whether the record is whole", "not whole: 0 entries"]);
}

#[test]
fn a_run_that_has_not_ended_is_a_page() {
    let shell = Shell::new();
    let script = json!({ "version": 1, "replies": [
        { "calls": [{ "name": "update_user", "arguments": { "user_id": "u1", "status": "inactive" } }] }, { "text": "Done." },
    ] });
    let script = shell.file("script.json", &script.to_string());
    let model = format!("base=scripted/{}", script.display());
    let ran = shell.run(&["run", "examples/crm", "--text", "Deactivate u1.", "--model", &model]);
    let page = shell.state.path().join("run.html");
    let wrote = shell.run(&["show", "last", "--html", page.to_str().unwrap()]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    let text = text_of(&page);
    has(&text, &["Deactivate u1.", "update_user"]);
    assert_eq!(text.contains("waits for a person"), ran.code == 5, "{text}");
}

#[test]
fn an_eval_is_a_page() {
    let shell = Shell::new();
    let page = shell.state.path().join("eval.html");
    let args = ["eval", "examples/handbook", "--html", page.to_str().unwrap()];
    let ran = shell.run(&args);
    let text = text_of(&page);
    let passed = ran.out.lines().find_map(|line| line.strip_prefix("passed ")).unwrap().trim().to_owned();
    has(&text, &[&format!("{passed} runs passed"), "cites-what-failed", "own"]);
    for metric in ["completion", "correct stop reason", "invalid actions", "replay"] {
        let line = ran.out.lines().find(|line| line.starts_with(metric)).unwrap();
        has(&text, &[&line.split_whitespace().collect::<Vec<_>>().join(" ")]);
    }
}

#[test]
fn an_attack_is_a_page() {
    let shell = Shell::new();
    let page = shell.state.path().join("redteam.html");
    let args = [
        "redteam",
        "examples/crm",
        "--scenario",
        "one_run",
        "--each",
        "1",
        "--runs",
        "5",
        "--html",
        page.to_str().unwrap(),
    ];
    let ran = shell.run(&args);
    let text = text_of(&page);
    has(
        &text,
        &["Attacks on crm", if ran.code == 0 { "Every guard worked" } else { "A guard did not work" }],
    );
    let rows: Vec<&str> =
        ran.out.lines().filter(|line| line.starts_with("one_run") || line.starts_with("all")).collect();
    assert!(rows.len() > 3, "{}", ran.out);
    for row in rows {
        has(&text, &[&row.split_whitespace().collect::<Vec<_>>().join(" ")]);
    }
}

/// What a server answers: status line and headers, and body.
#[cfg(feature = "server")]
fn asked(address: &str, path: &str, headers: &str) -> (String, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

// Part 9: the pages over the local journal. K15: a code that opens them once, and nothing without it.
#[cfg(feature = "server")]
#[test]
fn view_opens_the_pages_over_the_local_journal_once() {
    use std::io::{BufRead, BufReader};
    let shell = Shell::new();
    shell.run(&["run", "examples/helpdesk", &ticket(1042)]);
    let mut child = shell.command(&["view", "last"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let [open, then] = [lines.next(), lines.next()].map(|line| line.unwrap().unwrap());
    let login = open.strip_prefix("open:    http://").unwrap();
    let (address, login) = login.split_once('/').unwrap();
    let run = then.strip_prefix(&format!("then:    http://{address}")).unwrap();
    // Without a session a person is told what to do, in the words of the command that they started.
    let (head, body) = asked(address, "/", "Accept: text/html\r\n");
    assert!(head.starts_with("HTTP/1.1 401") && body.contains("`loopgate view`"), "{head}\n{body}");
    let (head, _) = asked(address, &format!("/{login}"), "");
    assert!(head.starts_with("HTTP/1.1 303"), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert!(asked(address, &format!("/{login}"), "").0.starts_with("HTTP/1.1 403"), "a code opens once");
    for (path, part) in [
        ("/".to_owned(), "T-1042"),
        (run.to_owned(), "data-ended"),
        (format!("{run}?at=3"), "value=\"3\""),
        (format!("{run}/approve"), "Nothing waits in this run."),
        (format!("/compare?a={0}&b={0}", run.rsplit('/').next().unwrap()), "Nothing differs."),
    ] {
        let (head, body) = asked(address, &path, &cookie);
        assert!(head.starts_with("HTTP/1.1 200") && body.contains(part), "{path}: {head}\n{body}");
        assert!(head.contains("script-src 'self'") && !body.contains("<style"), "{path}: {head}");
    }
    let (head, _) = asked(address, "/runs/nothing", &cookie);
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    let (head, body) = asked(address, "/assets/page.js", "");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("use strict"), "{head}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    shell.run(&["view", "--listen", "0.0.0.0:0"]).fails_with(&["other machines reach this address"]);
}
