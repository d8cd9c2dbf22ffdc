//! What the core costs: one gate decision, a clone of the state, a long reply; each as the median and the 99th percentile
//! of many.
//!
//! `gate` is a document's, `progress` and `three_tier` are a conversation's with these rules of repeats and a tool that
//! searches. Without arguments a table of nanoseconds is printed. `count NAME TIMES` does one of them so many times and prints
//! nothing, for a program that counts instructions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs, unreachable_pub)]

use std::hint::black_box;
use std::sync::Arc;

use loop_core::spec::Repeats;
use loop_core::types::RunId;
use loop_core::{Command, Event, EventKind, Run};
use loop_testkit::{
    DraftReply, PROMPT, Setup, announced, bare_draft, calls, conversation, digest, draft, facts, found, run,
    target,
};
use serde_json::Value;

/// How many actions are in the ledger.
const SIZES: [u32; 3] = [10, 100, 1_000];
const BATCHES: usize = 60;
const BATCH: usize = 50;
/// Passes of one batch of gate decisions.
const PASSES: usize = 10;

/// One measurement: its name, and what is done once to a run.
struct Case {
    name: String,
    run: Run,
    work: fn(&mut Run, &Event),
    event: Event,
    /// What the n-th of some passes asks for, where whole passes are measured.
    asks: Option<fn(usize) -> DraftReply>,
}

fn main() {
    let arguments = arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["count", name, times] => count(name, times.parse().unwrap()),
        _ => table(),
    }
}

/// What was asked for, without what `cargo bench` adds.
#[expect(clippy::disallowed_methods, reason = "a bench program reads its own arguments")]
fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench").collect()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in SIZES {
        let run = with_ledger(size);
        let two = draft("medium")
            .asks("fetch_device", target("of-this-pass"))
            .asks("fetch_device", target("and-another"));
        let event = replied(&run, &two);
        let asks: Option<fn(usize) -> DraftReply> = Some(asks);
        cases.push(Case { name: format!("gate-{size}"), run: run.clone(), work: apply, event, asks });
        let event = replied(&run, &draft("high"));
        cases.push(Case { name: format!("clone-{size}"), run, work: clone, event, asks: None });
        for repeats in [Repeats::Progress, Repeats::ThreeTier] {
            let run = with_conversation(size, repeats);
            let event = replied(&run, &searches(PASSES));
            let asks: Option<fn(usize) -> DraftReply> = Some(searches);
            cases.push(Case { name: format!("{}-{size}", repeats.name()), run, work: apply, event, asks });
        }
    }
    let run = with_ledger(10);
    let mut long = bare_draft("medium");
    for heading in ["Situation", "Findings", "Next Steps"] {
        let body = "The disk of the server is full since Monday; the backup says so [E1].\n".repeat(48);
        long = long.section(heading, &body);
    }
    let event = replied(&run, &long.asks("fetch_device", target("of-this-pass")));
    cases.push(Case { name: "reply-10KB".to_owned(), run, work: apply, event, asks: None });
    cases
}

fn apply(run: &mut Run, event: &Event) {
    black_box(run.apply(black_box(event)).unwrap());
}

fn clone(run: &mut Run, _: &Event) {
    *run = black_box(&*run).clone();
}

/// A run whose first pass ran so many tools, with the call of its second pass in flight.
fn with_ledger(actions: u32) -> Run {
    let setup = run().patient().limits(|limits| {
        limits.tool_calls = actions + 100;
        limits.passes = 100;
        limits.model_calls = 100;
        limits.cost = None;
    });
    let all =
        (0..actions).fold(draft("low"), |draft, n| draft.asks("fetch_device", target(&format!("d-{n}"))));
    with_first_pass(setup, &all)
}

/// A conversation whose first pass looked and searched so often, with the call of its second pass in flight.
fn with_conversation(actions: u32, repeats: Repeats) -> Run {
    let setup = conversation().parallel().repeating(repeats).with(|spec| {
        (spec.limits.tool_calls, spec.limits.passes, spec.limits.model_calls) = (actions + 100, 100, 100);
        (spec.limits.cost, spec.limits.messages, spec.gate.no_progress) = (None, None, 0);
        spec.gate.three_tier.other = u32::MAX;
        spec.gate.three_tier.search = vec!["fetch_docs".into()];
        spec.gate.three_tier.query = vec!["target".into()];
        spec.tools[1].smart = false;
    });
    let all: Vec<(&str, Value)> = (0..actions)
        .map(|n| match n % 4 {
            0 => ("fetch_docs", target(&query(n as usize))),
            _ => ("fetch_device", target(&format!("d-{n}"))),
        })
        .collect();
    with_first_pass(setup, &calls(&all))
}

