//! Checks of a document from the domain file to `why`: what is asked, what it costs, and what is reported.

use std::os::unix::fs::PermissionsExt;

use crate::common::Shell;
use serde_json::json;

const DOMAIN: &str = r#"
version = 1
name = "shop"
goal = "Say when the shop opens"

[models.base]
provider = "scripted"
script = "replies.json"

[models.selector]
provider = "scripted"
script = "second.json"

[gate]
second_opinion = { when = "always" }
revision_passes = 0

[[section]]
id = "answer"
heading = "Answer"
required = true
verify = true
"#;

/// A shop whose second model gives this reply.
fn shop(domain: &str, second: &str) -> (Shell, String, String) {
    let shell = Shell::new();
    let contract = json!({
        "nonce": "{{nonce}}", "analysis_confidence": "high", "confidence_reason": "sure", "ai_actions": [],
    });
    let reply = format!("## Answer\n\nAt nine [E0].\n\n```json\n{contract}\n```");
    let script = |replies: serde_json::Value| json!({ "version": 1, "replies": replies }).to_string();
    shell.file("shop/loopgate.toml", domain);
    shell.file("shop/replies.json", &script(json!([{ "for": "main", "text": reply }])));
    shell.file("shop/second.json", &script(json!([{ "for": "opinion", "text": second }])));
    let item = shell.file("shop/item.md", "# When does the shop open?\n\nThe sign says nine.\n");
    let folder = shell.state.path().join("shop").display().to_string();
    (shell, folder, item.display().to_string())
}

#[test]
fn a_second_model_confirms_or_withholds_and_everything_tells() {
    // Issue 19, part 6.
    for (reply, reason, result, words) in [
        ("{{nonce}}: yes", "confident", "passed", "passed after pass 1"),
        ("{{nonce}}: no", "evidence_missing", "failed", "second_opinion on answer: it says no"),
        ("{{nonce}}: cannot tell", "evidence_missing", "failed", "second_opinion on answer: it cannot tell"),
        ("yes", "evidence_missing", "failed", "second_opinion on answer: it cannot tell"),
    ] {
        let (shell, folder, item) = shop(DOMAIN, reply);
        let outcome = shell.json(&["run", &folder, &item, "--json", "--no-save"]);
        assert_eq!(outcome["stop"]["reason"], reason, "{outcome:#}");
        let checks = &outcome["checks"];
        assert_eq!((checks[0]["pass"].as_u64(), checks[0]["result"].as_str()), (Some(1), Some(result)));
        assert_eq!(outcome["totals"]["model_calls"], 2, "{outcome:#}");
        let id = outcome["run"].as_str().unwrap();
        let why = shell.run(&["why", id]);
        assert!(why.out.contains(words), "{}", why.out);
        assert_eq!(shell.json(&["why", id, "--json"])["checks"], *checks);
        let show = shell.run(&["show", id]);
        assert!(show.out.contains(words), "{}", show.out);
        assert!(show.out.contains("1/check (selector)"), "{}", show.out);
        assert_eq!(shell.run(&["verify", id]).code, 0);
        if reason != "confident" {
            assert!(outcome["missing"][0].as_str().unwrap().contains("section `answer`"), "{outcome:#}");
        }
    }
}

#[test]
fn a_second_model_that_fails_withholds_and_the_terminal_says_so() {
    let (shell, folder, item) = shop(DOMAIN, "x");
    shell.file("shop/second.json", "{\"version\": 1, \"replies\": []}");
    let ran = shell.run(&["run", &folder, &item, "--no-save"]);
    assert!(
        ran.err.contains("evidence_missing") || ran.out.contains("evidence_missing"),
        "{}{}",
        ran.out,
        ran.err
    );
    let why = shell.json(&["why", "last", "--json"]);
    assert_eq!(
        (&why["checks"][0]["result"], &why["checks"][0]["by"]),
        (&json!("broken"), &json!("second_opinion"))
    );
}

#[test]
fn a_domain_that_could_never_ask_is_refused() {
    for (from, to, part) in [
        ("verify = true", "verify = false", "no section is marked, so it is never asked for; "),
        ("when = \"always\" }", "when = \"ungrounded\" }\ngrounding = \"off\"", "so it is never asked for; "),
        ("when = \"always\"", "when = \"sometimes\"", "`sometimes`"),
        ("when = \"always\"", "tier = \"cheap\"", "`cheap`"),
    ] {
        let (shell, folder, item) = shop(&DOMAIN.replace(from, to), "x");
        shell.run(&["run", &folder, &item]).fails_with(&["loopgate.toml:", part]);
    }
    let (shell, folder, _) = shop(&DOMAIN.replace("second_opinion = { when = \"always\" }", ""), "x");
    let check = shell.run(&["domain", "check", &folder]);
    assert!(
        check.out.contains("`answer` is marked `verify`")
            || check.err.contains("`answer` is marked `verify`"),
        "{}{}",
        check.out,
        check.err
    );
}

