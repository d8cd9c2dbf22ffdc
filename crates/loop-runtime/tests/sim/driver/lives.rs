//! The lives of one simulated run: a driver starts it, dies or ends it, and the next driver resumes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::run::Started;
use loop_core::spec::ProtocolSpec;
use loop_core::types::RunId;
use loop_core::{Outcome, RunSpec, StopReason, WorkItem};
use loop_runtime::Runner;
use loop_runtime::budget::SharedBudgets;
use loop_runtime::journal::{Journal as _, Recorded};
use loop_runtime::models::Models;
use loop_runtime::run::RunRequest;
use loop_runtime::save::{SaveError, Saver};
use loop_testkit::sim::{Choices, SimFault};

use super::bugs::Bug;
use super::check;
use super::disk::{DiesAt, Disk, Happened};
use super::ledger::{SimLedger, drawn_limit};
use super::people::follow;
use super::spec::drawn_spec;
use super::world::{Model, SimWorld, registry};
use super::{Driven, Tally};

/// How many drivers a run may take.
const MAX_DEATHS: u64 = 40;

/// Simulates a run with these choices. `prefix` names the prefix of its journal that is resumed afterwards.
pub(crate) async fn simulated(mut choices: Choices, bug: Option<Bug>, prefix: Option<u64>) -> Driven {
    let spec = drawn_spec(&mut choices);
    let deaths = u64::from(choices.below(4));
    let limit = drawn_limit(&mut choices);
    let disk = Disk::new(bug);
    let world = Arc::new(SimWorld::new(choices, disk.clone(), bug));
    let ledger = limit.map(|limit| Arc::new(SimLedger::new(&world, limit)));
    let mut tally = Tally { runs: 1, ..Tally::default() };
    let simulation = Simulation { world: &world, disk: &disk, ledger: ledger.as_ref(), spec: &spec };
    let ended = simulation.lives(deaths, prefix, &mut tally).await;
    tally.dispatches = world.dispatches.load(Ordering::Relaxed);
    let choices = world.choices.lock().unwrap().taken().to_vec();
    Driven { fault: ended.err(), tally, choices, happened: disk.happened() }
}

struct Simulation<'a> {
    world: &'a Arc<SimWorld>,
    disk: &'a Disk,
    ledger: Option<&'a Arc<SimLedger>>,
    spec: &'a RunSpec,
}

impl Simulation<'_> {
    async fn lives(&self, deaths: u64, prefix: Option<u64>, tally: &mut Tally) -> Result<(), SimFault> {
        let (world, disk) = (self.world, self.disk);
        let mut run: Option<RunId> = None;
        let outcome = loop {
            let has_faults = tally.deaths < deaths;
            world.has_faults.store(has_faults, Ordering::Relaxed);
            world.is_dead.store(false, Ordering::Relaxed);
            plan(world, disk, has_faults);
            let driven = drive(world, disk, self.request(run.as_ref()), &mut run, has_faults).await;
            if !matches!(driven, Drive::Ended(_) | Drive::NotBegun) {
                disk.happens(Happened::Died);
            }
            match driven {
                Drive::Ended(outcome) if outcome.stop.reason() == StopReason::StorageFailed => {}
                Drive::Ended(outcome) => break Some(outcome),
                Drive::NotBegun => break None,
                Drive::Refused(why) => return Err(world.fault().unwrap_or(refused(why))),
                Drive::Died => {}
            }
            tally.deaths += 1;
            self.is_quiet("after a death").await?;
            if let Some(run) = &run {
                disk.after_death(run).await;
            }
            if tally.deaths > MAX_DEATHS {
                let what = format!("it has not after {MAX_DEATHS} deaths");
                return Err(SimFault { check: "I-8 a run ends", what });
            }
        };
        self.is_quiet("after the end").await?;
        let (Some(outcome), Some(run)) = (outcome, run) else { return Ok(()) };
        let recorded = disk.read(&run).await.map_err(|error| refused(error.to_string()))?;
        check::journal(&run, &recorded, &disk.acknowledged(), &outcome)?;
        if let Some(ledger) = self.ledger {
            ledger.after_the_end(outcome.totals.cost.known).await?;
            tally.shared += 1;
        }
        tally.entries = recorded.entries.len() as u64;
        if let Some(number) = prefix {
            let count = 1 + number as usize % recorded.entries.len();
            resumes(&recorded, count, &run, disk, self.spec).await?;
            tally.prefixes += 1;
        }
        Ok(())
    }

    /// I-14: what the driver began has ended with it.
    async fn is_quiet(&self, when: &str) -> Result<(), SimFault> {
        self.world.is_dead.store(true, Ordering::Relaxed);
        settle().await;
        let live = self.world.live();
        if live > 0 {
            self.world.fails("I-14 no tool runs without its run", format!("{live} tools run {when}"));
        }
        self.world.fault().map_or(Ok(()), Err)
    }

    fn request(&self, run: Option<&RunId>) -> RunRequest {
        let runner = runner(self.world, self.spec.clone(), self.disk, self.ledger);
        match run {
            None => runner.run(WorkItem::new("T-1", "ticket", "Disk full", "Mail ops: d is full.")),
            Some(run) => runner.resume(run),
        }
    }
}

