//! Three servers on one journal under load: one is killed in the middle, one is stopped and continued, and each run is there
//! once.
//!
//! CI runs a small share. `LOOPGATE_LOAD=full` runs all of it and prints the figures (with `--nocapture`);
//! `LOOPGATE_LOAD_BINARY` names another binary, such as a release build.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::servers::LEASE;
use super::{World, told};
use crate::common::server::{LONG, Server, admin, bearer, path};

/// How much of everything.
struct Plan {
    runs: usize,
    clients: usize,
    jobs: usize,
}

const SMALL: Plan = Plan { runs: 24, clients: 6, jobs: 4 };
const FULL: Plan = Plan { runs: 600, clients: 24, jobs: 8 };

fn is_full() -> bool {
    std::env::var_os("LOOPGATE_LOAD").is_some_and(|plan| plan == "full")
}

/// A server's answer to a submission. `None`: it does not answer.
fn submit(address: &str, headers: &str, limit: Duration) -> Option<(u16, Value)> {
    let body = json!({ "item": "Who is Bob?" }).to_string();
    // A process that is stopped accepts no connection once enough of them wait.
    let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    let length = body.len();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

/// Submits so many runs at all servers in turn. A client whose server does not answer sends the same request to the next.
/// `after` is called with the number of runs that were accepted so far.
fn submit_all(
    addresses: &[String],
    (plan, round, token): (&Plan, &str, &str),
    mut after: impl FnMut(usize),
) -> (BTreeSet<String>, Vec<Duration>) {
    let (next, accepted) = (AtomicUsize::new(0), Mutex::new((BTreeMap::new(), Vec::new())));
    let (tell, is_accepted) = channel();
    thread::scope(|scope| {
        for _ in 0..plan.clients {
            let (next, accepted, tell) = (&next, &accepted, tell.clone());
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= plan.runs {
                        return;
                    }
                    let headers = format!("{token}idempotency-key: {round} {nth}\r\n");
                    let since = Instant::now();
                    let run = (nth..).find_map(|at| {
                        assert!(since.elapsed() < LONG, "no server accepts");
                        let server = &addresses[at % addresses.len()];
                        let (status, body) = submit(server, &headers, Duration::from_secs(2))?;
                        assert!([200, 202, 503].contains(&status), "{status}: {body}");
                        Some(body["run"].as_str()?.to_owned())
                    });
                    let mut accepted = accepted.lock().unwrap();
                    accepted.0.insert(nth, run.unwrap());
                    accepted.1.push(since.elapsed());
                    _ = tell.send(());
                }
            });
        }
        drop(tell);
        for count in 1..=plan.runs {
            is_accepted.recv().unwrap();
            after(count);
        }
    });
    let (runs, times) = accepted.into_inner().unwrap();
    assert_eq!(runs.len(), plan.runs);
    let distinct: BTreeSet<String> = runs.into_values().collect();
    assert_eq!(distinct.len(), plan.runs, "each key is one run");
    (distinct, times)
}

/// Waits until so many runs have ended in the database.
fn all_ended(world: &World, runs: usize) {
    let since = Instant::now();
    let ended = "SELECT count(*) FROM loopgate.submissions WHERE state = 2";
    while world.server.sql("loops", ended) != runs.to_string() {
        assert!(since.elapsed() < LONG * 2, "{}", world.server.sql("loops", ended));
    }
}

fn resident(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

fn figures(name: &str, mut times: Vec<Duration>, took: Duration) {
    if !is_full() {
        return;
    }
    times.sort();
    let of = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    let rate = times.len() as f64 / took.as_secs_f64();
    told(&format!(
        "{name}: {} runs in {:.1} s, {rate:.1} runs/s; submit p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms",
        times.len(),
        took.as_secs_f64(),
        of(50),
        of(99),
        of(100)
    ));
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn under_load_one_server_is_killed_and_one_stopped_and_each_run_is_there_once() {
    // H1, H8, L1, U2, I-29
    let (world, plan) = (World::new(), if is_full() { FULL } else { SMALL });
    let folder = world.shell.copy_of("examples/crm");
    let (tokens, secret) = admin(&world.shell);
    let (jobs, url) = (plan.jobs.to_string(), world.url_of("loops", LEASE));
    let args = [
        "--tokens",
        path(&tokens),
        path(&folder),
        "--no-save",
        "--jobs",
        &jobs,
        "--drain",
        "0",
        "--max-queued",
        "100000",
        "--journal",
        &url,
    ];
    let start = || Server::open(&world.shell, &args).with_token(&secret);
    let mut servers: Vec<Server> = (0..3).map(|_| start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    let token = bearer(&secret);
    let count = |sql: &str| world.server.sql("loops", sql);
    let connections =
        || count("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'loopgate %'");
    let mut all = 0;
    if is_full() {
        let since = Instant::now();
        let (_, times) = submit_all(&addresses, (&plan, "calm", &token), |_| {});
        all += plan.runs;
        all_ended(&world, all);
        figures("three servers", times, since.elapsed());
        let memory: Vec<String> = servers.iter().map(|server| format!("{:.1}", resident(server))).collect();
        told(&format!("connections: {}; memory, in MiB: {}", connections(), memory.join(", ")));
        let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'loops'";
        // The statistics are written every second.
        thread::sleep(Duration::from_secs(2));
        let before: u64 = count(commits).parse().unwrap();
        thread::sleep(Duration::from_secs(5));
        let after: u64 = count(commits).parse().unwrap();
        told(&format!("three idle servers: {:.1} transactions/s", (after - before) as f64 / 5.0));
    }
    let since = Instant::now();
    let asleep = Pid::from_raw(i32::try_from(servers[1].pid()).unwrap()).unwrap();
    let mut killed = Some(servers.remove(0));
    let (_, times) = submit_all(&addresses, (&plan, "rough", &token), |accepted| {
        if accepted == plan.runs / 4 {
            killed.take().unwrap().kill();
        }
        if accepted == plan.runs / 2 {
            kill_process(asleep, Signal::STOP).unwrap();
        }
    });
    all += plan.runs;
    all_ended(&world, all);
    figures("one is killed, one is stopped", times, since.elapsed());
    // It comes back, and what it writes for the runs that it had is refused.
    kill_process(asleep, Signal::CONT).unwrap();
    for server in &servers {
        let since = Instant::now();
        while server.get("/v1/domains")["domains"][0]["running"] != 0 {
            assert!(since.elapsed() < LONG, "{}", server.get("/v1/domains"));
        }
    }
    let all = all.to_string();
    assert_eq!(count("SELECT count(*) FROM loopgate.runs WHERE stop IS NOT NULL"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.runs"), all);
    assert_eq!(count("SELECT count(*) FROM loopgate.entries WHERE notes LIKE '%\"stopped\"%'"), all);
    assert_eq!(count("SELECT deadlocks FROM pg_stat_database WHERE datname = 'loops'"), "0");
    if is_full() {
        let memory: Vec<String> = servers.iter().map(|server| format!("{:.1}", resident(server))).collect();
        told(&format!("connections: {}; memory, in MiB: {}", connections(), memory.join(", ")));
        told(&format!("taken over: {}", count("SELECT count(*) FROM loopgate.runs WHERE epoch > 1")));
    }
    let verified = world.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    for server in servers {
        assert_eq!(server.end().0, 0);
    }
    assert_eq!(connections(), "0");
}
