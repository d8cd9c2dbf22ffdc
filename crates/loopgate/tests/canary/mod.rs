//! 200 secrets, planted wherever a domain, the environment and servers may hold one: none is in anything that the program
//! shows, writes or sends, except where it belongs.

mod plants;
mod servers;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::provider::{call, text};
use crate::common::{Ran, Shell};
use plants::{PROGRAMS, PROVIDERS, Plants, SECRETS, base64, escaped, form_encoded};
use servers::{Says, Servers};

struct World {
    shell: Shell,
    servers: Servers,
    plants: Plants,
    /// What was shown so far, and by which command.
    shown: Vec<(String, String)>,
    _vault: TempDir,
}

impl World {
    fn new() -> Self {
        let (shell, vault) = (Shell::new(), tempfile::tempdir().unwrap());
        let mut plants = Plants::new(vault.path());
        let servers = Servers::start(plants.tokens());
        plants.write_domain(&shell, &servers);
        assert_eq!(plants.all.len(), SECRETS);
        Self { shell, servers, plants, shown: Vec::new(), _vault: vault }
    }

    fn domain(&self) -> String {
        self.plants.folder.display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.shell.command(args);
        command.envs(self.plants.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn keep(&mut self, args: &[&str], ran: &Ran) {
        let what: String = args.join(" ").chars().take(80).collect();
        self.shown.push((format!("the output of `{what}`"), ran.out.clone()));
        self.shown.push((format!("the error output of `{what}`"), ran.err.clone()));
    }

    /// Runs a command to its end.
    fn run(&mut self, args: &[&str]) -> Ran {
        self.run_with_input(args, "")
    }

    fn run_with_input(&mut self, args: &[&str], input: &str) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that refuses to begin does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let ran: Ran = child.wait_with_output().unwrap().into();
        self.keep(args, &ran);
        ran
    }

    /// Runs it and kills it while it waits for its model a second time.
    fn kill_in_its_second_call(&mut self, args: &[&str]) {
        let mut child: Child = self.command(args).spawn().unwrap();
        self.servers.wait_for_model();
        self.servers.wait_for_model();
        child.kill().unwrap();
        let ran = child.wait_with_output().unwrap().into();
        self.keep(args, &ran);
    }

    /// Serves a client that tells every secret, also where only names belong.
    #[cfg(feature = "mcp-server")]
    fn answer_a_client(&mut self, domain: &str, telling: &str) {
        self.servers.model_says([text("m", telling).into()]);
        let client = json!({"name": telling, "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let began = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let called = |id: u32, name: &str, arguments: Value| {
            let params = json!({"name": name, "arguments": arguments});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        };
        let asked = [
            initialize,
            began,
            called(2, "run", json!({"item": telling})),
            called(3, telling, json!({"item": telling})),
            called(4, "read_document", json!({"run": telling})),
        ];
        let lines: String = asked.iter().map(|line| format!("{line}\n")).collect();
        let ran = self.run_with_input(&["mcp", domain], &lines);
        assert!(ran.out.contains("[masked]"), "{} {}", ran.out, ran.err);
    }

    /// A text with all secrets that a text of a run may hold, each behind a word that is not secret.
    fn telling(&self) -> String {
        let known = self.plants.known().enumerate();
        known.map(|(n, secret)| format!("plain-{n} {secret} ")).collect()
    }

    /// A reply that calls every tool.
    fn calls_all(&self) -> Value {
        let tool = |(at, tool): (usize, &String)| {
            let path = json!({"path": format!("{}.md", at % 4)});
            let arguments = if tool == "read_note" { path } else { json!({}) };
            json!({"id": format!("call_{at}"), "type": "function",
                   "function": {"name": tool, "arguments": arguments.to_string()}})
        };
        let notes = [(); 3].map(|()| "read_note".to_owned());
        let calls: Vec<Value> = self.plants.tools.iter().chain(&notes).enumerate().map(tool).collect();
        let message = json!({"role": "assistant", "content": self.telling(), "tool_calls": calls});
        json!({"id": "c", "object": "chat.completion", "model": "m",
               "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
               "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}})
    }

    /// What was written: the journal with its log, recordings, cases, results of tools that were kept.
    fn written(&self) -> Vec<(String, Vec<u8>)> {
        let own = self.plants.folder.clone();
        let given = |path: &Path| path.starts_with(&own) && !path.starts_with(own.join(".loopgate"));
        let files = files(self.shell.state.path()).into_iter().filter(|path| !given(path));
        files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
    }

    /// Each secret is found in whatever spelling: what is not found is not there.
    #[track_caller]
    fn finds_each_secret(&self) {
        let texts = self.plants.all.iter().map(|plant| plant.text.as_str());
        let spelt = texts.flat_map(|text| escaped(text).into_iter().chain([text.to_uppercase()]));
        for text in spelt.chain(self.plants.pairs.iter().cloned()) {
            let written = format!("web-1 {text} web-1");
            assert!(self.plants.found_in(written.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(self.plants.found_in(b"web-1 cnr cnr01 cnr012y 012rn Z2012RN"), None);
    }

    #[track_caller]
    fn holds_no_secret(&self) {
        self.finds_each_secret();
        let shown = self.shown.iter().map(|(what, text)| (what.clone(), text.clone().into_bytes()));
        let sent = self.servers.received().into_iter().filter(|request| !request.target.contains("/token/"));
        let sent =
            sent.map(|request| (format!("a body sent to {}", request.target), request.body.into_bytes()));
        for (what, bytes) in shown.chain(sent).chain(self.written()) {
            if let Some(around) = self.plants.found_in(&bytes) {
                panic!("{what} holds a secret:\n{around}");
            }
        }
    }

    /// Every secret was used where it belongs, by what it was planted for, and nowhere else.
    #[track_caller]
    fn used_each_where_it_belongs(&self) {
        let received = self.servers.received();
        let mut unused = BTreeSet::new();
        for (n, plant) in self.plants.all.iter().enumerate() {
            let (secret, user) = (plant.text.as_str(), plant.user.as_str());
            let heads = |part: &str| {
                received.iter().filter(|it| it.target.contains(part)).map(|it| &it.head).collect::<Vec<_>>()
            };
            let has = |part: &str, what: &str| heads(part).iter().any(|head| head.contains(what));
            let basic = |user: &str, secret: &str| {
                format!("authorization: Basic {}", base64(&format!("{user}:{secret}")))
            };
            let (of_api, of_token) = (format!("/{user}?shop=1"), format!("/token/{user}"));
            let is_used = match user.split('_').next().unwrap() {
                "bearer" => has(&of_api, &format!("authorization: Bearer {secret}\r")),
                "header" => has(&of_api, &format!("x-shop-key: {secret}\r")),
                "query" => has(&of_api, &format!("&key={}", form_encoded(secret))),
                "cookie" => has(&of_api, &format!("cookie: sid={secret}\r")),
                "basic" => has(&of_api, &basic("ada", secret)),
                "oauth" if plant.is_known => has(&of_token, &basic("desk", &form_encoded(secret))),
                "oauth" => has(&of_api, &format!("authorization: Bearer {secret}\r")),
                "program" => {
                    let proof = std::fs::read_to_string(self.plants.vault.join(format!("{user}.got")));
                    proof.unwrap().lines().any(|line| line == secret)
                }
                "postgres" => self.servers.passwords().iter().any(|password| password == secret),
                "proxy" => received.iter().any(|it| {
                    it.head.starts_with("CONNECT") && it.head.contains("proxy-authorization: Basic ")
                }),
                "model" => has("/v1/chat/completions", secret),
                "save" => has("/save/", secret),
                _ => received.iter().any(|it| it.head.contains(secret)),
            };
            if !is_used {
                unused.insert(format!("{n} of {user}"));
            }
        }
        assert!(unused.is_empty(), "not used: {unused:?}");
        for request in received.iter().filter(|it| it.target.ends_with("/elsewhere")) {
            assert_eq!(self.plants.found_in(request.head.as_bytes()), None, "another origin gets none");
        }
        assert_eq!(received.iter().filter(|it| it.target.ends_with("/elsewhere")).count() % 6, 0);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

// K13
#[test]
fn no_secret_is_shown_by_a_check_or_a_call_by_hand() {
    let mut world = World::new();
    let domain = world.domain();
    let domain = domain.as_str();
    let check = world.run(&["domain", "check", domain]);
    assert!(check.out.contains("127.0.0.1"), "{}{}", check.out, check.err);
    world.run(&["tools", domain]);
    for (n, tool) in world.plants.tools.clone().iter().enumerate() {
        let arguments = if tool == "read_note" { r#"{"path": "1.md"}"# } else { "{}" };
        let json = if n % 2 == 0 { &["--json"][..] } else { &[] };
        let ran = world.run(&[&["tools", domain, "call", tool, arguments], json].concat());
        let says = format!("{}{}", ran.out, ran.err);
        // What is not shown of an answer says nothing about its secrets.
        let is_repeated = !["refuses", "breaks", "away"].iter().any(|it| tool.ends_with(it));
        assert_eq!(says.contains("[masked]"), is_repeated, "{tool}: {says}");
    }
    world.holds_no_secret();
}

// K13
#[test]
fn none_of_200_secrets_is_shown_written_or_sent_where_it_does_not_belong() {
    let mut world = World::new();
    let domain = world.domain();
    let domain = domain.as_str();
    let telling = world.telling();
    let caller = world.plants.known().next().unwrap();
    let state = world.shell.state.path().to_owned();
    let at = |name: &str| state.join(name).display().to_string();
    let case = at("case.json");

    // A run that calls every tool, is told every secret, and whose outcome cannot be saved.
    let done = || -> Says { text("m", "It is web-1.").into() };
    let told: Says = text("m", &format!("It is web-1. {telling}")).into();
    world.servers.model_says([Says::Completion(world.calls_all()), told]);
    let ran =
        world.run(&["run", domain, "--text", &telling, "--caller", &caller, "--json", "--evidence", "full"]);
    let outcome: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    assert_eq!(outcome["stop"]["reason"], "completed", "{}", ran.err);
    for n in 0..world.plants.known().count() {
        assert!(ran.out.contains(&format!("plain-{n} [masked]")), "plain-{n}");
    }
    for args in [
        &["show", "last"][..],
        &["show", "last", "--json"],
        &["show", "last", "--events"],
        &["show", "last", "--tools"],
        &["show", "last", "--cache"],
        &["runs"],
        &["eval", "record", "last", "-o", &case],
        &["eval", &case, "--trace"],
        &["eval", &case, "--json"],
        &["resume", "last"],
    ] {
        let ran = world.run(args);
        assert!(
            !ran.out.is_empty() || args[0] == "resume" || args.contains(&"record"),
            "{args:?}: {}",
            ran.err
        );
    }
    // The same while it is watched.
    for watch in [&["--events"][..], &["--progress", "always", "--no-save"]] {
        let told: Says = text("m", &telling).into();
        world.servers.model_says([Says::Completion(world.calls_all()), told]);
        world.run(&[&["run", domain, "--text", &telling], watch].concat());
    }

    // Recorded, with the tools that are called alone: everything that a model is told is masked once more.
    let allow = "gate.allow=[\"program_text\", \"oauth_json\", \"basic_text\"]";
    for tool in ["program_text", "oauth_json", "basic_text"] {
        world.servers.model_says([call("m", tool, &json!({})).into(), text("m", &telling).into()]);
        let text = ["--text", telling.as_str(), "--record", &at(tool), "--set", allow];
        let ran = world.run(&[&["run", domain][..], &text].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }

    // Models that refuse, and repeat the key that they were sent.
    for status in [401, 400] {
        world.servers.model_says([Says::Repeats(status)]);
        let ran = world.run(&["run", domain, "--text", "Which shop?", "--json"]);
        assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    }
    let request = json!({"model": "m", "messages": [{"role": "user", "text": "Hi"}]});
    let request = world.shell.file("request.json", &request.to_string()).display().to_string();
    let address = world.servers.address.clone();
    for (n, (_, provider)) in PROVIDERS.iter().enumerate() {
        world.servers.model_says([Says::Repeats([401, 500][n % 2])]);
        let url = format!("http://{address}/v1");
        let ran = world.run(&[
            "model",
            "call",
            "--provider",
            provider,
            "--model",
            "m",
            "--base-url",
            &url,
            "--request",
            &request,
        ]);
        assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    }
    // A proxy that refuses, and repeats the password that it was sent.
    let url = "https://model.invalid/v1";
    world.run(&[
        "model",
        "call",
        "--provider",
        "openai",
        "--model",
        "m",
        "--base-url",
        url,
        "--request",
        &request,
    ]);

    // A run that is killed while its model is silent, and resumed.
    world.servers.model_says([Says::Completion(world.calls_all()), Says::Nothing]);
    let args = ["run", domain, "--text", &telling];
    world.kill_in_its_second_call(&args);
    world.servers.model_says([text("m", &telling).into()]);
    let ran = world.run(&["resume", "last"]);
    assert!(ran.out.contains("plain-0 [masked]"), "{}{}", ran.out, ran.err);

    // Writes that a person allows, refuses and talks about.
    for answer in ["approve", "deny"] {
        let change = json!({"text": telling});
        world.servers.model_says([call("m", "change_shop", &change).into(), done()]);
        let ran = world.run(&["run", domain, "--text", "Change it.", "--no-save"]);
        assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
        let id = ran.err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap();
        world.run(&["pending"]);
        world.run(&["pending", "--json"]);
        world.run(&["tell", id, &telling, "--no-wait"]);
        let why = if answer == "deny" { &["--why", &telling][..] } else { &[] };
        let ran = world.run(&[&[answer, id, "1/action-0"], why].concat());
        assert!(ran.out.contains("web-1"), "{}{}", ran.out, ran.err);
    }

    // Conversations, clients, adversaries.
    world.servers.model_says([Says::Completion(world.calls_all()), text("m", &telling).into()]);
    world.run_with_input(&["chat", domain], &format!("{telling}\n/history\n/quit\n"));
    #[cfg(feature = "mcp-server")]
    world.answer_a_client(domain, &telling);
    world.run(&["redteam", domain, "--runs", "1", "--set", allow, "--json"]);
    world.run(&["policy", "check", domain]);

    assert_eq!(PROGRAMS.len(), world.plants.tools.iter().filter(|it| it.starts_with("program")).count());
    world.used_each_where_it_belongs();
    world.holds_no_secret();
}
