//! Stops: at the gate, taken back, at once, and by the clock.

use crate::common;

use common::world::{End, Log, Play, Stage, answer, look, runner, says, spec, unselected};
use futures::StreamExt;
use loop_core::Verdict;
use loop_core::types::{FailureKind, Status};
use loop_llm::error::RetryAdvice;
use loop_llm::{ErrorPhase, EventStream, LlmError, ModelEvent, ModelRequest};
use loop_runtime::{
    Outcome, StopReason,
    models::ChatModel,
    run::{Handle, StopClass, StopMode},
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn begun(log: &Log, stage: Stage) -> Handle {
    runner(unselected(), log, stage).run(common::item()).start().await.unwrap()
}

async fn later(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// The instant at which the run was over, and its outcome.
async fn over(log: &Log, handle: Handle) -> (u64, Outcome) {
    let outcome = handle.wait().await;
    (log.now(), outcome)
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_the_gate_waits_for_the_reply_and_keeps_it() {
    // S0-46, U5
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("medium", &[look("ok-1")])).after(5_000)]);
    let handle = begun(&log, stage).await;
    later(1_000).await;
    handle.remote().stop(StopMode::AtGate);
    let (at, outcome) = over(&log, handle).await;
    assert_eq!(at, 5_000, "the call in flight is not cut off");
    assert_eq!((outcome.stop.reason(), outcome.stop.class), (StopReason::ManualStop, StopClass::Cancelled));
    assert_eq!(outcome.document.sections.len(), 3);
    assert_eq!((log.count("tool "), log.count("model ")), (0, 1), "nothing new is started");
    assert!(
        matches!(outcome.actions[0].verdict, Verdict::Ended { .. } | Verdict::Denied { .. }),
        "{:?}",
        outcome.actions
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_too_late_or_for_nothing_change_nothing() {
    // S0-47, I-9
    let log = Log::new();
    let handle = begun(&log, Stage::new(&log).on("main", [says(answer("high", &[])).after(100)])).await;
    let remote = handle.remote();
    remote.withdraw_stop();
    let outcome = handle.wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    remote.stop(StopMode::Now);
    remote.withdraw_stop();
}

#[tokio::test(start_paused = true)]
async fn a_stop_now_cuts_a_hanging_call_off_and_keeps_what_it_had_said() {
    // I-14, I-15, U1, S0-130
    let log = Log::new();
    let text = "## 🔍 Situation\n\nThe backup failed.\n\n## 📋 Findings\n\nIt is bec";
    let stage = Stage::new(&log).on("main", [says(text).ending(End::Hangs)]);
    let handle = begun(&log, stage).await;
    later(1_000).await;
    handle.remote().stop(StopMode::Now);
    let (at, outcome) = over(&log, handle).await;
    assert_eq!((at, log.at("dropped model main 1")), (1_000, 1_000), "at once, not after the grace time");
    assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
    assert_eq!(outcome.document.sections.len(), 1);
    assert!(outcome.totals.usage.total() > 0, "what was heard is paid for");
}

#[tokio::test(start_paused = true)]
async fn a_stop_now_cuts_a_tool_off_that_does_not_listen_and_keeps_what_others_brought() {
    // I-14, I-15, T2, U1
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("medium", &[look("ok-1"), look("hang")]))]);
    let handle = begun(&log, stage).await;
    later(1_000).await;
    handle.remote().stop(StopMode::Now);
    let (at, outcome) = over(&log, handle).await;
    assert_eq!(at, 1_000, "at once, not after the grace time");
    tokio::task::yield_now().await;
    assert_eq!(log.count("dropped look(hang)"), 1, "its task is gone");
    let statuses: Vec<Status> = outcome.evidence.iter().map(|evidence| evidence.observation.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Cancelled]);
    assert_eq!((outcome.stop.reason(), outcome.document.sections.len()), (StopReason::ManualStop, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_does_not_hold_the_end_up() {
    // I-15: it cannot be stopped from outside, so it is left behind.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let declaration = loop_runtime::tools::ToolDeclaration::new("look")
        .schema(serde_json::json!({"type": "object", "properties": {"target": {"type": "string"}}}))
        .effect(loop_core::types::Effect::Read);
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let registry = loop_runtime::tools::Registry::builder().tool_fn(declaration, move |_, _, _| {
        let (blocked, began) = (Arc::clone(&blocked), began.clone());
        async move {
            began.send(()).unwrap();
            blocked.lock().unwrap().recv().ok();
            loop_runtime::tools::ToolResult::ok("look", "late", "Late.", serde_json::json!({}))
        }
    });
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("medium", &[look("x")]))]);
    let models = loop_runtime::models::Models::one(Arc::new(stage));
    let runner = loop_runtime::Runner::new(unselected(), registry.build().unwrap(), models);
    let handle = runner.run(common::item()).start().await.unwrap();
    begun.recv().await.unwrap();
    handle.remote().stop(StopMode::Now);
    let outcome = tokio::time::timeout(Duration::from_secs(60), handle.wait()).await.unwrap();
    assert_eq!(outcome.evidence[0].observation.status, Status::Cancelled);
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn a_stop_now_cuts_a_stream_off_that_is_always_ready() {
    // I-15, L11: it never gives way by itself.
    let received = Arc::new(AtomicUsize::new(0));
    let handle = common::runner(Flood(Arc::clone(&received))).run(common::item()).start().await.unwrap();
    let remote = handle.remote();
    while received.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    remote.stop(StopMode::Now);
    let outcome = handle.wait().await;
    assert!(received.load(Ordering::Relaxed) < 10_000, "{received:?} of 100,000");
    assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
}

