//! `loopgate serve` under load: how long each route takes, how much memory the process keeps, and that each accepted run ends
//! once, however often the server is killed.
//!
//! CI runs a small share. `LOOPGATE_LOAD=full` runs all of it and prints the figures (with `--nocapture`), `LOOPGATE_LOAD_BINARY` names another
//! binary, such as a release build, and `LOOPGATE_LOAD_PAGES=no` leaves the pages out.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use common::Shell;
use common::server::{Server, admin, ask, bearer, path, sent};
use serde_json::json;

/// How much of everything.
#[derive(Clone, Copy)]
struct Plan {
    submissions: usize,
    clients: usize,
    readers: usize,
    rounds: usize,
    kills: usize,
}

const SMALL: Plan = Plan { submissions: 24, clients: 6, readers: 18, rounds: 2, kills: 1 };
const FULL: Plan = Plan { submissions: 500, clients: 50, readers: 300, rounds: 6, kills: 5 };

fn is_full() -> bool {
    std::env::var_os("LOOPGATE_LOAD").is_some_and(|plan| plan == "full")
}

fn has_pages() -> bool {
    std::env::var_os("LOOPGATE_LOAD_PAGES").is_none_or(|pages| pages != "no")
}

fn plan() -> Plan {
    if is_full() { FULL } else { SMALL }
}

/// How long requests took, by route.
#[derive(Default)]
struct Times(Mutex<BTreeMap<&'static str, Vec<Duration>>>);

impl Times {
    fn timed<T>(&self, route: &'static str, request: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let answered = request();
        let took = since.elapsed();
        self.0.lock().unwrap().entry(route).or_default().push(took);
        answered
    }

    /// A row for each route: how many requests, and the times that half of them and 99 of 100 took at most.
    fn table(self) -> String {
        let mut table = "| request | number | p50, ms | p99, ms |\n|---|---|---|---|\n".to_owned();
        for (route, mut times) in self.0.into_inner().unwrap() {
            times.sort();
            let of = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
            table += &format!("| {route} | {} | {:.1} | {:.1} |\n", times.len(), of(50), of(99));
        }
        table
    }
}

/// Prints figures.
fn print(figures: &str) {
    std::io::stderr().write_all(figures.as_bytes()).unwrap();
}

/// What was measured: the build, the processors of the machine, and how many threads want one, on average over a minute.
fn machine() -> String {
    let binary = std::env::var("LOOPGATE_LOAD_BINARY").unwrap_or_default();
    let build = if binary.contains("/release/") { "a release build" } else { "a build without optimisation" };
    let processors = thread::available_parallelism().unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    format!("{build}, {processors} processors, load average {}", load.split(' ').next().unwrap())
}

/// The memory of a process that is in RAM, in KiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A number of submissions from clients at a time, with readers of their events. A third of the readers never read.
fn load(server: &Server, plan: Plan, round: usize, times: &Times) {
    let (address, token) = (&*server.address, bearer(&server.token));
    let get = |route: &'static str, path: &str, headers: &str| {
        let answered =
            times.timed(route, || ask(address, &format!("GET {path}"), &format!("{token}{headers}"), ""));
        let answered = answered.unwrap_or_else(|| panic!("{path}: no answer"));
        assert_eq!(answered.status, 200, "{path}: {answered:?}");
        answered
    };
    let next = AtomicUsize::new(0);
    let (tell, runs) = channel::<String>();
    let runs = Mutex::new(runs);
    // Those who never read hold their connection until all others are done.
    let unread = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for nth in 0..plan.readers {
            let (runs, unread, token) = (&runs, &unread, &token);
            scope.spawn(move || {
                let Ok(run) = runs.lock().unwrap().recv() else {
                    panic!("there are fewer runs than readers")
                };
                let line = format!("GET /v1/runs/{run}/events");
                let mut stream = sent(address, &line, token, "").unwrap();
                if nth % 3 == 0 {
                    unread.lock().unwrap().push(stream);
                    return;
                }
                let mut text = String::new();
                times.timed("events", || stream.read_to_string(&mut text)).unwrap();
                assert!(text.contains("event: started\n") && text.contains("event: end\n"), "{text}");
            });
        }
        for _ in 0..plan.clients {
            let (next, tell, get, token) = (&next, tell.clone(), &get, &token);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= plan.submissions {
                        return;
                    }
                    let headers = format!("{token}idempotency-key: {round} {nth}\r\n");
                    let body = json!({ "item": "Who is Bob?" }).to_string();
                    let accepted =
                        times.timed("submit", || ask(address, "POST /v1/runs", &headers, &body)).unwrap();
                    assert_eq!(accepted.status, 202, "{accepted:?}");
                    let run = accepted.json()["run"].as_str().unwrap().to_owned();
                    // There may be more runs than readers.
                    _ = tell.send(run.clone());
                    let one = format!("/v1/runs/{run}");
                    while get("one, until it has ended", &one, "prefer: wait=60\r\n").json()["state"]
                        != "ended"
                    {}
                    get("one", &one, "");
                    get("list", "/v1/runs?limit=50", "");
                    get("document", &format!("{one}/document"), "");
                    get("outcome", &format!("{one}/outcome"), "");
                    if has_pages() {
                        get("page of the runs", "/", "");
                        get("page of a run", &format!("/runs/{run}"), "");
                    }
                }
            });
        }
    });
}

