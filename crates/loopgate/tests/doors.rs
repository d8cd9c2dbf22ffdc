//! The doors of `loopgate serve` as a process: tokens, the address for the person at this machine, the audit log, and a
//! budget of a token.

use crate::common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use common::Shell;
use common::provider::{Provider, text};
use common::server::{Server, bearer, path, token};
use serde_json::{Value, json};

/// Asks with a token, and reads JSON.
fn json(server: &Server, line: &str, token: &str, body: &str) -> (u16, Value) {
    let headers = format!("{}prefer: wait=60\r\n", bearer(token));
    let answered = server.send(line, &headers, body);
    (answered.status, answered.json())
}

/// Ends it.
#[track_caller]
fn end(server: Server) -> String {
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    told
}

#[test]
fn tokens_are_added_listed_and_removed() {
    // K13
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    let args =
        ["--role", "submit", "--role", "read", "--domain", "crm", "--expires", "30d", "--day-usd", "2.5"];
    let secret = token(&shell, &file, "ci", &args);
    assert!(secret.starts_with("lgt_") && secret.len() == 68, "{secret}");
    token(&shell, &file, "ops", &["--role", "admin"]);
    let ran = shell.run(&["serve", "tokens", "list", "--file", path(&file)]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("ci  submit, read  crm, $2.500000 a day  expires 20"), "{}", ran.out);
    assert_eq!(lines[1], "ops  admin  all domains  does not expire");
    let listed = shell.json(&["serve", "tokens", "list", "--json", "--file", path(&file)]);
    assert_eq!(listed["tokens"][0]["roles"], json!(["submit", "read"]));
    let whole = format!("{}{listed}{}", ran.out, fs::read_to_string(&file).unwrap());
    assert!(!whole.contains(&secret[4..]));
    assert!(!format!("{}{listed}", ran.out).contains("sha256"), "nor its hash in the lists");
    let add = |name: &str, more: &[&str]| {
        shell
            .run(&[&["serve", "tokens", "add", name, "--file", path(&file), "--role", "read"], more].concat())
    };
    add("ci", &[]).fails_with(&["tokens.toml", "there is a token `ci` already"]);
    add("a b", &[]).fails_with(&["1 to 64 letters"]);
    add("free", &["--day-usd", "0"]).fails_with(&["--day-usd 0 lets no run call a model"]);
    assert_eq!(shell.run(&["serve", "tokens", "remove", "ci", "--file", path(&file)]).code, 0);
    let gone = shell.run(&["serve", "tokens", "remove", "ci", "--file", path(&file)]);
    gone.fails_with(&["there is no token ci", "tokens list"]);
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let read = shell.run(&["serve", "tokens", "list", "--file", path(&file)]);
    read.fails_with(&["other users can read or change it (mode 644)", "chmod 600"]);
    let serve = shell.run(&["serve", "examples/crm", "--listen", "127.0.0.1:0", "--tokens", path(&file)]);
    serve.fails_with(&["--tokens", "other users can read or change it"]);
}

#[test]
fn an_address_that_other_machines_reach_needs_tokens_and_a_name() {
    // K15
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    token(&shell, &file, "ops", &["--role", "admin"]);
    let serve = |args: &[&str]| shell.run(&[&["serve", "examples/crm", "--listen"], args].concat());
    serve(&["0.0.0.0:0"]).fails_with(&["--listen 0.0.0.0:0", "give --tokens FILE"]);
    serve(&["192.0.2.1:0"]).fails_with(&["--listen 192.0.2.1:0", "give --tokens FILE"]);
    serve(&["0.0.0.0:0", "--tokens", path(&file)]).fails_with(&["--listen 0.0.0.0:0", "--public-host NAME"]);
    let wrong = ["127.0.0.1:0", "--public-host", "https://a/b"];
    serve(&wrong).fails_with(&["--public-host https://a/b", "expected NAME"]);
}

