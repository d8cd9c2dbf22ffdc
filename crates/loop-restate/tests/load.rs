//! Many runs over two workers, a worker and the server killed in the middle. `LOOPGATE_RESTATE_RUNS=1000` makes it a load.

use std::time::Instant;

use crate::harness::checks::intact;
use crate::harness::process::Usage;
use crate::harness::worker::register;
use crate::harness::{Desk, namespace, world};

/// How many runs: what the variable says, or `few`.
pub fn runs_or(few: usize) -> usize {
    std::env::var("LOOPGATE_RESTATE_RUNS").map_or(few, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_over_two_workers_survive_kills_of_one_and_of_the_server() {
    // I-12, H1
    if !namespace::is_inside("load::runs_over_two_workers_survive_kills_of_one_and_of_the_server") {
        return;
    }
    let count = runs_or(20);
    let mut desk = Desk::start().await;
    let (first, second) = (desk.worker().await, desk.worker().await);
    register(&desk.server.admin(), desk.port).await;
    let begins = Instant::now();
    let runs = desk.submit_crowd(world::DESK, count).await;
    println!("{count} runs submitted in {:.1} s", begins.elapsed().as_secs_f64());
    desk.until_effects("book", count / 4).await;
    let of_first = Usage::of(first.pid());
    first.kill();
    println!("a worker killed after {:.1} s: {of_first:?}", begins.elapsed().as_secs_f64());
    let third = desk.worker().await;
    desk.until_effects("print", count / 2).await;
    println!(
        "the server killed after {:.1} s: {:?}",
        begins.elapsed().as_secs_f64(),
        Usage::of(desk.server.pid().unwrap())
    );
    desk.server.kill();
    desk.server.start_again().await;
    let ended = desk.wait_crowd(&runs).await;
    println!("all ended after {:.1} s", begins.elapsed().as_secs_f64());
    for (name, pid) in [
        ("second worker", second.pid()),
        ("third worker", third.pid()),
        ("server", desk.server.pid().unwrap()),
    ] {
        println!("{name}: {:?}", Usage::of(pid));
    }
    println!("{}", intact(&desk, world::DESK, &runs, &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn calls_that_an_operator_kills_are_lost_to_their_runs() {
    // I-12, H1: the run decides as after a crash, and ends.
    if !namespace::is_inside("load::calls_that_an_operator_kills_are_lost_to_their_runs") {
        return;
    }
    let (desk, worker) = Desk::with_worker().await;
    let runs = desk.submit_crowd(world::DESK, 20).await;
    desk.until_effects("book", 5).await;
    // No call ends without a worker.
    worker.kill();
    let query = "select id from sys_invocation where target_service_name = 'LoopgateCalls' and target_handler_name = 'make' \
                 and status <> 'completed'";
    let calls = desk.server.rows(query).await;
    let mut killed = 0;
    for call in &calls {
        killed += usize::from(desk.server.kill_invocation(call["id"].as_str().unwrap()).await);
    }
    assert!(killed > 0, "{calls:?}");
    let _worker = desk.worker().await;
    let ended = desk.wait_crowd(&runs).await;
    println!("{killed} calls killed: {}", intact(&desk, world::DESK, &runs, &ended).await);
}
