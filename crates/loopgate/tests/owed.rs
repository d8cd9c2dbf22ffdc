//! An effect that was asked for and did not happen: `partial`, however the run is driven.

use crate::common;

use common::Shell;
use common::server::Server;
use serde_json::json;

use crate::mcp::Client;

const REQUEST: &str = "Set the company of user 42 to EPAM.";

#[test]
fn a_denied_effect_is_partial_however_the_run_is_driven() {
    // T2: exit code 0 means that all that was asked for happened.
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let folder = folder.display().to_string();
    let asks = json!({"calls": [{"name": "update_user", "arguments": {"id": 42, "company": "EPAM"}}]});
    let script = json!({"version": 1, "replies": [asks, {"text": "It is done."}]});
    let model = format!("base=scripted/{}", shell.file("script.json", &script.to_string()).display());
    let with = [&*folder, "--model", &model, "--set", "gate.forbid=[\"update_user\"]"];
    let line = "not done: update_user was denied";

    let ran = shell.run(&[&["run"], &with[..], &["--text", REQUEST]].concat());
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("stopped: completed (partial)") && ran.err.contains(line), "{}", ran.err);
    let run = ran.err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap();
    assert_eq!(shell.json(&["show", run, "--json"])["stop"]["class"], "partial");

    let ran = shell.run_with_input(&[&["chat"], &with[..]].concat(), &format!("{REQUEST}\n/quit\n"));
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains(line), "{}", ran.err);

    let mut client = Client::start(&shell, &with);
    let result = client.call("run", json!({"item": REQUEST}));
    assert_eq!(result["stop"]["class"], "partial", "{result}");
    assert_eq!(client.leave().code, 0);

    let server = Server::start(&shell, &[&with[..], &["--no-save"]].concat());
    let view = server.submitted(&json!({ "item": REQUEST }));
    assert_eq!((&view["state"], &view["class"]), (&json!("ended"), &json!("partial")), "{view}");
    server.end();
}
