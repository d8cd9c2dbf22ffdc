//! Checks of a document: when one is commanded, what its result does, and what it can never do.

use loop_core::run::{Cause, CheckResult, CheckWhat, Decision, Lack, StopMode};
use loop_core::spec::{GateSettings, GroundingRule, OpinionWhen, ProtocolSpec, SecondOpinion, SectionSpec};
use loop_core::types::{EvidenceId, StopClass, SubCallUse, Tier};
use loop_core::{Command, Event, EventKind, Note, Run, RunSpec, StopReason};
use loop_testkit::*;
use serde_json::json;

/// A document whose situation a second model has to confirm.
fn asking() -> Setup {
    let sections = vec![
        SectionSpec { verify: true, ..SectionSpec::new("situation", "Situation").required() },
        SectionSpec::new("findings", "Findings"),
    ];
    let opinion = SecondOpinion { tier: Tier::Selector, when: OpinionWhen::Always };
    run().sections(sections).unrevised().gate(|gate| gate.second_opinion = Some(opinion))
}

/// The same, with its check commanded.
fn checking() -> World {
    asking().start().replied(&draft("high")).expect_check("1/check#1 pass 1")
}

fn used_up(world: &World) -> SubCallUse {
    SubCallUse::new(true, Some(used(400 + world.run.totals().usage.input % 7, 9)))
}

/// The check, after its model was asked.
fn answered(mut world: World, result: CheckResult) -> World {
    let used = used_up(&world);
    world.check(result, Some(used));
    world
}

#[test]
fn a_passed_check_lets_a_confident_run_end_and_no_other_does() {
    // Issue 19, part 6; issue 41, part 4.
    let decided =
        |note: &Note| matches!(note, Note::GateDecided { decision: Decision::Check { runs: 0 }, .. });
    assert!(checking().all_notes().any(decided));
    assert_eq!(checking().phase(), "validating");
    let ended = answered(checking(), CheckResult::Passed).ends(StopReason::Confident);
    let outcome = ended.outcome();
    assert_eq!((outcome.stop.class, outcome.missing.len()), (StopClass::Answered, 0));
    assert_eq!((outcome.totals.model_calls, outcome.totals.sub_calls), (2, 1));
    assert_eq!(outcome.checks[0].result, CheckResult::Passed);
    for result in [rejected("it says no"), broken()] {
        let ended = answered(checking(), result.clone()).ends(StopReason::EvidenceMissing);
        let outcome = ended.outcome();
        assert_eq!((outcome.checks[0].pass, &outcome.checks[0].result), (1, &result));
        assert_eq!((outcome.stop.class, outcome.missing.len()), (StopClass::Partial, 1));
        assert!(outcome.missing[0].contains("`rule`"), "{:?}", outcome.missing);
        assert!(!ended.reasons().contains(&StopReason::Confident));
    }
}

#[test]
fn a_check_is_commanded_where_something_demands_it_and_before_a_confident_end_alone() {
    // Not by default; not below high; not about a section that is not marked or not written.
    run().start().replied(&draft("high")).ends(StopReason::Confident);
    asking().start().replied(&draft("low")).ends(StopReason::NoNewActions);
    let unmarked = asking().sections(vec![SectionSpec::new("situation", "Situation")]);
    unmarked.start().replied(&draft("high")).ends(StopReason::Confident);
    let elsewhere = vec![
        SectionSpec::new("situation", "Situation"),
        SectionSpec { verify: true, ..SectionSpec::new("findings", "Findings") },
    ];
    asking().sections(elsewhere).start().replied(&draft("high")).ends(StopReason::Confident);
    // By the rule of the gate or of a section, and by a validator's name. None of these asks a model.
    let plain = || run().unrevised();
    let own = |rule| {
        plain().with(|spec| {
            let ProtocolSpec::Document(document) = &mut spec.protocol else { return };
            document.sections.iter_mut().for_each(|section| section.grounding = Some(rule));
        })
    };
    let demand = GroundingRule::Demand;
    for (setup, checks) in [
        (plain().gate(|gate| gate.grounding = demand), true),
        (plain().gate(|gate| gate.grounding = GroundingRule::Report), false),
        (own(demand), true),
        (own(GroundingRule::Off).gate(|gate| gate.grounding = demand), false),
        (plain().gate(|gate| gate.validators = vec!["totals".into()]), true),
    ] {
        let world = setup.start().replied(&draft("high"));
        assert_eq!(world.to_check().is_some(), checks, "{:?}", world.run.phase());
        if checks {
            let [Command::Check(check)] = &world.run.commands()[..] else {
                panic!("{:?}", world.run.commands())
            };
            assert_eq!((check.sub_call, check.announced, check.timeout_ms), (None, true, 30_000));
            assert_eq!(check.what, CheckWhat::Document { pass: 1 });
            world.checked(CheckResult::Passed).ends(StopReason::Confident);
        }
    }
}

