//! Stops: asked for at the gate or now, taken back, by a failure; and what still settles.

use crate::common::{confidence, usd};
use loop_testkit::*;

use loop_core::gate::{CutExtent, Measure};
use loop_core::reply::FinishReason;
use loop_core::run::StopMode;
use loop_core::types::{FailureKind, Millis, ModelFailure, Status, StopClass};
use loop_core::{EventKind, Note, StopReason};
use serde_json::json;

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

fn acting() -> World {
    run().people().start().replied(&device("a").asks("fetch_device", target("b")))
}

#[test]
fn a_stop_at_the_gate_waits_for_the_call_in_flight_and_keeps_its_reply() {
    // S0-46, S0-47, U5
    let world =
        run().start().started().stop(StopMode::AtGate).expect_phase("calling").expect_call("1/main", 1);
    let world = world.answered(&device("a")).ends(StopReason::ManualStop);
    assert_eq!(
        (world.outcome().stop.class, world.outcome().stop.class.exit_code()),
        (StopClass::Cancelled, 130)
    );
    assert!(world.outcome().document.get("situation").is_some());
    assert_eq!(world.verdicts(), ["ended"]);
}

#[test]
fn a_stop_at_the_gate_waits_for_the_tools_in_flight_and_starts_no_pass() {
    // S0-46, S0-47
    let world = acting().stop(StopMode::AtGate).expect_phase("acting");
    let world = world.finished("1/action-0", found("x")).expect_phase("acting");
    let world = world.finished("1/action-1", found("y")).ends(StopReason::ManualStop);
    assert_eq!(world.outcome().evidence.len(), 2);
}

#[test]
fn a_stop_at_the_gate_may_be_taken_back_until_it_takes_effect() {
    // S0-47
    let world = acting().stop(StopMode::AtGate).withdrawn().all_finished().expect_call("2/main", 1);
    world.replied(&draft("high")).ends(StopReason::Confident);
    run().start().rejects(EventKind::StopWithdrawn);
    run().start().stop(StopMode::AtGate).ends(StopReason::ManualStop).rejects(EventKind::StopWithdrawn);
}

#[test]
fn a_stop_at_the_gate_takes_effect_at_once_where_nothing_is_in_flight() {
    // S0-46
    let selection = run().selector(&[]).start();
    let calling = run().start();
    let repairing = run().start().replied(&text("## Situation\nx"));
    let final_pass = run().limits(|limits| limits.passes = 1).start();
    let asking = run().people().start().replied(&draft("low").asks("wipe", target("a")));
    let approved = asking.clone().answered_by_person("1/action-0", loop_core::run::PersonAnswer::Approved);
    let waiting = run()
        .start()
        .started()
        .failed(loop_core::types::ModelFailure { retry_at: Some(Millis(900)), ..failure(true) });
    for world in [selection, calling, repairing, final_pass, asking, approved, waiting] {
        let phase = world.phase();
        let world = world.stop(StopMode::AtGate).ends(StopReason::ManualStop);
        assert_eq!(
            world
                .outcome()
                .evidence
                .iter()
                .filter(|found| found.observation.status != Status::Cancelled)
                .count(),
            0,
            "{phase}"
        );
    }
}

#[test]
fn a_stop_at_the_gate_while_selection_gathering_or_repairing_ends_after_what_is_in_flight() {
    // S0-46
    let selections = text(&json!([{"tool": "fetch_device", "params": {"target": "a"}}]).to_string());
    let selection = run().selector(&[]).start().started().stop(StopMode::AtGate);
    let world = selection.clone().answered(&selections).ends(StopReason::ManualStop);
    assert_eq!(world.outcome().totals.model_calls, 1);
    selection.failed(failure(false)).ends(StopReason::ManualStop);

    let gathering =
        run().selector(&[]).start().selected(&[("fetch_device", target("a"))]).stop(StopMode::AtGate);
    let world = gathering.expect_phase("gathering").all_finished().ends(StopReason::ManualStop);
    assert_eq!(world.outcome().evidence.len(), 1);

    let repairing = run().start().replied(&text("## Situation\nx")).started().stop(StopMode::AtGate);
    repairing.clone().answered(&bare_draft("high")).ends(StopReason::ManualStop);
    let world = repairing.failed(failure(false)).ends(StopReason::ManualStop);
    assert!(world.outcome().document.get("situation").is_some());

    // A garbled reply is not repaired once a stop is asked for.
    let calling = run().start().started().stop(StopMode::AtGate).answered(&text("## Situation\nx"));
    calling.ends(StopReason::ManualStop);
    // Neither is a failed call tried again.
    let world =
        run().start().started().stop(StopMode::AtGate).failed(failure(true)).ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::ModelFailure]);
}

