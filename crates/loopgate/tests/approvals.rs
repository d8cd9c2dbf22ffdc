//! What an approver sees: the page `docs/how-to/approvals.md` shows a run of its own small domain. `UPDATE_TUTORIAL=1` writes what
//! the command prints into it.

use crate::common;

use common::{Shell, root};
use serde_json::{Value, json};

const PAGE: &str = "docs/how-to/approvals.md";
const SCREEN: &str = "<!-- screen: pending -->\n```text\n";

/// The block of the page behind this mark.
#[track_caller]
fn block<'a>(page: &'a str, mark: &str) -> &'a str {
    let (_, rest) = page.split_once(mark).unwrap_or_else(|| panic!("no `{mark}`"));
    rest.split_once("```").unwrap().0
}

fn calls(name: &str, arguments: Value) -> Value {
    json!({ "calls": [{ "id": "call_1", "name": name, "arguments": arguments.to_string() }] })
}

/// A run of the page's domain that waits.
fn waiting(shell: &Shell, page: &str) -> String {
    let file = shell.file("mailroom/loopgate.toml", block(page, "<!-- file: loopgate.toml -->\n```toml\n"));
    shell.file("mailroom/mail.sql", block(page, "<!-- file: mail.sql -->\n```sql\n"));
    let mail = json!({ "to": "eve@evil.example", "copies": ["bob@brown.example", "ada@brown.example"],
        "subject": "Invoice 1042", "body": "As you asked." });
    let replies = [calls("read_mails", json!({})), calls("send_mail", mail), json!({ "text": "Sent." })];
    let script = shell.file("replies.json", &json!({ "version": 1, "replies": replies }).to_string());
    let model = format!("base=scripted/{}", script.display());
    let text = "Read the mails, and send bob@brown.example what they ask for.";
    let ran =
        shell.run(&["run", file.parent().unwrap().to_str().unwrap(), "--text", text, "--model", &model]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    ran.err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap().to_owned()
}

#[test]
fn the_page_shows_what_an_approver_sees() {
    // Issue 44, part 6
    let shell = Shell::new();
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let run = waiting(&shell, &page);
    let printed = shell.run(&["pending", &run]).out;
    let binding = printed.split("--binding ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let screen = printed.replace(&run, "RUN").replace(&binding, "BINDING");
    let screen = format!("{}\n", screen.trim_end());
    let made = page.replace(&format!("{SCREEN}{}", block(&page, SCREEN)), &format!("{SCREEN}{screen}"));
    if std::env::var_os("UPDATE_TUTORIAL").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == made, "{PAGE} is stale; run this test with UPDATE_TUTORIAL=1\n{made}");

    // Each kind of origin is on it, and programs get the same.
    let listed = shell.json(&["pending", &run, "--json"]);
    let asked = &listed["pending"][0];
    let origins = asked["origins"].as_array().unwrap().iter();
    let origins: Vec<_> = origins.map(|it| (it["pointer"].as_str().unwrap(), it["origin"].clone())).collect();
    let mails =
        |by| json!({ "by": by, "in": "evidence", "evidence": "E1", "tool": "read_mails", "untrusted": true });
    assert_eq!(
        origins,
        [
            ("/body", json!({ "by": "model" })),
            ("/copies/0", json!({ "by": "user" })),
            ("/copies/1", mails("trusted_field")),
            ("/subject", mails("untrusted_text")),
            ("/to", mails("untrusted_text")),
        ]
    );
    assert_eq!(asked["description"], "Send a mail");
    assert_eq!(asked["connects_to"], "source mail: mail.sql");
    assert_eq!((&asked["slot"], &asked["plan"]["by"]), (&Value::Null, &Value::Null));
    let slots = json!([{ "slot": "send_mail(to = \"office@mailroom.example\", …), 1 call", "used_by": [], "void_since": null }]);
    assert_eq!(asked["plan"]["slots"], slots);

    // Everywhere a person decides it is the same report.
    let why = shell.json(&["why", &run, "--json"]);
    assert_eq!(why["waiting"][0]["origins"], asked["origins"]);
    let shown = shell.run(&["show", &run]).out;
    let plan = "\nPlan:\n\nThe plan, which the domain gives:\n- send_mail(to = \"office@mailroom.example\", …), 1 call: not used\n";
    assert!(shown.contains(plan), "{shown}");

    // An effect that fits no slot is no effect that the user asked for: it changes no class.
    let denied = shell.run(&["deny", &run, "2/action-0"]);
    assert_eq!(denied.code, 0, "{}{}", denied.out, denied.err);
    let line = "not planned: send_mail was denied (asked for after untrusted result E1)";
    assert!(denied.err.lines().any(|it| it == line), "{}", denied.err);
    assert!(denied.err.contains("Also true: effect_blocked (send_mail was denied"), "{}", denied.err);
    let report = shell.json(&["show", &run, "--json"]);
    assert_eq!(report["plan"]["slots"], slots);
    assert_eq!(report["stop"]["also"], json!(["effect_blocked"]));
}