#[test]
fn what_is_lacking_is_told_by_section_and_cause() {
    let lack = |cause: Cause, value: &str, place: &[u32]| Lack {
        section: "situation".into(),
        sentence: "It has 24 GB [E1].".into(),
        value: value.into(),
        place: place.iter().map(|id| EvidenceId(*id)).collect(),
        cause,
    };
    let lacks = vec![
        lack(Cause::Contradicted, "24 GB", &[]),
        lack(Cause::Contradicted, "web-9", &[]),
        lack(Cause::Contradicted, "24 GB", &[]),
        lack(Cause::Contradicted, "31 GB", &[2]),
        lack(Cause::WrongCitation, "42 GB", &[2, 3]),
        lack(Cause::NoSuchEvidence, "[E9]", &[]),
        Lack { section: "situation".into(), ..Lack::own("second_opinion", "it says no") },
        Lack::own("totals", "the sum is 7"),
    ];
    let failed = CheckResult::Failed { lacks };
    assert_eq!(reread(&failed), failed);
    let ended = answered(checking(), failed).ends(StopReason::EvidenceMissing);
    let expected = [
        "a citation of evidence that exists, not [E9] in section `situation`",
        "evidence for the contradicted \"24 GB\", \"web-9\" in section `situation`",
        "the right citation, [E2] or [E3] for \"42 GB\", in section `situation`",
        "what the evidence says, not \"31 GB\" ([E2]) in section `situation`",
        "that `second_opinion` accepts section `situation` (it says no)",
        "that `totals` accepts the document (the sum is 7)",
    ];
    assert_eq!(ended.outcome().missing, expected.map(Into::into));
    for result in [CheckResult::Passed, rejected("no"), broken()] {
        assert_eq!(json!(result)["result"], json!(result.name()));
    }
}

#[test]
fn a_check_that_may_ask_a_model_is_announced_and_reserves_what_it_may_spend() {
    let world = checking();
    let [Command::Check(check)] = &world.run.commands()[..] else { panic!("{:?}", world.run.commands()) };
    let granted = check.sub_call.expect("it is granted");
    let limits = &world.spec.limits;
    assert_eq!((granted.bytes, granted.output_tokens), (limits.sub_call_bytes, limits.sub_call_tokens));
    assert_eq!((check.announced, check.timeout_ms), (false, 30_000 + limits.sub_call_ms));
    let reserve = world.run.sub_call_reserve(&check.key);
    assert_eq!(world.run.reserved(), reserve);
    assert_eq!(world.run.sub_call_tier(&check.key), Tier::Selector);
    // Its result before its announcement, another key or try, and a second announcement do not count.
    let (key, attempt) = (check.key, check.attempt);
    let started = EventKind::CheckStarted { key, attempt };
    let passed = |attempt| EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None };
    let mut world = world.rejects(passed(1)).rejects(EventKind::CheckStarted { key, attempt: 2 });
    world.apply(started.clone());
    let world = world.rejects(started).rejects(passed(2));
    let mut ended = world;
    ended.apply(passed(1));
    // No model was asked, so nothing is charged and nothing stays reserved.
    let ended = ended.ends(StopReason::Confident);
    assert_eq!((ended.outcome().totals.model_calls, ended.run.reserved().input_tokens), (1, 0));
    let ended = ended.rejects(passed(1));
    drop(ended);
    // Without a call or a budget left none is granted, and the check is made without it.
    for setup in [
        asking().limits(|limits| limits.model_calls = 1),
        asking().limits(|limits| limits.tokens = Some(15_000)),
    ] {
        let world = setup.start().replied(&draft("high").using(Some(used(7_000, 100))));
        if world.to_check().is_some() {
            let [Command::Check(check)] = &world.run.commands()[..] else {
                panic!("{:?}", world.run.commands())
            };
            assert_eq!((check.sub_call, check.announced), (None, true));
        }
    }
}