/// A search text of an ordinary length, unlike the others.
fn query(n: usize) -> String {
    let words =
        ["disk", "network", "backup", "mail", "printer", "login", "certificate", "memory", "update", "cable"];
    let word = |at: usize| words[at % words.len()];
    format!(
        "{} {} after the {} of {}{} on host {n}",
        word(n),
        word(n / 10),
        word(n / 100),
        word(n / 7),
        word(n / 3)
    )
}

fn with_first_pass(setup: Setup, first: &DraftReply) -> Run {
    let (mut run, ..) = Run::start(RunId::new("bench"), Arc::new(setup.spec), setup.item, facts());
    start_call(&mut run);
    let event = replied(&run, first);
    run.apply(&event).unwrap();
    for command in run.commands() {
        let Command::RunTool(tool) = command else { continue };
        let observation = found(&format!("what {} returned", tool.key));
        tell(
            &mut run,
            EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation: observation.into() },
        );
    }
    start_call(&mut run);
    run
}

fn start_call(run: &mut Run) {
    let commands = run.commands();
    let [Command::CallModel(call)] = commands.as_slice() else { panic!("{commands:?}") };
    let kind = announced(run, call, PROMPT, digest());
    tell(run, kind);
}

fn replied(run: &Run, draft: &DraftReply) -> Event {
    let commands = run.commands();
    let [Command::CallModel(call)] = commands.as_slice() else { panic!("{commands:?}") };
    let kind = EventKind::ModelReplied { key: call.key, attempt: call.attempt, reply: draft.reply().into() };
    Event { at: run.now(), kind }
}

fn tell(run: &mut Run, kind: EventKind) {
    let event = Event { at: run.now(), kind };
    run.apply(&event).unwrap();
}

/// Does one case so many times, each on a copy of its run.
fn count(name: &str, times: usize) {
    let cases = cases();
    let case = cases.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case `{name}`"));
    let mut copies: Vec<Run> = std::iter::repeat_n(&case.run, BATCH).cloned().collect();
    for copy in copies.iter_mut().take(times) {
        (case.work)(copy, &case.event);
    }
    // The copies are not dropped: that is no part of what is counted.
    std::mem::forget(copies);
}

/// What is asked for in the n-th pass that is timed.
fn asks(n: usize) -> DraftReply {
    draft("medium").asks("fetch_device", target(&format!("of-pass-{n}"))).asks("fetch_device", target("d-1"))
}

/// The same in a conversation: a search, a look, and a look that was made before.
fn searches(n: usize) -> DraftReply {
    calls(&[
        ("fetch_docs", target(&query(2_000 + n * 37))),
        ("fetch_device", target(&format!("of-pass-{n}"))),
        ("fetch_device", target("d-1")),
    ])
}

/// Ends the tools of a pass and starts the call of the next one.
fn next_pass(run: &mut Run) {
    for command in run.commands() {
        let Command::RunTool(tool) = command else { continue };
        let observation = found(&format!("what {} returned", tool.key));
        tell(
            run,
            EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation: observation.into() },
        );
    }
    start_call(run);
}

/// Nanoseconds of each gate decision of a run that goes on from pass to pass, as a run does: its lists have grown with
/// it, so that what is timed is the decision and not the first growth of a copy.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench program measures time")]
fn passes(case: &Case, asks: fn(usize) -> DraftReply) -> Vec<u128> {
    let mut run = case.run.clone();
    run.apply(&case.event).unwrap();
    next_pass(&mut run);
    let mut spent = Vec::new();
    for n in 0..PASSES {
        let event = replied(&run, &asks(n));
        let began = std::time::Instant::now();
        black_box(run.apply(black_box(&event)).unwrap());
        spent.push(began.elapsed().as_nanos());
        next_pass(&mut run);
    }
    spent
}

fn table() {
    println!("{:16} {:>12} {:>12}", "case", "median ns", "p99 ns");
    for case in cases() {
        let once = || match case.asks {
            Some(asks) => passes(&case, asks),
            None => vec![batch(&case)],
        };
        let mut all: Vec<u128> = (0..BATCHES).flat_map(|_| once()).collect();
        all.sort_unstable();
        println!("{:16} {:12} {:12}", case.name, all[all.len() / 2], all[all.len() * 99 / 100]);
    }
}

/// Nanoseconds of one, as the mean of a batch.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench program measures time")]
fn batch(case: &Case) -> u128 {
    let mut copies: Vec<Run> = std::iter::repeat_n(&case.run, BATCH).cloned().collect();
    let began = std::time::Instant::now();
    for copy in &mut copies {
        (case.work)(copy, &case.event);
    }
    began.elapsed().as_nanos() / BATCH as u128
}
