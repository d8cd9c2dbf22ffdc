//! The driver in virtual time: the real runner over a simulated disk, models, tools, people and crashes.

pub(crate) mod bugs;
mod check;
mod disk;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::{
    Execution, Limits, ModelSpec, Outcome, OutputSpec, PersonAnswer, Phase, Price, ProtocolSpec, Run, RunId,
    RunSpec, SectionSpec, Started, StopMode, StopReason, WorkItem,
};
use loop_eval::sim::{Choices, Fault};
use loop_runtime::Runner;
use loop_runtime::journal::Journal as _;
use loop_runtime::models::Models;
use loop_runtime::observe::RunEvent;
use loop_runtime::run::{Remote, RunRequest, RunStream};
use loop_runtime::save::{SaveError, Saver};

use bugs::Bug;
use disk::{DiesAt, Disk};
use world::{Model, SimWorld, registry};

/// The payload of a panic that a simulated tool raises.
pub(crate) const BREAKS_DOWN: &str = "the tool breaks down";

/// What simulations of the driver came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) entries: u64,
    pub(crate) deaths: u64,
    pub(crate) dispatches: u64,
    pub(crate) prefixes: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.entries += other.entries;
        self.deaths += other.deaths;
        self.dispatches += other.dispatches;
        self.prefixes += other.prefixes;
    }
}

/// Simulates these seeds on several threads. Prints what they came to.
pub(crate) fn many(from: u64, to: u64, jobs: u64) -> bool {
    let start = Instant::now();
    let next = AtomicU64::new(from);
    let failed = AtomicBool::new(false);
    let work = || {
        let (mut tally, mut faults) = (Tally::default(), Vec::new());
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                break;
            }
            match one(seed, None) {
                Ok(more) => tally.add(&more),
                Err(fault) => {
                    failed.store(true, Ordering::Relaxed);
                    faults.push((seed, fault));
                }
            }
        }
        (tally, faults)
    };
    let (mut all, mut faults) = (Tally::default(), Vec::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (tally, more) = thread.join().unwrap();
            all.add(&tally);
            faults.extend(more);
        }
    });
    let took = start.elapsed().as_secs_f64();
    let Tally { runs, entries, deaths, dispatches, prefixes } = all;
    println!(
        "driver: {runs} runs, {entries} entries, {deaths} deaths, {dispatches} tool calls, {prefixes} prefixes resumed, \
         {took:.1} s, {:.0} runs a second",
        runs as f64 / took
    );
    faults.sort_by_key(|(seed, _)| *seed);
    for (seed, fault) in faults.iter().take(1) {
        println!("driver seed {seed}: {}: {}", fault.check, fault.what);
        println!("again: cargo xtask sim --driver {seed}..{}", seed + 1);
    }
    faults.is_empty()
}

/// Simulates one seed.
pub(crate) fn one(seed: u64, bug: Option<Bug>) -> Result<Tally, Fault> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulated(seed, bug))
}

async fn simulated(seed: u64, bug: Option<Bug>) -> Result<Tally, Fault> {
    let mut choices = Choices::of_seed(seed ^ DRIVERS);
    let spec = spec(&mut choices);
    let deaths = choices.below(4);
    let disk = Disk::new(bug);
    let world = Arc::new(SimWorld::new(choices, disk.clone(), bug));
    let runner = runner(&world, spec.clone(), &disk);
    let item = WorkItem::new("T-1", "ticket", "Disk full", "Mail ops: d is full.");
    let mut run: Option<RunId> = None;
    let mut tally = Tally { runs: 1, ..Tally::default() };
    let outcome = loop {
        plan(&world, &disk, tally.deaths < u64::from(deaths));
        world.is_dead.store(false, Ordering::Relaxed);
        let request = match &run {
            None => runner.run(item.clone()),
            Some(run) => runner.resume(run),
        };
        let drives = tally.deaths < u64::from(deaths);
        match drive(&world, &disk, request, &mut run, drives).await {
            Drive::Ended(outcome) if outcome.stop.reason() == StopReason::StorageFailed => {}
            Drive::Ended(outcome) => break Some(outcome),
            Drive::NotBegun => break None,
            Drive::Refused(why) => return Err(world.fault().unwrap_or(refused(why))),
            Drive::Died => {}
        }
        tally.deaths += 1;
        world.is_dead.store(true, Ordering::Relaxed);
        settle().await;
        let live = world.live();
        if live > 0 {
            world.fails("I-14 no tool runs without its run", format!("{live} tools run after a death"));
        }
        if let Some(run) = &run {
            disk.after_death(run).await;
        }
        if let Some(fault) = world.fault() {
            return Err(fault);
        }
        if tally.deaths > 40 {
            return Err(Fault { check: "I-8 a run ends", what: "it has not after 40 deaths".to_owned() });
        }
    };
    world.is_dead.store(true, Ordering::Relaxed);
    settle().await;
    if world.live() > 0 {
        world.fails("I-14 no tool runs without its run", format!("{} tools run after the end", world.live()));
    }
    if let Some(fault) = world.fault() {
        return Err(fault);
    }
    let (Some(outcome), Some(run)) = (outcome, run) else { return Ok(tally) };
    let recorded = disk.read(&run).await.map_err(|error| refused(error.to_string()))?;
    check::journal(&run, &recorded, &disk.acknowledged(), &outcome)?;
    tally.entries = recorded.entries.len() as u64;
    tally.dispatches = world.dispatches.load(Ordering::Relaxed);
    if seed.is_multiple_of(4) {
        let count = 1 + (seed / 4) as usize % recorded.entries.len();
        prefix(&recorded, count, &run, &disk, spec).await?;
        tally.prefixes += 1;
    }
    Ok(tally)
}

