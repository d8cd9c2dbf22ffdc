//! What a run does whose values are demanded: the check finds them lacking, and the gate decides on that.

use loop_core::StopReason;
use loop_core::run::{CheckResult, Phase};
use loop_core::spec::{GroundingRule, ProtocolSpec};
use loop_core::types::{Observation, Status};
use loop_testkit::*;

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

/// The commanded check, if there is one, is made by this crate's reader.
#[track_caller]
fn looked(world: World) -> World {
    if !matches!(world.run.phase(), Phase::Validating(_)) {
        return world;
    }
    let lacks = loop_claims::lacks(&world.run);
    world.checked(if lacks.is_empty() { CheckResult::Passed } else { CheckResult::Failed { lacks } })
}

#[test]
fn a_value_that_stands_in_no_evidence_is_demanded_once_and_then_missing() {
    let begun = |rule| {
        let world = run().with(|spec| spec.gate.grounding = rule).start().replied(&device("a"));
        world.finished(
            "1/action-0",
            Observation::new(Status::Ok, "", "", r#"{"size_gb": 42, "host": "web-1"}"#),
        )
    };
    let says = |body: &str| bare_draft("high").section("Situation", body);
    let (lie, truth) = (says("web-1 has 24 GB, and 24 GB at web-9 [E1]."), says("web-1 has 42 GB [E1]."));
    let missing = "evidence for the contradicted \"24 GB\", \"web-9\" in section `situation`";

    // The model reads which values it is about, and has one pass to mend them.
    let asked = looked(begun(GroundingRule::Demand).replied(&lie)).expect_call("3/main", 1);
    assert_eq!(asked.run.revisions(3).unwrap(), [missing.into()]);
    looked(asked.replied(&truth)).ends(StopReason::Confident);
    let again = looked(begun(GroundingRule::Demand).replied(&lie)).replied(&lie);
    let world = looked(again).ends(StopReason::EvidenceMissing);
    assert_eq!(world.outcome().missing, [missing.into()]);
    assert_eq!(loop_claims::of_run(&world.run).len(), 4);
    // A value that other evidence or the item has is not ungrounded.
    looked(begun(GroundingRule::Demand).replied(&says("web-1 has 42 GB."))).ends(StopReason::Confident);
    // A report decides nothing.
    let world = begun(GroundingRule::Report).replied(&lie).ends(StopReason::Confident);
    assert_eq!((world.outcome().missing.len(), loop_claims::of_run(&world.run).len()), (0, 4));
    assert_eq!(
        loop_claims::of_outcome(world.outcome(), &world.spec, world.run.started()),
        loop_claims::of_run(&world.run)
    );
    let world = begun(GroundingRule::Off).replied(&lie).ends(StopReason::Confident);
    assert!(loop_claims::of_run(&world.run).is_empty());
}

#[test]
fn a_value_that_is_cited_from_the_wrong_evidence_is_demanded() {
    let begun = || {
        let world = run().with(|spec| spec.gate.grounding = GroundingRule::Demand).unrevised().start();
        let world = world.replied(&device("a").asks("fetch_device", target("b")));
        let has = |data: &str| Observation::new(Status::Ok, "", "", data);
        world
            .finished("1/action-0", has(r#"{"size_gb": 42}"#))
            .finished("1/action-1", has(r#"{"size_gb": 31}"#))
    };
    let says = |body: &str| bare_draft("high").section("Situation", body);
    let world = looked(begun().replied(&says("It has 31 GB [E1] and 42 GB [E1].")));
    let world = world.ends(StopReason::EvidenceMissing);
    let missing = "the right citation, [E2] for \"31 GB\", in section `situation`";
    assert_eq!(world.outcome().missing, [missing.into()]);
    looked(begun().replied(&says("It has 31 GB [E2] and 42 GB [E1]."))).ends(StopReason::Confident);
}

#[test]
fn a_section_may_have_its_own_rule_for_values() {
    // The gate's rule, the section's, and whether a lie ends the run as confident.
    use GroundingRule::{Demand, Off, Report};
    for (gate, own, is_confident, claims) in [
        (Report, Some(Demand), false, 1),
        (Off, Some(Demand), false, 1),
        (Demand, Some(Report), true, 1),
        (Demand, Some(Off), true, 0),
        (Demand, None, false, 1),
        (Report, None, true, 1),
    ] {
        let world = run().unrevised().with(|spec| {
            spec.gate.grounding = gate;
            let ProtocolSpec::Document(document) = &mut spec.protocol else { return };
            document.sections.iter_mut().for_each(|section| section.grounding = own);
        });
        let world = world.start().replied(&device("a"));
        let world = world.finished("1/action-0", Observation::new(Status::Ok, "", "", r#"{"size_gb": 42}"#));
        let world = world.replied(&bare_draft("high").section("Situation", "It has 24 GB [E1]."));
        let reason = if is_confident { StopReason::Confident } else { StopReason::EvidenceMissing };
        let world = looked(world).ends(reason);
        assert_eq!(loop_claims::of_run(&world.run).len(), claims, "{gate:?}, {own:?}");
    }
}