/// Signs of life without a pause.
#[derive(Debug)]
struct Flood(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl ChatModel for Flood {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        let received = Arc::clone(&self.0);
        let sign = move || {
            received.fetch_add(1, Ordering::Relaxed);
            Ok(ModelEvent::KeepAlive)
        };
        Ok(futures::stream::repeat_with(sign).take(100_000).boxed())
    }
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_ends_a_run_in_the_middle_of_a_call() {
    // S0-46 and the exits beside it, I-15
    let log = Log::new();
    let slow = || Play { pieces: vec![(0, answer("high", &[]))], ..says("") }.ending(End::Hangs);
    let spec = spec(|spec| {
        spec.selection.enabled = false;
        spec.limits.wall_ms = 30_000;
    });
    let stage = Stage::new(&log).on("main", [slow()]).on("final", [slow()]);
    let handle = runner(spec, &log, stage).run(common::item()).start().await.unwrap();
    let (at, outcome) = over(&log, handle).await;
    // A quarter of the time is the final pass's, and the wall clock ends that.
    assert_eq!(
        (log.at("dropped model main 1"), log.at("dropped model final 1"), at),
        (22_500, 30_000, 30_000)
    );
    assert_eq!((outcome.stop.reason(), outcome.stop.class), (StopReason::Timeout, StopClass::Partial));
    assert_eq!(outcome.totals.wall_ms, 30_000);
    assert!(!outcome.document.sections.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_does_not_wait_for_a_retry() {
    // L1
    let log = Log::new();
    let busy = LlmError {
        retry: RetryAdvice::After(Duration::from_secs(3_600)),
        ..LlmError::new(FailureKind::RateLimited, ErrorPhase::Headers, "tomorrow")
    };
    let stage = Stage::new(&log).on("main", [Play { refuses: Some(busy), ..says("") }]);
    let (at, outcome) = over(&log, begun(&log, stage).await).await;
    assert!(at <= 300_000, "{at}");
    assert_ne!(outcome.stop.class, StopClass::Answered);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_future_is_dropped_leaves_nothing_behind() {
    // I-14, U1
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("medium", &[look("hang")]))]);
    let runner = runner(unselected(), &log, stage);
    let late = tokio::time::timeout(Duration::from_secs(1), runner.run(common::item())).await;
    assert!(late.is_err());
    later(1).await;
    assert_eq!(log.count("dropped look(hang)"), 1);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    // Nobody writes it any more: it can be taken up again.
    let run = runner.journal().runs().await.unwrap()[0].run.clone();
    assert!(runner.journal().resume(&run).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_dropped_lets_the_run_go_on() {
    // I-30
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[])).after(1_000)]);
    let runner = runner(unselected(), &log, stage);
    let handle = runner.run(common::item()).start().await.unwrap();
    let run = handle.id().clone();
    drop(handle);
    later(2_000).await;
    let line = runner.journal().runs().await.unwrap().into_iter().find(|line| line.run == run).unwrap();
    assert_eq!(line.stop, Some(StopReason::Confident));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
