//! Hooks: each message is committed with what caused it, delivered after it, at least once and by one process at a time.

use crate::common;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use common::world::{Log, Stage, answer, change, look, refuses, runner, says, tools_declared, unselected};
use futures::StreamExt as _;
use loop_core::run::StopMode;
use loop_core::spec::{GateSettings, Limits};
use loop_core::types::FailureKind;
use loop_core::types::{Effect, Millis, RunId};
use loop_core::{Event, EventKind, Run, RunSpec, StopReason};
use loop_inspect::audit::JournalAudit;
use loop_runtime::Runner;
use loop_runtime::hooks::{
    DecisionLinks, DeliveryResult, Hook, HookEvent, HookMessage, HookSender, Hooks, MAX_DELIVERIES,
    QueuedMessage,
};
use loop_runtime::journal::prune::Retention;
use loop_runtime::journal::{Durability, Entry, Journal, JournalError, StoredJournal, replay};
use loop_runtime::models::Models;
use loop_runtime::observe::RunEvent;
use loop_runtime::people::PersonRequest;
use loop_runtime::run::{DriveResult, Handle};
use loop_runtime::tools::ToolDeclaration;
use serde_json::Value;

/// Hears messages, and does with each what the test says.
struct Receiver {
    heard: Mutex<Vec<HookMessage>>,
    fails: AtomicU32,
    /// What it reads of the run before it answers: the name of its stop.
    journal: Option<StoredJournal>,
    seen: Mutex<Vec<Option<String>>>,
}

impl Receiver {
    fn failing(times: u32) -> Arc<Self> {
        Arc::new(Self {
            heard: Mutex::default(),
            fails: AtomicU32::new(times),
            journal: None,
            seen: Mutex::default(),
        })
    }

    fn ids(&self) -> Vec<Arc<str>> {
        self.heard.lock().unwrap().iter().map(|message| message.id.clone()).collect()
    }
}

/// Sends to a receiver.
struct To(Arc<Receiver>);

#[async_trait]
impl HookSender for To {
    async fn send(&self, message: &HookMessage) -> Result<(), String> {
        let Self(to) = self;
        to.heard.lock().unwrap().push(message.clone());
        if let Some(journal) = &to.journal {
            let lines = journal.runs().await.unwrap();
            let stop = lines[0].stop.map(|stop| stop.name().to_owned());
            to.seen.lock().unwrap().push(stop);
        }
        let left = to.fails.load(Ordering::SeqCst);
        if left > 0 {
            to.fails.store(left - 1, Ordering::SeqCst);
            return Err("no\nroom".to_owned());
        }
        Ok(())
    }
}

/// Answers nothing.
struct Silent;

#[async_trait]
impl HookSender for Silent {
    async fn send(&self, _: &HookMessage) -> Result<(), String> {
        std::future::pending().await
    }
}

fn hook(name: &str, on: &[HookEvent], sender: impl HookSender + 'static) -> Hook {
    let (sender, timeout) = (Arc::new(sender) as Arc<dyn HookSender>, Duration::from_millis(50));
    Hook { name: name.into(), on: on.to_vec(), sender, timeout }
}

fn journal(folder: &Path) -> StoredJournal {
    StoredJournal::open(folder.join("journal.db")).unwrap()
}

fn loop_of(journal: &StoredJournal, stage: Stage, hooks: Vec<Hook>) -> Runner {
    let runner = runner(unselected(), &Log::new(), stage);
    runner.with_journal(Arc::new(journal.clone())).with_hooks(Hooks::new(hooks))
}

fn confident() -> Stage {
    Stage::new(&Log::new()).on("main", [says(answer("high", &[]))])
}

