//! Versions in flight: a newer program next to an older one. A run is continued by a program that decides as its record says,
//! and is left alone by any other.

use crate::common;

use std::sync::Arc;

use common::world::{Log, Stage, answer, change, journal_of, runner, says, unselected};
use loop_core::run::{DECISIONS, PersonAnswer};
use loop_core::types::Confidence;
use loop_core::{EventKind, Note};
use loop_runtime::{
    Runner, StopReason,
    journal::{Entry, Journal, MemoryJournal, Recorded, ReplayError},
    run::{DriveResult, Program, RunId, StartError, Waiting},
};

/// The program `loopgate MAJOR.0.0`, whose decisions have this revision.
fn program(major: u32, decisions: u32) -> Program {
    Program { name: format!("loopgate {major}.0.0").into(), decisions }
}

/// A run that waits for a person, whose next pass is content.
struct Waits {
    runner: Runner,
    waiting: Waiting,
}

impl Waits {
    /// Begun by this program.
    async fn begun_by(program: Program) -> Self {
        let log = Log::new();
        let stage =
            Stage::new(&log).on("main", [says(answer("low", &[change("ok-1")])), says(answer("high", &[]))]);
        let runner = runner(unselected(), &log, stage).with_people().leave_when_waiting();
        let runner = runner.with_journal(Arc::new(MemoryJournal::new()));
        let driven = runner.clone().acting_as(program).run(common::item()).start().await.unwrap();
        let DriveResult::Waiting(waiting) = driven.driven().await else { panic!("it waits") };
        Self { runner, waiting }
    }

    fn id(&self) -> &RunId {
        &self.waiting.outcome.run
    }

    fn yes(&self) -> EventKind {
        let requested = &self.waiting.requested[0];
        let (key, binding) = (requested.key, Some(requested.binding));
        EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding }
    }

    async fn recorded(&self) -> Recorded {
        self.runner.journal().read(self.id()).await.unwrap()
    }

    /// The answer, given to this program.
    async fn answered_at(&self, program: Program) -> Result<StopReason, StartError> {
        let runner = self.runner.clone().acting_as(program);
        runner.resume_with(self.id(), [self.yes()]).await.map(|outcome| outcome.stop.reason())
    }
}

/// The programs that the record of a run names, in order.
fn programs(entries: &[Entry]) -> Vec<Program> {
    let of = |entry: &Entry| match &entry.event.kind {
        EventKind::Started(_) => Some(Program::last_of([&entry.event])),
        EventKind::Resumed { by: Some(by), .. } => Some((**by).clone()),
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_names_the_program_that_began_it_and_not_the_same_one_twice() {
    // Issue 20, part 5: the first entry says it.
    let waits = Waits::begun_by(program(1, 7)).await;
    assert_eq!(waits.answered_at(program(1, 7)).await.unwrap(), StopReason::Confident);
    assert_eq!(programs(&waits.recorded().await.entries), [program(1, 7)]);
    // What is not overridden is this program.
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let runner = runner(unselected(), &log, stage);
    let outcome = runner.run(common::item()).await.unwrap();
    let own = Program { name: concat!("loopgate ", env!("CARGO_PKG_VERSION")).into(), decisions: DECISIONS };
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    assert_eq!(programs(&recorded.entries), [own]);
}

#[tokio::test(start_paused = true)]
async fn a_newer_program_that_decides_the_same_takes_a_run_over_and_its_entry_says_so() {
    // Issue 20, part 5; I-11, I-12
    for (old, new) in
        [(program(1, 7), program(2, 8)), (program(1, 7), program(2, 7)), (program(1, 0), program(2, 8))]
    {
        let waits = Waits::begun_by(old.clone()).await;
        assert_eq!(waits.answered_at(new.clone()).await.unwrap(), StopReason::Confident);
        let recorded = waits.recorded().await;
        assert_eq!(programs(&recorded.entries), [old, new.clone()]);
        assert_eq!(Program::last_of(recorded.entries.iter().map(|entry| &entry.event)), new);
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_program_leaves_a_run_of_a_newer_one_alone() {
    // Issue 20, part 5: also one that it began itself, once a newer one has driven it.
    let (old, new) = (program(1, 7), program(2, 8));
    let begun = Waits::begun_by(new.clone()).await;
    let taken = Waits::begun_by(old.clone()).await;
    let by_new = taken.runner.clone().acting_as(new.clone());
    let handle = by_new.resume(taken.id()).start().await.unwrap();
    assert!(matches!(handle.driven().await, DriveResult::Waiting(_)));
    for waits in [begun, taken] {
        let before = waits.recorded().await.entries;
        let error = waits.answered_at(old.clone()).await.unwrap_err();
        assert!(
            matches!(error, StartError::Replay(ReplayError::NewerProgram { .. }))
                && error.is_of_another_version()
        );
        let (run, line) = (waits.id(), error.to_string());
        assert_eq!(
            line,
            format!(
                "run {run} was driven by loopgate 2.0.0 (decisions 8), which is newer than this loopgate 1.0.0 \
                 (decisions 7); resume it with that version of loopgate"
            )
        );
        let noted = waits.runner.clone().acting_as(old.clone()).note_down(run, [waits.yes()]).await;
        assert!(matches!(noted, Err(StartError::Replay(ReplayError::NewerProgram { .. }))));
        assert!(
            waits.runner.clone().acting_as(old.clone()).check_version(run, &waits.recorded().await).is_err()
        );
        assert_eq!(waits.recorded().await.entries, before, "nothing of it is recorded");
        assert_eq!(waits.answered_at(new.clone()).await.unwrap(), StopReason::Confident);
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_decides_otherwise_leaves_the_run_as_it_is() {
    // Issue 20, part 5; I-11: one recorded decision is not the one of today.
    let waits = Waits::begun_by(program(1, 7)).await;
    let mut recorded = waits.recorded().await;
    let other = recorded.entries.iter_mut().find_map(|entry| {
        let read = entry.notes.iter_mut().find_map(|note| match note {
            Note::ReplyRead { confidence, .. } => Some(confidence),
            _ => None,
        })?;
        *read = Confidence::Medium;
        Some(entry.seq)
    });
    let journal = journal_of(&recorded, &recorded.entries).await;
    let new = waits.runner.clone().acting_as(program(2, 8)).with_journal(journal.clone());
    let error = new.resume_with(waits.id(), [waits.yes()]).await.unwrap_err();
    assert!(error.is_of_another_version());
    let StartError::Replay(ReplayError::Decided { seq, by, own, .. }) = &error else { panic!("{error}") };
    assert_eq!((Some(*seq), &**by, &**own), (other, &program(1, 7), &program(2, 8)));
    let line = error.to_string();
    assert!(
        line.contains("by the program that wrote it, loopgate 1.0.0 (decisions 7); this is loopgate 2.0.0")
    );
    let left = journal.read(waits.id()).await.unwrap();
    assert_eq!(left.entries, recorded.entries, "it is not half taken over");
    assert!(!journal.runs().await.unwrap()[0].is_written, "it is free for the version that wrote it");
}
