//! What the core costs: one gate decision, a clone of the state, a long reply; each as the median of many batches.
//!
//! Without arguments a table of nanoseconds is printed. `count NAME TIMES` does one of them so many times and prints
//! nothing, for a program that counts instructions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::sync::Arc;

use common::{PROMPT, Said, digest, facts, found, run, said, said_bare, target};
use loop_core::{Command, Event, Fact, Run, RunId};

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
        let two = said("medium")
            .asks("fetch_device", target("of-this-pass"))
            .asks("fetch_device", target("and-another"));
        let event = replied(&run, &two);
        cases.push(Case { name: format!("gate-{size}"), run: run.clone(), work: apply, event });
        let event = replied(&run, &said("high"));
        cases.push(Case { name: format!("clone-{size}"), run, work: clone, event });
    }
    let run = with_ledger(10);
    let mut long = said_bare("medium");
    for heading in ["Situation", "Findings", "Next Steps"] {
        let body = "The disk of the server is full since Monday; the backup says so [E1].\n".repeat(48);
        long = long.section(heading, &body);
    }
    let event = replied(&run, &long.asks("fetch_device", target("of-this-pass")));
    cases.push(Case { name: "reply-10KB".to_owned(), run, work: apply, event });
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
    let (mut run, ..) = Run::start(RunId::new("bench"), Arc::new(setup.spec), setup.item, facts());
    start_call(&mut run);
    let all = (0..actions).fold(said("low"), |said, n| said.asks("fetch_device", target(&format!("d-{n}"))));
    let event = replied(&run, &all);
    run.apply(&event).unwrap();
    for command in run.commands() {
        let Command::RunTool(tool) = command else { continue };
        let observation = found(&format!("what {} brought", tool.key));
        tell(&mut run, Fact::ToolFinished { key: tool.key, attempt: tool.attempt, observation });
    }
    start_call(&mut run);
    run
}

fn start_call(run: &mut Run) {
    let commands = run.commands();
    let [Command::CallModel(call)] = commands.as_slice() else { panic!("{commands:?}") };
    let quote = run.quote(&call.key, PROMPT).unwrap();
    let fact = Fact::CallStarted {
        key: call.key,
        attempt: call.attempt,
        tier: quote.tier,
        prompt_bytes: PROMPT.bytes,
        shared_bytes: PROMPT.shared_bytes,
        prompt_hash: digest(),
        max_output_tokens: quote.max_output_tokens,
        reserve: quote.reserve,
    };
    tell(run, fact);
}

fn replied(run: &Run, said: &Said) -> Event {
    let commands = run.commands();
    let [Command::CallModel(call)] = commands.as_slice() else { panic!("{commands:?}") };
    let fact = Fact::ModelReplied { key: call.key, attempt: call.attempt, reply: said.reply() };
    Event { at: run.now(), fact }
}

fn tell(run: &mut Run, fact: Fact) {
    let event = Event { at: run.now(), fact };
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
fn asks(n: usize) -> Said {
    said("medium").asks("fetch_device", target(&format!("of-pass-{n}"))).asks("fetch_device", target("d-1"))
}

/// Ends the tools of a pass and starts the call of the next one.
fn next_pass(run: &mut Run) {
    for command in run.commands() {
        let Command::RunTool(tool) = command else { continue };
        let observation = found(&format!("what {} brought", tool.key));
        tell(run, Fact::ToolFinished { key: tool.key, attempt: tool.attempt, observation });
    }
    start_call(run);
}

/// Nanoseconds of one gate decision of a run that goes on from pass to pass, as a run does: its lists have grown with
/// it, so that what is timed is the decision and not the first growth of a copy.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench program measures time")]
fn passes(case: &Case) -> u128 {
    let mut run = case.run.clone();
    run.apply(&case.event).unwrap();
    next_pass(&mut run);
    let mut spent = std::time::Duration::ZERO;
    for n in 0..PASSES {
        let event = replied(&run, &asks(n));
        let began = std::time::Instant::now();
        black_box(run.apply(black_box(&event)).unwrap());
        spent += began.elapsed();
        next_pass(&mut run);
    }
    spent.as_nanos() / PASSES as u128
}

fn table() {
    println!("{:12} {:>12}", "case", "median ns");
    for case in cases() {
        let once = if case.name.starts_with("gate") { passes } else { batch };
        let mut batches: Vec<u128> = (0..BATCHES).map(|_| once(&case)).collect();
        batches.sort_unstable();
        println!("{:12} {:12}", case.name, batches[BATCHES / 2]);
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
