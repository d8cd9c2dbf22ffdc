//! Servers of several versions that share one journal and its queue.

use std::sync::Arc;
use std::time::Instant;

use loop_domain::{Domain, LoadOptions};
use loop_runtime::Runner;
use loop_runtime::journal::Journal;
use loop_runtime::models::{Models, Scripted};
use loop_runtime::run::{RunId, StopReason};

use super::World;
use super::servers::{LEASE, domain, ended, submit};
use crate::common::provider::{Piece, Provider, Says, text};
use crate::common::server::{LONG, Server, admin, path};
use crate::common::versions::{driven_by, newer, older};

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_server_leaves_the_runs_of_another_version_in_the_queue_and_claims_none_twice() {
    // Issue 20, part 5; I-11, I-12
    let world = World::new();
    // The calls of the first server hang; later ones are answered.
    let hangs = || Says::Stream(vec![Piece::Text("Done."), Piece::Hold]);
    let provider = Provider::replying(vec![hangs(), hangs(), hangs(), text("m", "Done.")]);
    let folder = domain(&world, &provider);
    let (tokens, token) = admin(&world.shell);
    let url = world.url_of("loops", LEASE);
    let args = ["--tokens", path(&tokens), path(&folder), "--jobs", "3", "--drain", "0", "--journal", &url];
    let start = || Server::open(&world.shell, &args).with_token(&token);
    let first = start();
    let [of_newer, of_other, of_older] = [0, 1, 2].map(|nth| submit(&first, nth));
    (0..3).for_each(|_| provider.wait());
    first.kill();
    // Another version continues each of them, and ends.
    let journal = world.journal(LEASE);
    driven_by(&journal, &of_newer, newer(), /*otherwise*/ false);
    driven_by(&journal, &of_other, older(), /*otherwise*/ true);
    driven_by(&journal, &of_older, older(), /*otherwise*/ false);
    let entries = |run: &str| {
        world.server.sql("loops", &format!("SELECT count(*) FROM loopgate.entries WHERE run = '{run}'"))
    };
    let before = [entries(&of_newer), entries(&of_other)];

    let server = start();
    // What is decided in the same way is taken over, and its record says by whom.
    assert_eq!(ended(&server, &of_older)["class"], "answered");
    let by =
        format!("SELECT count(*) FROM loopgate.entries WHERE run = '{of_older}' AND event LIKE '%\"by\":%'");
    assert_eq!(world.server.sql("loops", &by), "2");
    let row = |run: &str| {
        let row = "SELECT coalesce(claimed_by, '-'), xmin FROM loopgate.submissions WHERE run = ";
        world.server.sql("loops", &format!("{row}'{run}'"))
    };
    // A row may be free already before this server has looked at it, so its own count says when it has.
    let metrics = || server.ask("GET /metrics", "", "").body;
    let left = "loopgate_runs{domain=\"slow\",state=\"other_version\"} 2";
    let is_left =
        || metrics().contains(left) && row(&of_newer).starts_with("-|") && row(&of_other).starts_with("-|");
    let since = Instant::now();
    while !is_left() {
        assert!(since.elapsed() < LONG, "{} {} {}", row(&of_newer), row(&of_other), metrics());
    }
    for (run, version) in [(&of_newer, "loopgate 9.0.0"), (&of_other, "loopgate 0.0.9")] {
        let view = server.get(&format!("/v1/runs/{run}"));
        assert_eq!(view["state"], "other_version", "{view}");
        assert!(view["trouble"].as_str().unwrap().contains(version), "{view}");
        let resumed = server.ask(&format!("POST /v1/runs/{run}/resume"), "", "");
        assert_eq!(resumed.status, 409, "{resumed:?}");
        assert!(resumed.body.contains(version), "{resumed:?}");
    }
    // Other runs go on, and with each the queue is looked at. What was left is not claimed again.
    let rows = [row(&of_newer), row(&of_other)];
    for nth in 3..8 {
        assert_eq!(ended(&server, &submit(&server, nth))["class"], "answered");
    }
    assert_eq!([row(&of_newer), row(&of_other)], rows);
    assert_eq!([entries(&of_newer), entries(&of_other)], before);

    // A program of that version continues it, and this server sees its end.
    let options = LoadOptions::default();
    let domain = Domain::load(&folder, &options).unwrap();
    let model = Models::one(Arc::new(Scripted::replies(["Done."])));
    let runner = Runner::new((*domain.spec).clone(), (*domain.registry).clone(), model)
        .with_prompts(Arc::clone(&domain.prompts))
        .with_journal(Arc::new(journal) as Arc<dyn Journal>)
        .acting_as(newer());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async { runner.resume(&RunId::new(&*of_newer)).await.unwrap() });
    assert_eq!(outcome.stop.reason(), StopReason::Completed);
    assert_eq!(ended(&server, &of_newer)["class"], "answered");
    assert_eq!(server.end().0, 0);
}