#[test]
fn a_final_pass_during_which_a_stop_is_asked_for_tells_both() {
    let world = run()
        .limits(|limits| limits.passes = 1)
        .start()
        .started()
        .stop(StopMode::AtGate)
        .answered(&draft("high"));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::MaxPasses, StopReason::Confident]);
}

#[test]
fn a_stop_now_fixes_the_reason_in_the_same_step_and_aborts_what_is_in_flight() {
    // S0-46, U1, I-9, I-15
    let world = run().start().started().stop(StopMode::Now).expect_phase("stopping");
    assert_eq!(world.aborts(), ["1/main"]);
    // What was paid for is taken while it settles.
    let settled = world.clone().answered_while_stopping("1/main", &device("a")).ends(StopReason::ManualStop);
    assert_eq!((settled.outcome().totals.passes, settled.outcome().totals.model_calls), (1, 1));
    assert_eq!((confidence(&settled).name(), settled.outcome().totals.usage.total()), ("medium", 150));
    // After two seconds nothing is waited for: the call is charged at its reserve.
    assert_eq!(world.run.deadline(), Some(Millis(2_000)));
    let lost = world.deadline().ends(StopReason::ManualStop);
    assert_eq!(
        lost.outcome().totals.usage,
        loop_core::types::Usage { estimated: true, ..used(1_000, 4_096) }
    );
}

#[test]
fn a_call_that_has_settled_is_neither_aborted_nor_charged_again() {
    // I-21, S0-119: a stop in the step of a settlement.
    for world in [
        run().start().replied(&draft("high")),
        run().limits(|limits| limits.passes = 1).start().replied(&draft("high")),
        run().start().replied(&text("## Situation\nx")).replied(&bare_draft("high")),
        run().selector(&[]).start().started().stop(StopMode::AtGate).answered(&text("[]")),
        run().start().started().failed(failure(false)),
    ] {
        assert_eq!((world.phase(), world.aborts().len()), ("done", 0));
        assert!(!world.outcome().totals.usage.estimated);
    }
}

#[test]
fn tools_that_settle_while_stopping_are_kept_and_the_others_are_cancelled() {
    // I-13, T11
    let world = acting().finished("1/action-1", found("b")).stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"]);
    let world = world.deadline().ends(StopReason::ManualStop);
    let statuses: Vec<_> = world.outcome().evidence.iter().map(|found| found.observation.status).collect();
    assert_eq!(statuses, [Status::Cancelled, Status::Ok]);
}

#[test]
fn a_write_that_was_announced_and_did_not_settle_is_in_doubt() {
    // T2, H1
    let requested = draft("low").asks("wipe", target("a")).asks("wipe", target("b"));
    let yes = loop_core::run::PersonAnswer::Approved;
    let mut world = run().people().start().replied(&requested);
    world = world.answered_by_person("1/action-0", yes.clone()).answered_by_person("1/action-1", yes);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = world.stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"], "what was not announced is not in flight");
    let world = world.deadline().ends(StopReason::ManualStop);
    let statuses: Vec<_> = world.outcome().evidence.iter().map(|found| found.observation.status).collect();
    assert_eq!(statuses, [Status::InDoubt, Status::Cancelled]);
}

#[test]
fn a_stop_at_the_gate_may_become_a_stop_now_but_not_after_the_reason_is_fixed() {
    let world =
        acting().stop(StopMode::AtGate).stop(StopMode::AtGate).stop(StopMode::Now).expect_phase("stopping");
    let again = EventKind::StopRequested { how: StopMode::Now };
    world.rejects(again.clone()).rejects(EventKind::StopWithdrawn).deadline().rejects(again);
}

#[test]
fn a_model_that_fails_for_good_ends_the_run_with_the_document_so_far() {
    // S0-130, L4
    let world = run().start().replied(&device("a")).all_finished().started().failed(failure(false));
    let world = world.ends(StopReason::ModelFailure);
    assert_eq!((world.outcome().stop.class, world.outcome().document.sections.len()), (StopClass::Failed, 1));
    assert_eq!(world.outcome().evidence.len(), 1);
}

