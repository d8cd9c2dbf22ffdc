//! `loopgate mock`: a domain's models over HTTP, asked by a plain client.

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

use common::{Ran, Shell};
use serde_json::{Value, json};

const HELPDESK: &str = "examples/helpdesk";

/// A mock that is running, and its base URL.
pub(crate) struct Mock {
    child: Option<Child>,
    pub(crate) url: String,
}

impl Mock {
    pub(crate) fn start(shell: &Shell, args: &[&str]) -> Self {
        let mut child = shell.command(&[&["mock"], args].concat()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1\n"), "{url}");
        Self { child: Some(child), url: url.trim_end().to_owned() }
    }

    /// What comes back until the server closes the connection.
    fn exchange(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nanthropic-version: 2023-06-01\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn ask(&self, model: &str, stream: bool) -> String {
        let body = json!({"model": model, "stream": stream, "messages": [
            {"role": "system", "content": "You are filtering results."},
            {"role": "user", "content": "Looking for: printer\n## Results\n0: a lamp\n1: a printer\n"},
        ]});
        self.exchange("POST", "/v1/chat/completions", &body.to_string())
    }

    fn end(mut self, signal: &str) -> Ran {
        let child = self.child.take().unwrap();
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Mock {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn body_of(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_domains_models_answer_until_ctrl_c() {
    let shell = Shell::new();
    let mock = Mock::start(&shell, &[HELPDESK]);
    let reply = body_of(&mock.ask("offline-1", false));
    let text = reply["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.contains("\"index\":1") && reply["usage"]["total_tokens"].as_u64() > Some(0), "{reply}");
    let models = body_of(&mock.exchange("GET", "/v1/models", ""));
    assert_eq!(models["data"][0]["id"], "offline-1");
    assert!(mock.ask("gpt\n\u{1b}[31m", false).starts_with("HTTP/1.1 200"));
    assert!(mock.ask("", true).ends_with("\r\n0\r\n\r\n"));
    assert!(mock.exchange("POST", "/v1/chat/completions", "{").starts_with("HTTP/1.1 400"));
    let url = mock.url.clone();
    let ran = mock.end("-INT");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "the URL was all: {}", ran.err);
    let usage = format!("loopgate run {HELPDESK} ITEM --model openai-chat/offline-1 --base-url {url}");
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines[0], usage);
    assert!(lines[2].starts_with("filter offline-1: ") && lines[2].ends_with(" bytes out"), "{}", ran.err);
    assert!(lines[4].starts_with("filter gpt [31m (unknown; offline-1 answers): "), "{}", ran.err);
    assert!(lines[6].ends_with("status 400"), "{}", ran.err);
    assert_eq!(lines.len(), 7, "one line a request: {}", ran.err);
}

#[test]
fn the_command_that_is_printed_runs_where_money_is_limited_and_costs_nothing_on_this_machine() {
    let shell = Shell::new();
    let folder = shell.copy_of(HELPDESK);
    let toml = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, text + "\n[limits]\ncost_usd = 0.05\n").unwrap();
    let mut mock = Mock::start(&shell, &[folder.to_str().unwrap()]);
    let mut printed = String::new();
    BufReader::new(mock.child.as_mut().unwrap().stderr.take().unwrap()).read_line(&mut printed).unwrap();
    let item = common::ticket(1042);
    let mut args: Vec<&str> = printed.split_whitespace().skip(1).collect();
    args.iter_mut().filter(|arg| **arg == "ITEM").for_each(|arg| *arg = &item);
    args.extend(["--no-save", "--progress", "always"]);
    let ran = shell.run(&args);
    assert!(ran.err.contains(" tokens, $0.000000, "), "{}", ran.err);
    assert!(ran.err.contains("price:   openai-chat/offline-1: local server: cost 0 ("), "{}", ran.err);
    mock.end("-INT");
}

#[test]
fn the_name_in_the_request_chooses_the_tier() {
    let shell = Shell::new();
    let tier = |tier: &str, model: &str, text: &str| {
        let replies = json!({"version": 1, "replies": vec![json!({"text": text}); 2]});
        let script = shell.file(&format!("{tier}.json"), &replies.to_string()).display().to_string();
        let settings = [("provider", "scripted"), ("script", script.as_str()), ("model", model)];
        settings.map(|(key, value)| format!("--set=models.{tier}.{key}={value}")).to_vec()
    };
    let settings =
        [tier("selector", "small", "from the selector"), tier("base", "large", "from the base")].concat();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mock = Mock::start(&shell, &[&[HELPDESK, "--quiet", "--chunks", "1"], &settings[..]].concat());
    let stated = |model| body_of(&mock.ask(model, false))["choices"][0]["message"]["content"].clone();
    assert_eq!(
        (stated("small"), stated("large"), stated("none")),
        ("from the selector".into(), "from the base".into(), "from the base".into(),)
    );
    assert!(mock.ask("small", true).contains("\r\n\r\n1\r\nd\r\n1\r\na\r\n"), "a chunk has one byte");
    let exhausted = mock.ask("small", true);
    assert!(exhausted.starts_with("HTTP/1.1 400") && exhausted.contains("script_exhausted"), "{exhausted}");
    let ran = mock.end("-TERM");
    assert_eq!((ran.code, ran.err.lines().count()), (0, 2), "{}", ran.err);
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let shell = Shell::new();
    shell
        .run(&["mock", HELPDESK, "--model", "base=openai-chat/gpt", "--set", "models.base.model=gpt"])
        .fails_with(&["openai-chat"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    shell.run(&["mock", HELPDESK, "--listen", &address]).fails_with(&[&address, "--listen"]);
    for pieces in ["0", "some", "random:x", "seed:1"] {
        let ran = shell.run(&["mock", HELPDESK, "--chunks", pieces]);
        assert!(ran.code == 2 && ran.err.contains("random:SEED"), "{}", ran.err);
    }
    assert_eq!(shell.run(&["mock", HELPDESK, "--listen", "nowhere"]).code, 2);
}
