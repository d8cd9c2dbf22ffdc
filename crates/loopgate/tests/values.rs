//! A domain that ends with a value: shown to the model, submitted, checked by programs of the domain.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::common::Shell;

/// A domain that ends with a value, which a script checks, after the model was shown it.
fn leads(shell: &Shell, replies: &Value) -> String {
    let file = |name: &str, text: &str| shell.file(&format!("leads/{name}"), text);
    file("replies.json", &replies.to_string());
    let script = "#!/bin/sh\ncase \"$1\" in *acme*) exit 0;; esac\necho '`company` is not in our register; write acme' >&2\nexit 1\n";
    let script = file("check.sh", script);
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let domain = file(
        "loopgate.toml",
        r#"version = 1
name = "leads"
goal = "Take down who wrote."
[protocol]
type = "output"
[models.base]
provider = "scripted"
script = "replies.json"
[output]
name = "save_lead"
description = "Save the lead"
attempts = 2
reflect = true
submit_as = "done"
validate = ["check_lead"]
[output.schema]
type = "object"
required = ["company"]
[output.schema.properties.company]
type = "string"
[tools.check_lead]
kind = "command"
effect = "read"
description = "Checks a lead"
command = { program = "./check.sh", args = ["{output}"] }
[tools.check_lead.parameters.output]
required = true
"#,
    );
    domain.parent().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_value_of_a_domain_folder_is_shown_submitted_and_checked_by_a_program() {
    // S2-4, S2-19, S2-24, S2-103
    let shell = Shell::new();
    let call = |id: &str, name: &str, arguments: Value| json!({ "calls": [{ "id": id, "name": name, "arguments": arguments.to_string() }] });
    let lead = |company: &str| json!({ "company": company });
    let replies = json!({ "version": 1, "replies": [
        call("c1", "save_lead", lead("Acmme")), call("c2", "done", json!({})),
        call("c3", "save_lead", lead("acme")), call("c4", "done", json!({})),
    ] });
    let domain = leads(&shell, &replies);
    let ran = shell.run(&["run", &domain, "--text", "I am with Acme", "--no-save"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("acme"), "{}", ran.out);
    let shown = shell.json(&["show", "last", "--json"]);
    let text = shown.to_string();
    assert!(text.contains("Acmme"), "the value that was shown first: {text}");
    let events = shell.run(&["show", "last", "--events"]).out;
    assert!(events.contains("is not in our register; write acme"), "what the script says is read: {events}");
    // In an eval too.
    shell.file("leads/mail.txt", "I am with Acme");
    let case = json!({ "version": 1, "case_id": "acme", "domain": "..", "item": "../mail.txt", "model": "domain", "expected": {
        "stop_reason": "completed",
        "output": [{ "pointer": "/company", "equals": "acme" }],
    } });
    let case = shell.file("leads/evals/acme.json", &case.to_string());
    let ran = shell.run(&["eval", case.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}