#[tokio::test]
async fn an_end_is_told_once_after_it_is_journaled() {
    // H1, H4: nothing outside hears of an entry before it is durable.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let receiver = Arc::new(Receiver {
        heard: Mutex::default(),
        fails: AtomicU32::new(0),
        journal: Some(journal.clone()),
        seen: Mutex::default(),
    });
    let all = [HookEvent::Waiting, HookEvent::Ended, HookEvent::Failed];
    let hooks =
        vec![hook("desk", &all, To(Arc::clone(&receiver))), hook("pager", &[HookEvent::Failed], Silent)];
    let outcome = loop_of(&journal, confident(), hooks).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let heard = receiver.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 1);
    assert_eq!((heard[0].event, &heard[0].run), (HookEvent::Ended, &outcome.run));
    assert_eq!(*receiver.seen.lock().unwrap(), [Some("confident".to_owned())]);
    let body: Value = serde_json::from_str(&heard[0].body).unwrap();
    assert_eq!(body["type"], "run.ended");
    assert_eq!(body["data"]["reason"], "confident");
    assert_eq!(body["data"]["title"], "Backup failed");
    assert_eq!(journal.outbox().await.unwrap(), []);
}

#[tokio::test]
async fn a_failure_is_told_as_one_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let (both, ended) = (Receiver::failing(0), Receiver::failing(0));
    let hooks = vec![
        hook("both", &[HookEvent::Ended, HookEvent::Failed], To(Arc::clone(&both))),
        hook("ended", &[HookEvent::Ended], To(Arc::clone(&ended))),
    ];
    let stage = Stage::new(&Log::new()).on("main", [refuses(FailureKind::Auth)]);
    let outcome = loop_of(&journal, stage, hooks).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::ModelFailure);
    let events = |receiver: &Receiver| -> Vec<_> {
        receiver.heard.lock().unwrap().iter().map(|message| message.event).collect()
    };
    assert_eq!((events(&both), events(&ended)), (vec![HookEvent::Failed], vec![HookEvent::Ended]));
}

#[tokio::test]
async fn what_does_not_arrive_stays_and_arrives_later_under_the_same_id() {
    // At least once; a hook changes nothing about its run, whatever it does.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let receiver = Receiver::failing(2);
    let on = [HookEvent::Ended];
    let hooks = vec![hook("desk", &on, To(Arc::clone(&receiver))), hook("silent", &on, Silent)];
    let outcome = loop_of(&journal, confident(), hooks).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let left = journal.outbox().await.unwrap();
    let said = |queued: &QueuedMessage| {
        (queued.message.hook.to_string(), queued.error.as_deref().map(str::to_owned))
    };
    assert_eq!(
        left.iter().map(said).collect::<Vec<_>>(),
        [
            ("desk".to_owned(), Some("no room".to_owned())),
            ("silent".to_owned(), Some("no answer after 0.05 s".to_owned()))
        ]
    );
    assert!(left.iter().all(|queued| queued.failures == 1 && queued.next_unix_ms.is_some()));
    // Runs with messages that are not delivered are kept.
    let all = journal.runs().await.unwrap();
    let retention = Retention::of(&journal, all.clone(), &all, u64::MAX).await.unwrap();
    assert_eq!((retention.prune.len(), retention.kept.len()), (0, 1));
    assert!(matches!(journal.prune(&outcome.run).await, Err(JournalError::Kept { .. })));
    // Another process, later.
    let other = StoredJournal::open(folder.path().join("journal.db")).unwrap();
    let hooks = Hooks::new([hook("desk", &on, To(Arc::clone(&receiver)))]);
    for (sent, is_left) in [(DeliveryResult::Yes, false), (DeliveryResult::Yes, true)].into_iter().rev() {
        let reports = hooks.deliver(&other, other.outbox().await.unwrap()).await.unwrap();
        assert_eq!(reports.len(), 1, "the other hook is not one of these");
        assert_eq!(reports[0].delivered == sent, !is_left);
    }
    let ids = receiver.ids();
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(other.outbox().await.unwrap().len(), 1);
    let silent = other.outbox().await.unwrap()[0].message.id.clone();
    assert!(other.drop_message(&silent).await.unwrap() && !other.drop_message(&silent).await.unwrap());
    other.prune(&outcome.run).await.unwrap();
    assert!(JournalAudit::of_all(&other).await.unwrap().ok);
}

