//! Each reason in words, as a person reads it.

use loop_core::Certificate;
use loop_core::gate::{Condition, CutExtent, Effects, Measure, Remedy, TierCause, TierChange};
use loop_core::spec::Setting;
use loop_core::types::{Confidence, PicoUsd, Tier};
use loop_runtime::{StopReason, report::explain};

fn condition(reason: StopReason, value: Measure) -> Condition {
    Condition::new(reason, value)
}

fn limit(reason: StopReason, value: Measure, threshold: Measure, setting: Setting, to: Measure) -> Condition {
    let change = Some(Remedy { setting, to });
    Condition { reason, value, threshold: Some(threshold), change }
}

#[track_caller]
fn reads(condition: Condition, words: &str) {
    assert_eq!(explain(&Certificate::new(condition, Vec::new())), words);
}

#[test]
fn every_reason_is_a_sentence() {
    // C14, S0-57
    use Measure::{Count, Millis, Names, Text};
    use StopReason as R;
    let text = |text: &str| Text(text.into());
    let sure = Measure::Confidence(Confidence::High);
    let unsure = || Measure::Confidence(Confidence::Medium);
    reads(
        condition(R::Confident, sure),
        "High confidence, nothing left to run, and everything demanded is there.",
    );
    reads(
        condition(R::Completed, text("the reply calls no tool")),
        "The reply calls no tool. No effect was requested.",
    );
    reads(condition(R::Refused, text("not my job")), "The model refused the work: not my job.");
    let by_rule = |setting: Setting, what: &str| {
        let change = Some(Remedy { setting, to: text("feed_back") });
        Condition { change, ..condition(R::Refused, text(what)) }
    };
    reads(
        by_rule(Setting::OnDenied, "wipe: forbidden by gate.forbid"),
        "Policy denied a call, which ends it: wipe: forbidden by gate.forbid. \
         It would have continued with gate.on_denied = feed_back.",
    );
    // W4: a rule of the domain is not the model's refusal.
    reads(
        by_rule(Setting::OnInvalid, "look: there is no such tool"),
        "The reply asked for what cannot be run, which ends it: look: there is no such tool. \
         It would have continued with gate.on_invalid = feed_back.",
    );
    reads(
        condition(R::Refused, Measure::ContentFilter),
        "A content filter of the provider stopped the reply.",
    );
    reads(condition(R::NeedsHuman, text("not my job")), "The model handed the work to a person: not my job.");
    let keys = Names(vec!["1/action-0".into(), "1/action-2".into()]);
    reads(condition(R::NeedsHuman, keys), "The run waits for a person to answer: 1/action-0, 1/action-2.");
    reads(condition(R::NoNewActions, unsure()), "Nothing new is left to run, and the confidence is medium.");
    reads(
        condition(R::StaleConfidence, unsure()),
        "The confidence stays at medium, and gate.stale ends a run whose confidence does not rise.",
    );
    reads(condition(R::NoProgress, Count(2)), "2 passes in a row added nothing new.");
    // T11: one is one.
    reads(condition(R::NoProgress, Count(1)), "1 pass in a row added nothing new.");
    reads(condition(R::MaxAttempts, Count(2)), "2 attempts returned no valid output.");
    let of = |reason, limit: u64| Condition { threshold: Some(Count(limit)), ..condition(reason, Count(1)) };
    reads(of(R::MaxModelCalls, 1), "1 model call was made, the limit of 1 is reached.");
    reads(of(R::MaxToolCalls, 1), "1 tool call was made, the limit of 1 leaves none.");
    reads(of(R::TokenLimit, 1), "1 token was used, the limit of 1 is reached.");
    reads(
        Condition {
            threshold: Some(Count(1)),
            ..condition(R::OutputLimit, written(Some(1), 0, true, false))
        },
        "The reply was cut at its output limit: 1 token of 1. limits.output_tokens permits more than was left.",
    );
    // Where no reasoning took them, no effort is to blame.
    reads(
        limit(
            R::OutputLimit,
            written(Some(300), 0, false, false),
            Count(300),
            Setting::OutputTokens,
            Count(301),
        ),
        "The reply used its output limit before any text was visible: 300 tokens of 300. Raise limits.output_tokens.",
    );
    let once = Measure::InARow { what: "failures of look".into(), times: 1 };
    reads(
        limit(R::NeedsHuman, once, Count(1), Setting::ToolFailuresBreaker, Count(2)),
        "1 failure of look: the limit of 1 is reached. It would have continued with gate.breakers.tool_failures = 2.",
    );
    reads(
        limit(R::MaxPasses, Count(5), Count(5), Setting::Passes, Count(6)),
        "Pass 5 was the last of the limit of 5. It would have continued with limits.passes = 6.",
    );
    reads(
        limit(R::MaxPasses, Count(0), Count(0), Setting::Passes, Count(1)),
        "No pass is permitted: the limit is 0. It would have continued with limits.passes = 1.",
    );
    reads(
        limit(R::MaxModelCalls, Count(12), Count(12), Setting::ModelCalls, Count(13)),
        "12 model calls were made, the limit of 12 is reached. It would have continued with limits.model_calls = 13.",
    );
    reads(
        limit(R::MaxToolCalls, Count(25), Count(25), Setting::ToolCalls, Count(26)),
        "25 tool calls were made, the limit of 25 leaves none. It would have continued with limits.tool_calls = 26.",
    );
    let money = |micro: u64| Measure::PicoUsd(PicoUsd(micro * 1_000_000));
    reads(
        limit(R::BudgetExceeded, money(101_000), money(100_000), Setting::Cost, money(101_001)),
        "$0.101000 was spent, the limit of $0.100000 is reached. It would have continued with limits.cost_usd = 0.101001.",
    );
    reads(
        limit(R::TokenLimit, Count(900), Count(800), Setting::Tokens, Count(901)),
        "900 tokens were used, the limit of 800 is reached. It would have continued with limits.tokens = 901.",
    );
    reads(
        limit(R::Timeout, Millis(300_000), Millis(300_000), Setting::WallMs, Millis(300_001)),
        "300000 ms have passed, the limit of 300000 ms is reached. It would have continued with limits.wall_ms = 300001.",
    );
    let next = Measure::NextCost {
        spent: PicoUsd(30_000_000_000),
        needs: PicoUsd(8_000_000_000),
        held: PicoUsd(5_000_000_000),
    };
    reads(
        limit(R::BudgetExceeded, next, money(40_000), Setting::Cost, money(45_000)),
        "$0.030000 spent, $0.008000 for the next call, $0.005000 reserved for the final pass: the limit of $0.040000 leaves no room for more. It would have continued with limits.cost_usd = 0.045.",
    );
    reads(
        limit(
            R::TokenLimit,
            Measure::NextTokens { used: 900, needs: 300, held: 250 },
            Count(1_000),
            Setting::Tokens,
            Count(1_600),
        ),
        "900 used, 300 for the next call, 250 reserved for the final pass: the limit of 1000 leaves no room for more. It would have continued with limits.tokens = 1600.",
    );
    let next = Measure::NextTime { elapsed_ms: 31_000, held_ms: 10_000 };
    reads(
        limit(R::Timeout, next, Millis(40_000), Setting::WallMs, Millis(41_336)),
        "31000 ms passed, 10000 ms reserved for the final pass: the limit of 40000 ms leaves no room for more. It would have continued with limits.wall_ms = 41336.",
    );
    reads(
        limit(
            R::StaleConfidence,
            unsure(),
            Measure::Confidence(Confidence::High),
            Setting::Stale,
            text("equal"),
        ),
        "The confidence went from high to medium, and gate.stale ends a run whose confidence does not rise. It would have continued with gate.stale = equal.",
    );
    reads(
        Condition {
            change: Some(Remedy { setting: Setting::HighIsFinal, to: text("false") }),
            ..condition(R::Confident, Measure::Confidence(Confidence::High))
        },
        "High confidence, which is final here although something would run. It would have continued with gate.high_is_final = false.",
    );
    for (reason, refusal) in
        [(R::BudgetExceeded, "cost"), (R::TokenLimit, "context"), (R::MaxModelCalls, "model_calls")]
    {
        reads(
            condition(reason, text(&format!("the next call was refused: {refusal}"))),
            &format!("There is no room for another call: the next call was refused: {refusal}."),
        );
    }
    reads(
        condition(R::EvidenceMissing, Names(vec!["section `findings`".into(), "a result of `look`".into()])),
        "It ends without what the domain demands: section `findings`, a result of `look`.",
    );
    reads(condition(R::Refused, text("not my field")), "The model refused the work: not my field.");
    reads(condition(R::PolicyBlocked, Count(2)), "Every action that mattered was denied.");
    reads(condition(R::NeedsHuman, text("call her")), "The model handed the work to a person: call her.");
    reads(
        condition(R::NeedsHuman, Count(2)),
        "2 actions need a person's consent, and no person can be asked.",
    );
    reads(
        condition(R::NeedsHuman, Count(1)),
        "An action needs a person's consent, and no person can be asked.",
    );
    reads(
        condition(R::NeedsHuman, Measure::Question("Which one?".into())),
        "The model asks a person, and no person can be asked: Which one?",
    );
    let failures = || Measure::InARow { what: "failures of look".into(), times: 3 };
    let setting = Setting::ToolFailuresBreaker;
    for reason in [R::NeedsHuman, R::ToolFailure] {
        reads(
            limit(reason, failures(), Count(3), setting, Count(4)),
            "3 failures of look in a row: the limit of 3 is reached. It would have continued with gate.breakers.tool_failures = 4.",
        );
    }
    let denied = Remedy { setting: Setting::OnDenied, to: text("feed_back") };
    reads(
        Condition { change: Some(denied), ..condition(R::Refused, text("wipe: forbidden by gate.forbid")) },
        "Policy denied a call, which ends it: wipe: forbidden by gate.forbid. It would have continued with gate.on_denied = feed_back.",
    );
    reads(condition(R::ModelFailure, text("auth: no key")), "The model could not be used: auth: no key.");
    reads(condition(R::ToolFailure, text("look: gone")), "A tool failed: look: gone.");
    reads(
        condition(R::ToolFailure, Measure::BrokenCheck("rule: it panicked".into())),
        "The output could not be checked: rule: it panicked.",
    );
    reads(
        condition(R::Completed, text("the reply calls no tool")),
        "The reply calls no tool. No effect was requested.",
    );
    reads(
        condition(R::Completed, text("the output is valid")),
        "The output is valid. No effect was requested.",
    );
    reads(
        limit(R::MaxMessages, Count(101), Count(100), Setting::Messages, Count(101)),
        "The next call would be made with 101 messages, more than the limit of 100. It would have continued with limits.messages = 101.",
    );
    reads(
        limit(
            R::OutputLimit,
            written(Some(300), 0, true, false),
            Count(300),
            Setting::OutputTokens,
            Count(301),
        ),
        "The reply was cut at its output limit: 300 tokens of 300. Raise limits.output_tokens.",
    );
    // P6
    reads(
        limit(
            R::OutputLimit,
            written(Some(300), 298, false, false),
            Count(300),
            Setting::OutputTokens,
            Count(301),
        ),
        "The reply used its output limit before any text was visible: 300 tokens of 300, 298 of them for reasoning. Raise limits.output_tokens, or lower the model's effort.",
    );
    // Where that setting permits more, it is not named.
    let left = Condition {
        threshold: Some(Count(300)),
        ..condition(R::OutputLimit, written(Some(300), 298, false, false))
    };
    reads(
        left,
        "The reply used its output limit before any text was visible: 300 tokens of 300, 298 of them for reasoning. Lower the model's effort: limits.output_tokens permits more than was left.",
    );
    // P3
    let capped =
        Condition { threshold: Some(Count(300)), ..condition(R::OutputLimit, written(None, 0, true, true)) };
    reads(
        capped,
        "The reply was cut at its output limit: the provider ignored the limit of 300 tokens, and its reply was cut off here. No setting helps: name another model or provider.",
    );
    reads(
        condition(R::InvalidResponse, text("the reply calls no tool, where `save` had to be called")),
        "The reply could not be used: the reply calls no tool, where `save` had to be called.",
    );
    reads(
        condition(R::SubmitBeforeOutput, text("the reply submits")),
        "The model submitted before it gave an output.",
    );
    reads(condition(R::MaxAttempts, Count(3)), "3 attempts returned no valid output.");
    reads(condition(R::MaxAttempts, Count(1)), "The only attempt returned no valid output.");
    reads(condition(R::StorageFailed, text("disk full")), "The journal could not be written: disk full.");
    reads(condition(R::ManualStop, Millis(1_500)), "It was stopped by hand after 1500 ms.");
}

