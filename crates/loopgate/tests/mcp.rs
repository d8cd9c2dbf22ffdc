//! `loopgate mcp` over standard input and output: JSON lines in, JSON lines out, and nothing else.

use crate::common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Ran, Shell, ticket};
use serde_json::{Value, json};

const REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

pub struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    pub notifications: Vec<Value>,
}

impl Client {
    /// A client that has begun.
    #[track_caller]
    pub fn start(shell: &Shell, args: &[&str]) -> Self {
        let mut client = Self::silent(shell, args);
        let reply = client.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}),
        );
        assert_eq!(reply["result"]["protocolVersion"], "2025-11-25", "{reply}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub fn silent(shell: &Shell, args: &[&str]) -> Self {
        let mut child = shell.command(&[&["mcp"], args].concat()).stdin(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, next: 0, notifications: Vec::new() }
    }

    pub fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    pub fn send_line(&mut self, line: &[u8]) {
        let to = self.to.as_mut().unwrap();
        to.write_all(line).unwrap();
        to.write_all(b"\n").unwrap();
    }

    #[track_caller]
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// The response to a request; notifications before it are kept.
    #[track_caller]
    pub fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            assert!(message.get("id").is_none(), "{message}");
            self.notifications.push(message);
        }
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.response(id)
    }

    /// What a tool returns.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let reply = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(reply.get("error").is_none(), "{reply}");
        let result = &reply["result"];
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// The one line of a tool that refuses.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &reply["result"];
        assert_eq!(result["isError"], true, "{reply}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    /// Closes its end, and waits for the server's.
    pub fn leave(mut self) -> Ran {
        drop(self.to.take());
        self.child.wait_with_output().unwrap().into()
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

fn item(id: u32) -> Value {
    serde_json::from_str(&std::fs::read_to_string(common::root().join(ticket(id))).unwrap()).unwrap()
}

/// A model that takes its time: a run with it is under way until it is stopped.
fn slow(shell: &Shell) -> String {
    let late = json!({"text": "late", "delay_ms": 600_000});
    let replies = json!({"version": 1, "replies": [late, late, late, late]});
    let path = shell.file("slow.json", &replies.to_string());
    format!("base=scripted/{}", path.display())
}

fn script(shell: &Shell, replies: &Value) -> String {
    let path = shell.file("replies.json", &json!({"version": 1, "replies": replies}).to_string());
    format!("base=scripted/{}", path.display())
}

/// The people register with one more tool, which asks.
fn asking(shell: &Shell, more: &str) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text + more).unwrap();
    folder
}

const QUESTION: &str = "\n[tools.ask]\nkind = \"question\"\ndescription = \"Ask the user\"\n";

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_work_item_becomes_a_document_with_progress_and_a_resource() {
    let shell = Shell::new();
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    let tools = client.request("tools/list", json!({}));
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(
        names,
        ["answer_question", "list_runs", "read_document", "run", "start_run", "stop_run", "wait_for_run"]
    );
    for tool in tools["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        assert!(!tool.to_string().contains("\"format\":"), "validators of JSON Schema know no sizes: {tool}");
    }
    for method in ["prompts/list", "prompts/get", "completion/complete", "logging/setLevel"] {
        let params = json!({"name": "x", "level": "info", "ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}});
        let reply = client.request(method, params);
        assert_eq!(reply["error"]["code"], -32601, "what is not declared is not there: {method} {reply}");
    }
    let uri = "loopgate://runs/none/document.md";
    let reply = client.request("resources/read", json!({ "uri": uri }));
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["uri"]),
        (&json!(-32002), &json!(uri)),
        "{reply}"
    );
    let params = json!({"name": "run", "arguments": {"item": item(1042)}, "_meta": {"progressToken": "p"}});
    let reply = client.request("tools/call", params);
    let result = &reply["result"]["structuredContent"];
    assert_eq!(
        (&result["state"], &result["stop"]["class"]),
        (&json!("ended"), &json!("answered")),
        "{reply}"
    );
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Findings") && text.contains("stopped: "), "{text}");
    let progress: Vec<_> =
        client.notifications.iter().filter(|it| it["method"] == "notifications/progress").collect();
    assert!(!progress.is_empty());
    let steps: Vec<_> = progress.iter().map(|it| it["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
    assert!(progress.iter().all(|it| it["params"]["progressToken"] == "p"));
    // The same document by every way, and the same as the command shows.
    let run = result["run"].as_str().unwrap().to_owned();
    let listed = client.request("resources/list", json!({}));
    let uri = format!("loopgate://runs/{run}/document.md");
    assert!(listed["result"]["resources"].as_array().unwrap().iter().any(|it| it["uri"] == uri), "{listed}");
    let read = client.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["text"], result["document"]);
    let uri = format!("loopgate://runs/{run}/outcome.json");
    let read = client.request("resources/read", json!({ "uri": uri }));
    let outcome: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(outcome["caller"], "MCP client tester 1");
    let ran = client.leave();
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(shell.run(&["show", &run]).out.contains(result["document"].as_str().unwrap().trim()));
    // A server that is started again finds it.
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    let again = client.call("read_document", json!({"run": run, "evidence": true}));
    assert_eq!(again["document"], result["document"]);
    assert!(!again["evidence"].as_array().unwrap().is_empty());
    // Runs of another domain in the same journal are not shown.
    let mut other = Client::start(&shell, &["examples/crm"]);
    assert_eq!(other.call("list_runs", json!({}))["runs"], json!([]));
    assert!(other.refused("read_document", json!({"run": run})).contains("no run of this domain"));
}

