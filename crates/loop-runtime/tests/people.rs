//! People in a run: it is left while it waits and goes on with what they say; it is told things on its way.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::world::{End, Log, Stage, answer, change, journal_of, look, runner, says, tools, unselected};
use loop_core::gate::DeniedBy;
use loop_core::run::{AnswerFault, PersonAnswer};
use loop_core::types::{Approver, Digest, Effect, Status};
use loop_core::{EventKind, Rejected, Verdict};
use loop_runtime::{
    Outcome, Runner, StopReason,
    journal::{Entry, Journal, JournalError, MemoryJournal, StoredJournal, replay},
    models::Models,
    run::{DriveResult, RunId, StartError, StopClass, Waiting},
    tools::{Registry, ToolDeclaration, ToolResult},
};

/// A first pass that wants to look and to change something, and a second that is content.
fn revises(log: &Log) -> Stage {
    Stage::new(log).on(
        "main",
        [says(answer("low", &[look("ok-1"), change("ok-2"), change("ok-3")])), says(answer("high", &[]))],
    )
}

fn left(log: &Log, stage: Stage) -> Runner {
    runner(unselected(), log, stage).with_people().leave_when_waiting()
}

async fn waits(runner: &Runner) -> Waiting {
    match runner.run(common::item()).start().await.unwrap().driven().await {
        DriveResult::Waiting(waiting) => waiting,
        DriveResult::Ended(outcome) => panic!("it ended: {:?}", outcome.stop),
    }
}

fn says_yes(waiting: &Waiting, nth: usize) -> EventKind {
    let requested = &waiting.requested[nth];
    EventKind::PersonAnswered {
        key: requested.key,
        answer: PersonAnswer::Approved,
        binding: Some(requested.binding),
    }
}

fn says_no(waiting: &Waiting, nth: usize) -> EventKind {
    let answer = PersonAnswer::Denied { why: "not today".into() };
    EventKind::PersonAnswered { key: waiting.requested[nth].key, answer, binding: None }
}

async fn facts(runner: &Runner, run: &RunId) -> Vec<&'static str> {
    let entries = runner.journal().read(run).await.unwrap().entries;
    entries.iter().map(|entry| entry.event.kind.name()).collect()
}