#[test]
fn what_was_true_beside_the_reason_is_told() {
    // C14
    let also = vec![
        condition(StopReason::Confident, Measure::Confidence(Confidence::High)),
        condition(StopReason::MaxModelCalls, Measure::Count(12)),
    ];
    let stop = Certificate::new(condition(StopReason::ManualStop, Measure::Millis(9)), also);
    assert_eq!(explain(&stop), "It was stopped by hand after 9 ms. Also true: confident, max_model_calls.");
    let failed = condition(StopReason::ModelFailure, Measure::Text("auth: no key".into()));
    let stop = Certificate::new(condition(StopReason::MaxPasses, Measure::Count(2)), vec![failed]);
    assert!(explain(&stop).ends_with("Also true: model_failure (auth: no key)."), "{}", explain(&stop));
    // P1: from which tier to which, and why.
    let change = TierChange { pass: 2, from: Tier::Base, to: Tier::Selector, why: TierCause::Cost };
    let other = condition(StopReason::TierChanged, Measure::Tiers(vec![change]));
    let stop = Certificate::new(condition(StopReason::MaxPasses, Measure::Count(2)), vec![other]);
    let reported = "Also true: tier_changed (from pass 2 selector instead of base: the cost limit does not pay for the model).";
    assert!(explain(&stop).ends_with(reported), "{}", explain(&stop));
    let change = Some(Remedy { setting: Setting::OutputTokens, to: Measure::Count(1) });
    let silent = Condition { change, ..condition(StopReason::TokenLimit, Measure::Count(0)) };
    reads(silent, "No call may write anything. It would have continued with limits.output_tokens = 1.");
}

