//! The second opinion: when a second model is asked, what its answers do, and what it can never do.

use loop_core::reply::FinishReason;
use loop_core::run::{Decision, Opinion, Refusal, StopMode};
use loop_core::spec::{GateSettings, OpinionWhen, SecondOpinion, SectionSpec};
use loop_core::types::{Observation, Status, StopClass, Tier};
use loop_core::{Event, Note, Run, RunSpec, StopReason};
use loop_testkit::*;
use serde_json::json;

/// A document whose situation a second model has to confirm.
fn asking(when: OpinionWhen) -> Setup {
    let sections = vec![
        SectionSpec { verify: true, ..SectionSpec::new("situation", "Situation").required() },
        SectionSpec::new("findings", "Findings"),
    ];
    let setup = run().sections(sections).unrevised();
    setup.gate(|gate| gate.second_opinion = Some(SecondOpinion { tier: Tier::Selector, when }))
}

fn says(setup: &Setup, answer: &str) -> DraftReply {
    text(&format!("{}: {answer}", setup.facts.nonce))
}

#[test]
fn yes_lets_a_confident_run_end_and_anything_else_does_not() {
    // Issue 19, part 6.
    let setup = asking(OpinionWhen::Always);
    let asked = setup.clone().start().replied(&draft("high")).expect_call("1/opinion", 1);
    let decided =
        |note: &Note| matches!(note, Note::GateDecided { decision: Decision::AskOpinion { .. }, .. });
    assert!(asked.all_notes().any(decided));
    assert_eq!((asked.call().tier, asked.phase()), (Tier::Selector, "second_opinion"));
    let ended = asked.clone().replied(&says(&setup, "yes")).ends(StopReason::Confident);
    let outcome = ended.outcome();
    assert_eq!(
        (outcome.stop.class, outcome.totals.model_calls, outcome.missing.len()),
        (StopClass::Answered, 2, 0)
    );
    assert_eq!(outcome.opinions[0].opinion, Opinion::Yes);
    for (answer, opinion) in
        [("no", Opinion::No), ("cannot tell", Opinion::CannotTell), ("yes, but", Opinion::CannotTell)]
    {
        let ended = asked.clone().replied(&says(&setup, answer)).ends(StopReason::EvidenceMissing);
        let outcome = ended.outcome();
        assert_eq!(outcome.opinions[0].opinion, opinion);
        assert_eq!(outcome.stop.class, StopClass::Partial);
        assert!(outcome.missing[0].contains("section `situation`"), "{:?}", outcome.missing);
        assert!(!ended.reasons().contains(&StopReason::Confident));
    }
    // A refusal of the provider, a cut, and the same words without the nonce of the run are not an answer.
    for reply in [says(&setup, "yes").ending(FinishReason::MaxTokens), text("yes"), text("[nonce]: yes")] {
        asked.clone().replied(&reply).ends(StopReason::EvidenceMissing);
    }
}

#[test]
fn a_second_model_that_fails_or_is_not_paid_for_withholds_confidence() {
    let setup = asking(OpinionWhen::Always);
    let asked = setup.clone().start().replied(&draft("high"));
    let ended = asked.started().failed(failure(true)).ends(StopReason::EvidenceMissing);
    assert_eq!(ended.outcome().opinions[0].opinion, Opinion::Failed);
    // One try: a failure is not tried again.
    assert_eq!(ended.outcome().totals.model_calls, 2);
    let few = setup.limits(|limits| limits.model_calls = 2).start().replied(&draft("high"));
    let few = few.replied(&text("no answer"));
    assert_eq!(few.outcome().stop.reason(), StopReason::MaxModelCalls);
    assert!(few.reasons().contains(&StopReason::EvidenceMissing));
    few.check_replay();
    // A call that the budget does not cover is refused, and that is not a yes.
    let setup = asking(OpinionWhen::Always).limits(|limits| limits.tokens = Some(12_000));
    let mut world = setup.start().replied(&draft("high").using(Some(used(7_000, 100))));
    let prompt = loop_core::run::PromptSize { bytes: 100_000, shared_bytes: 0 };
    assert_eq!(world.run.quote(&world.call().key, prompt), Err(Refusal::Tokens));
    let call = world.call();
    world.apply(refused(&call, prompt, Refusal::Tokens));
    assert_eq!(world.outcome().stop.reason(), StopReason::EvidenceMissing);
    assert!(
        world.outcome().missing[0].contains("the call was refused: tokens"),
        "{:?}",
        world.outcome().missing
    );
}

