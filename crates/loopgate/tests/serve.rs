//! `loopgate serve` as a process: started, asked over HTTP, killed, started again, ended by a signal.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use common::provider::{Provider, Says, text};
use common::server::{LONG, Server, ask, bearer, path};
use common::{Shell, root};
use serde_json::{Value, json};

/// Waits until no run is queued or under way.
fn wait_until_done(server: &Server, runs: usize) {
    let since = Instant::now();
    loop {
        let page = server.get("/v1/runs?limit=200&state=ended");
        if page["runs"].as_array().unwrap().len() == runs {
            return;
        }
        assert!(since.elapsed() < LONG, "{}", server.get("/v1/domains"));
        // One request after the other, and each of them waits for a run.
        let open = server.get("/v1/runs?limit=200&state=running");
        if let Some(run) = open["runs"][0]["run"].as_str() {
            server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=5\r\n", "");
        }
    }
}

#[test]
fn the_command_and_the_server_see_the_same_runs() {
    let shell = Shell::new();
    let server = Server::start(&shell, &["examples/helpdesk", "--no-save"]);
    let item = std::fs::read_to_string(root().join(common::ticket(1042))).unwrap();
    let item: Value = serde_json::from_str(&item).unwrap();
    let view = server.submitted(&json!({ "item": item, "tags": ["night"] }));
    assert_eq!((&view["state"], &view["tags"]), (&json!("ended"), &json!(["night"])));
    let run = view["run"].as_str().unwrap();
    let markdown = server.ask(&format!("GET /v1/runs/{run}/document"), "", "").body;
    assert!(shell.run(&["show", run]).out.contains(&markdown), "{markdown}");
    let outcome = server.get(&format!("/v1/runs/{run}/outcome"));
    assert_eq!(shell.json(&["show", run, "--json"]), outcome);
    assert!(shell.run(&["runs", "--tag", "night"]).out.contains(run));
    // A run of the command is listed as well.
    let ran = shell.run(&["run", "examples/helpdesk", &common::ticket(1042), "--no-save"]);
    let other = ran.err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap();
    let page = server.get("/v1/runs");
    assert_eq!((&page["runs"][0]["run"], &page["runs"][0]["caller"]), (&json!(other), &Value::Null));
    // A second server of the journal is refused.
    let second = shell.run(&["serve", "examples/helpdesk", "--listen", "127.0.0.1:0"]);
    second.fails_with(&["another server uses this journal", "--journal"]);
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.starts_with("ending:"), "{told}");
}

#[test]
fn a_server_that_other_machines_reach_is_refused() {
    let shell = Shell::new();
    let refused = shell.run(&["serve", "examples/crm", "--listen", "0.0.0.0:0"]);
    refused.fails_with(&["--listen 0.0.0.0:0", "use a loopback address"]);
    let twice = shell.run(&["serve", "examples/crm", "examples/crm", "--listen", "127.0.0.1:0"]);
    twice.fails_with(&["two of the domains are called crm"]);
}

#[test]
fn a_question_is_answered_over_http_also_after_a_restart() {
    // S4-37
    let shell = Shell::new();
    let folder = shell.copy_of("examples/refunds");
    let model = format!("base=scripted/{}", folder.join("scripts/asks-the-customer.json").display());
    let args = [path(&folder), "--profile", "people", "--model", &model, "--no-save"];
    let server = Server::start(&shell, &args);
    let item = std::fs::read_to_string(folder.join("orders/O-104.json")).unwrap();
    let item: Value = serde_json::from_str(&item).unwrap();
    let view = server.submitted(&json!({ "item": item }));
    assert_eq!(view["state"], "waiting", "{view}");
    let run = view["run"].as_str().unwrap();
    server.kill();
    let server = Server::start(&shell, &args);
    let waiting = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=30\r\n", "").json();
    assert_eq!(waiting["state"], "waiting", "{waiting}");
    let action = &server.get("/v1/pending")["pending"][0];
    let body = json!({
        "key": action["action"], "binding": action["binding"], "text": "It came on the nineteenth",
    });
    let answered = server.ask(&format!("POST /v1/runs/{run}/answer"), "", &body.to_string());
    assert_eq!(answered.status, 202, "{answered:?}");
    let ended = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=30\r\n", "").json();
    assert_eq!(ended["state"], "ended", "{ended}");
    let markdown = server.ask(&format!("GET /v1/runs/{run}/document"), "", "").body;
    assert!(markdown.contains("The evidence is sufficient"), "{markdown}");
    assert_eq!(server.end().0, 0);
}

