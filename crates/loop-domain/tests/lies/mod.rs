//! The suite of lies: every named misbehaviour of the mock server, over each protocol, through whole runs.
//!
//! `expected.txt` says for each what the run must come to. A row is written by `UPDATE_LIES=1 cargo test -p loop-domain
//! --test it lies::` and is read against the documentation before it is committed. `known.txt` holds what is found in
//! place of a row that does not hold yet; a row that holds must not be in it. What must hold for all stands in
//! `invariants.rs`. A share of the behaviours runs in the other cost modes too, without a table: `modes.rs` says what holds
//! there, and `LIES_SEED=N` draws another share. `LIES_ONLY=NAME,NAME` runs some, and prints each certificate.
//!
//! A test run plays each behaviour with the desk and in one other world, over one protocol; the seed draws both. `LOOPGATE_TESTS=full` plays all,
//! as `cargo xtask test lies` and `cargo xtask ci` do, and what writes or names behaviours.

mod invariants;
mod modes;
mod table;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use loop_core::spec::CostMode;
use loop_llm::codec::Api;
use loop_mock::Lie;
use loop_testkit::lies;
use tokio::sync::Semaphore;

use table::{EXPECTED, KNOWN, Row, Table};
use world::{Shown, World};

/// Whether every behaviour is played over every protocol, and not over one that the seed draws.
fn is_full() -> bool {
    let is_asked = std::env::var_os("LOOPGATE_TESTS").is_some_and(|scope| scope == "full");
    is_asked || ["LIES_ONLY", "UPDATE_LIES"].iter().any(|name| std::env::var_os(name).is_some())
}

/// The number that `LIES_SEED` gives.
fn seed() -> u64 {
    std::env::var("LIES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// A number for some words that looks like chance, and is the same for the same words: FNV-1a.
fn drawn(words: &str) -> u64 {
    words
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The protocol that is drawn by a number.
fn api_of(drawn: u64) -> Api {
    Api::ALL[((drawn >> 32) % 4) as usize]
}

/// Runs at a time: most of their time they wait.
const AT_ONCE: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lie_ends_as_the_table_says_over_every_protocol_and_breaks_no_promise() {
    let only = std::env::var("LIES_ONLY").ok();
    let wanted = |lie: &Lie| only.as_deref().is_none_or(|only| only.split(',').any(|name| name == lie.name));
    let (all, seed) = (is_full(), seed());
    let [desk, crm, record] = [World::desk(), World::crm(), World::record()].map(Arc::new);
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut runs = tokio::task::JoinSet::new();
    for (group, lie) in
        lies::groups().iter().flat_map(|(group, lies)| lies.iter().map(move |lie| (group, lie)))
    {
        // How an answer travels does not depend on what it answers, and only a document has sections.
        let is_everywhere = !matches!(*group, "connections" | "gateways" | "documents" | "values");
        let other = if drawn(&format!("{} {seed}", lie.name)).is_multiple_of(2) { &crm } else { &record };
        let worlds = [&desk, &crm, &record].into_iter().filter(|world| {
            let is_drawn = all || Arc::ptr_eq(world, other);
            wanted(lie) && (Arc::ptr_eq(world, &desk) || is_everywhere && is_drawn)
        });
        for world in worlds {
            // Which values a document states does not depend on the protocol.
            let apis = if *group == "values" { &Api::ALL[..1] } else { &Api::ALL[..] };
            // By default one protocol of those; where a behaviour concerns few of them it may be none.
            let one = api_of(drawn(&format!("{} {} {seed}", lie.name, world.name)));
            for api in apis.iter().copied().filter(|api| all || apis.len() == 1 || *api == one) {
                let (world, gate) = (Arc::clone(world), Arc::clone(&gate));
                runs.spawn(async move {
                    let _turn = gate.acquire_owned().await.unwrap();
                    let name = world.name;
                    // A panic of the run is a result as well.
                    let run =
                        tokio::spawn(async move { world.run(lie, api, CostMode::Estimated).await }).await;
                    (lie.name, name, api, run)
                });
            }
        }
    }
    let mut wrong: Vec<String> = Vec::new();
    let mut seen: BTreeMap<(&str, &str), BTreeMap<Api, Row>> = BTreeMap::new();
    let mut lied: BTreeSet<&str> = BTreeSet::new();
    while let Some(run) = runs.join_next().await {
        let (lie, world, api, run) = run.unwrap();
        let place = format!("{lie} in {world} over {}", api.name());
        match run {
            Err(error) => wrong.push(format!("{place}: panicked: {error}")),
            Ok(Err(error)) => wrong.push(format!("{place}: {error}")),
            // The behaviour concerns no request of this world.
            Ok(Ok(Shown { lied: 0, .. })) => {}
            Ok(Ok(shown)) => {
                lied.insert(lie);
                if only.is_some() {
                    writeln!(std::io::stderr(), "{place}: {}", shown.words).unwrap();
                }
                wrong.extend(
                    invariants::broken(&shown).into_iter().map(|broken| format!("{place}: {broken}")),
                );
                seen.entry((lie, world)).or_default().insert(api, Row::of(&shown));
            }
        }
    }
    wrong.sort();
    for lie in lies::all().filter(|lie| all && wanted(lie)) {
        if !lied.contains(lie.name) {
            wrong.push(format!("{}: it changed no answer in any world", lie.name));
        }
    }
    let found = Table::of(&seen);
    if std::env::var_os("UPDATE_LIES").is_some() && only.is_none() {
        found.write();
    }
    let (expected, known) = (Table::read(EXPECTED), Table::read(KNOWN));
    wrong.extend(expected.differences(&known, &found, all && only.is_none()));
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_behaviours_that_the_page_names_are_there() {
    let page = include_str!("../../../../docs/how-to/mock-server.md");
    let table = page.split_once("<!-- behaviours").unwrap().1.split("\n\n").nth(1).unwrap();
    let names: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    assert_eq!(names.len(), Lie::ALL.len(), "{names:?}");
    for name in names {
        assert!(
            Lie::find(name).is_some(),
            "docs/how-to/mock-server.md names `{name}`, which is not a behaviour"
        );
    }
}