fn refused(what: impl Into<String>) -> SimFault {
    SimFault { check: "I-12 what is on the disk can be resumed", what: what.into() }
}

/// Tasks that were aborted end.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// I-12: a prefix of the journal is resumed without faults, and ends.
async fn resumes(
    recorded: &Recorded,
    count: usize,
    run: &RunId,
    from: &Disk,
    spec: &RunSpec,
) -> Result<(), SimFault> {
    let disk = Disk::with_prefix(recorded, count, run, from).await;
    let mut choices = Choices::of_list(Vec::new());
    choices.calm();
    let world = Arc::new(SimWorld::new(choices, disk.clone(), None));
    let runner = runner(&world, spec.clone(), &disk, None);
    let mut known = Some(run.clone());
    let driven = drive(&world, &disk, runner.resume(run), &mut known, false).await;
    let ended = match driven {
        Drive::Ended(outcome) => {
            let recorded = disk.read(run).await.map_err(|error| refused(error.to_string()))?;
            check::journal(run, &recorded, &disk.acknowledged(), &outcome)
        }
        Drive::Refused(why) => Err(refused(format!("of {count} entries: {why}"))),
        Drive::Died | Drive::NotBegun => Err(refused(format!("of {count} entries: it did not begin"))),
    };
    if ended.is_err() {
        from.happens(Happened::Prefix(count));
        disk.happened().into_iter().for_each(|happened| from.happens(happened));
    }
    ended
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
    // Which of two is first is drawn by nothing but the choices.
    let mut stream = tokio::select! {
        biased;
        () = disk.died() => return if is_new { Drive::NotBegun } else { Drive::Died },
        stream = request.stream() => match stream {
            Ok(stream) => stream,
            Err(_) if is_new => return Drive::NotBegun,
            Err(error) => return Drive::Refused(error.to_string()),
        },
    };
    *run = Some(stream.id().clone());
    let after = match world.below(3) {
        1 if dies => Duration::from_millis(u64::from(world.below(9_000))),
        _ => Duration::from_secs(10_000_000),
    };
    tokio::select! {
        biased;
        () = disk.died() => return Drive::Died,
        () = tokio::time::sleep(after) => return Drive::Died,
        () = follow(world, disk, &mut stream) => {}
    }
    match stream.outcome().cloned() {
        Some(outcome) => Drive::Ended(outcome.into()),
        None => Drive::Refused("the stream ended without an outcome".to_owned()),
    }
}

fn runner(world: &Arc<SimWorld>, spec: RunSpec, disk: &Disk, ledger: Option<&Arc<SimLedger>>) -> Runner {
    let extra: &[&'static str] = match &spec.protocol {
        ProtocolSpec::Output(output) if output.submit.is_some() => &["save", "submit"],
        ProtocolSpec::Output(_) => &["save"],
        ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_) => &[],
    };
    let model = Model { world: Arc::clone(world), spec: spec.clone(), ledger: ledger.map(Arc::clone) };
    let runner = Runner::new(spec, registry(world, extra), Models::one(Arc::new(model)))
        .with_journal(Arc::new(disk.clone()))
        .with_saver(Arc::new(Saves(Arc::clone(world))));
    match ledger {
        None => runner,
        Some(ledger) => {
            let budgets = [ledger.budget()];
            runner.with_shared_budgets(SharedBudgets::new(Arc::<SimLedger>::clone(ledger), budgets))
        }
    }
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