#[test]
fn a_call_that_may_succeed_later_is_tried_three_times_not_before_its_time() {
    // L1, L2
    let mut later = failure(true);
    later.retry_at = Some(Millis(700));
    let world = run().start().started().failed(later).expect_nothing();
    assert_eq!(world.run.deadline(), Some(Millis(700)));
    let world = world.wait(699).rejects(EventKind::DeadlineReached).deadline();
    let world = world.expect_call("1/main", 2).started().failed(failure(true)).expect_call("1/main", 3);
    let world = world.started().failed(failure(true)).ends(StopReason::ModelFailure);
    assert_eq!(world.outcome().totals.model_calls, 3);
}

#[test]
fn an_empty_reply_is_never_an_answer() {
    // L19
    let mut world = run().start();
    for attempt in 1..=3 {
        world = world.expect_call("1/main", attempt).replied(&text("\n"));
    }
    let world = world.ends(StopReason::ModelFailure);
    assert!(world.outcome().stop.primary.value.to_string().starts_with("empty_response"));
    assert_eq!(world.outcome().totals.usage.total(), 450);
}

#[test]
fn of_a_reply_that_failed_midway_the_complete_sections_are_kept_and_no_action_is_run() {
    // S0-130, I-19, L6
    let whole = draft("high").section("Findings", "Half").asks("fetch_device", target("a")).whole_text();
    let mut partial = failure(true);
    partial.partial = Some(whole.trim_end().trim_end_matches('`').into());
    partial.retryable = false;
    let world = run().start().started().failed(partial).ends(StopReason::ModelFailure);
    let ids: Vec<&str> = world.outcome().document.sections.iter().map(|section| &*section.id).collect();
    assert_eq!(ids, ["situation"], "the last section may be cut anywhere");
    assert_eq!((world.outcome().actions.len(), world.outcome().totals.passes), (0, 0));
    // While stopping, the same.
    let mut partial = failure(true);
    partial.partial = Some("## Situation\nKept.\n## Findings\nha".into());
    let mut world = run().start().started().stop(StopMode::Now);
    world.apply(EventKind::ModelFailed { key: key("1/main"), attempt: 1, failure: partial.into() });
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(&*world.outcome().document.get("situation").unwrap().body, "Kept.");
}

#[test]
fn the_certificate_of_a_manual_stop_tells_the_limits_that_were_reached_too() {
    // C14
    let world = run()
        .checked_after()
        .limits(|limits| limits.cost = usd(1))
        .selector(&[])
        .start()
        .selected(&[])
        .stop(StopMode::AtGate);
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::BudgetExceeded]);
}

fn broken(partial: &str) -> ModelFailure {
    ModelFailure { kind: FailureKind::StreamInterrupted, partial: Some(partial.into()), ..failure(true) }
}

#[test]
fn a_stream_that_the_connection_broke_is_tried_again_and_its_complete_sections_are_kept() {
    // P2, S0-130, L6
    let setup = run().with(|spec| spec.gate.no_progress = 1);
    let world = setup.start().started().failed(broken("## Situation\nKept.\n## Findings\nhal"));
    let world = world.expect_call("1/main", 2);
    assert_eq!(&*world.run.document().get("situation").unwrap().body, "Kept.");
    // The next try names another section: the first one stays, and both are changes of the pass.
    let next = text(&format!("## Findings\n\nFull. [E0]\n\n{}", bare_draft("high").whole_text()));
    let world = world.replied(&next).ends(StopReason::Confident);
    let changed: Vec<&str> = world.run.passes()[0].changed.iter().map(|id| &**id).collect();
    assert_eq!(changed, ["situation", "findings"]);
    assert_eq!((world.outcome().totals.passes, world.outcome().totals.model_calls), (1, 2));
    assert_eq!(world.outcome().document.sections.len(), 2);
}

#[test]
fn a_stream_that_breaks_each_time_is_tried_three_times_each_with_its_own_reserve() {
    // P2, I-21
    let unreported = || ModelFailure { usage: None, ..broken("## Situation\nKept.\n## Findings\nhal") };
    let world = run().start().started().failed(unreported()).started();
    assert!(world.run.reserved().output_tokens > 0, "the second try has a reserve of its own");
    let world = world.failed(unreported()).started().failed(unreported()).ends(StopReason::ModelFailure);
    assert_eq!(world.outcome().totals.model_calls, 3);
    assert_eq!(world.outcome().document.sections.len(), 1);
}

