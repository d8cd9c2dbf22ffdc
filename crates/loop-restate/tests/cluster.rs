//! A cluster of three nodes, of which one is killed in the middle.

use std::time::Instant;

use crate::harness::checks::intact;
use crate::harness::server::Server;
use crate::harness::worker::register;
use crate::harness::{Desk, namespace, world};
use crate::load::runs_or;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_survive_a_node_of_a_cluster_that_is_killed() {
    // I-12, H1
    if !namespace::is_inside("cluster::runs_survive_a_node_of_a_cluster_that_is_killed") {
        return;
    }
    let count = runs_or(20);
    let folder = tempfile::tempdir().unwrap();
    let [mut first, second, _third] = Server::cluster::<3>(folder.path()).await;
    let desk = Desk::of(folder, second);
    let _workers = (desk.worker().await, desk.worker().await);
    register(&desk.server.admin(), desk.port).await;
    let begins = Instant::now();
    let runs = desk.submit_crowd(world::DESK, count).await;
    desk.until_effects("book", count / 3).await;
    // The node that made the cluster. It does not come back before all runs have ended.
    first.kill();
    println!("a node killed after {:.1} s", begins.elapsed().as_secs_f64());
    let ended = desk.wait_crowd(&runs).await;
    println!("all ended after {:.1} s", begins.elapsed().as_secs_f64());
    println!("{}", intact(&desk, world::DESK, &runs, &ended).await);
}
