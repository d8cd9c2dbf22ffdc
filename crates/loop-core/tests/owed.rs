//! Effects that are owed: a run that leaves one undone is not `answered`, and none happens twice without a person.

use loop_testkit::*;

use loop_core::StopReason;
use loop_core::gate::{DeniedBy, Measure, NotDone, WhyNotDone};
use loop_core::run::PersonAnswer;
use loop_core::spec::Repeats;
use loop_core::types::{Effect, Status, StopClass};
use serde_json::json;

/// What keeps the effect from happening.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Denied,
    Expired,
    Policy,
    NobodyToAsk,
}

/// The run after a reply that calls `wipe`, when the cause has kept it from happening.
fn kept_from(setup: Setup, ask: &DraftReply, cause: Cause) -> World {
    let setup = match cause {
        Cause::Denied | Cause::Expired => setup.people(),
        Cause::Policy => setup.with(|spec| spec.gate.forbid = vec!["wipe".into()]),
        Cause::NobodyToAsk => setup,
    };
    // A read beside it, so that the run goes on where nobody can be asked.
    let world = setup.start().replied(ask).all_finished();
    match cause {
        Cause::Denied => world.answered_by_person("1/action-0", PersonAnswer::Denied { why: "no".into() }),
        Cause::Expired => world.wait(600_000).deadline(),
        Cause::Policy | Cause::NobodyToAsk => world,
    }
}

#[test]
fn a_run_that_leaves_an_owed_effect_undone_is_partial_in_every_protocol() {
    // T2: exit code 0 means that all that was asked for happened.
    let asks = || draft("low").asks("wipe", target("a")).asks("fetch_device", target("b"));
    let both = || calls(&[("wipe", target("a")), ("fetch_device", target("b"))]);
    for (cause, why) in [
        (Cause::Denied, WhyNotDone::Denied),
        (Cause::Expired, WhyNotDone::Expired),
        (Cause::Policy, WhyNotDone::Denied),
        (Cause::NobodyToAsk, WhyNotDone::NotAdmitted),
    ] {
        let document = kept_from(run(), &asks(), cause).replied(&draft("high"));
        let talk = kept_from(conversation(), &both(), cause).replied(&text("It is done."));
        let saved = kept_from(output(), &both(), cause).replied(&calls(&[("save", target("x"))]));
        let saved = saved.all_finished().checked(loop_core::run::CheckResult::Passed);
        for (name, world) in [("document", document), ("conversation", talk), ("output", saved)] {
            let stop = &world.outcome().stop;
            assert_eq!(stop.class, StopClass::Partial, "{name}, {cause:?}: {stop:?}");
            let told = stop.also.iter().find(|it| it.reason == StopReason::EffectNotDone);
            let Some(Measure::NotDone(effects)) = told.map(|it| &it.value) else {
                panic!("{name}, {cause:?}: {stop:?}")
            };
            let (tool, sources) = ("wipe".into(), Vec::new());
            let expected = NotDone { key: key("1/action-0"), tool, why, unplanned: false, sources };
            assert_eq!(*effects, [expected], "{name}, {cause:?}");
        }
    }
}