/// A run that has ended, with a message of it that no try delivers.
async fn undelivered(folder: &Path) -> (StoredJournal, Arc<Receiver>, Hooks) {
    let journal = journal(folder);
    let receiver = Receiver::failing(u32::MAX);
    let hooks = vec![hook("desk", &[HookEvent::Ended], To(Arc::clone(&receiver)))];
    loop_of(&journal, confident(), hooks.clone()).run(common::item()).await.unwrap();
    (journal, receiver, Hooks::new(hooks))
}

#[tokio::test]
async fn a_message_that_fails_too_often_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _receiver, hooks) = undelivered(folder.path()).await;
    let mut before = 0;
    for failures in 2..=MAX_DELIVERIES {
        let next = journal.outbox().await.unwrap()[0].next_unix_ms.unwrap();
        assert!(next >= before, "no pause is shorter");
        before = next;
        hooks.deliver(&journal, journal.outbox().await.unwrap()).await.unwrap();
        assert_eq!(journal.outbox().await.unwrap()[0].failures, failures);
    }
    assert_eq!(journal.outbox().await.unwrap()[0].next_unix_ms, None);
}

#[tokio::test]
async fn a_message_that_failed_since_it_was_listed_waits_for_its_time() {
    // I-29: two deliverers list it before one of them tries it.
    let folder = tempfile::tempdir().unwrap();
    let (journal, receiver, hooks) = undelivered(folder.path()).await;
    let listed = journal.outbox().await.unwrap();
    assert_eq!(hooks.deliver(&journal, listed.clone()).await.unwrap().len(), 1);
    assert_eq!(hooks.deliver(&journal, listed).await.unwrap(), []);
    assert_eq!((journal.outbox().await.unwrap()[0].failures, receiver.ids().len()), (2, 2));
}

#[tokio::test]
async fn a_message_is_there_with_its_entry_or_not_at_all() {
    // H2: one transaction for both.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    loop_of(&journal, confident(), Vec::new()).run(common::item()).await.unwrap();
    let run = journal.runs().await.unwrap()[0].run.clone();
    let (recorded, mut writer) = journal.resume(&run).await.unwrap();
    let message = HookMessage {
        id: "msg_1".into(),
        run: run.clone(),
        hook: "desk".into(),
        event: HookEvent::Ended,
        body: "{}".into(),
        unix_ms: 1,
    };
    let next = recorded.entries.len() as u64;
    let entry = |seq| {
        Arc::new(Entry { seq, event: Event { at: Millis(1), kind: EventKind::StopWithdrawn }, notes: vec![] })
    };
    writer.announce(vec![message.clone()]);
    writer.append(&entry(next + 7), Durability::Synced).await.unwrap_err();
    assert_eq!(journal.outbox().await.unwrap(), []);
    writer.announce(vec![message.clone()]);
    writer.append(&entry(next), Durability::Synced).await.unwrap();
    let left = journal.outbox().await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].message == message && left[0].is_sealed);
    // K16: what was changed in the file is never sent.
    let connection = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    connection.execute_batch("UPDATE outbox SET body = '{\"type\": \"run.failed\"}'").unwrap();
    let receiver = Receiver::failing(0);
    let hooks = Hooks::new([hook("desk", &[HookEvent::Ended], To(Arc::clone(&receiver)))]);
    assert_eq!(hooks.deliver(&journal, journal.outbox().await.unwrap()).await.unwrap(), []);
    assert!(receiver.ids().is_empty() && !journal.outbox().await.unwrap()[0].is_sealed);
}

/// Waits until the other delivery has been tried.
struct Slow(Arc<tokio::sync::Barrier>, Arc<AtomicU32>);

#[async_trait]
impl HookSender for Slow {
    async fn send(&self, _: &HookMessage) -> Result<(), String> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.wait().await;
        Ok(())
    }
}