fn statuses(outcome: &Outcome) -> Vec<(String, Status)> {
    let evidence = outcome.evidence.iter();
    evidence.map(|found| (found.parameters.to_string(), found.observation.status)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_is_left_and_goes_on_with_the_answers() {
    // I-26, U3: nothing of it lives while it waits, and everything is in the journal.
    let log = Log::new();
    let runner = left(&log, revises(&log));
    let waiting = waits(&runner).await;
    let run = waiting.outcome.run.clone();
    let requested: Vec<_> =
        waiting.requested.iter().map(|requested| (requested.key.to_string(), &*requested.tool)).collect();
    assert_eq!(requested, [("1/action-1".to_owned(), "change"), ("1/action-2".to_owned(), "change")]);
    assert_eq!(&*waiting.requested[0].parameters, r#"{"target":"ok-2"}"#);
    let stop = &waiting.outcome.stop;
    assert_eq!((stop.reason(), stop.class), (StopReason::NeedsHuman, StopClass::NeedsHuman));
    assert_eq!((waiting.outcome.evidence.len(), &waiting.outcome.saved), (1, &None));
    assert!(!runner.journal().runs().await.unwrap()[0].is_written, "nobody holds it");
    assert_eq!((log.count("tool change"), log.count("model main")), (0, 1));

    // One of two answers: it waits on.
    let driven = runner.resume_with(&run, [says_no(&waiting, 1)]).start().await.unwrap().driven().await;
    let DriveResult::Waiting(waiting) = driven else { panic!("{driven:?}") };
    assert_eq!(waiting.requested.len(), 1);
    assert_eq!(log.count("tool change"), 0);

    let outcome = runner.resume_with(&run, [says_yes(&waiting, 0)]).start().await.unwrap().wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    assert_eq!((log.count("tool change(ok-2)"), log.count("tool change")), (1, 1));
    let found = [
        (r#"{"target":"ok-1"}"#, Status::Ok),
        (r#"{"target":"ok-2"}"#, Status::Ok),
        (r#"{"target":"ok-3"}"#, Status::Denied),
    ];
    assert_eq!(statuses(&outcome), found.map(|(what, status)| (what.to_owned(), status)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_left_comes_to_what_one_does_that_was_answered_on_the_spot() {
    let log = Log::new();
    let left = left(&log, revises(&log));
    let waiting = waits(&left).await;
    let activity = [says_yes(&waiting, 0), says_no(&waiting, 1)];
    let after = left.resume_with(&waiting.outcome.run, activity).start().await.unwrap().wait().await;

    let live = runner(unselected(), &log, revises(&log)).with_people();
    let handle = live.run(common::item()).start().await.unwrap();
    let remote = handle.remote();
    // The question is known and open by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    remote.answer_as_shown("1/action-2".parse().unwrap(), PersonAnswer::Approved, Digest::of("other", b""));
    let no = PersonAnswer::Denied { why: "not today".into() };
    remote.answer("1/action-1".parse().unwrap(), PersonAnswer::Approved);
    remote.answer("1/action-2".parse().unwrap(), no);
    let at_once = handle.wait().await;
    assert_eq!(statuses(&after), statuses(&at_once));
    assert_eq!((&after.stop, &after.document), (&at_once.stop, &at_once.document));
    let without_resumed: Vec<_> =
        facts(&left, &after.run).await.into_iter().filter(|kind| *kind != "resumed").collect();
    assert_eq!(without_resumed, facts(&live, &at_once.run).await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_before_its_question_counts_only_for_what_was_shown() {
    // M2, K8: a tool of the same pass still runs, so the question is not open yet.
    let log = Log::new();
    let first = answer("low", &[look("slow-500"), change("ok-2"), change("ok-3"), change("ok-4")]);
    let stage = Stage::new(&log).on("main", [says(first), says(answer("high", &[]))]);
    let runner = runner(unselected(), &log, stage).with_people();
    let handle = runner.run(common::item()).start().await.unwrap();
    let (remote, run) = (handle.remote(), handle.id().clone());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let state = replay(&run, &runner.journal().read(&run).await.unwrap()).unwrap();
    assert_eq!((state.phase().name(), state.requested().len()), ("acting", 0), "it is not asked yet");
    let [wrong, right, named] = ["1/action-1", "1/action-2", "1/action-3"].map(|key| key.parse().unwrap());
    remote.answer_as_shown(wrong, PersonAnswer::Approved, Digest::of("other", b""));
    remote.answer_as_shown(right, PersonAnswer::Approved, state.binding(&right).unwrap());
    // What cannot count takes no place from what does.
    let text = PersonAnswer::Answered { text: "yes".into() };
    remote.answer_as_shown(named, text, state.binding(&named).unwrap());
    let by = Approver { account: "token ana".into(), user: "ana".into(), claim: None };
    remote.approve_as(named, by.clone(), state.binding(&named).unwrap());
    remote.answer_as_shown(
        named,
        PersonAnswer::Denied { why: "later".into() },
        state.binding(&named).unwrap(),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = replay(&run, &runner.journal().read(&run).await.unwrap()).unwrap();
    let requested: Vec<_> = state.requested().iter().map(|requested| requested.key).collect();
    assert_eq!(requested, [wrong], "the one whose answer was for something else is still open");
    remote.answer(wrong, PersonAnswer::Denied { why: "not today".into() });
    let outcome = handle.wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let changed = ["ok-2", "ok-3", "ok-4"].map(|what| log.count(&format!("tool change({what})")));
    assert_eq!(changed, [0, 1, 1]);
    let entries = runner.journal().read(&run).await.unwrap().entries;
    let approved = entries.iter().filter_map(|entry| match &entry.event.kind {
        EventKind::ApprovedBy { key, by, .. } => Some((*key, by.clone())),
        _ => None,
    });
    assert_eq!(approved.collect::<Vec<_>>(), [(named, by)]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_is_refused_and_nothing_of_it_is_written() {
    // I-26, U4, K8
    let log = Log::new();
    let runner = left(&log, revises(&log));
    let waiting = waits(&runner).await;
    let run = waiting.outcome.run.clone();
    let before = facts(&runner, &run).await;
    let key = waiting.requested[0].key;
    let other = EventKind::PersonAnswered {
        key,
        answer: PersonAnswer::Approved,
        binding: Some(waiting.requested[1].binding),
    };
    let twice = vec![says_yes(&waiting, 0), says_yes(&waiting, 0)];
    let text = EventKind::PersonAnswered {
        key,
        answer: PersonAnswer::Answered { text: "yes".into() },
        binding: None,
    };
    for (activity, fault) in [
        (vec![other], AnswerFault::OtherBinding),
        (twice, AnswerFault::Answered),
        (vec![text], AnswerFault::IsNoQuestion),
    ] {
        match runner.resume_with(&run, activity.clone()).start().await.map(drop) {
            Err(StartError::Refused { rejected: Rejected::Answer { why, .. }, .. }) => assert_eq!(why, fault),
            other => panic!("{other:?}"),
        }
        assert!(runner.note_down(&run, activity).await.is_err());
    }
    let empty =
        runner.resume_with(&run, [EventKind::Instruction { text: " ".into() }]).start().await.map(drop);
    assert!(
        matches!(empty, Err(StartError::Refused { rejected: Rejected::EmptyInstruction, .. })),
        "{empty:?}"
    );
    assert_eq!(facts(&runner, &run).await, before);
    assert_eq!(log.count("tool change"), 0);
    assert!(!runner.journal().runs().await.unwrap()[0].is_written, "nobody holds it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_written_down_and_the_run_left_until_somebody_goes_on() {
    let log = Log::new();
    let runner = left(&log, revises(&log));
    let waiting = waits(&runner).await;
    let run = waiting.outcome.run.clone();
    let state = runner.note_down(&run, [says_yes(&waiting, 0)]).await.unwrap();
    assert_eq!(state.requested().len(), 1);
    let state = runner.note_down(&run, [says_no(&waiting, 1)]).await.unwrap();
    assert_eq!((state.phase().name(), log.count("tool change")), ("acting", 0));
    // What is settled is not settled again.
    let again = runner.note_down(&run, [says_yes(&waiting, 1)]).await.map(drop);
    assert!(matches!(again, Err(StartError::Refused { .. })), "{again:?}");
    let state = runner.note_down(&run, [EventKind::Instruction { text: "be brief".into() }]).await.unwrap();
    assert_eq!(state.instructions().len(), 1);
    let outcome = runner.resume(&run).start().await.unwrap().wait().await;
    assert_eq!((outcome.stop.reason(), log.count("tool change(ok-2)")), (StopReason::Confident, 1));
}

/// The same run as if it had begun so many milliseconds earlier, in a journal of its own.
async fn earlier(runner: &Runner, run: &RunId, ms: u64) -> Arc<MemoryJournal> {
    let mut recorded = runner.journal().read(run).await.unwrap();
    if let EventKind::Started(started) = &mut recorded.entries[0].event.kind {
        started.unix_ms -= ms;
    }
    journal_of(&recorded, &recorded.entries).await
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_too_old_is_a_no_also_after_the_process_has_gone() {
    // U3, U4, I-26
    let log = Log::new();
    let runner = left(&log, revises(&log));
    let waiting = waits(&runner).await;
    let run = waiting.outcome.run.clone();
    let journal = earlier(&runner, &run, 600_000).await;
    let late = runner.with_journal(journal);
    let refused = late.resume_with(&run, [says_yes(&waiting, 0)]).start().await.map(drop);
    let expired =
        Rejected::Answer { key: waiting.requested[0].key, why: AnswerFault::Expired { limit_ms: 600_000 } };
    assert!(
        matches!(&refused, Err(StartError::Refused { rejected, .. }) if *rejected == expired),
        "{refused:?}"
    );
    let outcome = late.resume(&run).start().await.unwrap().wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    assert_eq!(log.count("tool change"), 0, "silence is a no");
    let denied = Verdict::Denied { why: "nobody answered in time".into(), by: DeniedBy::Silence };
    assert_eq!(outcome.actions[1].verdict, denied);
    assert!(outcome.totals.wall_ms < 10_000, "waiting does not count: {}", outcome.totals.wall_ms);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_somebody_drives_takes_no_answer_from_elsewhere() {
    // I-29
    let log = Log::new();
    let runner = runner(unselected(), &log, revises(&log)).with_people();
    let handle = runner.run(common::item()).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.id().clone();
    let refused = runner.resume_with(&run, []).start().await.map(drop);
    assert!(matches!(refused, Err(StartError::Journal(JournalError::Busy { .. }))), "{refused:?}");
    let remote = handle.remote();
    for key in ["1/action-1", "1/action-2"] {
        remote.answer(key.parse().unwrap(), PersonAnswer::Approved);
    }
    assert_eq!(handle.wait().await.stop.reason(), StopReason::Confident);
}

#[tokio::test(start_paused = true)]
async fn other_tools_or_settings_than_the_ones_that_were_approved_are_refused() {
    // K8
    let log = Log::new();
    let runner = left(&log, revises(&log));
    let waiting = waits(&runner).await;
    let run = waiting.outcome.run.clone();
    let journal = Arc::clone(runner.journal());
    let model = || Models::one(Arc::new(revises(&log)));
    let declared =
        ToolDeclaration::new("change").description("Something else.").effect(Effect::WriteIdempotent);
    let other = Registry::builder()
        .tool_fn(declared, |_, _, _| async { ToolResult::failed("change", "Change", "no") })
        .build()
        .unwrap();
    let of_tools = Runner::new(unselected(), other, model()).with_people();
    let mut spec = unselected();
    spec.limits.tool_calls += 1;
    let of_settings = Runner::new(spec, tools(&log), model()).with_people();
    for (changed, what) in [(of_tools, "tools"), (of_settings, "settings")] {
        let refused = changed
            .with_journal(Arc::clone(&journal))
            .resume_with(&run, [says_yes(&waiting, 0)])
            .start()
            .await;
        match refused.map(drop) {
            Err(StartError::Changed { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(log.count("tool change"), 0);
}

// ---- tellings ----

#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_in_its_last_call_hears_nothing_more() {
    let log = Log::new();
    let mut spec = unselected();
    spec.limits.passes = 1;
    let stage = Stage::new(&log).on("final", [says(answer("high", &[])).after(1_000).ending(End::Finished)]);
    let runner = runner(spec, &log, stage);
    let handle = runner.run(common::item()).start().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    handle.remote().tell("too late");
    let outcome = handle.wait().await;
    assert!(!facts(&runner, &outcome.run).await.contains(&"instructions"));
}

// ---- where a run came from ----

#[tokio::test(start_paused = true)]
async fn a_journal_keeps_where_a_run_came_from() {
    let log = Log::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let memory = Arc::new(MemoryJournal::new()) as Arc<dyn Journal>;
    let sqlite = Arc::new(StoredJournal::open(&path).unwrap()) as Arc<dyn Journal>;
    for journal in [memory, sqlite] {
        let runner = left(&log, revises(&log)).with_journal(Arc::clone(&journal));
        let silent = waits(&runner).await.outcome.run;
        assert_eq!(journal.read(&silent).await.unwrap().origin, None);
        let runner = left(&log, revises(&log)).with_journal(Arc::clone(&journal)).with_origin("from here");
        let run = waits(&runner).await.outcome.run;
        assert_eq!(journal.read(&run).await.unwrap().origin.as_deref(), Some("from here"));
        let (recorded, _writer) = journal.resume(&run).await.unwrap();
        assert_eq!(recorded.origin.as_deref(), Some("from here"));
        let entries: Vec<Entry> = recorded.entries;
        assert!(!serde_json::to_string(&entries).unwrap().contains("from here"), "it decides nothing");
    }
}
