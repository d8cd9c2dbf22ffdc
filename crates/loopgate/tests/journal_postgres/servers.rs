//! Servers that share one journal and its queue: a process that is killed, and one that is stopped and continued.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::World;
use crate::common::provider::{Piece, Provider, Says, text};
use crate::common::server::{LONG, Server, admin, path};

/// A lease that a busy machine does not lose, and that is soon over.
pub(super) const LEASE: &str = "&lease_s=10";

/// How many runs each server drives at a time.
const JOBS: usize = 3;

pub(super) fn domain(world: &World, provider: &Provider) -> std::path::PathBuf {
    let file = world.shell.file(
        "slow/loopgate.toml",
        &format!(
            "version = 1\nname = \"slow\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n[limits]\n\
             cost_usd = \"none\"\n[models.base]\nprovider = \"compatible\"\nmodel = \"m\"\nbase_url = \"{}\"\n",
            provider.url
        ),
    );
    file.parent().unwrap().to_owned()
}

pub(super) fn submit(server: &Server, nth: usize) -> String {
    let body = json!({ "item": format!("Question {nth}") }).to_string();
    let answered = server.ask("POST /v1/runs", &format!("idempotency-key: key {nth}\r\n"), &body);
    assert!(matches!(answered.status, 200 | 202), "{answered:?}");
    answered.json()["run"].as_str().unwrap().to_owned()
}

/// Waits at a server until a run has ended, whichever process drives it.
pub(super) fn ended(server: &Server, run: &str) -> Value {
    let since = Instant::now();
    loop {
        let view = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=20\r\n", "").json();
        if view["state"] == "ended" {
            return view;
        }
        assert!(since.elapsed() < LONG, "{view}");
    }
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn three_servers_share_a_queue_and_each_run_ends_once() {
    // H1, H8, U2, I-29
    let world = World::new();
    // The calls of the first two servers hang; later ones are answered.
    let hangs = || Says::Stream(vec![Piece::Text("Done."), Piece::Hold]);
    let mut replies: Vec<Says> = (0..2 * JOBS).map(|_| hangs()).collect();
    replies.push(text("m", "Done."));
    let provider = Provider::replying(replies);
    let folder = domain(&world, &provider);
    let (tokens, token) = admin(&world.shell);
    let (jobs, url) = (JOBS.to_string(), world.url_of("loops", LEASE));
    let args = ["--tokens", path(&tokens), path(&folder), "--jobs", &jobs, "--drain", "0", "--journal", &url];
    let start = || Server::open(&world.shell, &args).with_token(&token);
    let [killed, stopped] = [start(), start()];
    let mut runs: Vec<String> = (0..2 * JOBS).map(|nth| submit(&killed, nth)).collect();
    (0..2 * JOBS).for_each(|_| provider.wait());
    for server in [&killed, &stopped] {
        assert_eq!(server.get("/v1/domains")["domains"][0]["running"], JOBS);
    }
    // A third one has places for more. The same request is the same run at each of them.
    let third = start();
    runs.extend((2 * JOBS..4 * JOBS).map(|nth| submit(&stopped, nth)));
    assert_eq!(submit(&third, 0), runs[0]);
    for run in &runs[2 * JOBS..] {
        assert_eq!(ended(&third, run)["class"], "answered");
    }
    // What the killed one had is continued, and what the stopped one had once its lease is over.
    let asleep = Pid::from_raw(i32::try_from(stopped.pid()).unwrap()).unwrap();
    kill_process(asleep, Signal::STOP).unwrap();
    killed.kill();
    for run in &runs[..2 * JOBS] {
        assert_eq!(ended(&third, run)["class"], "answered");
    }
    // It comes back, its calls are answered, and what it writes is refused.
    kill_process(asleep, Signal::CONT).unwrap();
    (0..2 * JOBS).for_each(|_| provider.go_on());
    for run in &runs {
        assert_eq!(ended(&stopped, run)["class"], "answered");
    }
    let since = Instant::now();
    while stopped.get("/v1/domains")["domains"][0]["running"] != 0 {
        assert!(since.elapsed() < LONG, "{}", stopped.get("/v1/domains"));
    }
    let count = |sql: &str| world.server.sql("loops", sql);
    let all = (4 * JOBS).to_string();
    assert_eq!(count("SELECT count(*) FROM loopgate.runs WHERE stop IS NOT NULL"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.runs"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.entries WHERE notes LIKE '%\"stopped\"%'"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.submissions WHERE state = 2"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.runs WHERE epoch > 1"), (2 * JOBS).to_string());
    let verified = world.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    assert_eq!((third.end().0, stopped.end().0), (0, 0));
}