#[tokio::test]
async fn of_two_processes_one_delivers_a_message() {
    // I-29: the second finds it claimed, and afterwards gone.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let failing = vec![hook("desk", &[HookEvent::Ended], To(Receiver::failing(1)))];
    loop_of(&journal, confident(), failing).run(common::item()).await.unwrap();
    let (barrier, sent) = (Arc::new(tokio::sync::Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let slow = Slow(Arc::clone(&barrier), Arc::clone(&sent));
    let slow = Hook { timeout: Duration::from_secs(600), ..hook("desk", &[HookEvent::Ended], slow) };
    let hooks = Hooks::new([slow]);
    let left = journal.outbox().await.unwrap();
    let other = StoredJournal::open(folder.path().join("journal.db")).unwrap();
    let (first, second) = tokio::join!(hooks.deliver(&journal, left.clone()), async {
        while sent.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let second = hooks.deliver(&other, left.clone()).await;
        barrier.wait().await;
        second
    });
    assert_eq!((first.unwrap().len(), second.unwrap().len()), (1, 0));
    assert_eq!(hooks.deliver(&other, left).await.unwrap(), [], "it is gone");
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

/// A loop whose run waits for a person, and a receiver of all that happens to it.
fn waiting_loop(journal: &StoredJournal) -> (Runner, Arc<Receiver>) {
    waiting_loop_of(unselected(), journal, &[HookEvent::Waiting, HookEvent::Ended, HookEvent::Failed])
}

fn waiting_loop_of(spec: RunSpec, journal: &StoredJournal, on: &[HookEvent]) -> (Runner, Arc<Receiver>) {
    let stage = Stage::new(&Log::new())
        .on("main", [says(answer("low", &[change("ok-1")])), says(answer("high", &[]))]);
    let receiver = Receiver::failing(0);
    let hooks = Hooks::new([hook("desk", on, To(Arc::clone(&receiver)))]);
    let runner = runner(spec, &Log::new(), stage).with_journal(Arc::new(journal.clone())).with_hooks(hooks);
    (runner.with_people().leave_when_waiting(), receiver)
}

async fn waits(handle: Handle) -> RunId {
    match handle.driven().await {
        DriveResult::Waiting(waiting) => waiting.outcome.run,
        DriveResult::Ended(outcome) => panic!("it ended: {:?}", outcome.stop),
    }
}

fn told(receiver: &Receiver) -> Vec<(HookEvent, RunId)> {
    receiver.heard.lock().unwrap().iter().map(|message| (message.event, message.run.clone())).collect()
}

/// Links of a server.
struct Links;

impl DecisionLinks for Links {
    fn link(&self, requested: &PersonRequest, unix_ms: u64) -> Option<String> {
        let PersonRequest { run, key, binding, .. } = requested;
        Some(format!("https://a.example/{run}/{key}/{binding}/{}", unix_ms > 0))
    }
}

#[tokio::test]
async fn what_waits_has_the_link_of_its_server_and_without_one_none() {
    for links in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path());
        let (mut runner, receiver) = waiting_loop(&journal);
        if links {
            let hooks = runner.hooks().clone().with_links(Arc::new(Links));
            runner = runner.with_hooks(hooks);
        }
        let run = waits(runner.run(common::item()).start().await.unwrap()).await;
        let body: Value = serde_json::from_str(&receiver.heard.lock().unwrap()[0].body).unwrap();
        let asked = replay(&run, &journal.read(&run).await.unwrap()).unwrap().requested().remove(0);
        let link = format!("https://a.example/{run}/{}/{}/true", asked.key, asked.binding);
        let link = if links { Value::from(link) } else { Value::Null };
        assert_eq!(body["data"]["waiting"][0]["link"], link);
    }
}

#[tokio::test]
async fn the_end_of_a_run_without_a_driver_is_told() {
    // H1, H2: it ends by what is noted down, and its message is committed with that.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let (runner, receiver) = waiting_loop(&journal);
    let run = waits(runner.run(common::item()).start().await.unwrap()).await;
    let stop = EventKind::StopRequested { how: StopMode::Now };
    assert!(runner.note_down(&run, [stop]).await.unwrap().is_done());
    assert_eq!(told(&receiver), [(HookEvent::Waiting, run.clone()), (HookEvent::Ended, run)]);
    assert_eq!(journal.outbox().await.unwrap(), []);
}

#[tokio::test]
async fn a_time_to_answer_that_is_nearly_over_is_told_while_the_run_still_waits() {
    // R3 of the runs that have left the process: the message is committed with the wait, and due before its end.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let on = [HookEvent::Waiting, HookEvent::Expiring];
    let timed = |person_ms| RunSpec { limits: Limits { person_ms, ..unselected().limits }, ..unselected() };
    let (runner, _) = waiting_loop_of(timed(None), &journal, &on);
    waits(runner.run(common::item()).start().await.unwrap()).await;
    assert_eq!(journal.outbox().await.unwrap(), [], "without a deadline nothing is nearly over");
    for (person_ms, soon) in [(600_000, 150_000), (86_400_000, 3_600_000)] {
        let (runner, receiver) = waiting_loop_of(timed(Some(person_ms)), &journal, &on);
        let run = waits(runner.run(common::item()).start().await.unwrap()).await;
        assert_eq!(told(&receiver), [(HookEvent::Waiting, run.clone())], "it is not due");
        let queued = journal.outbox().await.unwrap();
        let state = replayed(&journal, &run).await;
        let deadline = state.started().unix_ms_at(state.deadline().unwrap());
        let due: Vec<_> = queued.iter().map(|it| (it.message.event, it.next_unix_ms)).collect();
        assert_eq!(due, [(HookEvent::Expiring, Some(deadline - soon))]);
        if person_ms == 600_000 {
            let body: Value = serde_json::from_str(&queued[0].message.body).unwrap();
            assert_eq!(body["type"], "run.expiring");
            assert_eq!(body["data"]["waiting"][0]["deadline_unix_ms"], deadline);
            runner.hooks().deliver(&journal, queued).await.unwrap();
            assert_eq!(told(&receiver)[1..], [(HookEvent::Expiring, run)]);
        } else {
            // What was decided before is not told, and does not keep the run.
            let stop = EventKind::StopRequested { how: StopMode::Now };
            assert!(runner.note_down(&run, [stop]).await.unwrap().is_done());
            assert!(runner.hooks().deliver(&journal, queued.clone()).await.unwrap().is_empty());
            assert_eq!(told(&receiver).len(), 1);
        }
        assert_eq!(journal.outbox().await.unwrap(), []);
    }
    let (runner, _) = waiting_loop_of(timed(Some(600_000)), &journal, &on);
    let run = waits(runner.run(common::item()).start().await.unwrap()).await;
    runner.note_down(&run, [EventKind::StopRequested { how: StopMode::Now }]).await.unwrap();
    assert_eq!(journal.outbox().await.unwrap().len(), 1);
    journal.prune(&run).await.unwrap();
    assert_eq!(journal.outbox().await.unwrap(), []);
}

async fn replayed(journal: &StoredJournal, run: &RunId) -> Run {
    let recorded = journal.read(run).await.unwrap();
    let mut entries = recorded.entries.iter();
    let (mut state, _) = Run::open(&entries.next().unwrap().event, Arc::clone(&recorded.spec)).unwrap();
    entries.for_each(|entry| drop(state.apply(&entry.event).unwrap()));
    state
}

#[tokio::test]
async fn a_fork_that_begins_with_a_wait_is_told_once() {
    // H2: its message is committed with its first entry, after which nothing may follow for days.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let (runner, receiver) = waiting_loop(&journal);
    let of = waits(runner.run(common::item()).start().await.unwrap()).await;
    let last = journal.read(&of).await.unwrap().entries.last().unwrap().seq;
    let fork = waits(runner.fork(&of, Some(last)).start().await.unwrap()).await;
    assert_eq!(journal.read(&fork).await.unwrap().entries.len(), 1);
    let both = [(HookEvent::Waiting, of), (HookEvent::Waiting, fork.clone())];
    assert_eq!(told(&receiver), both);
    // The wait was told before it is resumed.
    waits(runner.resume(&fork).start().await.unwrap()).await;
    assert_eq!(told(&receiver), both);
    assert_eq!(journal.outbox().await.unwrap(), []);
}

#[tokio::test]
async fn a_message_of_an_entry_that_is_refused_is_not_sent() {
    // H2: the entries before it are whole, and did not cause the message.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    loop_of(&journal, confident(), Vec::new()).run(common::item()).await.unwrap();
    let run = journal.runs().await.unwrap()[0].run.clone();
    let (recorded, mut writer) = journal.clone().with_entry_limit(2_000).resume(&run).await.unwrap();
    let next = recorded.entries.len() as u64;
    let entry = |seq, kind| Arc::new(Entry { seq, event: Event { at: Millis(1), kind }, notes: vec![] });
    let message = HookMessage {
        id: "msg_1".into(),
        run,
        hook: "desk".into(),
        event: HookEvent::Ended,
        body: "{}".into(),
        unix_ms: 1,
    };
    writer.announce(vec![message]);
    let large = EventKind::Instruction { text: "x".repeat(4_000).into() };
    let batch = [entry(next, EventKind::StopWithdrawn), entry(next + 1, large)];
    let (written, error) = writer.append_all(&batch, Durability::Synced).await.unwrap_err();
    assert!(written == 1 && matches!(error, JournalError::TooLarge { .. }), "{written}: {error}");
    assert_eq!(journal.outbox().await.unwrap(), []);
    writer.append(&entry(next + 1, EventKind::StopWithdrawn), Durability::Synced).await.unwrap();
    assert_eq!(journal.outbox().await.unwrap(), [], "it was dropped");
}

#[tokio::test]
async fn a_wait_that_begins_as_a_run_is_resumed_is_told() {
    // H1: its driver was killed during a write that is not begun again; the next driver begins with the wait.
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let log = Log::new();
    let once = |declared: ToolDeclaration| match &*declared.name {
        "look" => declared.effect(Effect::WriteIrreversible),
        _ => declared,
    };
    let gate = GateSettings { approved: vec!["look".into()], ..unselected().gate };
    let spec = RunSpec { gate, ..unselected() };
    let stage = Stage::new(&log).on("main", [says(answer("low", &[look("hang"), change("ok-1")]))]);
    let receiver = Receiver::failing(0);
    let hooks = vec![hook("desk", &[HookEvent::Waiting], To(Arc::clone(&receiver)))];
    let runner = Runner::new(spec, tools_declared(&log, once), Models::one(Arc::new(stage)));
    let runner = runner.with_journal(Arc::new(journal.clone())).with_hooks(Hooks::new(hooks));
    let runner = runner.with_people().leave_when_waiting();
    let is_begun = |event: &RunEvent| match event {
        RunEvent::Recorded(entry) => matches!(entry.event.kind, EventKind::ToolStarted { .. }),
        _ => false,
    };
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    while stream.next().await.is_some_and(|event| !is_begun(&event)) {}
    drop(stream);
    assert_eq!(told(&receiver), []);
    let run = journal.runs().await.unwrap()[0].run.clone();
    assert_eq!(waits(runner.resume(&run).start().await.unwrap()).await, run);
    let entries = journal.read(&run).await.unwrap().entries;
    let last = entries.last().unwrap();
    assert!(matches!(last.event.kind, EventKind::Resumed { .. }), "{last:?}");
    assert_eq!(told(&receiver), [(HookEvent::Waiting, run)]);
}
