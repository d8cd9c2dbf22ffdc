//! Drives the runs of an attack to their end, and answers their requests for approval.

use std::sync::Arc;

use futures::StreamExt;
use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::types::{CommandKey, Digest, RunId};
use loop_core::{EventKind, Outcome, Run, RunSpec, WorkItem};
use loop_llm::Message;
use loop_runtime::{
    Runner,
    observe::RunEvent,
    run::{DriveResult, Remote, StartError, Waiting},
};

use crate::redteam::plan::NAME;
use crate::redteam::stage::AttackError;
use crate::redteam::tools::World;

/// The most requests to people in one run.
const MAX_ROUNDS: u32 = 60;
/// Turns of a conversation.
const TURNS: u32 = 3;

/// How the runs of an attack ended.
#[derive(Debug, Default)]
pub(super) struct AttackRuns {
    /// The outcomes, in the order of the runs.
    pub(super) outcomes: Vec<Outcome>,
    /// How many effects an approver was asked about.
    pub(super) requested: u32,
    /// Whether the driver was dropped during the run, which was then resumed from its journal.
    pub(super) is_resumed: bool,
}

/// Drives one run. While it waits for people it is dropped, and it is resumed with their answers.
pub(super) async fn to_the_end(
    runner: &Runner,
    item: WorkItem,
    answer: impl Fn(&PersonRequest) -> PersonAnswer,
) -> Result<AttackRuns, AttackError> {
    let runner = runner.clone().leave_when_waiting();
    let driven = runner.run(item).start().await?.driven().await;
    answered(&runner, driven, AttackRuns::default(), answer).await
}

/// Continues a run that waits with the answers of people, until it has ended.
async fn answered(
    runner: &Runner,
    mut driven: DriveResult,
    mut went: AttackRuns,
    answer: impl Fn(&PersonRequest) -> PersonAnswer,
) -> Result<AttackRuns, AttackError> {
    for _ in 0..MAX_ROUNDS {
        let DriveResult::Waiting(waiting) = &driven else { break };
        went.requested += effects_in(&waiting.requested);
        let answers = answers(waiting, &answer);
        driven = runner.resume_with(&waiting.outcome.run, answers).start().await?.driven().await;
    }
    went.outcomes.push(outcome(driven));
    Ok(went)
}

fn outcome(driven: DriveResult) -> Outcome {
    match driven {
        DriveResult::Ended(outcome) => outcome,
        DriveResult::Waiting(waiting) => waiting.outcome,
    }
}

fn keys(requested: &[PersonRequest]) -> Vec<CommandKey> {
    requested.iter().map(|requested| requested.key).collect()
}

fn effects_in(requested: &[PersonRequest]) -> u32 {
    requested.iter().filter(|requested| !requested.is_question).count() as u32
}

fn answers(waiting: &Waiting, answer: impl Fn(&PersonRequest) -> PersonAnswer) -> Vec<EventKind> {
    let answers = waiting.requested.iter().map(|requested| EventKind::PersonAnswered {
        key: requested.key,
        answer: answer(requested),
        binding: Some(requested.binding),
    });
    answers.collect()
}

/// Drives the turns of one conversation. Each continues the history, as `loopgate chat` does. With `crashes`, the
/// driver of the last turn is dropped early, and the turn is resumed from its journal.
pub(super) async fn in_turns(
    runner: &Runner,
    world: &World,
    first: String,
    crashes: bool,
    next_turn: impl Fn(),
    answer: impl Fn(&PersonRequest) -> PersonAnswer,
) -> Result<AttackRuns, AttackError> {
    /// Entries of the last turn before its driver is dropped: the turn has begun, and its model is called.
    const ENTRIES: u32 = 2;
    let runner = runner.clone().counting_own_messages();
    let mut went = AttackRuns::default();
    let mut messages = vec![Message::user(first)];
    for turn in 1..=TURNS {
        if turn > 1 {
            world.next_turn();
            next_turn();
            messages.push(Message::user(format!("Thank you. Is anything else open? {NAME}")));
        }
        let mut stream = runner.chat(&mut messages).events().await?;
        let mut watch = Watch::new(&runner, stream.remote());
        let mut entries = 0;
        while let Some(event) = stream.next().await {
            let Some(event) = event.into_run() else { continue };
            went.requested += watch.see(&event, &answer);
            entries += u32::from(matches!(event, RunEvent::Recorded(_)));
            if let Some(run) = watch.id().filter(|_| crashes && turn == TURNS && entries == ENTRIES) {
                drop(stream);
                went.is_resumed = true;
                let runner = runner.leave_when_waiting();
                let driven = runner.resume(&run).start().await?.driven().await;
                return answered(&runner, driven, went, answer).await;
            }
        }
        went.outcomes.push(stream.finish().await.outcome);
    }
    Ok(went)
}

/// When a driver is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// After this many journal entries behind the first tool result.
    pub(super) after: u32,
    /// While the first effect runs, if that is earlier.
    pub(super) in_effect: bool,
}

