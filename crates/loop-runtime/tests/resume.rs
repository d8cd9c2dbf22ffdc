//! A run whose driver is gone is taken up again and comes to the same end.

use crate::common;

use common::world::{Log, Stage, Watched, answer, journal_of, look, says, tools, unselected};
use loop_core::types::Status;
use loop_core::{EventKind, Note};
use loop_llm::{EventStream, LlmError, ModelRequest};
use loop_prompts::{Layout, Prompts};
use loop_runtime::{
    RunSpec, Runner, StopReason,
    journal::{Journal, JournalError, ReplayError},
    models::{ChatModel, Models, Offline},
    run::{RunId, StartError},
};
use std::sync::Arc;
use std::time::Duration;

/// Runs to the end, then once more from each prefix of what was written.
async fn interrupted_everywhere(runner: &Runner) {
    let straight = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&straight.run).await.unwrap();
    let count = recorded.entries.len();
    assert!(count > 8, "{count}");
    for kept in 1..=count {
        let journal = journal_of(&recorded, &recorded.entries[..kept]).await;
        let again = runner.clone().with_journal(journal.clone());
        let outcome = again.resume(&straight.run).start().await.unwrap().wait().await;
        let bodies = |outcome: &loop_runtime::Outcome| -> Vec<(String, String, u32)> {
            let sections = outcome.document.sections.iter();
            sections.map(|section| (section.id.to_string(), section.body.to_string(), section.pass)).collect()
        };
        assert_eq!(bodies(&outcome), bodies(&straight), "after {kept} of {count} entries");
        assert_eq!(outcome.stop, straight.stop, "after {kept} of {count} entries");
        assert_eq!(outcome.evidence, straight.evidence, "after {kept} of {count} entries");
        assert_eq!(outcome.actions, straight.actions);
        let is_lost = matches!(recorded.entries[kept - 1].event.kind, EventKind::CallStarted { .. });
        let calls = straight.totals.model_calls + u32::from(is_lost);
        assert_eq!(
            outcome.totals.model_calls, calls,
            "a lost call is paid for, after {kept} of {count} entries"
        );
        // What was written stays, and what follows is numbered behind it.
        let written = journal.read(&straight.run).await.unwrap().entries;
        assert_eq!(written[..kept], recorded.entries[..kept]);
        assert!(written.iter().enumerate().all(|(n, entry)| entry.seq == n as u64));
        if let Some(next) = written.get(kept) {
            assert!(
                matches!(next.event.kind, EventKind::Resumed { .. }),
                "the new driver says that it is one"
            );
        }
        if kept == count {
            assert_eq!((written.len(), &outcome), (count, &straight), "what is done is done");
        }
    }
}

#[tokio::test]
async fn a_run_cut_off_after_any_entry_comes_to_the_same_end() {
    // I-12, I-13, H1, S4-8
    interrupted_everywhere(&common::runner(Offline::new())).await;
}

/// Replies by what it is asked alone, so that a lost call is answered as it was before.
#[derive(Debug)]
struct ByPass;