#[test]
fn a_document_is_revised_once_and_checked_again() {
    let setup = asking().gate(|gate| gate.revision_passes = 1);
    let checked = setup.clone().start().replied(&draft("high"));
    let world = answered(checked.clone(), rejected("it says no")).expect_call("2/main", 1);
    assert!(world.run.revisions(2).is_some_and(|missing| missing[0].contains("it says no")));
    let again = world.replied(&draft("high")).expect_check("2/check#1 pass 2");
    answered(again.clone(), CheckResult::Passed).ends(StopReason::Confident);
    answered(again, rejected("no")).ends(StopReason::EvidenceMissing);
    // A check that broke says nothing that a revision could answer.
    answered(checked.clone(), broken()).ends(StopReason::EvidenceMissing);
    // The pass before was the last one, or the check itself reaches a limit.
    let last = setup.clone().limits(|limits| limits.passes = 1).start().replied(&draft("high"));
    answered(last, rejected("no")).ends(StopReason::MaxPasses);
    let calls = setup.clone().limits(|limits| limits.model_calls = 2).start().replied(&draft("high"));
    answered(calls, rejected("no")).ends(StopReason::MaxModelCalls);
    // 300 s, of which 30 are held back for a final pass.
    let at = |ms: u64| answered(checked.clone().wait(ms), rejected("no"));
    at(269_999).expect_call("2/main", 1);
    let late = at(270_000).ends(StopReason::Timeout);
    assert_eq!(late.reasons(), [StopReason::Timeout, StopReason::EvidenceMissing]);
    // At the end of the wall clock no check is made any more.
    let first = |ms: u64| setup.clone().start().started().wait(ms).answered(&draft("high"));
    first(299_999).expect_check("1/check#1 pass 1");
    let over = first(300_000).ends(StopReason::Timeout);
    assert_eq!(over.outcome().checks[0].result.name(), "broken");
}