#[test]
fn an_effect_is_owed_until_it_ran_or_was_answered() {
    let denied = || PersonAnswer::Denied { why: "no".into() };
    let asked = || conversation().people().start().replied(&calls(&[("wipe", target("a"))]));
    let no = || asked().answered_by_person("1/action-0", denied());
    // The same tool ran later, with other arguments.
    let other = no()
        .replied(&calls(&[("wipe", target("b"))]))
        .answered_by_person("2/action-0", PersonAnswer::Approved);
    let world = other.all_finished().replied(&text("Done.")).ends(StopReason::Completed);
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
    // It ran, and failed: that is told by its result.
    let failed = asked().answered_by_person("1/action-0", PersonAnswer::Approved);
    let failed = failed.finished("1/action-0", observed(Status::PermanentError)).replied(&text("It failed."));
    assert_eq!(failed.outcome().stop.class, StopClass::Answered);
    // A repeat of what was denied is denied too, and told once.
    let world = no().replied(&calls(&[("wipe", target("a"))])).replied(&text("Done."));
    let told = world.outcome().stop.also.iter().find(|it| it.reason == StopReason::EffectNotDone);
    assert!(matches!(told.map(|it| &it.value), Some(Measure::NotDone(all)) if all.len() == 1), "{told:?}");
    // A document owes what it requires, and no more.
    let wish = draft("low").asks_as("recommended", "wipe", target("a"));
    let world = run().people().start().replied(&wish).answered_by_person("1/action-0", denied());
    assert_eq!(world.replied(&draft("high")).outcome().stop.class, StopClass::Answered);
    // What came from outside before it is named.
    let setup = conversation().people().with(|spec| spec.tools[0].policy.returns_untrusted = true);
    let world = setup.start().replied(&calls(&[("fetch_device", target("a"))])).all_finished();
    let world = world.replied(&calls(&[("wipe", target("a"))])).answered_by_person("2/action-0", denied());
    let world = world.replied(&text("Done."));
    let told = world.outcome().stop.also.iter().find(|it| it.reason == StopReason::EffectNotDone);
    let told = told.map(|it| it.value.to_string());
    assert_eq!(told.as_deref(), Some("wipe was denied (asked for after untrusted result E1)"));
    assert!(matches!(
        world.run.actions()[1].verdict,
        loop_core::Verdict::Denied { by: DeniedBy::Person, .. }
    ));
}

#[test]
fn an_effect_that_waits_for_a_person_is_not_said_to_be_undone() {
    let world = conversation().people().start().replied(&calls(&[("wipe", target("a"))]));
    let waits = loop_core::gate::Condition::new(StopReason::NeedsHuman, Measure::Count(1));
    let outcome = world.run.outcome_so_far(loop_core::Certificate::new(waits, Vec::new()));
    assert_eq!((outcome.stop.class, outcome.stop.also), (StopClass::NeedsHuman, Vec::new()));
}

#[test]
fn a_confident_end_waits_for_a_required_effect_that_was_not_admitted() {
    // design.md, gate, step 5
    let setup = run().approving(&["wipe"]).limits(|limits| limits.tool_calls = 1).patient();
    let both = draft("low").asks("fetch_device", target("a")).asks("wipe", target("a"));
    let world = setup.start().replied(&both).all_finished().replied(&draft("high"));
    let world = world.ends(StopReason::NoNewActions);
    assert_eq!(world.reasons(), [StopReason::NoNewActions, StopReason::EffectNotDone]);
    assert_eq!(world.outcome().stop.class, StopClass::Partial);
}