#[test]
fn the_settings_of_a_caller_are_those_of_the_run_also_when_the_command_resumes_it() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + "\n[serve]\ncaller_may_set = [\"limits.max_passes\"]\n").unwrap();
    let server = Server::start(&shell, &[path(&folder)]);
    let body = json!({
        "item": "search_user Bob, get_user_by_id 42, update_user 42 EPAM", "settings": { "limits.max_passes": 5 },
    });
    let view = server.submitted(&body);
    assert_eq!(view["state"], "waiting", "{view}");
    let (run, action) = (view["run"].as_str().unwrap(), &server.get("/v1/pending")["pending"][0]);
    let raised = json!({ "item": "Who is Bob?", "settings": { "limits.max_passes": 400 } }).to_string();
    let refused = server.ask("POST /v1/runs", "", &raised);
    assert_eq!(
        (refused.status, refused.json()["type"].as_str()),
        (422, Some("/problems/setting")),
        "{refused:?}"
    );
    assert!(!refused.body.contains(path(&folder)), "{refused:?}");
    // The command answers, and drives it to its end; the server hears of it.
    let ran = shell.run(&["approve", run, action["action"].as_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.ends_with("company EPAM\n"), "{}{}", ran.out, ran.err);
    let ended = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=30\r\n", "").json();
    assert_eq!(ended["state"], "ended", "{ended}");
    let outcome = server.get(&format!("/v1/runs/{run}/outcome"));
    assert_eq!(outcome["overridden"], json!([{ "setting": "limits.max_passes", "value": "5" }]));
    assert_eq!(server.end().0, 0);
}

/// A domain whose model is this provider, with calls that take as long as they like.
fn domain(shell: &Shell, provider: &Provider) -> std::path::PathBuf {
    let file = shell.file(
        "slow/loopgate.toml",
        &format!(
            "version = 1\nname = \"slow\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n[limits]\n\
             cost_usd = \"none\"\n[models.base]\nprovider = \"compatible\"\nmodel = \"m\"\nbase_url = \"{}\"\n",
            provider.url
        ),
    );
    file.parent().unwrap().to_owned()
}

/// How many runs are in flight when the server is killed: few in CI, as many as this variable says by hand.
fn in_flight() -> usize {
    std::env::var("LOOPGATE_SERVE_RUNS").ok().map_or(12, |runs| runs.parse().unwrap())
}

#[test]
fn a_kill_with_runs_in_flight_loses_nothing_and_does_nothing_twice() {
    // L1, I-29
    let (shell, runs) = (Shell::new(), in_flight());
    // As many calls hang as there are places; those of the next process are answered.
    let mut replies: Vec<Says> = (0..runs).map(|_| Says::Nothing).collect();
    replies.push(text("m", "Done."));
    let provider = Provider::replying(replies);
    let folder = domain(&shell, &provider);
    let jobs = runs.to_string();
    let args = [path(&folder), "--jobs", &jobs, "--max-queued", "100000"];
    let server = Server::start(&shell, &args);
    let (address, authorization) = (server.address.clone(), bearer(&server.token));
    let accepted = Mutex::new(BTreeSet::new());
    let submit = |n: usize| {
        let body = json!({ "item": format!("Question {n}") }).to_string();
        let answered =
            ask(&address, "POST /v1/runs", &format!("{authorization}idempotency-key: key {n}\r\n"), &body)?;
        assert_eq!(answered.status, 202, "{answered:?}");
        accepted.lock().unwrap().insert(answered.json()["run"].as_str().unwrap().to_owned());
        Some(())
    };
    for n in 0..runs {
        submit(n).unwrap();
        provider.wait();
    }
    assert_eq!(server.get("/v1/domains")["domains"][0]["running"], runs);
    // More are submitted, all the time, until the server is gone.
    let (begun, is_more) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = runs;
            while submit(n).is_some() {
                n += 1;
                _ = begun.send(());
            }
        });
        (0..runs / 2).for_each(|_| is_more.recv().unwrap());
        server.kill();
    });
    let server = Server::start(&shell, &args);
    let accepted = accepted.into_inner().unwrap();
    assert!(accepted.len() >= runs + runs / 2);
    let since = Instant::now();
    for run in &accepted {
        loop {
            let view = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=60\r\n", "");
            assert_eq!(view.status, 200, "{run} was accepted: {view:?}");
            let view = view.json();
            if view["state"] == "ended" {
                assert_eq!(view["class"], "answered", "{view}");
                break;
            }
            assert!(since.elapsed() < LONG * 5, "{view}");
        }
    }
    assert_eq!(server.end().0, 0);
    // One whose answer was lost with the server may be there as well, and nothing else.
    let listed = shell.json(&["runs", "--json"]);
    let listed: BTreeSet<String> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run"].as_str().unwrap().to_owned())
        .collect();
    assert!(listed.is_superset(&accepted) && listed.len() <= accepted.len() + 1);
    let verified = shell.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}

#[test]
fn a_signal_lets_runs_end_and_leaves_the_rest_to_the_next_start() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing, text("m", "Done.")]);
    let folder = domain(&shell, &provider);
    let args = [path(&folder), "--jobs", "1", "--drain", "0"];
    let server = Server::start(&shell, &args);
    for item in ["First?", "Second?"] {
        let body = json!({ "item": item }).to_string();
        assert_eq!(server.ask("POST /v1/runs", "", &body).status, 202);
    }
    provider.wait();
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("the next start of the server resumes them"), "{told}");
    let server = Server::start(&shell, &args);
    wait_until_done(&server, 2);
    let domains = server.get("/v1/domains");
    assert_eq!((&domains["domains"][0]["running"], &domains["domains"][0]["queued"]), (&json!(0), &json!(0)));
    let metrics = server.ask("GET /metrics", "", "");
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.body.contains("loopgate_runs_ended_total{domain=\"slow\"} 2"), "{}", metrics.body);
    assert_eq!(server.end().0, 0);
}
