//! What no mock of ours can show: official SDKs against `loopgate mock`, and a real model of 98 MB behind its own server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common;
use crate::mock::Mock;

use common::{Ran, Shell};
use serde_json::Value;

fn python(variable: &str, script: &str) -> Command {
    let program: PathBuf = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set; see xtask/src/servers.rs"))
        .into();
    let mut command = Command::new(program);
    command.arg(common::root().join("crates/loopgate/tests/clients").join(script));
    command
}

/// A domain of a template.
fn made_of(shell: &Shell, template: &str) -> String {
    let folder = shell.state.path().join(template).display().to_string();
    let made = shell.run(&["init", &folder, "--template", template, "--yes"]);
    assert_eq!(made.code, 0, "{}", made.err);
    folder
}

/// What a client of SDKs prints of its exchanges with a mock: a line for each.
fn exchanged(mut client: Command) -> usize {
    let shell = Shell::new();
    let folder = made_of(&shell, "agent");
    let mock = Mock::start(&shell, &[&folder, "--quiet"]);
    let ran: Ran = client.arg(&mock.url).output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran.out.lines().filter(|line| !line.is_empty()).count()
}

// Issue 43, P9
#[test]
#[ignore = "needs the SDKs of OpenAI, Anthropic, Google and Mistral: cargo xtask servers sdks"]
fn the_official_sdks_are_served_over_all_protocols() {
    assert_eq!(exchanged(python("LOOPGATE_SDKS_PYTHON", "vendor_sdks.py")), 48);
}

// Issue 43, P9
#[test]
#[ignore = "needs the SDKs of OpenAI, Anthropic, Google and Vercel: cargo xtask servers sdks"]
fn the_official_sdks_of_javascript_are_served_over_all_protocols() {
    let modules = std::env::var_os("LOOPGATE_SDKS_MODULES");
    let mut client = Command::new("node");
    client.arg(common::root().join("crates/loopgate/tests/clients/vendor_sdks.mjs"));
    client.arg(modules.expect("LOOPGATE_SDKS_MODULES is not set; see xtask/src/servers.rs"));
    assert_eq!(exchanged(client), 37);
}

/// A server of a real model, and its URL.
struct RealModel {
    child: Child,
    url: String,
}

impl RealModel {
    fn start() -> Self {
        let mut command = python("LOOPGATE_MODEL_PYTHON", "real_model.py");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { child, url: format!("{}/v1", url.trim_end()) }
    }
}

impl Drop for RealModel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// Issue 43, P10: 135 million parameters say nothing that makes sense, and are as slow as a machine without a GPU.
#[test]
#[ignore = "needs a model and its server: cargo xtask servers model"]
fn a_real_model_streams_answers_and_ends_by_the_gate() {
    let model = RealModel::start();
    let shell = Shell::new();
    let run = |template: &str, item: &str| -> Value {
        let folder = made_of(&shell, template);
        let item = format!("{folder}/items/{item}");
        let (base, selector) = (format!("base={}", model.url), format!("selector={}", model.url));
        let mut args = vec!["run", &folder, &item, "--json", "--set", "limits.cost_usd=none"];
        args.extend(["--set", "limits.output_tokens=120", "--set", "limits.passes=2"]);
        args.extend(["--model", "base=llama-cpp/smol", "--base-url", &base]);
        args.extend(["--model", "selector=llama-cpp/smol", "--base-url", &selector]);
        let ran = shell.run(&args);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
    };
    // Each ends by itself, says why, and names what it used. A text that is no document, and one in place of a value, is no
    // answer; in a conversation it is one.
    for (template, item, classes) in [
        ("extract", "message.md", &["failed", "partial"][..]),
        ("documents", "question.md", &["failed", "partial"]),
        ("agent", "request.md", &["answered", "failed", "partial"]),
    ] {
        let outcome = run(template, item);
        let class = outcome["stop"]["class"].as_str().unwrap();
        assert!(classes.contains(&class), "{template}: {outcome}");
        assert!(outcome["totals"]["tokens"].as_u64().unwrap() > 0, "{outcome}");
    }
}