#[test]
fn a_file_of_tokens_that_lets_nothing_in_is_refused_and_one_for_another_domain_is_told() {
    // K15
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    token(&shell, &file, "gone", &["--role", "admin"]);
    shell.run(&["serve", "tokens", "remove", "gone", "--file", path(&file)]);
    let open =
        ["serve", "examples/crm", "--tokens", path(&file), "--listen", "0.0.0.0:0", "--public-host", "a"];
    let refused = shell.run(&open);
    refused.fails_with(&["--tokens", "tokens.toml: it has no valid token", "loopgate serve tokens add NAME"]);
    token(&shell, &file, "ci", &["--role", "read", "--domain", "crm", "--domain", "shop"]);
    // It cannot begin for another reason, after the tokens were looked at.
    let login = shell.state.path().join("missing/login");
    let serve = ["serve", "examples/crm", "--tokens", path(&file), "--listen", "127.0.0.1:0"];
    let ran = shell.run(&[&serve[..], &["--login-file", path(&login)]].concat());
    let warning = "the token ci is for the domain shop, which is not served here";
    assert_eq!((ran.code, ran.err.matches("warning:").count()), (1, 1), "{}", ran.err);
    assert!(ran.err.contains(warning) && ran.err.contains("--login-file"), "{}", ran.err);
    let public = [&open[..], &["--login-file", path(&login)]].concat();
    shell.run(&public).fails_with(&["--login-file", "log in with a token at /login"]);
}

