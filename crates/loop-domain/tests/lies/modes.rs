//! What holds of money in the cost modes `strict` and `after`, whatever a server says.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::run::Reserve;
use loop_core::spec::CostMode;
use loop_core::types::{CommandKey, PicoUsd, Usage};
use loop_core::{EventKind, Note};
use loop_llm::codec::Api;
use loop_mock::Lie;
use loop_testkit::lies;
use tokio::sync::Semaphore;

use super::world::{Shown, World, price};
use super::{AT_ONCE, api_of, drawn, invariants, is_full, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lie_passes_a_strict_limit_and_a_check_after_the_spending_stops_the_next_call() {
    let only = std::env::var("LIES_ONLY").ok();
    let (all, seed) = (is_full(), seed());
    let (desk, crm) = (Arc::new(World::desk()), Arc::new(World::crm()));
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut runs = tokio::task::JoinSet::new();
    for (group, lie) in
        lies::groups().iter().flat_map(|(group, lies)| lies.iter().map(move |lie| (*group, lie)))
    {
        if only.as_deref().is_some_and(|only| only.split(',').all(|name| name != lie.name)) {
            continue;
        }
        for mode in [CostMode::Strict, CostMode::After] {
            for world in [&desk, &crm] {
                for api in share(group, lie, world.name, mode, seed, all) {
                    let (world, gate) = (Arc::clone(world), Arc::clone(&gate));
                    runs.spawn(async move {
                        let _turn = gate.acquire_owned().await.unwrap();
                        let place =
                            format!("{} in {} over {} ({})", lie.name, world.name, api.name(), mode.name());
                        let run = tokio::spawn(async move { world.run(lie, api, mode).await }).await;
                        let broken = match run {
                            Err(error) => vec![format!("panicked: {error}")],
                            Ok(Err(error)) => vec![error],
                            Ok(Ok(shown)) => [invariants::broken(&shown), broken(&shown, mode)].concat(),
                        };
                        broken.into_iter().map(|broken| format!("{place}: {broken}")).collect::<Vec<_>>()
                    });
                }
            }
        }
    }
    let mut wrong: Vec<String> = runs.join_all().await.concat();
    wrong.sort();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The protocols over which a behaviour runs in a mode: all where usage is untrue or a stream breaks, one that the seed
/// draws for long replies; of the others the seed draws half. Unless all are played it is one protocol everywhere.
fn share(group: &str, lie: &Lie, world: &str, mode: CostMode, seed: u64, all: bool) -> Vec<Api> {
    let is_any_of = |words: &[&str]| words.iter().any(|word| lie.name.contains(word));
    let drawn = drawn(&format!("{} {world} {} {seed}", lie.name, mode.name()));
    let one = vec![api_of(drawn)];
    let is_desk = world == "desk";
    if !is_desk && matches!(group, "connections" | "gateways" | "documents") {
        return Vec::new();
    }
    match (is_any_of(&UNTRUE), is_any_of(&LONG), mode) {
        (true, _, CostMode::Strict) if is_desk && all => Api::ALL.to_vec(),
        (true, _, _) | (_, true, CostMode::Strict) => one,
        (_, true, _) if is_desk => one,
        (_, _, CostMode::Strict) if is_desk && drawn.is_multiple_of(2) => one,
        _ => Vec::new(),
    }
}

/// What stands in the names of behaviours whose usage is untrue, or whose answer breaks.
const UNTRUE: [&str; 17] = [
    "usage",
    "mid-stream",
    "cut-once",
    "no-end",
    "no-mark",
    "closed-before",
    "stalls",
    "garbage-head",
    "header",
    "event-of",
    "chunk-size",
    "chunk-larger",
    "two-lengths",
    "early-hints",
    "life-only",
    "too-short",
    "bad-gateway",
];
/// What stands in the names of behaviours whose replies are long.
const LONG: [&str; 9] = [
    "output-limit",
    "all-tokens",
    "flood",
    "endless",
    "megabyte",
    "000-calls",
    "64-kb",
    "ever-growing",
    "thousand",
];

/// Each promise of the cost mode that the run broke, in a sentence.
fn broken(shown: &Shown, mode: CostMode) -> Vec<String> {
    let mut broken = Vec::new();
    let limit = shown.limits().cost.unwrap();
    let (mut settled, mut charged) = (PicoUsd(0), 0);
    let mut open: BTreeMap<(CommandKey, u32), Reserve> = BTreeMap::new();
    for entry in &shown.entries {
        let place = format!("entry {}", entry.seq);
        match &entry.event.kind {
            EventKind::CallStarted { key, attempt, reserve, .. } => {
                let reserved = reserve.cost.unwrap();
                if mode == CostMode::Strict && settled.plus(reserved) > limit {
                    broken.push(format!("{place}: {settled} and {reserved} of {limit}"));
                }
                if settled >= limit {
                    broken.push(format!("{place}: {settled} of {limit} was spent, and a call was made"));
                }
                open.insert((*key, *attempt), *reserve);
            }
            EventKind::ModelReplied { key, attempt, reply } => {
                released(&open, (*key, *attempt), reply.usage, entry.notes.as_slice(), mode, &mut broken);
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                released(&open, (*key, *attempt), failure.usage, entry.notes.as_slice(), mode, &mut broken);
            }
            _ => {}
        }
        for note in &entry.notes {
            if let Note::CallCharged { cost, .. } = note {
                (settled, charged) = (settled.plus(cost.unwrap()), charged + 1);
            }
        }
    }
    let billed = shown.requests.iter().filter(|request| request.usage.is_some()).count();
    if billed > charged {
        broken.push(format!("{billed} calls were billed, and {charged} were charged"));
    }
    if mode == CostMode::Strict {
        // What a provider generates beyond the output that was granted is its own fault: docs/reference/domain-file.md says so.
        let billed = shown.requests.iter().filter_map(|request| {
            let granted = request.request()?.max_output_tokens?;
            let usage = request.usage?;
            let reasoning = usage.reasoning.min(granted);
            let output = usage.output.min(granted - reasoning);
            Some(price().of(&Usage { output, reasoning, ..usage }))
        });
        let billed = billed.fold(PicoUsd(0), PicoUsd::plus);
        if billed > limit {
            broken.push(format!("{billed} of {limit} was billed"));
        }
    }
    broken
}

/// In `strict` only reported usage releases a reserve.
fn released(
    open: &BTreeMap<(CommandKey, u32), Reserve>,
    call: (CommandKey, u32),
    reported: Option<Usage>,
    notes: &[Note],
    mode: CostMode,
    broken: &mut Vec<String>,
) {
    let Some(reserve) = open.get(&call).filter(|_| reported.is_none() && mode == CostMode::Strict) else {
        return;
    };
    let charged = notes.iter().find_map(|note| match note {
        Note::CallCharged { key, attempt, usage, cost, .. } if (*key, *attempt) == call => {
            Some((*usage, *cost))
        }
        _ => None,
    });
    let (usage, cost) = charged.unwrap();
    let is_kept = usage.total_input() >= reserve.input_tokens
        && usage.total_output() >= reserve.output_tokens
        && cost >= reserve.cost;
    if !is_kept {
        broken.push(format!("{}: {usage:?} for {reserve:?} without a report", call.0));
    }
}
