//! The alphabets of a confidence that has to be earned: measured by evals.

use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::StopReason::{
    Confident, EvidenceMissing, ManualStop, MaxPasses, NoNewActions, Refused, Timeout,
};
use loop_core::run::{Cause, CheckResult, Lack};
use loop_core::spec::{
    Calibration, GroundingRule, MeasuredLevel, MeasuredModel, OpinionWhen, SecondOpinion, SectionSpec, Stale,
};
use loop_core::types::{EvidenceId, SubCallUse, Tier};
use serde_json::json;

use crate::alphabet::Alphabet;
use crate::alphabets::{always, base};
use loop_testkit::{Setup, bare_draft, broken, draft, failure, rejected, run, target, used};

/// Every alphabet of earned confidence that is walked whole in a test run.
pub fn all() -> Vec<Alphabet> {
    vec![calibrated(false), checks(false), check_kinds(false)]
}

fn small() -> Setup {
    run().limits(|limits| {
        limits.passes = 3;
        limits.tool_calls = 4;
        limits.model_calls = 6;
        limits.wall_ms = 60_000;
    })
}

/// What evals measured of each level of the base and the escalated model, as passes of twenty runs.
fn measured(spec: &RunSpec, of_base: [u32; 3], of_escalated: [u32; 3]) -> Calibration {
    let one = |model: &loop_core::spec::ModelSpec, [low, medium, high]: [u32; 3]| {
        let level = |passed| MeasuredLevel { passed, runs: 20 };
        MeasuredModel {
            provider: Arc::clone(&model.provider),
            model: Arc::clone(&model.model),
            low: level(low),
            medium: level(medium),
            high: level(high),
        }
    };
    let escalated = spec.models.escalated.as_ref().map(|model| one(model, of_escalated));
    let models = std::iter::once(one(&spec.models.base, of_base)).chain(escalated).collect();
    Calibration { models }
}

/// A base model whose `high` is worth `medium` and whose `medium` is worth `low`, and one that keeps its word.
pub fn calibrated(wide: bool) -> Alphabet {
    let setup = small().escalating().unrevised().with(|spec| {
        if let Some(escalated) = &mut spec.models.escalated {
            escalated.model = "better".into();
        }
        spec.gate.calibration = Some(Arc::new(measured(spec, [0, 4, 12], [0, 12, 19])));
        spec.gate.high_is_final = true;
        spec.gate.stale = Stale::Equal;
        // The escalated model needs a pass that is not the last one.
        spec.limits.passes = if wide { 5 } else { 4 };
    });
    let setup = setup.sections(vec![
        SectionSpec::new("situation", "Situation").required(),
        SectionSpec::new("findings", "Findings"),
    ]);
    let all = [
        bare_draft("low").asks("fetch_device", target("a")),
        bare_draft("low").asks("fetch_device", target("b")),
        draft("medium"),
        draft("medium").asks("fetch_device", target("a")),
        draft("high"),
        draft("high").asks("fetch_device", target("b")),
        // Without the section that is required.
        bare_draft("high"),
    ];
    Alphabet {
        replies: always(all),
        reaches: &[Confident, NoNewActions, EvidenceMissing],
        ..base("calibrated", setup)
    }
}

/// Checks that pass, fail and break, with a model to ask, and with stops, crashes, deadlines and limits around them.
pub fn checks(wide: bool) -> Alphabet {
    let setup = small().with(|spec| {
        spec.gate.second_opinion = Some(SecondOpinion { tier: Tier::Selector, when: OpinionWhen::Always });
        (spec.limits.passes, spec.limits.model_calls) = if wide { (3, 6) } else { (2, 4) };
        spec.limits.tool_calls = 2;
        spec.limits.tokens = Some(60_000);
    });
    let setup = setup.sections(vec![
        SectionSpec { verify: true, ..SectionSpec::new("situation", "Situation").required() },
        SectionSpec::new("findings", "Findings"),
    ]);
    let answered = SubCallUse::new(true, Some(used(400, 9)));
    Alphabet {
        replies: always([
            draft("high"),
            draft("low").asks("fetch_device", target("a")),
            draft("high").member("refuse", json!("no")),
        ]),
        checks: vec![CheckResult::Passed, rejected("no"), broken()],
        asked: vec![None, Some(answered), Some(SubCallUse::new(false, None))],
        failures: vec![failure(false)],
        stops: true,
        resumes: vec![500],
        deadlines: wide,
        reaches: &[Confident, EvidenceMissing, MaxPasses, ManualStop, Refused],
        ..base("checks", setup)
    }
}

/// A document whose values are demanded, and one with a validator of its own: no model is asked.
pub fn check_kinds(wide: bool) -> Alphabet {
    let setup = small().with(|spec| {
        spec.gate.grounding = GroundingRule::Demand;
        spec.gate.validators = vec!["totals".into()];
        (spec.limits.passes, spec.limits.model_calls) = if wide { (4, 6) } else { (3, 4) };
        spec.limits.tool_calls = 2;
    });
    let lack = |cause: Cause, place: &[u32]| CheckResult::Failed {
        lacks: vec![Lack {
            section: "situation".into(),
            sentence: "It has 24 GB [E1].".into(),
            value: "24 GB".into(),
            place: place.iter().map(|id| EvidenceId(*id)).collect(),
            cause,
        }],
    };
    Alphabet {
        replies: always([draft("high"), draft("medium").asks("fetch_device", target("a"))]),
        checks: vec![
            CheckResult::Passed,
            rejected("no"),
            lack(Cause::Contradicted, &[]),
            lack(Cause::WrongCitation, &[2]),
            broken(),
        ],
        stops: true,
        resumes: vec![500],
        steps: vec![0, 20_000],
        deadlines: true,
        reaches: &[Confident, EvidenceMissing, ManualStop, Timeout],
        ..base("checks by software", setup)
    }
}