#[test]
fn a_doubted_answer_is_revised_once_and_asked_about_again() {
    let setup = asking(OpinionWhen::Always).gate(|gate| gate.revision_passes = 1);
    let world = setup.clone().start().replied(&draft("high")).replied(&says(&setup, "no"));
    let world = world.expect_call("2/main", 1);
    assert!(world.run.revisions(2).is_some_and(|missing| missing[0].contains("it says no")));
    let again = world.replied(&draft("high")).expect_call("2/opinion", 1);
    again.clone().replied(&says(&setup, "yes")).ends(StopReason::Confident);
    again.replied(&says(&setup, "no")).ends(StopReason::EvidenceMissing);
}

#[test]
fn an_answer_is_revised_only_while_another_pass_may_follow_and_only_after_an_opinion() {
    // Issue 19, part 6: one condition at a time is not met.
    let setup = asking(OpinionWhen::Always).gate(|gate| gate.revision_passes = 1);
    let no = says(&setup, "no");
    let asked = setup.clone().start().replied(&draft("high")).expect_call("1/opinion", 1);
    asked.clone().replied(&no).expect_call("2/main", 1);
    asked.clone().replied(&says(&setup, "cannot tell")).expect_call("2/main", 1);
    // A call that failed says nothing that a revision could answer.
    asked.clone().started().failed(failure(false)).ends(StopReason::EvidenceMissing);
    asked.clone().started().stop(StopMode::AtGate).answered(&no).ends(StopReason::ManualStop);
    // The pass before was the last one, or the call itself reaches a limit.
    let last = setup.clone().limits(|limits| limits.passes = 1).start().replied(&draft("high"));
    last.expect_call("1/opinion", 1).replied(&no).ends(StopReason::MaxPasses);
    let calls = setup.clone().limits(|limits| limits.model_calls = 2).start().replied(&draft("high"));
    calls.expect_call("1/opinion", 1).replied(&no).ends(StopReason::MaxModelCalls);
    // 300 s, of which 30 are held back for a final pass.
    let at = |ms: u64| asked.clone().started().wait(ms).answered(&no);
    at(269_999).expect_call("2/main", 1);
    let late = at(270_000).ends(StopReason::Timeout);
    assert_eq!(late.reasons(), [StopReason::Timeout, StopReason::EvidenceMissing]);
    // At the end of the wall clock no call is made any more.
    let first = |ms: u64| setup.clone().start().started().wait(ms).answered(&draft("high"));
    first(299_999).expect_call("1/opinion", 1);
    let over = first(300_000).ends(StopReason::Timeout);
    assert_eq!(over.outcome().opinions[0].opinion, Opinion::Failed);
}

#[test]
fn a_second_opinion_is_not_asked_of_another_model_than_the_domain_names() {
    // A main call may go to a cheaper model where the budget does not cover it. An opinion may not.
    let base = SecondOpinion { tier: Tier::Base, when: OpinionWhen::Always };
    let setup = asking(OpinionWhen::Always)
        .gate(|gate| (gate.second_opinion, gate.cheaper_tier) = (Some(base), true));
    let world = setup.limits(|limits| limits.cost = Some(loop_core::types::PicoUsd(2_000_000_000))).start();
    let large = loop_core::run::PromptSize { bytes: 60_000, shared_bytes: 0 };
    let quoted = |world: &World| world.run.quote(&world.call().key, large).map(|quote| quote.tier);
    assert_eq!(quoted(&world), Ok(Tier::Selector));
    let asked = world.replied(&draft("high")).expect_call("1/opinion", 1);
    assert_eq!(quoted(&asked), Err(Refusal::Cost));
}

#[test]
fn an_opinion_has_the_name_that_it_has_in_json() {
    for opinion in [Opinion::Yes, Opinion::No, Opinion::CannotTell, Opinion::Failed] {
        assert_eq!(json!(opinion), json!(opinion.name()));
    }
}

#[test]
fn a_fork_asks_about_what_its_own_settings_ask_about() {
    // The parent is about to ask: the fork's spec names another model, asks nothing, or has only other limits.
    let setup = asking(OpinionWhen::Always);
    let parent = setup.clone().start().replied(&draft("high")).expect_call("1/opinion", 1);
    let forked = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = setup.spec.clone();
        change(&mut spec);
        parent.forked_under(parent.journal.len(), spec).unwrap()
    };
    let other = forked(&|spec| {
        spec.gate.second_opinion = Some(SecondOpinion { tier: Tier::Base, when: OpinionWhen::Always });
    });
    let other = other.expect_call("1/opinion", 1);
    assert_eq!(other.call().tier, Tier::Base);
    other.replied(&says(&setup, "yes")).ends(StopReason::Confident);
    forked(&|spec| spec.gate.second_opinion = None).ends(StopReason::Confident);
    let same = forked(&|spec| spec.limits.person_ms = Some(1)).expect_call("1/opinion", 1);
    assert_eq!(same.call().tier, Tier::Selector);
    same.replied(&says(&setup, "no")).ends(StopReason::EvidenceMissing);
}

