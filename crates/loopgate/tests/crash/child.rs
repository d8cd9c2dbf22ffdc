//! The process that is killed: it begins the items of a scenario, or resumes them, and drives them to their end.

use std::process::{Command, Stdio};

use futures::future::join_all;
use loop_runtime::{
    Runner,
    journal::StoredJournal,
    people::PersonAnswer,
    run::{DriveResult, EventKind, RunRequest, StartError, Waiting},
};

use crate::journal::{CrashJournal, CrashPoint, Plant, report};
use crate::scenarios::{Scenario, World, by_name};

/// The exit code of a process whose journal failed.
pub const STORAGE_FAILED: i32 = 6;

/// The arguments of a child.
#[derive(Clone, Debug)]
pub struct Task {
    pub scenario: &'static str,
    pub address: String,
    pub journal: String,
    pub place: CrashPoint,
    pub mark: String,
    pub plant: Plant,
}

impl Task {
    pub fn args(&self) -> Vec<String> {
        let Self { scenario, address, journal, place, mark, plant } = self;
        let place = place.to_string();
        ["child", scenario, address, journal, &place, mark, plant.name()].map(str::to_owned).to_vec()
    }

    fn of(args: &[String]) -> Self {
        let [scenario, address, journal, place, mark, plant] = args else { panic!("not a child: {args:?}") };
        Self {
            scenario: by_name(scenario).name,
            address: address.clone(),
            journal: journal.clone(),
            place: place.parse().unwrap(),
            mark: mark.clone(),
            plant: Plant::of(plant),
        }
    }
}

/// Runs the child and ends the process.
#[expect(clippy::zombie_processes, reason = "a planted fault: the check has to find what is left behind")]
pub fn run(args: &[String]) -> ! {
    let task = Task::of(args);
    if task.plant == Plant::Orphan {
        Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = runtime.block_on(drive(&task));
    std::process::exit(code)
}

async fn drive(task: &Task) -> i32 {
    let scenario = by_name(task.scenario);
    let world = World { address: task.address.clone(), mark: task.mark.clone(), plant: task.plant };
    let inner = match StoredJournal::open(&task.journal) {
        Ok(inner) => inner,
        Err(error) => {
            report(&format!("refused {error}"));
            return STORAGE_FAILED;
        }
    };
    let journal = CrashJournal::new(inner, task.place, task.plant);
    let runner = scenario.runner(&world, journal.clone());
    let driven = join_all(scenario.items.iter().map(|item| to_the_end(scenario, &runner, item))).await;
    report(&format!("appends {}", journal.appends()));
    match driven.into_iter().find_map(Result::err) {
        None => 0,
        Some(why) => {
            report(&format!("refused {why}"));
            STORAGE_FAILED
        }
    }
}

/// Begins an item that has no run, resumes one that has, and answers what a person is asked. What the journal refuses is
/// an error.
async fn to_the_end(scenario: &Scenario, runner: &Runner, item: &str) -> Result<(), String> {
    let runs = runner.journal().runs().await.map_err(|error| error.to_string())?;
    let mut request = match runs.iter().find(|line| *line.item == *item) {
        None => runner.run(scenario.item(item)),
        Some(line) => match resumed(runner, line.run.clone()).await? {
            Some(request) => request,
            None => return Ok(()),
        },
    };
    loop {
        let handle = request.start().await.map_err(|error: StartError| error.to_string())?;
        match handle.driven().await {
            DriveResult::Ended(outcome)
                if outcome.stop.reason() == loop_runtime::StopReason::StorageFailed =>
            {
                return Err(format!("{}: {}", outcome.run, outcome.stop.primary.value));
            }
            DriveResult::Ended(outcome) => {
                report(&format!("ended {} {}", outcome.run, outcome.stop.reason()));
                return Ok(());
            }
            DriveResult::Waiting(waiting) => request = answered(runner, &waiting),
        }
    }
}

/// A request that resumes a run; where it waits for a person, with the answers. `None`: the run is over. A run whose reason
/// is fixed and that is not saved is not over.
async fn resumed(runner: &Runner, run: loop_core::types::RunId) -> Result<Option<RunRequest>, String> {
    let recorded = runner.journal().read(&run).await.map_err(|error| error.to_string())?;
    let state = loop_runtime::journal::replay(&run, &recorded).map_err(|error| error.to_string())?;
    if state.is_done() {
        return Ok(None);
    }
    let answers = state.requested().into_iter().map(|requested| EventKind::PersonAnswered {
        key: requested.key,
        answer: PersonAnswer::Approved,
        binding: Some(requested.binding),
    });
    Ok(Some(runner.resume_with(&run, answers.collect::<Vec<_>>())))
}

fn answered(runner: &Runner, waiting: &Waiting) -> RunRequest {
    let answers = waiting.requested.iter().map(|requested| EventKind::PersonAnswered {
        key: requested.key,
        answer: PersonAnswer::Approved,
        binding: Some(requested.binding),
    });
    runner.resume_with(&waiting.outcome.run, answers.collect::<Vec<_>>())
}