#[test]
fn a_stop_a_death_and_the_clock_do_not_turn_silence_into_a_passed_check() {
    let (key, attempt) = (key("1/check"), 1);
    let announced = || {
        let mut world = checking();
        world.apply(EventKind::CheckStarted { key, attempt });
        world
    };
    let passed = |used: SubCallUse| EventKind::Checked {
        key,
        attempt,
        result: CheckResult::Passed,
        used: Some(used.into()),
    };
    // Before its announcement it is not begun; after that a stop at the gate waits for it.
    checking().stop(StopMode::AtGate).ends(StopReason::ManualStop);
    let mut waits = announced().stop(StopMode::AtGate).expect_phase("validating");
    let used = used_up(&waits);
    waits.apply(passed(used.clone()));
    let ended = waits.ends(StopReason::ManualStop);
    assert_eq!((ended.outcome().stop.class, ended.outcome().totals.sub_calls), (StopClass::Cancelled, 1));
    // Now: it is cancelled, and what it used counts; where it does not settle, its whole reserve does.
    let mut stopped = announced().stop(StopMode::Now).expect_phase("stopping");
    assert_eq!(stopped.run.commands(), [Command::Abort { key, attempt }]);
    let reserve = stopped.run.sub_call_reserve(&key);
    let silent = stopped.clone().deadline().ends(StopReason::ManualStop);
    assert_eq!(silent.outcome().totals.usage.input, 100 + reserve.input_tokens);
    stopped.apply(passed(used));
    let stopped = stopped.ends(StopReason::ManualStop);
    assert!(stopped.outcome().checks.is_empty());
    assert_eq!((stopped.outcome().totals.sub_calls, stopped.run.reserved().input_tokens), (1, 0));
    // A killed driver is charged, and the check is made again, three times in all.
    let killed = announced().resumed(10).expect_check("1/check#2 pass 1");
    assert_eq!(killed.run.totals().sub_calls, 1);
    answered(killed.clone(), CheckResult::Passed).ends(StopReason::Confident);
    let kill = |mut world: World, attempt| {
        world.apply(EventKind::CheckStarted { key, attempt });
        world.resumed(10)
    };
    let third = kill(killed, 2).expect_check("1/check#3 pass 1");
    let lost = kill(third, 3).ends(StopReason::EvidenceMissing);
    assert!(lost.outcome().missing[0].contains("3 times"), "{:?}", lost.outcome().missing);
    assert_eq!(lost.outcome().totals.sub_calls, 3);
    // One that was not begun is not lost.
    checking().resumed(10).expect_check("1/check#1 pass 1");
    // The wall clock ends the run.
    assert_eq!(announced().deadline().deadline().outcome().stop.reason(), StopReason::Timeout);
}

#[test]
fn a_fork_checks_what_its_own_settings_demand() {
    // The parent is about to check: the fork's spec names another model, demands nothing, or has only other limits.
    let setup = asking();
    let parent = checking();
    let forked = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = setup.spec.clone();
        change(&mut spec);
        parent.forked_under(parent.journal.len(), spec).unwrap()
    };
    let other = forked(&|spec| {
        spec.gate.second_opinion = Some(SecondOpinion { tier: Tier::Base, when: OpinionWhen::Always });
    });
    assert_eq!(other.run.sub_call_tier(&key("1/check")), Tier::Base);
    answered(other.expect_check("1/check#1 pass 1"), CheckResult::Passed).ends(StopReason::Confident);
    forked(&|spec| spec.gate.second_opinion = None).ends(StopReason::Confident);
    let same = forked(&|spec| spec.limits.person_ms = Some(1)).expect_check("1/check#1 pass 1");
    answered(same, rejected("no")).ends(StopReason::EvidenceMissing);
}

#[test]
fn a_check_never_lets_a_run_end_confident_that_would_not_have_without_it() {
    // Issue 19, part 6, over whole random runs: each is driven again without the check, up to where it was commanded.
    let (mut confident, mut withheld) = (0, 0);
    for seed in 0..u64::from(share(800)) {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        if !setup.spec.protocol.properties().states_confidence {
            continue;
        }
        let setup = setup.with(|spec| match numbers.below(3) {
            0 => spec.gate.validators = vec!["totals".into()],
            _ => {
                let opinion = SecondOpinion { tier: Tier::Selector, when: OpinionWhen::Always };
                spec.gate.second_opinion = Some(opinion);
                if let ProtocolSpec::Document(document) = &mut spec.protocol {
                    document.sections.iter_mut().for_each(|section| section.verify = true);
                }
            }
        });
        let world = random_run(setup.clone(), &mut numbers);
        let plain = RunSpec {
            gate: GateSettings { second_opinion: None, validators: Vec::new(), ..setup.spec.gate.clone() },
            ..setup.spec.clone()
        };
        let events = world.journal.iter().map(|(event, ..)| event);
        let is_confident = |run: &Run| {
            run.outcome().is_some_and(|outcome| {
                let mut all = std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also);
                all.any(|condition| condition.reason == StopReason::Confident)
            })
        };
        // The first confident gate of the run without the check ends it.
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