#[test]
fn it_is_not_asked_where_nothing_is_in_question() {
    // Off by default; not below high; not about sections that are not marked.
    run().start().replied(&draft("high")).ends(StopReason::Confident);
    asking(OpinionWhen::Always).start().replied(&draft("low")).ends(StopReason::NoNewActions);
    let unmarked = asking(OpinionWhen::Always).sections(vec![SectionSpec::new("situation", "Situation")]);
    unmarked.start().replied(&draft("high")).ends(StopReason::Confident);
    // With `ungrounded`, only about sentences with a value that their evidence does not have.
    let plain = asking(OpinionWhen::Ungrounded)
        .start()
        .replied(&bare_draft("high").section("Situation", "It is slow."));
    plain.ends(StopReason::Confident);
    let found = Observation::new(Status::Ok, "found", "Disk: 100 %", r#"{"disk": 100}"#);
    let world = asking(OpinionWhen::Ungrounded).start();
    let world =
        world.replied(&draft("medium").asks("fetch_device", target("a"))).finished("1/action-0", found);
    let good =
        world.clone().replied(&bare_draft("high").section("Situation", "The disk is 100 % full [E1]."));
    good.ends(StopReason::Confident);
    let doubted =
        world.replied(&bare_draft("high").section("Situation", "It is full [E1]. The disk is 250 GB [E1]."));
    let doubted = doubted.expect_call("2/opinion", 1);
    let questioned = doubted.run.questioned();
    assert_eq!(questioned.len(), 1);
    assert!(questioned[0].statements.iter().all(|it| it.contains("250 GB")), "{questioned:?}");
    assert_eq!(questioned[0].evidence.len(), 1);
}

#[test]
fn a_stop_a_death_and_the_clock_do_not_turn_silence_into_yes() {
    let setup = asking(OpinionWhen::Always);
    let asked = setup.clone().start().replied(&draft("high"));
    asked.clone().stop(StopMode::AtGate).ends(StopReason::ManualStop);
    let flying = asked.clone().started().stop(StopMode::AtGate);
    let ended = flying.answered(&says(&setup, "yes")).ends(StopReason::ManualStop);
    assert_eq!(ended.outcome().stop.class, StopClass::Cancelled);
    // A killed driver is charged, and the question is asked again.
    let killed = asked.started().resumed(10).expect_call("1/opinion", 2);
    let ended = killed.replied(&says(&setup, "yes")).ends(StopReason::Confident);
    assert_eq!(ended.outcome().totals.model_calls, 3);
}

#[test]
fn a_second_model_never_lets_a_run_end_confident_that_would_not_have_without_it() {
    // Issue 19, part 6, over whole random runs: each is driven again without the second model, up to where it was asked.
    let (mut confident, mut withheld) = (0, 0);
    for seed in 0..u64::from(share(800)) {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        if !setup.spec.protocol.properties().states_confidence {
            continue;
        }
        let setup = setup.with(|spec| {
            let when = if numbers.below(4) == 0 { OpinionWhen::Ungrounded } else { OpinionWhen::Always };
            spec.gate.second_opinion = Some(SecondOpinion { tier: Tier::Selector, when });
            if let loop_core::spec::ProtocolSpec::Document(document) = &mut spec.protocol {
                document.sections.iter_mut().for_each(|section| section.verify = true);
            }
        });
        let world = random_run(setup.clone(), &mut numbers);
        let plain = RunSpec {
            gate: GateSettings { second_opinion: None, ..setup.spec.gate.clone() },
            ..setup.spec.clone()
        };
        let events = world.journal.iter().map(|(event, ..)| event);
        let is_confident = |run: &Run| {
            run.outcome().is_some_and(|outcome| {
                let mut all = std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also);
                all.any(|condition| condition.reason == StopReason::Confident)
            })
        };
        // The first confident gate of the run without the second model ends it.
        let run = again(events, plain, &setup);
        if is_confident(&world.run) {
            assert!(is_confident(&run), "seed {seed}: {:?}", world.run.outcome());
            confident += 1;
        } else if is_confident(&run) {
            withheld += 1;
        }
    }
    // Of all seeds neither side is empty by chance.
    assert!(!is_full() || (confident > 4 && withheld > 4), "{confident} {withheld}");
}

/// Drives the events of a run again under another spec, as far as it takes them.
fn again<'a>(events: impl Iterator<Item = &'a Event>, spec: RunSpec, setup: &Setup) -> Run {
    let id = loop_core::types::RunId::new("again");
    let (mut run, ..) = Run::start(id, spec.into(), setup.item.clone(), setup.facts.clone());
    for event in events.skip(1) {
        if run.apply(event).is_err() {
            break;
        }
    }
    run
}
