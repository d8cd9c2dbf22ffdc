//! The journal comes first: nothing follows from what is not written down, and what is written down is the run.

use crate::common;

use common::world::{
    Log, Stage, Watched, answer, change, contract, default_look, look, runner, says, selections, spec,
};
use loop_core::EventKind;
use loop_core::run::SaveState;
use loop_runtime::{
    RunSpec, Runner, StopReason,
    journal::{Journal as _, StoredJournal, SyncPolicy, replay},
    observe::RunEvent,
    run::{StartError, StopClass},
    save::{SaveError, Saver},
};
use std::sync::Arc;

/// Selects, two passes, a repair, tools side by side, and a save.
fn stage(log: &Log) -> Stage {
    let garbled = answer("medium", &[look("ok-9")]).replace("because", "because\" oh");
    Stage::new(log)
        .on("select", [says(selections(&["ok-1", "slow-30", "fail"]))])
        .on(
            "main",
            [
                says(answer("medium", &[look("slow-20"), look("ok-2")])),
                says(garbled),
                says(answer("high", &[])),
            ],
        )
        .on("repair", [says(contract("medium", &[look("ok-3")]))])
}

fn domain() -> RunSpec {
    spec(|spec| spec.selection.defaults = vec![default_look("ok-default")])
}

/// Saves by saying so in the log.
#[derive(Debug)]
struct Logged(Log);

#[async_trait::async_trait]
impl Saver for Logged {
    async fn save(
        &self,
        _: &loop_core::run::Started,
        _: &loop_runtime::Outcome,
    ) -> Result<Arc<str>, SaveError> {
        self.0.say("save");
        Ok("the log".into())
    }
}

fn watched(log: &Log, journal: Watched) -> Runner {
    runner(domain(), log, stage(log))
        .with_journal(Arc::new(journal))
        .with_saver(Arc::new(Logged(log.clone())))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_before_what_wants_it_is_written_down() {
    // S0-18, S0-93, I-9: calls after their announcement, tools after their verdict, the save after the reason.
    let log = Log::new();
    let outcome = watched(&log, Watched::new(&log)).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let lines = log.lines();
    let mut started = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("model ") || line.starts_with("tool ") || line == "save" {
            let may = format!("may {line}");
            assert!(lines[..at].contains(&may), "`{line}` without `{may}` before it in {lines:#?}");
            started += 1;
        }
    }
    assert_eq!(started, 5 + 6 + 1, "{lines:#?}");
}

#[tokio::test]
async fn what_is_synced_is_effects_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let synced = async |name: &str, policy: SyncPolicy, stage: Stage| {
        let journal = StoredJournal::open(folder.path().join(name)).unwrap().with_sync(policy);
        let runner = runner(spec(|spec| spec.gate.approved = vec!["change".into()]), &Log::new(), stage);
        let runner = runner.with_journal(Arc::new(journal.clone()));
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!(outcome.stop.reason(), StopReason::Confident);
        let entries = journal.read(&outcome.run).await.unwrap().entries.len() as u64;
        assert_eq!(journal.entries(), entries);
        if policy == SyncPolicy::Full {
            assert_eq!(journal.synced_commits(), journal.commits(), "entries of one moment share one");
        }
        (entries, journal.synced_commits(), outcome.stop.effects.executed)
    };
    let reads = || stage(&Log::new());
    let (_, of_all, _) = synced("full", SyncPolicy::Full, reads()).await;
    assert!(of_all >= 10, "{of_all}");
    assert_eq!(synced("none", SyncPolicy::None, reads()).await.1, 0);
    // Many entries, and one sync beside that of the new run's head: no effect, nobody who is asked, nothing saved.
    let (entries, of_reads, effects) = synced("reads", SyncPolicy::Effects, reads()).await;
    assert_eq!((of_reads, effects), (1, 0));
    assert!(entries >= 15, "{entries}");
    // The start of a write, its result, and the end.
    let writes = Stage::new(&Log::new())
        .on("select", [says(selections(&["ok-1"]))])
        .on("main", [says(answer("medium", &[change("ok-2"), look("ok-3")])), says(answer("high", &[]))]);
    let (_, of_writes, effects) = synced("writes", SyncPolicy::Effects, writes).await;
    assert_eq!((of_writes, effects), (3, 1));
}