#[async_trait::async_trait]
impl ChatModel for ByPass {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let pass = request.meta.key.as_ref();
        let text = match pass {
            "1/main" => answer("medium", &[look("slow-2000"), look("fail"), look("slow-1000")]),
            "2/main" => answer("medium", &[look("ok-2"), look("ok-3")]),
            _ => answer("high", &[]),
        };
        let stage =
            Stage::new(&Log::new()).on(if pass.ends_with("final") { "final" } else { "main" }, [says(text)]);
        stage.stream(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_cut_off_among_parallel_tools_comes_to_the_same_end() {
    // I-12, I-13, I-20, H1: a result that was written down is not asked for again.
    let log = Log::new();
    let runner = Runner::new(unselected(), tools(&log), Models::one(Arc::new(ByPass)));
    interrupted_everywhere(&runner).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_written_down_is_not_asked_for_again() {
    // I-13, I-6
    let log = Log::new();
    let runner = Runner::new(unselected(), tools(&log), Models::one(Arc::new(ByPass)));
    let straight = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&straight.run).await.unwrap();
    let settled = recorded.entries.iter().position(|entry| {
        entry.notes.iter().any(|note| matches!(note, Note::ActionSettled { status: Status::Ok, .. }))
    });
    let kept = settled.unwrap() + 1;
    let fresh = Log::new();
    let journal = journal_of(&recorded, &recorded.entries[..kept]).await;
    let again = Runner::new(unselected(), tools(&fresh), Models::one(Arc::new(ByPass))).with_journal(journal);
    again.resume(&straight.run).start().await.unwrap().wait().await;
    assert_eq!(fresh.count("tool look(slow-2000)"), 1, "it was in flight");
    assert_eq!(
        fresh.count("tool look(slow-1000)") + fresh.count("tool look(fail)"),
        0,
        "{:#?}",
        fresh.lines()
    );
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_taken_away_lets_another_go_on() {
    // H1, I-12, I-29
    let log = Log::new();
    for hangs_at in 1..12 {
        let stuck = Watched::new(&log).hanging_at(hangs_at);
        let journal = Arc::new(stuck.inner.clone());
        let runner = Runner::new(unselected(), tools(&log), Models::one(Arc::new(ByPass)));
        let running = runner.clone().with_journal(Arc::new(stuck));
        let gone = tokio::time::timeout(Duration::from_secs(60), running.run(common::item())).await;
        assert!(gone.is_err());
        tokio::task::yield_now().await;
        let run = journal.runs().await.unwrap()[0].run.clone();
        let outcome = runner.with_journal(journal).resume(&run).start().await.unwrap().wait().await;
        assert_eq!(
            (outcome.stop.reason(), outcome.evidence.len()),
            (StopReason::Confident, 5),
            "at entry {hangs_at}"
        );
    }
}

/// A finished run, and why another loop may not take it up.
async fn refused(other: impl FnOnce(Runner) -> Runner) -> String {
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let error = other(runner).resume(&outcome.run).start().await.unwrap_err();
    assert!(matches!(error, StartError::Changed { .. }), "{error:?}");
    error.to_string().replace(outcome.run.as_str(), "RUN")
}

#[tokio::test]
async fn a_run_is_not_taken_up_with_other_settings_tools_or_prompts() {
    // H11, I-11, U6: what is edited while a run is on its way does not reach that run.
    let models = || Models::one(Arc::new(Offline::new()));
    let spec = |change: fn(&mut RunSpec)| {
        let mut spec = common::spec();
        change(&mut spec);
        spec
    };
    let settings = refused(|runner| {
        let other = Runner::new(spec(|spec| spec.limits.passes = 9), common::registry(), models());
        other.with_journal(Arc::clone(runner.journal()))
    });
    // U6: nothing is applied to a run that has begun; it is refused instead.
    assert_eq!(
        settings.await,
        "run RUN was started with other settings; resume it with the domain as it was"
    );
    let tools = refused(|runner| {
        let other = Runner::new(spec(|_| {}), tools(&Log::new()), models());
        other.with_journal(Arc::clone(runner.journal()))
    });
    assert_eq!(
        tools.await,
        "run RUN was started with other tools (change, fetch_backup_status, fetch_device_info, look); resume it with the domain as it was"
    );
    let prompts = refused(|runner| {
        let other = Prompts::with_overrides(std::iter::empty(), Layout::SystemEvidence).unwrap();
        runner.with_prompts(Arc::new(other))
    });
    assert_eq!(prompts.await, "run RUN was started with other prompts; resume it with the domain as it was");
}

#[tokio::test]
async fn a_refused_resume_lets_go_of_the_run() {
    // I-29
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let other = Prompts::with_overrides(std::iter::empty(), Layout::SystemEvidence).unwrap();
    assert!(runner.clone().with_prompts(Arc::new(other)).resume(&outcome.run).start().await.is_err());
    assert_eq!(runner.resume(&outcome.run).start().await.unwrap().wait().await, outcome);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_take_a_run_up_one_is_told_that_it_is_busy() {
    // I-29, H8
    let log = Log::new();
    let runner = Runner::new(unselected(), tools(&log), Models::one(Arc::new(ByPass)));
    let straight = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&straight.run).await.unwrap();
    let journal = journal_of(&recorded, &recorded.entries[..3]).await;
    let runner = runner.with_journal(journal);
    let (first, second) =
        tokio::join!(runner.resume(&straight.run).start(), runner.resume(&straight.run).start());
    let busy = second.unwrap_err();
    assert!(matches!(busy, StartError::Journal(JournalError::Busy { .. })), "{busy:?}");
    assert_eq!(first.unwrap().wait().await.stop, straight.stop);
    assert!(runner.resume(&straight.run).start().await.is_ok(), "and afterwards it is free");
}

#[tokio::test]
async fn a_run_of_which_nothing_is_known_is_not_taken_up() {
    // H1
    let runner = common::runner(Offline::new());
    let error = runner.resume(&RunId::new("nobody")).start().await.unwrap_err();
    assert_eq!(error.to_string(), "no run nobody in memory; `loopgate runs` lists them");
}

#[tokio::test]
async fn entries_that_do_not_follow_from_each_other_are_named() {
    // H3
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let mut recorded = runner.journal().read(&outcome.run).await.unwrap();
    recorded.entries.swap(1, 3);
    let error = loop_runtime::journal::replay(&outcome.run, &recorded).unwrap_err();
    let ReplayError::Broken { seq, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*seq, recorded.entries[1].seq);
    assert!(error.to_string().contains("does not follow from the ones before it"), "{error}");
}

#[tokio::test]
async fn an_entry_with_the_number_of_another_one_is_named() {
    // H3, I-12: each entry follows from the one before it, and their numbers say that one is missing.
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let whole = runner.journal().read(&outcome.run).await.unwrap();
    for (at, seq) in [(0, 1), (1, 0), (2, 3)] {
        let mut recorded = whole.clone();
        recorded.entries[at].seq = seq;
        let error = loop_runtime::journal::replay(&outcome.run, &recorded).unwrap_err();
        let of = |expected: u64, found: u64| expected == at as u64 && found == seq;
        assert!(
            matches!(error, ReplayError::Sequence { expected, found, .. } if of(expected, found)),
            "{error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_without_a_driver_does_not_count_against_the_run() {
    // M9: as if it had begun 100 minutes earlier, of which it was driven for none.
    let log = Log::new();
    let spec = RunSpec {
        limits: loop_core::spec::Limits { wall_ms: 60_000, ..unselected().limits },
        ..unselected()
    };
    let runner = Runner::new(spec, tools(&log), Models::one(Arc::new(ByPass)));
    let straight = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&straight.run).await.unwrap();
    for kept in [1, 3, 5] {
        let mut entries = recorded.entries[..kept].to_vec();
        let EventKind::Started(started) = &mut entries[0].event.kind else { panic!("{:?}", entries[0]) };
        started.unix_ms -= 100 * 60_000;
        let journal = journal_of(&recorded, &entries).await;
        let again = runner.clone().with_journal(journal.clone());
        let outcome = again.resume(&straight.run).start().await.unwrap().wait().await;
        assert_eq!(outcome.stop, straight.stop, "after {kept} entries");
        assert!(outcome.totals.wall_ms < 60_000, "{}", outcome.totals.wall_ms);
        let written = journal.read(&straight.run).await.unwrap();
        let away = written.entries.iter().find_map(|entry| match entry.event.kind {
            EventKind::Resumed { away_ms, .. } => Some(away_ms),
            _ => None,
        });
        assert!(away.is_some_and(|away| away >= 99 * 60_000), "{away:?}");
    }
}