#[test]
fn the_one_time_code_is_in_a_file_of_its_owner_and_not_in_a_log() {
    // K15
    let shell = Shell::new();
    let login = shell.file("login", "what another program has left");
    let server = Server::open(&shell, &["examples/helpdesk", "--no-save"]);
    let mode = fs::metadata(&login).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, server.open.contains("/login?code=")), (0o600, true));
    end(server);
    // Standard error is not a terminal here.
    let mut child = shell.command(&["serve", "examples/crm", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    (0..2).for_each(|_| assert!(err.read_line(&mut told).unwrap() > 0));
    assert!(
        told.contains("printed to a terminal only; --login-file FILE") && !told.contains("code="),
        "{told}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_approval_names_the_token_and_two_people_are_two_tokens() {
    // U4, K8: the audit log has who and from where.
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    let ci = token(&shell, &file, "ci", &["--role", "submit", "--role", "read"]);
    let [ada, bob] =
        ["ada", "bob"].map(|name| token(&shell, &file, name, &["--role", "approve", "--role", "read"]));
    let folder = shell.copy_of("examples/crm");
    let domain = folder.join("loopgate.toml");
    let text = fs::read_to_string(&domain).unwrap();
    assert!(text.contains("[gate]\n"));
    fs::write(&domain, text.replace("[gate]\n", "[gate]\napprovals = 2\n")).unwrap();
    let server = Server::open(&shell, &[path(&folder), "--tokens", path(&file)]);
    let body = json!({ "item": "search_user Bob, get_user_by_id 42, update_user 42 EPAM" }).to_string();
    let (status, view) = json(&server, "POST /v1/runs", &ci, &body);
    assert_eq!((status, view["state"].as_str()), (202, Some("waiting")), "{view}");
    let run = view["run"].as_str().unwrap();
    let (_, pending) = json(&server, "GET /v1/pending", &ada, "");
    let action = &pending["pending"][0];
    let body = json!({ "key": action["action"], "binding": action["binding"] }).to_string();
    let approve = |token: &str| json(&server, &format!("POST /v1/runs/{run}/approve"), token, &body).0;
    assert_eq!(approve(&ci), 403, "its role is not approve");
    assert_eq!((approve(&ada), approve(&ada)), (202, 409), "one token is one person");
    assert_eq!(approve(&bob), 202);
    let (_, view) = json(&server, &format!("GET /v1/runs/{run}"), &ci, "");
    assert_eq!(view["state"], "ended", "{view}");
    // Who denied is in the audit log alone, and the report has it.
    let item = json!({ "item": "get_user_by_id 42, update_user 42 EPAM" }).to_string();
    let (_, other) = json(&server, "POST /v1/runs", &ci, &item);
    let other = other["run"].as_str().unwrap();
    let (_, pending) = json(&server, "GET /v1/pending", &ada, "");
    let waits = &pending["pending"][0];
    let no = json!({ "key": waits["action"], "binding": waits["binding"], "why": "no" }).to_string();
    assert_eq!(json(&server, &format!("POST /v1/runs/{other}/deny"), &bob, &no).0, 202);
    end(server);
    let report = shell.run(&["report", other]).out;
    assert!(report.contains("\n    denied by bob (token bob) from 127.0.0.1 at 20"), "{report}");
    let shown = shell.run(&["show", run]);
    assert!(shown.out.contains("ada (token ada)") && shown.out.contains("bob (token bob)"), "{}", shown.out);
    let audit = shell.json(&["serve", "audit", "--json", "--run", run]);
    let entries: Vec<Value> =
        audit["entries"].as_array().unwrap().iter().rev().map(|line| line["entry"].clone()).collect();
    let told: Vec<[&str; 4]> = entries
        .iter()
        .map(|entry| ["account", "action", "result", "from"].map(|key| entry[key].as_str().unwrap()))
        .collect();
    let from = "127.0.0.1";
    assert_eq!(
        told,
        [
            ["token ci", "submit", "done", from],
            ["token ci", "approve", "refused", from],
            ["token ada", "approve", "done", from],
            ["token ada", "approve", "refused", from],
            ["token bob", "approve", "done", from],
        ]
    );
    assert_eq!((&entries[2]["key"], &entries[2]["binding"]), (&action["action"], &action["binding"]));
    assert_eq!(audit["broken"], Value::Null);
    // A journal that another program has changed.
    let connection = rusqlite::Connection::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let change = "DROP TRIGGER audit_is_not_changed; UPDATE audit SET body = replace(body, 'bob', 'eve');";
    connection.execute_batch(change).unwrap();
    let audit = shell.run(&["serve", "audit"]);
    assert_eq!(audit.code, 1);
    assert!(
        audit.out.contains("NOT SEALED") && audit.err.contains("entry 5 of the audit log"),
        "{}",
        audit.err
    );
}

#[test]
fn a_run_of_the_command_waits_for_the_second_person_here_and_there() {
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    let [ada, bob] =
        ["ada", "bob"].map(|name| token(&shell, &file, name, &["--role", "approve", "--role", "read"]));
    let folder = shell.copy_of("examples/crm");
    let domain = folder.join("loopgate.toml");
    let text = fs::read_to_string(&domain).unwrap();
    fs::write(&domain, text.replace("[gate]\n", "[gate]\napprovals = 2\n")).unwrap();
    shell.run(&["run", path(&folder), "--text", "get_user_by_id 42, update_user 42 EPAM"]);
    let server = Server::open(&shell, &[path(&folder), "--tokens", path(&file)]);
    let (_, pending) = json(&server, "GET /v1/pending", &ada, "");
    let action = &pending["pending"][0];
    let run = action["run"].as_str().unwrap();
    let state = || {
        let here = shell.json(&["runs", "--json"])["runs"][0]["state"].clone();
        (json(&server, &format!("GET /v1/runs/{run}"), &ada, "").1["state"].clone(), here)
    };
    let both = |state: &str| (Value::from(state), Value::from(state));
    assert_eq!(state(), both("waiting"));
    let body = json!({ "key": action["action"], "binding": action["binding"] }).to_string();
    let approve = |token: &str| json(&server, &format!("POST /v1/runs/{run}/approve"), token, &body).0;
    assert_eq!((approve(&ada), state()), (202, both("waiting")));
    assert_eq!(approve(&bob), 202);
    let ended = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        state() == both("ended")
    });
    assert!(ended, "{:?}", state());
    end(server);
}

