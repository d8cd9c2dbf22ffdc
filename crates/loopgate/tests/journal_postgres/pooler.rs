//! A journal behind PgBouncer: its session mode is as good as the server, and its transaction mode is named.

use std::time::{Duration, Instant};

use loop_testkit::postgres::Pooler;

use super::World;
use crate::common::ticket;

// Issue 43: poolers
#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_pooler_of_sessions_works_and_others_are_named_in_one_line() {
    let world = World::new();
    let url = |pooler: &Pooler| {
        let (port, state) = (pooler.port(), world.state.path().display());
        format!("postgres://looper@127.0.0.1:{port}/loops?state={state}")
    };
    let run = |pooler: &Pooler| {
        let began = Instant::now();
        let ran = world.shell.run(&[
            "run",
            "examples/helpdesk",
            &ticket(1042),
            "--no-save",
            "--journal",
            &url(pooler),
        ]);
        (ran, began.elapsed())
    };
    let pooler = |mode: &str, sessions: u16| Pooler::start(&world.server, mode, sessions, &[("looper", "")]);
    let sessions = pooler("session", 8);
    let (ran, _) = run(&sessions);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let listed = world.run(&["runs"]).out;
    assert!(listed.contains("\tconfident\tT-1042 "), "{listed}");
    // Ten seconds for a machine that is busy: it is named within five of its login.
    let soon = Duration::from_secs(20);
    let transactions = pooler("transaction", 8);
    for _ in 0..2 {
        let (ran, took) = run(&transactions);
        ran.fails_with(&["a connection pooler", "set the pooler's pool_mode to session"]);
        assert!(took < soon, "{took:?}");
    }
    let small = pooler("session", 1);
    let (ran, took) = run(&small);
    ran.fails_with(&["where a pooler is between", "four sessions"]);
    assert!(took < soon, "{took:?}");
}