#[test]
fn memory_does_not_grow_with_the_runs() {
    // L2, U8
    let (shell, plan, times) = (Shell::new(), plan(), Times::default());
    let folder = shell.copy_of("examples/crm");
    let server = Server::start(&shell, &[path(&folder), "--no-save", "--max-queued", "100000"]);
    let mut memory = Vec::new();
    for round in 0..plan.rounds {
        load(&server, plan, round, &times);
        memory.push(resident(&server));
    }
    let ended = server.ask("GET /metrics", "", "").body;
    let ended = ended
        .lines()
        .find_map(|line| line.strip_prefix("loopgate_runs_ended_total{domain=\"crm\"} "))
        .unwrap();
    assert_eq!(ended.parse::<usize>().unwrap(), plan.rounds * plan.submissions);
    assert_eq!(server.end().0, 0);
    if is_full() {
        let spent = memory.iter().map(|kib| format!("{:.1}", *kib as f64 / 1024.0)).collect::<Vec<_>>();
        let spent = spent.join(", ");
        let Plan { submissions, clients, readers, rounds, .. } = plan;
        let figures = format!(
            "{rounds} rounds of {submissions} submissions from {clients} clients, with {readers} readers of events of which a \
             third never read ({}):\n\n{}\nMemory after each round, in MiB: {spent}.\n",
            machine(),
            times.table()
        );
        print(&figures);
        let (warm, last) = (memory[1], memory[memory.len() - 1]);
        assert!(last * 10 <= warm * 11, "it is not within 10 % of what it was after the warm-up: {memory:?}");
    }
}

#[test]
fn a_server_that_is_killed_again_and_again_ends_each_accepted_run_once() {
    // L1, I-29
    let (shell, plan) = (Shell::new(), plan());
    let folder = shell.copy_of("examples/crm");
    let (file, secret) = admin(&shell);
    let args = [path(&folder), "--no-save", "--tokens", path(&file), "--max-queued", "100000"];
    let start = || Server::open(&shell, &args);
    let (mut server, mut starts) = (start(), Vec::new());
    let began = Instant::now();
    let (address, token) = (RwLock::new(server.address.clone()), bearer(&secret));
    let (next, accepted) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<usize, String>::new()));
    let (tell, is_accepted) = channel();
    let server = thread::scope(|scope| {
        for _ in 0..plan.clients {
            let (next, accepted, address, token, tell) = (&next, &accepted, &address, &token, tell.clone());
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= plan.submissions {
                        return;
                    }
                    let headers = format!("{token}idempotency-key: {nth}\r\n");
                    let body = json!({ "item": "Who is Bob?" }).to_string();
                    // A client whose server is gone sends the same request again.
                    let run = loop {
                        let at = address.read().unwrap().clone();
                        let Some(answered) = ask(&at, "POST /v1/runs", &headers, &body) else {
                            thread::yield_now();
                            continue;
                        };
                        assert!([200, 202].contains(&answered.status), "{answered:?}");
                        break answered.json()["run"].as_str().unwrap().to_owned();
                    };
                    accepted.lock().unwrap().insert(nth, run);
                    _ = tell.send(());
                }
            });
        }
        drop(tell);
        for _ in 0..plan.kills {
            // In the middle: after each share of the submissions.
            (0..plan.submissions / (plan.kills + 1)).for_each(|_| is_accepted.recv().unwrap());
            let mut at = address.write().unwrap();
            server.kill();
            let since = Instant::now();
            server = start();
            starts.push(since.elapsed());
            at.clone_from(&server.address);
        }
        server
    });
    let accepted = accepted.into_inner().unwrap();
    assert_eq!(accepted.len(), plan.submissions);
    let distinct: BTreeSet<&String> = accepted.values().collect();
    assert_eq!(distinct.len(), plan.submissions, "each key is one run");
    for run in &distinct {
        let line = format!("GET /v1/runs/{run}");
        let view = loop {
            let view = ask(&server.address, &line, &format!("{token}prefer: wait=60\r\n"), "").unwrap();
            assert_eq!(view.status, 200, "{run} was accepted: {view:?}");
            let view = view.json();
            if !["queued", "running"].contains(&view["state"].as_str().unwrap()) {
                break view;
            }
        };
        assert_eq!((&view["state"], &view["class"]), (&json!("ended"), &json!("answered")), "{view}");
    }
    let took = began.elapsed();
    assert_eq!(server.end().0, 0);
    // Nothing else began, and each ended once.
    let connection = rusqlite::Connection::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    assert_eq!(count("SELECT count(*) FROM runs"), plan.submissions);
    let verified = shell.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    if is_full() {
        let Plan { submissions, clients, kills, .. } = plan;
        let longest = starts.iter().max().unwrap().as_secs_f64() * 1e3;
        let figures = format!(
            "{submissions} submissions from {clients} clients, and the server is killed {kills} times meanwhile: each run ended \
             once, all of them after {:.1} s. The longest time from a start until the server accepts requests was {longest:.0} ms \
             ({}).\n",
            took.as_secs_f64(),
            machine()
        );
        print(&figures);
    }
}
