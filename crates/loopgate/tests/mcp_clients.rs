//! Official MCP clients against `loopgate mcp`: the Python SDK and the command line of the inspector.

use crate::common;
use crate::mcp_http::{Server, TOKEN};

use std::path::PathBuf;
use std::process::Command;

use common::{Ran, Shell};
use serde_json::{Value, json};

const QUESTION: &str = "\n[tools.ask]\nkind = \"question\"\ndescription = \"Ask the user\"\n";

/// A conversation whose first run asks, and whose second takes its time.
fn domain(shell: &Shell) -> (String, String) {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text + QUESTION).unwrap();
    let asks = json!({"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]});
    let replies = json!([asks, {"text": "It is done."}, {"text": "late", "delay_ms": 600_000}]);
    let path = shell.file("replies.json", &json!({"version": 1, "replies": replies}).to_string());
    (folder.display().to_string(), format!("base=scripted/{}", path.display()))
}

fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set; see xtask/src/servers.rs"))
        .into()
}

fn python(shell: &Shell, args: &[&str]) -> String {
    let script = common::root().join("crates/loopgate/tests/clients/python_sdk.py");
    let mut command = Command::new(program("LOOPGATE_MCP_PYTHON"));
    command.arg(script).args(args).current_dir(common::root());
    // The inspector hands HOME on to the server that it starts, and not XDG_STATE_HOME.
    let state = shell.state.path();
    let ran: Ran = command.env("XDG_STATE_HOME", state).env("HOME", state).output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran.out
}

#[track_caller]
fn is_whole(seen: &str, protocol: &str) {
    let expected = format!(
        "protocol {protocol}\n\
         tools answer_question list_runs read_document run start_run stop_run wait_for_run\n\
         state waiting\nprogress True the run waits for a person\nended ended It is done.\nread It is done.\nlisted True\n\
         resource It is done.\nstarted running\nstopped cancelled\nrefused True\n"
    );
    assert_eq!(seen, expected);
}

#[test]
#[ignore = "needs the Python SDK: cargo xtask servers mcp-clients"]
fn the_python_sdk_is_served_over_standard_input_and_output() {
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let shell = Shell::new();
        let (folder, model) = domain(&shell);
        let state = format!("{}/journal.db", shell.state.path().display());
        let loopgate = env!("CARGO_BIN_EXE_loopgate");
        let args = [mode, "stdio", loopgate, "mcp", &folder, "--model", &model, "--journal", &state];
        is_whole(&python(&shell, &args), protocol);
    }
}

#[test]
#[ignore = "needs the Python SDK: cargo xtask servers mcp-clients"]
fn the_python_sdk_is_served_over_http() {
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let shell = Shell::new();
        let (folder, model) = domain(&shell);
        let server = Server::of(&shell, &folder, Some(TOKEN), &["--model", &model]);
        let url = format!("http://{}/mcp", server.address);
        is_whole(&python(&shell, &[mode, "http", &url, TOKEN]), protocol);
        assert_eq!(server.end(), 143);
    }
}

#[track_caller]
fn inspected(shell: &Shell, args: &[&str]) -> Value {
    let mut command = Command::new("node");
    command.arg(program("LOOPGATE_MCP_INSPECTOR")).arg("--cli").args(args).current_dir(common::root());
    // The inspector hands HOME on to the server that it starts, and not XDG_STATE_HOME.
    let state = shell.state.path();
    let ran: Ran = command.env("XDG_STATE_HOME", state).env("HOME", state).output().unwrap().into();
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

#[test]
#[ignore = "needs the inspector: cargo xtask servers mcp-clients"]
fn the_inspector_lists_runs_and_reads_over_both_transports() {
    let shell = Shell::new();
    let server = Server::start(&shell, Some(TOKEN), &[]);
    let (url, header) = (format!("http://{}/mcp", server.address), format!("Authorization: Bearer {TOKEN}"));
    let over_http = [url.as_str(), "--transport", "http", "--header", header.as_str()];
    let over_stdio = [env!("CARGO_BIN_EXE_loopgate"), "mcp", "examples/helpdesk"];
    for target in [&over_http[..], &over_stdio[..]] {
        // An error in a schema ends it with another exit code, and without the list.
        let tools = inspected(&shell, &[target, &["--method", "tools/list", "--strict"]].concat());
        assert_eq!(tools["tools"].as_array().unwrap().len(), 7, "{tools}");
        let item = "item=# The printer is broken\n\nIt prints nothing.";
        let call = ["--method", "tools/call", "--tool-name", "run", "--tool-arg", item];
        let result = inspected(&shell, &[target, &call[..]].concat());
        assert_eq!(result["structuredContent"]["state"], "ended", "{result}");
        let run = result["structuredContent"]["run"].as_str().unwrap();
        let listed = inspected(&shell, &[target, &["--method", "resources/list"]].concat());
        let uri = format!("loopgate://runs/{run}/document.md");
        assert!(listed["resources"].as_array().unwrap().iter().any(|it| it["uri"] == uri), "{listed}");
        let read = inspected(&shell, &[target, &["--method", "resources/read", "--uri", &uri]].concat());
        assert_eq!(read["contents"][0]["text"], result["structuredContent"]["document"], "{read}");
    }
}