#[test]
fn an_action_that_needs_an_approval_is_shown_and_cannot_be_approved() {
    // S4-36, K8: the model that calls may be the one that was fooled.
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let mut client = Client::start(&shell, &[shown(&folder)]);
    // What a person journals alone, is resumed here.
    let result = client.call("run", json!({"item": REQUEST, "wait_ms": 1_500}));
    let run = result["run"].as_str().unwrap();
    let action = result["waiting"][0]["action"].as_str().unwrap();
    assert_eq!(shell.run(&["deny", run, action, "--no-wait"]).code, 0);
    let result = client.call("wait_for_run", json!({"run": run}));
    assert_eq!(result["state"], "ended", "{result}");
    let result = client.call("run", json!({"item": REQUEST, "wait_ms": 1_500}));
    assert_eq!(result["state"], "waiting", "{result}");
    let run = result["run"].as_str().unwrap().to_owned();
    let asked = &result["waiting"][0];
    assert_eq!((&asked["tool"], &asked["question"]), (&json!("update_user"), &json!(false)));
    let refused =
        client.refused("answer_question", json!({"run": run, "action": asked["action"], "answer": "yes"}));
    assert!(refused.contains("an MCP client cannot give"), "{refused}");
    assert!(result["next"].as_str().unwrap().contains("loopgate pending"), "{result}");
    // A person approves with the command, in another process, and the client hears of it.
    let waiting = client.ask("tools/call", json!({"name": "wait_for_run", "arguments": {"run": run}}));
    let ran = shell.run(&["approve", &run, asked["action"].as_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let reply = client.response(waiting);
    let result = &reply["result"]["structuredContent"];
    let answer = result["answer"].as_str().unwrap();
    assert!(result["state"] == "ended" && answer.ends_with("company EPAM"), "{reply}");
}

#[test]
fn a_question_is_answered_in_the_name_of_the_client() {
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    let asks = json!({"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]});
    let model = script(&shell, &json!([asks, {"text": "It is done."}, asks, {"text": "Done again."}]));
    let mut client = Client::start(&shell, &[shown(&folder), "--model", &model]);
    let result = client.call("run", json!({"item": REQUEST}));
    assert_eq!(result["state"], "waiting", "{result}");
    let (run, action) = (result["run"].clone(), result["waiting"][0]["action"].clone());
    for (answer, part) in [("  ", "blank"), (&*"x".repeat(70_000), "longer than")] {
        let refused =
            client.refused("answer_question", json!({"run": run, "action": action, "answer": answer}));
        assert!(refused.contains(part), "{refused}");
    }
    let refused =
        client.refused("answer_question", json!({"run": run, "action": "9/action-9", "answer": "x"}));
    assert!(refused.contains("what waits: 1/action-0"), "{refused}");
    client.call("answer_question", json!({"run": run, "action": action, "answer": "the one at EPAM"}));
    let result = client.call("wait_for_run", json!({"run": run}));
    assert_eq!((&result["state"], &result["answer"]), (&json!("ended"), &json!("It is done.")), "{result}");
    let outcome = shell.json(&["show", run.as_str().unwrap(), "--json"]);
    let text = outcome["people"]["requested"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the one at EPAM") && text.contains("MCP client tester 1"), "{text}");
    let refused = client.refused("answer_question", json!({"run": run, "action": action, "answer": "again"}));
    assert!(refused.contains("what waits: nothing"), "{refused}");
}

#[test]
fn where_items_are_not_trusted_an_answer_of_a_client_is_not_either() {
    // K8: an answer authorises the values in it.
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    let asks = json!({"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]});
    let model = script(&shell, &json!([asks, {"text": "It is done."}]));
    let args = [shown(&folder), "--model", &model, "--set", "gate.item_untrusted=true"];
    let mut client = Client::start(&shell, &args);
    let result = client.call("run", json!({"item": REQUEST}));
    let arguments = json!({"run": result["run"], "action": result["waiting"][0]["action"], "answer": "Bob"});
    let refused = client.refused("answer_question", arguments);
    assert!(
        refused.contains("does not trust its work items") && refused.contains("loopgate answer"),
        "{refused}"
    );
}

#[test]
fn what_is_wrong_is_answered_and_the_server_goes_on() {
    let shell = Shell::new();
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    for (arguments, part) in [
        (json!({}), "missing field `item`"),
        (json!({"item": "x", "passes": 99}), "unknown field `passes`"),
        (json!({"item": 5}), "arguments:"),
        (json!({"item": "  "}), "empty"),
        (json!({"item": {}}), "title"),
        (json!({"item": "x", "wait_ms": -1}), "arguments:"),
    ] {
        let refused = client.refused("run", arguments.clone());
        assert!(refused.contains(part), "{arguments}: {refused}");
    }
    assert!(client.refused("stop_run", json!({"run": "last"})).contains("no run of this domain"));
    assert_eq!(client.request("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(client.request("tools/call", json!({"name": "approve"}))["error"]["code"], -32602);
    for uri in ["loopgate://runs/../../etc/passwd", "file:///etc/passwd", "loopgate://runs//document.md", ""]
    {
        let reply = client.request("resources/read", json!({ "uri": uri }));
        assert!(reply["error"]["code"].is_i64(), "{reply}");
    }
    assert!(client.request("resources/list", json!({"cursor": "x"}))["error"].is_object());
    client.send_line(b"rubbish");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send_line(br#"{"jsonrpc":"2.0","id":"w","method":"tools/call","params":5}"#);
    assert_eq!(client.receive()["id"], "w");
    client.send_line(b"\xff\xfe{}");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send_line(br#"{"jsonrpc":"2.0","method":"notifications/no_such"}"#);
    // A line of any length takes no more memory than the longest that is permitted.
    let line = vec![b'x'; 1 << 20];
    for _ in 0..256 {
        client.to.as_mut().unwrap().write_all(&line).unwrap();
    }
    client.send_line(b"");
    assert!(peak_kb(&client.pid()) < 200_000, "{}", peak_kb(&client.pid()));
    assert!(client.request("ping", json!({}))["result"].is_object());
    let ran = client.leave();
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("a line of more than") && ran.err.lines().count() == 1, "{}", ran.err);
}

fn peak_kb(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or_default()
}

/// How long a test waits for what has to happen.
const LONG: Duration = Duration::from_secs(60);

/// More than any buffer between a client and the server holds.
const LINES: u64 = 1_000_000;

#[test]
fn a_client_that_reads_nothing_is_not_read_either() {
    // K17
    let shell = Shell::new();
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    let mut to = client.to.take().unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let writing = std::thread::spawn(move || {
        for id in 0..LINES {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"n{id}\",\"method\":\"tools/list\"}}\n");
            if to.write_all(line.as_bytes()).is_err() {
                break;
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        to
    });
    // Until the server reads no more, which takes its time on a busy machine.
    let since = Instant::now();
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_millis(1_000));
        let now = written.load(Ordering::Relaxed);
        if now > 0 && now == before {
            break;
        }
        assert!(since.elapsed() < LONG, "it is still read");
        before = now;
    }
    assert!(before < LINES, "all of it was read");
    let peak = peak_kb(&client.pid());
    assert!(peak < 300_000, "{peak}");
    // It ends all the same.
    assert!(Command::new("kill").arg(client.pid()).status().unwrap().success());
    assert_eq!(client.child.wait().unwrap().code(), Some(143));
    writing.join().unwrap();
}

#[test]
fn runs_are_stopped_by_their_client_or_by_its_end_and_their_cost_is_journaled() {
    let shell = Shell::new();
    let model = slow(&shell);
    let mut client = Client::start(&shell, &["examples/helpdesk", "--model", &model, "--max-runs", "2"]);
    let first = client.call("start_run", json!({"item": item(1041)}));
    assert_eq!(first["state"], "running", "{first}");
    // The one-call form ends with its request.
    let params = json!({"name": "run", "arguments": {"item": item(1042)}, "_meta": {"progressToken": 1}});
    let second = client.ask("tools/call", params);
    while client.receive()["method"] != "notifications/progress" {}
    assert!(client.refused("start_run", json!({"item": "third"})).contains("--max-runs"));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": second}}),
    );
    let until = Instant::now() + LONG;
    let stopped = loop {
        let runs = client.call("list_runs", json!({}));
        if let Some(stop) = runs["runs"][0]["stop"].as_str() {
            break stop.to_owned();
        }
        assert!(Instant::now() < until, "{runs}");
    };
    assert_eq!(stopped, "manual_stop");
    let stopped = client.call("stop_run", json!({"run": first["run"]}));
    assert_eq!((&stopped["state"], &stopped["stop"]["class"]), (&json!("ended"), &json!("cancelled")));
    // A wait that is over stops nothing; the end of the client does.
    let third = client.call("start_run", json!({"item": item(1043)}));
    assert_eq!(client.call("wait_for_run", json!({"run": third["run"], "wait_ms": 100}))["state"], "running");
    client.ask("tools/call", json!({"name": "wait_for_run", "arguments": {"run": third["run"]}}));
    let since = Instant::now();
    let ran = client.leave();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(since.elapsed() < LONG, "it waited for the model: {:?}", since.elapsed());
    let outcome = shell.json(&["show", third["run"].as_str().unwrap(), "--json"]);
    assert_eq!(outcome["stop"]["class"], "cancelled");
    assert!(outcome["totals"]["model_calls"].as_u64().unwrap() >= 1, "{outcome:#}");
}

#[test]
fn a_kill_leaves_runs_that_the_operator_resumes() {
    let shell = Shell::new();
    let model = slow(&shell);
    let mut client = Client::start(&shell, &["examples/helpdesk", "--model", &model]);
    let run = client.call("start_run", json!({"item": item(1041)}))["run"].clone();
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    let mut client = Client::start(&shell, &["examples/helpdesk", "--model", &model]);
    let result = client.call("wait_for_run", json!({ "run": run }));
    assert_eq!(result["state"], "interrupted", "{result}");
    assert!(result["next"].as_str().unwrap().contains("loopgate resume"), "{result}");
    assert_eq!(client.call("stop_run", json!({ "run": run }))["state"], "ended");
}

#[test]
fn a_cost_limit_of_the_process_is_kept_before_a_run_starts() {
    // K17
    let shell = Shell::new();
    let model = slow(&shell);
    let priced = [
        "--set",
        "models.base.price={input_usd_per_million=1, output_usd_per_million=1}",
        "--set",
        "limits.cost_usd=0.10",
    ];
    let args = [&["examples/helpdesk", "--model", &model, "--max-cost", "0.15"], &priced[..]].concat();
    let mut client = Client::start(&shell, &args);
    client.call("start_run", json!({"item": "first"}));
    assert!(client.refused("start_run", json!({"item": "second"})).contains("--max-cost"));
    let args = ["mcp", "examples/helpdesk", "--max-cost", "1", "--set", "limits.cost_usd=\"none\""];
    shell.run(&args).fails_with(&["--max-cost", "limits.cost_usd"]);
}

#[test]
fn a_secret_in_an_item_is_masked_in_all_that_leaves() {
    // K13
    let secret = "sk-live-0123456789abcdef0123";
    let shell = Shell::new();
    let mut command = shell.command(&["mcp", "examples/helpdesk"]);
    command.env("OPENAI_API_KEY", secret).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
    let mut client = Client { child, to, from, next: 0, notifications: Vec::new() };
    let info = json!({"name": secret, "version": "1"});
    client.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}),
    );
    let item = format!("# Printer {secret}\n\nThe printer says {secret}.");
    let mut said = String::new();
    let params = json!({"name": "run", "arguments": {"item": item}, "_meta": {"progressToken": 1}});
    let reply = client.request("tools/call", params);
    let run = reply["result"]["structuredContent"]["run"].as_str().unwrap().to_owned();
    said += &reply.to_string();
    said += &client.call("list_runs", json!({})).to_string();
    said += &client.request("resources/list", json!({})).to_string();
    for file in ["document.md", "outcome.json"] {
        let uri = format!("loopgate://runs/{run}/{file}");
        said += &client.request("resources/read", json!({ "uri": uri })).to_string();
    }
    said += &client.refused("run", json!({"item": "x", secret: 1}));
    said += &json!(client.notifications).to_string();
    assert!(said.contains("Printer"), "{said}");
    assert!(!said.contains(secret), "{said}");
    assert!(!client.leave().err.contains(secret));
}

#[test]
fn a_client_of_the_stateless_protocol_is_served() {
    let shell = Shell::new();
    let mut client = Client::silent(&shell, &["examples/helpdesk"]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"}});
    let reply = client.request("server/discover", json!({ "_meta": meta }));
    assert!(
        reply["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{reply}"
    );
    let params = json!({"name": "run", "arguments": {"item": item(1041)}, "_meta": meta});
    let reply = client.request("tools/call", params);
    assert_eq!(reply["result"]["structuredContent"]["state"], "ended", "{reply}");
    let run = reply["result"]["structuredContent"]["run"].as_str().unwrap().to_owned();
    assert_eq!(shell.json(&["show", &run, "--json"])["caller"], "MCP client modern 2");
}

#[test]
fn what_was_requested_before_the_client_left_is_answered() {
    let shell = Shell::new();
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    for _ in 0..50 {
        client.ask("tools/list", json!({}));
    }
    drop(client.to.take());
    let mut from = client.from;
    let mut lines = 0;
    let mut line = String::new();
    while from.read_line(&mut line).unwrap() > 0 {
        assert!(serde_json::from_str::<Value>(&line).unwrap()["result"].is_object(), "{line}");
        line.clear();
        lines += 1;
    }
    assert_eq!((lines, client.child.wait().unwrap().code()), (50, Some(0)));
}

#[test]
fn a_client_that_closes_before_it_begins_is_no_failure() {
    let shell = Shell::new();
    let ran = Client::silent(&shell, &["examples/helpdesk"]).leave();
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
}

#[test]
fn a_second_request_with_the_key_of_the_first_returns_its_run() {
    // U2: wherever the run is: ended, or under way in this process.
    let shell = Shell::new();
    let mut client = Client::start(&shell, &["examples/helpdesk"]);
    let first = client.call("run", json!({"item": item(1042), "key": "order-17"}));
    for tool in ["run", "start_run"] {
        let second = client.call(tool, json!({"item": item(1042), "key": "order-17"}));
        assert_eq!((&second["run"], &second["state"]), (&first["run"], &json!("ended")), "{second}");
    }
    let refused = client.refused("start_run", json!({"item": item(1041), "key": "order-17"}));
    assert!(refused.contains("another work item"), "{refused}");
    client.leave();
    let model = slow(&shell);
    let mut client = Client::start(&shell, &["examples/helpdesk", "--model", &model]);
    let started = json!({"item": item(1043), "key": "order-18"});
    let first = client.call("start_run", started.clone());
    let second = client.call("start_run", started);
    assert_eq!((&second["run"], &second["state"]), (&first["run"], &json!("running")), "{second}");
    assert_eq!(client.call("list_runs", json!({}))["runs"].as_array().unwrap().len(), 2);
    client.leave();
}

/// What each request of a client of the newest revision holds.
fn meta(capabilities: Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"}})
}

impl Client {
    /// Looks at a task until it has this status.
    #[track_caller]
    fn task(&mut self, id: &Value, meta: &Value, status: &str) -> Value {
        for _ in 0..400 {
            let reply = self.request("tasks/get", json!({"taskId": id, "_meta": meta}));
            if reply["result"]["status"] == status {
                return reply["result"].clone();
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("the task is not {status}");
    }
}

#[test]
fn a_run_is_a_task_where_the_client_takes_tasks() {
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    let asks = json!({"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]});
    let model =
        script(&shell, &json!([asks, {"text": "It is done."}, {"text": "late", "delay_ms": 600_000}]));
    let mut client = Client::silent(&shell, &[shown(&folder), "--model", &model]);
    let tasks = json!({"io.modelcontextprotocol/tasks": {}});
    let meta = self::meta(json!({"extensions": tasks, "elicitation": {"form": {}}}));
    let discovered = client.request("server/discover", json!({"_meta": meta}));
    assert_eq!(discovered["result"]["capabilities"]["extensions"], tasks, "{discovered}");
    let call = |item: &str| json!({"name": "run", "arguments": {"item": item}, "_meta": meta});
    let begun = client.request("tools/call", call(REQUEST))["result"].clone();
    assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")), "{begun}");
    let id = &begun["taskId"];
    let asked = client.task(id, &meta, "input_required");
    assert_eq!(asked["inputRequests"]["1/action-0"]["params"]["message"], "Which Bob?", "{asked}");
    // A client that cannot ask its user is not asked to.
    let mute = self::meta(json!({"extensions": tasks}));
    let seen = client.task(id, &mute, "working");
    assert!(seen["statusMessage"].as_str().unwrap().contains("answer_question"), "{seen}");
    let answer = json!({"action": "accept", "content": {"answer": "the one at EPAM"}});
    let responses = json!({"9/action-9": answer, "1/action-0": answer});
    let taken =
        client.request("tasks/update", json!({"taskId": id, "inputResponses": responses, "_meta": meta}));
    assert!(taken.get("error").is_none(), "{taken}");
    let done = client.task(id, &meta, "completed");
    assert_eq!(done["result"]["structuredContent"]["answer"], "It is done.", "{done}");
    assert_eq!((&done["result"]["structuredContent"]["run"], &done["createdAt"]), (id, &begun["createdAt"]));
    // Cancelled, it is stopped.
    let begun = client.request("tools/call", call("Another"))["result"].clone();
    let seen = client.task(&begun["taskId"], &meta, "working");
    assert!(seen["statusMessage"].is_string(), "its progress is said: {seen}");
    client.request("tasks/cancel", json!({"taskId": begun["taskId"], "_meta": meta}));
    client.task(&begun["taskId"], &meta, "cancelled");
    let unknown = client.request("tasks/get", json!({"taskId": "none", "_meta": meta}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let wrong = json!({"name": "run", "arguments": {}, "_meta": meta});
    assert_eq!(client.request("tools/call", wrong)["result"]["isError"], true);
    drop(client.leave());
    // What waits for an approver is under way for a client, with the command that decides it.
    let folder = asking(&shell, "");
    let mut client = Client::silent(&shell, &[shown(&folder)]);
    let begun = client.request("tools/call", call(REQUEST))["result"].clone();
    for _ in 0..400 {
        let seen = client.task(&begun["taskId"], &meta, "working");
        if seen["statusMessage"].as_str().is_some_and(|text| text.contains("loopgate pending")) {
            assert!(seen.get("inputRequests").is_none(), "{seen}");
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no approver is named");
}