/// Keeps the numbers of the driver and of the core apart.
const DRIVERS: u64 = 0xd71e_0000_0000_0000;

fn refused(what: impl Into<String>) -> Fault {
    Fault { check: "I-12 what is on the disk can be resumed", what: what.into() }
}

/// Tasks that were aborted end.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// I-12: a prefix of the journal is resumed without faults, and ends.
async fn prefix(
    recorded: &loop_runtime::journal::Recorded,
    count: usize,
    run: &RunId,
    from: &Disk,
    spec: RunSpec,
) -> Result<(), Fault> {
    let disk = Disk::with_prefix(recorded, count, run, from).await;
    let mut choices = Choices::of_list(Vec::new());
    choices.calm();
    let world = Arc::new(SimWorld::new(choices, disk.clone(), None));
    let runner = runner(&world, spec, &disk);
    let mut known = Some(run.clone());
    match drive(&world, &disk, runner.resume(run), &mut known, false).await {
        Drive::Ended(outcome) => {
            let recorded = disk.read(run).await.map_err(|error| refused(error.to_string()))?;
            check::journal(run, &recorded, &disk.acknowledged(), &outcome)
        }
        Drive::Refused(why) => Err(refused(format!("of {count} entries: {why}"))),
        Drive::Died | Drive::NotBegun => Err(refused(format!("of {count} entries: it did not begin"))),
    }
}

/// Draws the next faults of the disk.
fn plan(world: &SimWorld, disk: &Disk, has_faults: bool) {
    if !has_faults {
        return disk.plan(None, None);
    }
    let seq = u64::from(1 + world.below(24)) + disk.acknowledged().len() as u64 / 2;
    match world.below(4) {
        0 => disk.plan(None, None),
        1 => disk.plan(Some(DiesAt { seq, is_written: false }), None),
        2 => disk.plan(Some(DiesAt { seq, is_written: true }), None),
        _ => disk.plan(None, Some(seq)),
    }
}

enum Drive {
    Ended(Box<Outcome>),
    Died,
    NotBegun,
    Refused(String),
}

/// Drives a request until it ends or the process dies: at an entry, or after some time.
async fn drive(
    world: &Arc<SimWorld>,
    disk: &Disk,
    request: RunRequest,
    run: &mut Option<RunId>,
    dies: bool,
) -> Drive {
    let is_new = run.is_none();
    let mut stream = tokio::select! {
        stream = request.stream() => match stream {
            Ok(stream) => stream,
            Err(_) if is_new => return Drive::NotBegun,
            Err(error) => return Drive::Refused(error.to_string()),
        },
        () = disk.died() => return if is_new { Drive::NotBegun } else { Drive::Died },
    };
    *run = Some(stream.id().clone());
    let after = match world.below(3) {
        1 if dies => Duration::from_millis(u64::from(world.below(9_000))),
        _ => Duration::from_secs(10_000_000),
    };
    tokio::select! {
        () = follow(world, disk, &mut stream) => {}
        () = disk.died() => return Drive::Died,
        () = tokio::time::sleep(after) => return Drive::Died,
    }
    match stream.outcome().cloned() {
        Some(outcome) => Drive::Ended(outcome.into()),
        None => Drive::Refused("the stream ended without an outcome".to_owned()),
    }
}