/// Drives one run, drops its driver, and resumes it from its journal.
pub(super) async fn with_a_crash(
    runner: &Runner,
    world: &World,
    item: WorkItem,
    crash: Crash,
    answer: impl Fn(&PersonRequest) -> PersonAnswer,
) -> Result<AttackRuns, AttackError> {
    let mut went = AttackRuns::default();
    let mut stream = runner.run(item).stream().await?;
    let run = stream.id().clone();
    let mut watch = Watch::new(runner, stream.remote());
    if crash.in_effect {
        world.hang();
    }
    let mut entries = None;
    went.is_resumed = loop {
        let event = tokio::select! {
            biased;
            () = world.in_effect() => break true,
            event = stream.next() => event,
        };
        let Some(event) = event else { break false };
        went.requested += watch.see(&event, &answer);
        if let RunEvent::Recorded(entry) = &event {
            let has_result = matches!(entry.event.kind, EventKind::ToolFinished { .. });
            entries = entries.map(|entries| entries + 1).or(has_result.then_some(0));
        }
        if entries.is_some_and(|entries| entries >= crash.after) {
            break true;
        }
    };
    world.let_go();
    if !went.is_resumed {
        went.outcomes.push(stream.into_outcome().await);
        return Ok(went);
    }
    drop(stream);
    let runner = runner.clone().leave_when_waiting();
    let driven = runner.resume(&run).start().await?.driven().await;
    answered(&runner, driven, went, answer).await
}

/// Drives one run. Each time it waits for people, it is resumed without an answer, then with approvals of earlier
/// requests, then with forged approvals, and only then with the real answers.
pub(super) async fn with_false_approvals(
    runner: &Runner,
    item: WorkItem,
    answer: impl Fn(&PersonRequest) -> PersonAnswer,
) -> Result<AttackRuns, AttackError> {
    let runner = runner.clone().leave_when_waiting();
    let mut went = AttackRuns::default();
    let mut driven = runner.run(item).start().await?.driven().await;
    let mut given: Vec<EventKind> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let DriveResult::Waiting(waiting) = &driven else { break };
        let run = waiting.outcome.run.clone();
        went.requested += effects_in(&waiting.requested);
        went.is_resumed = true;
        let stated = answers(waiting, &answer);
        let false_ones =
            given.iter().map(|given| vec![given.clone()]).chain(false_approvals(&waiting.requested));
        let went_on = match with_what_nobody_stated(&runner, &run, false_ones).await? {
            Some(counted) => Some(counted),
            None => match runner.resume(&run).start().await?.driven().await {
                // It waits for the same as before.
                DriveResult::Waiting(again) if keys(&again.requested) == keys(&waiting.requested) => None,
                other => Some(other),
            },
        };
        given.extend(stated.iter().cloned());
        driven = match went_on {
            // What it did without an answer is in the recorder.
            Some(went_on) => went_on,
            None => runner.resume_with(&run, stated).start().await?.driven().await,
        };
    }
    went.outcomes.push(outcome(driven));
    Ok(went)
}

/// Approvals that must not count: for another action or for none, and after a denial of the same action.
fn false_approvals(requested: &[PersonRequest]) -> impl Iterator<Item = Vec<EventKind>> {
    let others =
        requested.iter().skip(1).map(|other| other.binding).chain([Digest::of("forged", b"binding")]);
    let answered = |requested: &PersonRequest, answer, binding| EventKind::PersonAnswered {
        key: requested.key,
        answer,
        binding: Some(binding),
    };
    let misbound = requested
        .iter()
        .zip(others)
        .map(move |(requested, binding)| vec![answered(requested, PersonAnswer::Approved, binding)]);
    let second = requested.iter().map(move |requested| {
        let denied = PersonAnswer::Denied { why: "this was not asked for".into() };
        vec![
            answered(requested, denied, requested.binding),
            answered(requested, PersonAnswer::Approved, requested.binding),
        ]
    });
    misbound.chain(second)
}

/// Resumes a run with each forged answer in turn, and returns how it continued with the first one that counted. A
/// refused answer is not recorded.
async fn with_what_nobody_stated(
    runner: &Runner,
    run: &RunId,
    stated: impl IntoIterator<Item = Vec<EventKind>>,
) -> Result<Option<DriveResult>, AttackError> {
    for facts in stated {
        match runner.resume_with(run, facts).start().await {
            Ok(handle) => return Ok(Some(handle.driven().await)),
            Err(StartError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Follows a run by its recorded events, and answers its requests to people.
struct Watch {
    spec: Arc<RunSpec>,
    remote: Remote,
    run: Option<Run>,
    answered: Vec<CommandKey>,
}

impl Watch {
    fn new(runner: &Runner, remote: Remote) -> Self {
        Self { spec: Arc::clone(runner.spec()), remote, run: None, answered: Vec::new() }
    }

    /// The run's id. `None`: it has not begun.
    fn id(&self) -> Option<RunId> {
        self.run.as_ref().map(|run| run.id().clone())
    }

    /// Applies an event and answers the requests that follow. Returns how many effects were among them.
    fn see(&mut self, event: &RunEvent, answer: impl Fn(&PersonRequest) -> PersonAnswer) -> u32 {
        let RunEvent::Recorded(entry) = event else { return 0 };
        match &mut self.run {
            // What is recorded was applied once already.
            Some(run) => drop(run.apply(&entry.event)),
            None => {
                let opened = Run::open(&entry.event, Arc::clone(&self.spec));
                self.run = opened.ok().map(|(run, _)| run);
            }
        }
        let requested: Vec<PersonRequest> = self.run.iter().flat_map(Run::requested).collect();
        let fresh: Vec<PersonRequest> =
            requested.into_iter().filter(|requested| !self.answered.contains(&requested.key)).collect();
        for requested in &fresh {
            self.answered.push(requested.key);
            self.remote.answer_as_shown(requested.key, answer(requested), requested.binding);
        }
        effects_in(&fresh)
    }
}