#[test]
fn a_stream_that_broke_is_not_tried_again_where_the_limits_do_not_allow_it() {
    // P2
    let once = run().limits(|limits| limits.model_calls = 2).start().started();
    let world = once.failed(broken("## Situation\nKept.\n## Findings\nhal")).expect_call("1/final", 2);
    let world = world.started().failed(broken("")).started().ends(StopReason::ModelFailure);
    assert_eq!(world.outcome().totals.model_calls, 2);
    assert_eq!(&*world.outcome().document.get("situation").unwrap().body, "Kept.");
    // Nor once somebody has asked for a stop.
    let world = run().start().started().stop(StopMode::AtGate);
    world.failed(broken("## Situation\nKept.\n## Findings\nhal")).ends(StopReason::ManualStop);
}

#[test]
fn what_cannot_pass_is_never_repeated_whatever_the_provider_says() {
    // P2, P6, L4
    for kind in FailureKind::ALL.iter().copied() {
        let world = run().start().started().failed(ModelFailure { kind, ..failure(true) });
        let again = world.phase() == "calling";
        assert_eq!(again, kind.may_pass(), "{kind}");
    }
}

#[test]
fn reasoning_that_uses_all_output_tokens_is_said_to_and_not_repeated() {
    // P6, L19
    let spent = loop_core::types::Usage { reasoning: 4_090, ..used(100, 6) };
    let silent = text("").ending(FinishReason::MaxTokens).using(Some(spent));
    let world = run().start().replied(&silent).ends(StopReason::OutputLimit);
    let stop = &world.outcome().stop;
    assert_eq!((stop.class, world.outcome().totals.model_calls), (StopClass::Partial, 1));
    let written = CutExtent { tokens: Some(4_096), reasoning: 4_090, visible: false, capped: false };
    assert_eq!(stop.primary.value, Measure::Output(written));
    assert_eq!(stop.primary.threshold, Some(Measure::Count(4_096)));
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "limits.output_tokens = 4097");
    // Where the model itself writes no more, that setting helps nothing, and none is named.
    let small = run().with(|spec| spec.models.base.max_output_tokens = 500).start();
    let world = small.replied(&silent).ends(StopReason::OutputLimit);
    assert_eq!(world.outcome().stop.primary.change, None);
}

#[test]
fn a_native_call_in_a_document_is_named_and_not_repeated() {
    // P6
    let world = run().start().replied(&loop_testkit::calls(&[("fetch_device", target("a"))]));
    let world = world.ends(StopReason::ModelFailure);
    let reported = world.outcome().stop.primary.value.to_string();
    assert!(
        reported.starts_with("unexpected_tool_call: the reply calls the tool `fetch_device` natively"),
        "{reported}"
    );
    assert!(reported.contains("protocol.type = \"conversation\""), "{reported}");
    assert_eq!((world.outcome().totals.model_calls, world.outcome().actions.len()), (1, 0));
    // Beside a whole reply it is told, and not run.
    let both = draft("high").calling("fetch_device", "{}");
    let world = run().start().replied(&both).ends(StopReason::Confident);
    let ignored = loop_core::reply::ParseWarning::IgnoredCall { tool: "fetch_device".into() };
    let read = world.all_notes().any(
        |note| matches!(note, Note::ReplyRead { parse_warnings, .. } if *parse_warnings == [ignored.clone()]),
    );
    assert!(read && world.outcome().actions.is_empty());
}

