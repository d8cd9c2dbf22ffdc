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

/// One measurement: its name, and what is done once to a fresh copy of a run.
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
    let setup = run().limits(|limits| limits.tool_calls = actions + 10);
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

fn table() {
    println!("{:12} {:>12}", "case", "median ns");
    for case in cases() {
        let mut batches: Vec<u128> = (0..BATCHES).map(|_| batch(&case)).collect();
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
