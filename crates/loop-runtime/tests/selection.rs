//! Selecting: a cheap model names tools, they run side by side before the first pass, and whatever it does instead,
//! the default tools stand ready.

use crate::common;

use common::world::{End, Log, Play, Stage, answer, default_look, notes, refuses, runner, says, spec};
use loop_core::Note;
use loop_core::run::SelectedBy;
use loop_core::types::FailureKind;
use loop_runtime::{RunSpec, StopReason, report::warnings};

fn with_default() -> RunSpec {
    spec(|spec| spec.selection.defaults = vec![default_look("ok-default")])
}

/// Runs with a selector that does this, and says why the default tools were run, and how long that took.
async fn defaults_after(play: Play) -> (String, u64) {
    let log = Log::new();
    let stage = Stage::new(&log).on("select", [play]).on("main", [says(answer("high", &[]))]);
    let runner = runner(with_default(), &log, stage);
    let outcome = runner.run(common::item()).await.unwrap();

    assert_eq!((log.count("tool "), outcome.evidence.len()), (1, 1));
    assert_eq!(&*outcome.evidence[0].parameters, r#"{"target":"ok-default"}"#);
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let notes = notes(&runner, &outcome.run).await;
    let why = notes.iter().find_map(|note| match note {
        Note::Selected { by: SelectedBy::Defaults { why }, runs: 1 } => Some(why.to_string()),
        _ => None,
    });
    // Issue 40, T10
    let why = why.unwrap();
    let warned = warnings(&outcome.calls, &outcome.warnings);
    let line = format!("the selection of tools failed, and the domain's default tools ran: {why}");
    assert_eq!(warned, [line]);
    (why, log.at("tool look(ok-default)"))
}

#[tokio::test(start_paused = true)]
async fn default_tools_run_when_the_selector_fails_or_conversations_of_something_else() {
    // S0-127
    let garbled = defaults_after(says("I would rather not name any.")).await;
    assert_eq!(garbled, ("its reply holds no JSON array of tools".to_owned(), 0));
    let failed = defaults_after(refuses(FailureKind::Overloaded)).await;
    assert_eq!(failed, ("overloaded: not today".to_owned(), 0));
    let panicked = defaults_after(says("[").ending(End::Panics)).await;
    assert_eq!(panicked, ("bad_response: the model's client panicked".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_hangs_is_cut_off_after_eight_seconds() {
    // S0-127, S0-132
    let silent = defaults_after(says("").ending(End::Hangs)).await;
    assert_eq!(silent, ("timeout: no whole reply after 8000 ms".to_owned(), 8_000));
    let before_the_first_byte = defaults_after(says("[]").after(60_000)).await;
    assert_eq!(before_the_first_byte, ("timeout: no whole reply after 8000 ms".to_owned(), 8_000));
}