#[test]
fn a_reply_that_is_cut_at_its_output_limit_is_a_condition_of_the_stop() {
    // W2, L12
    let cut = text("## Situation\nThe disk is").ending(FinishReason::MaxTokens).using(Some(used(100, 4_096)));
    let world = run().start().replied(&cut).expect_phase("repairing").replied(&bare_draft("low"));
    let world = world.ends(StopReason::NoNewActions);
    assert_eq!(world.reasons(), [StopReason::NoNewActions, StopReason::OutputLimit]);
    let condition = &world.outcome().stop.also[0];
    let written = CutExtent { tokens: Some(4_096), reasoning: 0, visible: true, capped: false };
    assert_eq!(
        (&condition.value, &condition.threshold),
        (&Measure::Output(written), &Some(Measure::Count(4_096)))
    );
    assert_eq!(condition.change.as_ref().unwrap().to_string(), "limits.output_tokens = 4097");
    // The reply that is to repair a contract may be cut as well.
    let world = run().start().replied(&text("## Situation\nx"));
    let world = world.replied(&text("{\"analysis_conf").ending(FinishReason::MaxTokens));
    let world = world.ends(StopReason::NoNewActions);
    assert_eq!(world.reasons(), [StopReason::NoNewActions, StopReason::OutputLimit]);
    // A later reply that is whole is told alone; a stop by hand tells the cut of the last one.
    let first = draft("low").asks("fetch_device", target("a")).ending(FinishReason::MaxTokens);
    let acting = run().start().replied(&first).expect_phase("acting");
    let world = acting.clone().all_finished().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(world.reasons(), [StopReason::Confident]);
    let world = acting.stop(StopMode::Now).deadline().ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::OutputLimit]);
}

#[test]
fn a_reply_that_our_own_cap_cut_keeps_its_complete_sections_and_runs_nothing() {
    // P3, L11, I-19
    let endless = draft("high").section("Findings", "and on").asks("fetch_device", target("a")).whole_text();
    let capped = text(&endless).ending(FinishReason::Capped).using(None);
    let world = run().start().replied(&capped).expect_phase("repairing").replied(&bare_draft("low"));
    let world = world.ends(StopReason::NoNewActions);
    let ids: Vec<&str> = world.outcome().document.sections.iter().map(|section| &*section.id).collect();
    assert_eq!((ids, world.outcome().actions.len()), (vec!["situation", "findings"], 0));
    let condition = &world.outcome().stop.also[0];
    let written = CutExtent { tokens: None, reasoning: 0, visible: true, capped: true };
    assert_eq!((&condition.value, condition.change.as_ref()), (&Measure::Output(written), None));
}

#[test]
fn a_try_that_broke_off_before_a_complete_section_changes_nothing_and_says_nothing() {
    // P2
    for partial in ["Let me", "## Situation\nhal"] {
        let world = run().start().started().failed(broken(partial)).expect_call("1/main", 2);
        assert!(!world.all_notes().any(|note| matches!(note, Note::Merged { .. })), "{partial}");
    }
}

#[test]
fn a_call_that_fails_by_itself_late_in_the_run_is_not_a_call_that_ran_out_of_time() {
    // A final pass follows a call that was cancelled for it. A model that refuses the request refuses that too.
    let setup = run().limits(|limits| limits.wall_ms = 100_000);
    let asks = draft("low").asks("fetch_device", target("a"));
    let late = || setup.clone().start().replied(&asks).all_finished().started().wait(95_000);
    late().failed(failure(false)).ends(StopReason::ModelFailure);
    let timeout = ModelFailure { kind: FailureKind::Timeout, ..failure(true) };
    late().failed(timeout).expect_call("2/final", 1);
}

#[test]
fn a_retry_that_waited_past_the_end_of_the_wall_clock_is_not_made_up_by_a_final_pass() {
    let setup = run().limits(|limits| limits.wall_ms = 100_000);
    let asks = draft("low").asks("fetch_device", target("a"));
    let later = ModelFailure { retry_at: Some(Millis(60_000)), ..failure(true) };
    let world = setup.start().replied(&asks).all_finished().started().failed(later).expect_phase("calling");
    world.wait(100_000).deadline().ends(StopReason::Timeout);
}

#[test]
fn a_write_that_is_cut_off_by_a_stop_is_in_doubt_and_a_read_is_not() {
    // I-14: what a tool reports after the stop reason is fixed.
    let stopped = |tool: &str, status: Status| {
        let setup = run().people().approving(&["wipe"]);
        let mut world = setup.start().replied(&draft("low").asks(tool, target("a")));
        if tool == "wipe" {
            world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
        }
        let world = world.stop(StopMode::Now).finished_while_stopping_as("1/action-0", status);
        world.ends(StopReason::ManualStop).results().concat()
    };
    for status in [Status::Timeout, Status::Cancelled] {
        assert_eq!(stopped("wipe", status), "run in_doubt");
        assert_eq!(stopped("fetch_device", status), format!("run {}", status.name()));
    }
    assert_eq!(stopped("wipe", Status::PermanentError), "run permanent_error");
}
