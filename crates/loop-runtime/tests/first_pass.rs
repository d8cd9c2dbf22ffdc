//! A run whose limits do not pay for its first pass does not begin, and says which limits would do.

use crate::common;

use common::world::{End, Log, Play, Stage, answer, look, runner, says, spec, unselected};
use loop_core::gate::Measure;
use loop_core::spec::{CostMode, Setting};
use loop_core::types::{PicoUsd, Price};
use loop_runtime::{
    Outcome, RunSpec, Runner, StopReason,
    run::{RunId, StartError},
};

/// A loop whose replies state no usage, so that each takes its whole reserve in `strict`, and how often its model is asked.
fn poor(spec: RunSpec, log: &Log) -> Runner {
    let silent = |play: Play| Play { usage: None, ..play };
    let stage = Stage::new(log)
        .on("select", [silent(says("[]"))])
        .on("main", [silent(says(answer("high", &[])))])
        .on("final", [silent(says(answer("high", &[])))]);
    runner(spec, log, stage)
}

async fn ran(spec: &RunSpec) -> (Result<Outcome, StartError>, usize) {
    let log = Log::new();
    let runner = poor(spec.clone(), &log);
    let result = runner.run(common::item()).await;
    if result.is_err() {
        assert_eq!(runner.journal().runs().await.unwrap().len(), 0, "nothing is journaled");
    }
    (result, log.count("model "))
}

fn least(error: &StartError) -> u64 {
    let StartError::FirstPassUnpaid { least } = error else { panic!("{error}") };
    let [change] = &least[..] else { panic!("{least:?}") };
    match (change.setting, &change.to) {
        (Setting::Cost, Measure::PicoUsd(amount)) => amount.0,
        (Setting::Tokens, Measure::Count(tokens)) => *tokens,
        other => panic!("{other:?}"),
    }
}

fn conversation() -> RunSpec {
    RunSpec::conversation("desk", unselected().models.base)
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_first_pass_cannot_be_paid_spends_nothing_and_names_the_smallest_limit_that_works() {
    // T8: with selection and without, as a conversation, by cost and by tokens.
    for base in [spec(|_| {}), unselected(), conversation()] {
        for mode in [CostMode::Estimated, CostMode::Strict] {
            for by_cost in [true, false] {
                let limited = |limit: u64| {
                    let mut spec = base.clone();
                    spec.models.base.price = Some(Price::flat(3_000_000, 15_000_000));
                    spec.limits.cost_mode = mode;
                    (spec.limits.cost, spec.limits.tokens) =
                        if by_cost { (Some(PicoUsd(limit)), None) } else { (None, Some(limit)) };
                    spec
                };
                let what = format!("{mode:?} {by_cost} {}", base.selection.enabled);
                let (refused, asked) = ran(&limited(1)).await;
                let error = refused.unwrap_err();
                assert_eq!(asked, 0, "{what}");
                let works = least(&error);
                let line = error.to_string();
                let setting = if by_cost { "limits.cost_usd = 0.0" } else { "limits.tokens = " };
                assert!(line.contains(setting) && !line.contains('\n'), "{what}: {line}");
                let (refused, asked) = ran(&limited(works - 1)).await;
                assert_eq!((least(&refused.unwrap_err()), asked), (works, 0), "{what}");
                let (outcome, asked) = ran(&limited(works)).await;
                let outcome = outcome.unwrap();
                assert!(asked > 0 && outcome.totals.passes > 0, "{what}: {:?}", outcome.stop);
                let text = outcome.document.to_markdown() + outcome.answer.as_deref().unwrap_or_default();
                assert!(text.contains("The backup failed."), "{what}: {text}");
                // A limit of 0 is a stop, and `after` looks when a call is paid (S0-51).
                let (outcome, asked) = ran(&limited(0)).await;
                let stop = if by_cost { StopReason::BudgetExceeded } else { StopReason::TokenLimit };
                assert_eq!((outcome.unwrap().stop.reason(), asked), (stop, 0), "{what}");
                let mut after = limited(1);
                after.limits.cost_mode = CostMode::After;
                let (outcome, asked) = ran(&after).await;
                assert!(outcome.unwrap().totals.model_calls > 0 && asked > 0, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_refused_like_the_run_before_it_and_a_fork_continues() {
    // T8: a retry begins anew; what a fork continues was paid.
    let mut spec = unselected();
    spec.models.base.price = Some(Price::flat(3_000_000, 15_000_000));
    spec.limits.passes = 3;
    let log = Log::new();
    let stage =
        Stage::new(&log).on("main", [says(answer("medium", &[look("ok-1")])), says("").ending(End::Stops)]);
    let first = runner(spec.clone(), &log, stage);
    let outcome = first.run(common::item()).await.unwrap();
    let poorer = |limit| {
        let mut spec = spec.clone();
        spec.limits.cost = Some(PicoUsd(limit));
        poor(spec, &Log::new()).with_journal(first.journal().clone())
    };
    let run: &RunId = &outcome.run;
    let error = poorer(1_000).retry(run).await.unwrap_err();
    assert!(least(&error) > 1_000, "{error}");
    assert!(poorer(least(&error)).retry(run).await.is_ok());
}