#[test]
fn a_keyed_or_irreversible_write_that_ran_asks_a_person_before_it_runs_again() {
    // T4, in every policy of repeats and also where the domain approves the tool.
    let pay = |amount: &str| calls(&[("wipe", target(amount))]);
    for effect in [Effect::WriteKeyed, Effect::WriteIrreversible] {
        for repeats in [Repeats::Progress, Repeats::Reuse, Repeats::Off] {
            let setup = || {
                let setup = conversation().people().approving(&["wipe"]).repeating(repeats);
                setup.with(|spec| spec.tools[3].effect = effect)
            };
            let paid = || setup().start().replied(&pay("250")).all_finished();
            let world = paid().replied(&pay("250")).expect_phase("waiting_for_person");
            assert_eq!(
                world.run.requested()[0].why,
                "the same call ran already, see E1",
                "{effect:?} {repeats:?}"
            );
            let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
            world.expect_tools(&["2/action-0#1 wipe"]);
            // Another amount is another payment, and two in one reply are two.
            paid().replied(&pay("251")).expect_tools(&["2/action-0#1 wipe"]);
            let twice = calls(&[("wipe", target("250")), ("wipe", target("250"))]);
            let world = setup().start().replied(&twice).all_finished().expect_phase("waiting_for_person");
            assert_eq!(world.asks(), ["1/action-1"]);
            // A tool may allow it, and a retry of what failed is no repeat.
            let allowed = setup().with(|spec| spec.tools[3].policy.repeats.allowed = true).start();
            let world = allowed.replied(&pay("250")).all_finished().replied(&pay("250"));
            if repeats != Repeats::Reuse {
                world.expect_tools(&["2/action-0#1 wipe"]);
            }
            let failed = setup().start().replied(&pay("250"));
            let failed = failed.finished("1/action-0", observed(Status::RetryableError)).replied(&pay("250"));
            assert!(failed.asks().is_empty());
        }
    }
    // Where nobody can be asked it does not run.
    let setup = conversation().approving(&["wipe"]);
    let world = setup.start().replied(&pay("250")).all_finished().replied(&pay("250"));
    assert_eq!(world.ends(StopReason::NeedsHuman).outcome().stop.class, StopClass::NeedsHuman);
}

#[test]
fn refused_repeats_do_not_end_a_run_that_asks_for_something_else_next() {
    // H4: an injected text asks for the same payment three times before the user's own comes.
    let inject = || calls(&[("wipe", json!({"target": "attacker"}))]);
    let by_person = conversation().people().gate(|gate| gate.no_progress = 3).start().replied(&inject());
    let by_person = by_person.answered_by_person("1/action-0", PersonAnswer::Denied { why: "no".into() });
    let by_policy = conversation().approving(&["restart"]).gate(|gate| {
        (gate.no_progress, gate.forbid) = (3, vec!["wipe".into()]);
    });
    for world in [by_person, by_policy.start().replied(&inject())] {
        let world = world.replied(&inject()).replied(&inject());
        let own = world.clone().replied(&calls(&[("fetch_device", target("own"))]));
        own.expect_tools(&["4/action-0#1 fetch_device"]);
        // With nothing else it ends at the next one.
        let end = world.replied(&inject());
        assert!(end.run.outcome().is_some() || end.call().key.slot == loop_core::types::Slot::Final);
    }
}

#[test]
fn a_dead_end_is_noticed_across_tools() {
    // H4: different calls fail alike, so a person is asked within six failures.
    let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
    let setup = || {
        let setup = conversation().limits(|limits| (limits.passes, limits.model_calls) = (20, 20));
        names.iter().fold(setup, |setup, name| setup.tool(tool(name, Effect::Read)))
    };
    let mut world = setup().start();
    for (n, name) in names.iter().take(6).enumerate() {
        assert!(world.run.outcome().is_none(), "after {n} failures");
        world = world.replied(&calls(&[(name, target("a"))]));
        world = world.finished(&format!("{}/action-0", n + 1), observed(Status::PermanentError));
    }
    let world = world.ends(StopReason::NeedsHuman);
    assert_eq!(
        world.outcome().stop.primary.value.to_string(),
        "6 calls of any tools that ended as permanent_error in a row"
    );
    // Failures of one reply, of several kinds, or with a success between are none.
    let all: Vec<_> = names.iter().map(|name| (*name, target("a"))).collect();
    let mut world = setup().parallel().start().replied(&calls(&all));
    for n in 0..names.len() {
        world = world.finished(&format!("1/action-{n}"), observed(Status::PermanentError));
    }
    world.expect_call("2/main", 1);
    let mut world = setup().start();
    for (n, name) in names.iter().enumerate() {
        let status = [Status::PermanentError, Status::MalformedResult][n % 2];
        world = world.replied(&calls(&[(name, target("a"))]));
        world = world.finished(&format!("{}/action-0", n + 1), observed(status));
    }
    world.expect_call("9/main", 1);
}
