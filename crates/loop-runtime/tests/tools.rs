//! Tools that are late, broken or out of order do no harm.

use crate::common;

use common::world::{Log, Stage, answer, look, runner, says, unselected};
use loop_core::types::Status;
use loop_runtime::{Outcome, StopReason};

/// Runs these actions in pass 1, and ends in pass 2.
async fn acting(log: &Log, targets: &[&str]) -> Outcome {
    let actions: Vec<_> = targets.iter().map(|target| look(target)).collect();
    let stage = Stage::new(log).on("main", [says(answer("medium", &actions)), says(answer("high", &[]))]);
    runner(unselected(), log, stage).run(common::item()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_cut_off_after_twelve_seconds_and_its_work_is_dropped() {
    // S0-94, S0-d6, S0-d7, T2
    let log = Log::new();
    let outcome = acting(&log, &["hang"]).await;
    let observation = &outcome.evidence[0].observation;
    assert_eq!((observation.status, &*observation.summary), (Status::Timeout, "timeout after 12000 ms"));
    assert_eq!(log.at("dropped look(hang)"), 12_000, "the tool itself ends, not only the waiting for it");
    assert_eq!(log.at("model main 1"), 0);
    assert_eq!(outcome.stop.reason(), StopReason::Confident, "the run goes on with the timeout as a result");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_is_a_failed_observation() {
    // T1, I-22, S0-129
    let log = Log::new();
    let outcome = acting(&log, &["panic", "ok-1"]).await;
    let summaries: Vec<_> = outcome.evidence.iter().map(|evidence| &*evidence.observation.summary).collect();
    assert_eq!(summaries, ["the tool panicked: it went to pieces", "saw ok-1"]);
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
}

/// What pass 2 is told of three tools that take this long.
async fn reported_after(delays: [u64; 3]) -> (Vec<String>, String) {
    let log = Log::new();
    // The names are the same whatever the delays, so that the prompts can be compared.
    let slow: Vec<String> = delays.iter().map(|ms| format!("slow-{ms:04}")).collect();
    let actions: Vec<_> = slow.iter().map(|target| look(target)).collect();
    let stage = std::sync::Arc::new(
        Stage::new(&log).on("main", [says(answer("medium", &actions)), says(answer("high", &[]))]),
    );
    let models = loop_runtime::models::Models::one(
        std::sync::Arc::clone(&stage) as std::sync::Arc<dyn loop_runtime::models::ChatModel>
    );
    let runner = loop_runtime::Runner::new(unselected(), common::world::tools(&log), models);
    let handle = runner.run(common::item()).start().await.unwrap();
    let nonce = handle.started().nonce.to_string();
    let outcome = handle.wait().await;
    let requested =
        outcome.evidence.iter().map(|evidence| format!("{} {}", evidence.id, evidence.parameters)).collect();
    let mut prompt = stage.requests("main")[1].messages.last().unwrap().text().replace(&nonce, "NONCE");
    for (n, target) in slow.iter().enumerate() {
        prompt = prompt.replace(target, &format!("target {n}"));
    }
    (requested, prompt)
}

#[tokio::test(start_paused = true)]
async fn results_stand_in_the_order_in_which_they_were_asked_for_whichever_ends_first() {
    // I-20
    let (requested, prompt) = reported_after([100, 200, 300]).await;
    assert_eq!(requested.len(), 3);
    for delays in [[100, 300, 200], [200, 100, 300], [200, 300, 100], [300, 100, 200], [300, 200, 100]] {
        let (other, same) = reported_after(delays).await;
        let expected: Vec<String> = delays
            .iter()
            .enumerate()
            .map(|(n, ms)| format!("E{} {{\"target\":\"slow-{ms:04}\"}}", n + 1))
            .collect();
        assert_eq!(other, expected);
        assert_eq!(same, prompt, "the prompt does not show which tool was first");
    }
}