#[tokio::test]
async fn results_that_are_ready_together_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let journal = StoredJournal::open(folder.path().join("journal.db")).unwrap();
    let looks: Vec<_> = (0..8).map(|n| look(&format!("ok-{n}"))).collect();
    let stage =
        Stage::new(&Log::new()).on("main", [says(answer("medium", &looks)), says(answer("high", &[]))]);
    let runner = runner(spec(|spec| spec.selection.enabled = false), &Log::new(), stage);
    let outcome = runner.with_journal(Arc::new(journal.clone())).run(common::item()).await.unwrap();
    let entries = journal.read(&outcome.run).await.unwrap().entries;
    let results =
        entries.iter().filter(|entry| matches!(entry.event.kind, EventKind::ToolFinished { .. })).count();
    assert_eq!(results, 8);
    assert!(journal.commits() <= entries.len() as u64 - 4, "{} of {}", journal.commits(), entries.len());
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_at_any_entry_ends_the_run_with_what_there_is() {
    // H4, H5
    let log = Log::new();
    let runner = watched(&log, Watched::new(&log));
    let whole = runner.run(common::item()).await.unwrap();
    let entries = runner.journal().read(&whole.run).await.unwrap().entries;
    assert!(entries.len() >= 18, "{}", entries.len());
    let mut sections_before = 0;
    // Where the first cannot be written the run does not begin, and nothing is started.
    let log = Log::new();
    let refused = watched(&log, Watched::new(&log).failing_at(0)).run(common::item()).await;
    assert!(matches!(refused, Err(StartError::Journal(_))), "{refused:?}");
    assert_eq!(log.lines(), ["refused 0"]);
    for fails_at in 1..entries.len() as u64 {
        let log = Log::new();
        let runner = watched(&log, Watched::new(&log).failing_at(fails_at));
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!(outcome.stop.reason(), StopReason::StorageFailed, "at entry {fails_at}");
        assert_eq!(outcome.stop.primary.value.to_string(), "a full disk: no space left on device");

        let lines = log.lines();
        let refused = lines.iter().position(|line| *line == format!("refused {fails_at}")).unwrap();
        let after = &lines[refused + 1..];
        assert!(
            !after
                .iter()
                .any(|line| ["model ", "tool ", "wrote", "refused"].iter().any(|s| line.starts_with(s))),
            "at entry {fails_at}: {after:#?}"
        );
        let written = runner.journal().read(&outcome.run).await.unwrap();
        assert_eq!(written.entries.len() as u64, fails_at);

        // Nothing that was paid for is lost: the outcome has at least what the entries lead to.
        let state = replay(&outcome.run, &written).unwrap();
        assert!(outcome.document.sections.len() >= state.document().sections.len());
        assert!(outcome.evidence.len() >= state.evidence().len());
        assert!(outcome.totals.usage.total() >= state.totals().usage.total());
        assert!(outcome.document.sections.len() >= sections_before, "at entry {fails_at}");
        sections_before = outcome.document.sections.len();
        // S0-31: it is saved on every way out, this one too, and once.
        assert!(
            matches!(outcome.saved, Some(SaveState::At { .. })),
            "at entry {fails_at}: {:?}",
            outcome.saved
        );
        assert_eq!(lines.iter().filter(|line| *line == "save").count(), 1, "at entry {fails_at}");
    }
    assert_eq!(sections_before, 3);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_heard_by_nobody() {
    // M3: the journal fails at entry n, the feed ends at n - 1.
    let log = Log::new();
    let runner = watched(&log, Watched::new(&log));
    let whole = runner.run(common::item()).await.unwrap();
    let entries = runner.journal().read(&whole.run).await.unwrap().entries.len() as u64;
    for fails_at in 1..entries {
        let log = Log::new();
        let mut handle =
            watched(&log, Watched::new(&log).failing_at(fails_at)).run(common::item()).start().await.unwrap();
        let mut events = handle.events().unwrap();
        handle.wait().await;
        let mut received = Vec::new();
        while let Some(event) = events.recv().await {
            if let RunEvent::Recorded(entry) = event {
                received.push(entry.seq);
            }
        }
        assert!(received.iter().copied().eq(0..fails_at), "at entry {fails_at}: {received:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_whose_announcement_is_not_durable_is_not_begun_and_not_in_doubt() {
    // W5, B5, H4
    let log = Log::new();
    let domain = spec(|spec| {
        spec.selection.enabled = false;
        spec.gate.approved = vec!["change".into()];
    });
    let stage = || {
        Stage::new(&log).on("main", [says(answer("medium", &[change("ok-1")])), says(answer("high", &[]))])
    };
    let runner = |journal| runner(domain.clone(), &log, stage()).with_journal(Arc::new(journal));
    let whole = runner(Watched::new(&log)).run(common::item()).await.unwrap();
    assert_eq!(whole.stop.class, StopClass::Answered, "{:?}", whole.actions);
    let announced = log
        .lines()
        .iter()
        .filter(|line| line.starts_with("wrote"))
        .position(|line| line.ends_with(" tool_started"));
    let at = announced.unwrap() as u64;
    // Of one that returned, what it returned is known here, whether or not it could be written down.
    for (fails_at, executed) in [(at, 0), (at + 1, 1)] {
        let outcome = runner(Watched::new(&log).failing_at(fails_at)).run(common::item()).await.unwrap();
        assert_eq!(
            (outcome.stop.reason(), outcome.stop.class),
            (StopReason::StorageFailed, StopClass::Failed)
        );
        assert_eq!((outcome.stop.effects.executed, outcome.stop.effects.in_doubt), (executed, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_failed_lets_the_time_be_seen() {
    // H4
    let log = Log::new();
    let runner = watched(&log, Watched::new(&log).failing_at(5));
    let outcome = runner.run(common::item()).await.unwrap();
    assert!(outcome.totals.wall_ms >= 50, "the five entries before took as long: {}", outcome.totals.wall_ms);
}

#[tokio::test(start_paused = true)]
async fn time_goes_forward_in_a_journal() {
    // I-11, H7
    let log = Log::new();
    let runner = watched(&log, Watched::new(&log));
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    assert!(recorded.entries.windows(2).all(|pair| pair[0].event.at <= pair[1].event.at));
    assert!(matches!(recorded.entries[0].event.kind, EventKind::Started(_)));
}