fn written(tokens: Option<u64>, reasoning: u64, visible: bool, capped: bool) -> Measure {
    Measure::Output(CutExtent { tokens, reasoning, visible, capped })
}

#[test]
fn a_cut_reply_beside_the_reason_is_told_with_its_numbers() {
    // W2
    use Measure::Count;
    use StopReason as R;
    let primary = condition(R::NoNewActions, Measure::Confidence(loop_core::types::Confidence::Low));
    let also = limit(
        R::OutputLimit,
        written(Some(300), 0, true, false),
        Count(300),
        Setting::OutputTokens,
        Count(301),
    );
    assert_eq!(
        explain(&Certificate::new(primary, vec![also])),
        "Nothing new is left to run, and the confidence is low. Also true: output_limit (the last reply was cut: 300 tokens of 300)."
    );
}

#[test]
fn what_was_done_and_what_was_not_is_a_sentence_of_its_own() {
    // W4
    let completed = condition(StopReason::Completed, Measure::Text("the reply calls no tool".into()));
    let effects = Effects { executed: 2, denied: 1, waiting: 1, in_doubt: 1, ..Effects::default() };
    let stop = Certificate { effects, ..Certificate::new(completed, Vec::new()) };
    assert_eq!(
        explain(&stop),
        "The reply calls no tool. Effects: 2 executed, 1 denied, 1 waiting, 1 in doubt."
    );
    let limit = limit(
        StopReason::MaxPasses,
        Measure::Count(5),
        Measure::Count(5),
        Setting::Passes,
        Measure::Count(6),
    );
    let stop = Certificate {
        effects: Effects { failed: 1, ..Effects::default() },
        ..Certificate::new(limit, Vec::new())
    };
    assert_eq!(
        explain(&stop),
        "Pass 5 was the last of the limit of 5. It would have continued with limits.passes = 6. Effects: 1 failed."
    );
}