/// A shop whose documents a program of the domain checks.
const CHECKED: &str = r#"
version = 1
name = "shop"
goal = "Say when the shop opens"

[models.base]
provider = "scripted"
script = "replies.json"

[gate]
validators = ["check_hour"]

[tools.check_hour]
kind = "command"
effect = "read"
description = "Checks that the document names the hour"
when = "never by the model"
command = { program = "./check", stdin = "{document}" }

[tools.check_hour.parameters.document]
required = true

[[section]]
id = "answer"
heading = "Answer"
required = true
"#;

/// The shop with this domain, and what the program does.
fn checked_shop(domain: &str, program: &str) -> (Shell, String, String) {
    let (shell, folder, item) = shop(domain, "x");
    let contract = json!({
        "nonce": "{{nonce}}", "analysis_confidence": "high", "confidence_reason": "sure", "ai_actions": [],
    });
    let reply = |text: &str| json!({ "for": "main", "text": format!("## Answer\n\n{text}\n\n```json\n{contract}\n```") });
    let script = json!({ "version": 1, "replies": [reply("At eight [E0]."), reply("At nine [E0].")] });
    shell.file("shop/replies.json", &script.to_string());
    let program = shell.file("shop/check", &format!("#!/bin/sh\n{program}\n"));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o700)).unwrap();
    (shell, folder, item)
}

#[test]
fn a_tool_of_the_domain_checks_the_document_before_a_confident_end() {
    // Issue 41, part 4: it accepts, it says what is lacking and the model revises, or it breaks and nothing is confident.
    let says_nine = "grep -q nine || { echo 'name the hour' >&2; exit 1; }";
    for (program, reason, passes, results) in [
        ("cat > /dev/null", "confident", 1, vec!["passed"]),
        (says_nine, "confident", 2, vec!["failed", "passed"]),
        ("cat > /dev/null; exit 1", "evidence_missing", 2, vec!["failed", "failed"]),
        ("sleep 5", "evidence_missing", 1, vec!["broken"]),
    ] {
        let domain = CHECKED.replace("when = ", "timeout_ms = 700\nwhen = ");
        let (shell, folder, item) = checked_shop(&domain, program);
        let outcome = shell.json(&["run", &folder, &item, "--json", "--no-save"]);
        assert_eq!(
            (&outcome["stop"]["reason"], &outcome["totals"]["passes"]),
            (&json!(reason), &json!(passes))
        );
        let checks = outcome["checks"].as_array().unwrap();
        assert_eq!(
            checks.iter().map(|it| it["result"].as_str().unwrap()).collect::<Vec<_>>(),
            results,
            "{program}"
        );
        // No call of the model is one of it, and what it said is recorded.
        assert_eq!(outcome["totals"]["tool_calls"], 0);
        assert_eq!(shell.run(&["verify", "last"]).code, 0);
        if program == says_nine {
            assert!(
                checks[0]["lacks"][0]["message"].as_str().unwrap().contains("name the hour"),
                "{outcome:#}"
            );
        }
    }
}

#[test]
fn a_tool_that_cannot_check_documents_is_refused() {
    for (from, to, part) in [
        ("effect = \"read\"", "effect = \"write_idempotent\"", "a check changes nothing"),
        (
            "[tools.check_hour.parameters.document]",
            "[tools.check_hour.parameters.text]",
            "the text `document`",
        ),
        ("validators = [\"check_hour\"]", "validators = [\"check_our\"]", "`check_our`"),
        (
            "validators = [\"check_hour\"]",
            "validators = [\"check_hour\"]\nrequired_tools = [\"check_hour\"]",
            "required as well",
        ),
    ] {
        let domain = CHECKED
            .replace(from, to)
            .replace("{document}", if to.contains(".text]") { "{text}" } else { "{document}" });
        let (shell, folder, item) = checked_shop(&domain, "exit 0");
        shell.run(&["run", &folder, &item]).fails_with(&["loopgate.toml:", part]);
    }
}