/// A domain whose model is this provider, at a price.
fn priced(shell: &Shell, provider: &Provider, more: &str) -> PathBuf {
    let file = shell.file(
        "priced/loopgate.toml",
        &format!(
            "version = 1\nname = \"priced\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n[models.base]\n\
             provider = \"compatible\"\nmodel = \"m\"\nbase_url = \"{}\"\n\
             price = {{ input_usd_per_million = 1, output_usd_per_million = 4 }}\n{more}",
            provider.url
        ),
    );
    file.parent().unwrap().to_owned()
}

#[test]
fn a_budget_of_a_domain_holds_over_the_runs_of_all_tokens() {
    // S4-55: a limit over runs.
    let shell = Shell::new();
    let file = shell.state.path().join("tokens.toml");
    let roles = ["--role", "submit", "--role", "read"];
    let [ada, bob] = ["ada", "bob"].map(|name| token(&shell, &file, name, &roles));
    let provider = Provider::replying(vec![text("m", "Done.")]);
    let folder = priced(&shell, &provider, "[budget]\nday_usd = 0.000001\n");
    let server = Server::open(&shell, &[path(&folder), "--tokens", path(&file)]);
    for token in [&ada, &bob] {
        let (_, view) = json(&server, "POST /v1/runs", token, "{\"item\":\"A question\"}");
        assert_eq!(view["reason"], "shared_budget_exceeded", "{view}");
    }
    assert_eq!(provider.received().len(), 0, "nothing is sent that the budget does not cover");
    end(server);
}

#[test]
fn a_message_of_a_served_run_has_a_link_to_the_page_of_its_decision() {
    let shell = Shell::new();
    let (told, folder) = (shell.state.path().join("told.jsonl"), shell.copy_of("examples/crm"));
    let domain = folder.join("loopgate.toml");
    let hook =
        format!("[hooks.chat]\non = [\"waiting\"]\ncommand = [\"tee\", \"-a\", \"{}\"]\n", told.display());
    fs::write(&domain, format!("{}\n{hook}", fs::read_to_string(&domain).unwrap())).unwrap();
    let public = "--public-host=loops.example.org";
    let server = Server::start(&shell, &[path(&folder), public, "--public-host=other.example.org"]);
    let item = json!({ "item": "search_user Bob, get_user_by_id 42, update_user 42 EPAM" });
    let view = server.submitted(&item);
    assert_eq!(view["state"], "waiting", "{view}");
    // The run is left before the message is delivered.
    let mut text = String::new();
    for _ in 0..600 {
        text = fs::read_to_string(&told).unwrap_or_default();
        if text.ends_with('\n') {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let message: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let link = message["data"]["waiting"][0]["link"].as_str().unwrap();
    let at = link.strip_prefix("https://loops.example.org").unwrap();
    let run = view["run"].as_str().unwrap();
    // Another server of the journal reads the link as well.
    end(server);
    let server = Server::start(&shell, &[path(&folder)]);
    assert_eq!(server.send(&format!("GET {at}"), "accept: text/html\r\n", "").status, 401);
    let opened = server.ask(&format!("GET {at}"), "", "");
    assert_eq!(opened.status, 303, "{opened:?}");
    assert!(opened.head.contains(&format!("location: /runs/{run}/approve#")), "{}", opened.head);
    let key = message["data"]["waiting"][0]["action"].as_str().unwrap().to_owned();
    let denied = shell.run(&["deny", run, &key, "--no-wait"]);
    assert_eq!(server.ask(&format!("GET {at}"), "", "").status, 410, "{}", denied.err);
    let (_, seal) = at.split_once('.').unwrap();
    let log = format!("{}{}", end(server), shell.run(&["serve", "audit"]).out);
    assert!(!log.contains(seal), "{log}");
    // The command has no page to lead to.
    fs::remove_file(&told).unwrap();
    assert_eq!(shell.run(&["run", path(&folder), "--text", item["item"].as_str().unwrap()]).code, 5);
    let text = fs::read_to_string(&told).unwrap();
    assert!(text.contains("run.waiting") && !text.contains("link"), "{text}");
}