/// Reads a run to its end, and is its people.
async fn follow(world: &Arc<SimWorld>, disk: &Disk, stream: &mut RunStream) {
    let remote = stream.remote();
    let mut copy: Option<Run> = None;
    let spec = disk.acknowledged().first().and_then(|_| disk.spec());
    for entry in disk.acknowledged() {
        apply(&mut copy, &entry.event, spec.as_ref());
    }
    // A run that was resumed while it waited is asked about again.
    answer(world, copy.as_ref(), &remote);
    let mut seen = disk.acknowledged().len() as u64;
    while let Some(event) = stream.next().await {
        let RunEvent::Recorded(entry) = event else { continue };
        if entry.seq >= seen || copy.is_none() {
            apply(&mut copy, &entry.event, disk.spec().as_ref());
            seen = entry.seq + 1;
        }
        answer(world, copy.as_ref(), &remote);
        match world.below(60) {
            57 => remote.stop(StopMode::AtGate),
            58 => _ = remote.tell("Hurry."),
            59 if world.below(3) == 1 => remote.stop(StopMode::Now),
            59 => remote.withdraw_stop(),
            _ => {}
        }
    }
}

fn apply(copy: &mut Option<Run>, event: &loop_core::Event, spec: Option<&Arc<RunSpec>>) {
    match copy {
        None => *copy = spec.and_then(|spec| Run::open(event, Arc::clone(spec)).ok()).map(|(run, _)| run),
        Some(run) => {
            // The journal is checked at the end.
            let _ = run.apply(event);
        }
    }
}

/// People answer what they are asked: once, twice, or with the binding of something else.
fn answer(world: &SimWorld, run: Option<&Run>, remote: &Remote) {
    let Some(run) = run.filter(|run| matches!(run.phase(), Phase::WaitingForPerson { .. })) else { return };
    for request in run.requested() {
        let answer = match world.below(4) {
            0 | 1 => PersonAnswer::Approved,
            2 => PersonAnswer::Denied { why: "no".into() },
            _ => continue,
        };
        match world.below(4) {
            0 | 1 => _ = remote.answer_as_shown(request.key, answer, request.binding),
            2 => {
                remote.answer(request.key, answer.clone());
                remote.answer(request.key, answer);
            }
            _ => {
                _ = remote.answer_as_shown(request.key, answer, loop_core::Digest::of("sim", b"another"));
            }
        }
    }
}

fn runner(world: &Arc<SimWorld>, spec: RunSpec, disk: &Disk) -> Runner {
    let extra: &[&'static str] = match &spec.protocol {
        ProtocolSpec::Output(output) if output.submit.is_some() => &["save", "submit"],
        ProtocolSpec::Output(_) => &["save"],
        ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_) => &[],
    };
    let model = Model { world: Arc::clone(world), spec: spec.clone() };
    Runner::new(spec, registry(world, extra), Models::one(Arc::new(model)))
        .with_journal(Arc::new(disk.clone()))
        .with_saver(Arc::new(Saves(Arc::clone(world))))
}

/// Saves, and fails now and then.
#[derive(Debug)]
struct Saves(Arc<SimWorld>);

#[async_trait]
impl Saver for Saves {
    async fn save(&self, _: &Started, _: &Outcome) -> Result<Arc<str>, SaveError> {
        match self.0.below(4) {
            3 => Err(SaveError { message: "busy".into(), retry: Some(Duration::from_millis(50)) }),
            _ => Ok("a place".into()),
        }
    }
}

fn spec(choices: &mut Choices) -> RunSpec {
    let model = ModelSpec { timeout_ms: 20_000, ..ModelSpec::new("sim", "base") };
    let model = model.with_price(Price::flat(100_000, 400_000));
    let mut spec = match choices.below(4) {
        0 | 1 => {
            let sections = [
                SectionSpec::new("situation", "Situation").required(),
                SectionSpec::new("findings", "Findings"),
                SectionSpec::new("next_steps", "Next steps"),
            ];
            RunSpec::document("sim", sections, model)
        }
        2 => RunSpec::conversation("sim", model),
        _ => {
            let submit = choices.one_in(2).then(|| "submit".into());
            let output = OutputSpec { submit, attempts: 2, passes_per_attempt: 3, ..OutputSpec::new("save") };
            RunSpec::output("sim", output, model)
        }
    };
    if let ProtocolSpec::Conversation(conversation) = &mut spec.protocol {
        conversation.execution = if choices.one_in(2) { Execution::Parallel } else { Execution::Ordered };
    }
    spec.selection.enabled = spec.selection.enabled && choices.one_in(3);
    spec.limits = Limits {
        passes: 2 + choices.below(4),
        tool_calls: 3 + choices.below(8),
        wall_ms: 120_000,
        person_ms: 30_000,
        cost: None,
        ..spec.limits
    };
    spec.gate.people = choices.one_in(2);
    if choices.one_in(2) {
        spec.gate.approved = vec!["restart".into(), "set".into(), "wipe".into(), "mail".into()];
    }
    spec
}
