//! Simulations: studies of a domain's policy.

use std::sync::Arc;

use loop_core::{CostMode, ModelSpec, PicoUsd, Price, RunSpec, SectionSpec, ToolSpec};
use loop_eval::sim::{Assumptions, Distribution, Study};
use loop_prompts::Prompts;

pub(crate) fn desk() -> RunSpec {
    let model = ModelSpec::new("sim", "base").with_price(Price::flat(100_000, 400_000));
    let sections = [SectionSpec::new("findings", "Findings").required().cited()];
    let tool = |name: &str| -> ToolSpec {
        serde_json::from_value(serde_json::json!({
            "name": name, "description": "Looks it up.", "effect": "read", "timeout_ms": 12_000, "attempts": 2,
            "args": {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]},
        }))
        .unwrap()
    };
    let tools = vec![tool("fetch_device"), tool("fetch_docs")];
    RunSpec { tools, ..RunSpec::document("desk", sections, model) }
}

fn studied(spec: RunSpec, assumed: Assumptions) -> Distribution {
    let study = Study::new(&Arc::new(spec), &Arc::new(Prompts::builtin()), None, assumed);
    study.simulate(1, 60).unwrap_or_else(|(seed, fault)| panic!("run {seed}: {fault:?}"))
}

#[test]
fn a_study_is_the_same_for_the_same_seed_and_follows_its_assumptions() {
    let usual = studied(desk(), Assumptions::default());
    assert_eq!(usual, studied(desk(), Assumptions::default()));
    assert_eq!(usual.runs, 60);
    assert_eq!(usual.reasons.iter().map(|it| it.runs).sum::<u64>(), 60);
    assert!(usual.passes.max <= 5 && usual.passes.p50 <= usual.passes.p95);
    let mut certain = Assumptions::default();
    for (name, value) in [("done", "100"), ("refuses", "0"), ("model_fails", "0"), ("no_contract", "0")] {
        certain.change(name, value).unwrap();
    }
    let certain = studied(desk(), certain);
    assert_eq!((certain.reasons[0].reason.as_str(), certain.reasons[0].runs), ("confident", 60));
    assert_eq!(certain.passes.max, 1);
}

#[test]
fn a_study_says_which_limit_binds_and_keeps_a_strict_one() {
    let mut spec = desk();
    spec.limits.cost = Some(PicoUsd(5_000_000_000));
    spec.limits.cost_mode = CostMode::Strict;
    let mut assumed = Assumptions::default();
    assumed.change("done", "0").unwrap();
    assumed.change("done_more", "0").unwrap();
    let tight = studied(spec, assumed);
    let cost = tight.cost_pico_usd.unwrap();
    assert!(cost.max <= 5_000_000_000, "{cost:?}");
    assert!(
        tight.reached.iter().any(|it| it.setting == "limits.cost_usd" && it.reached > 0),
        "{:?}",
        tight.reached
    );
}

#[test]
fn the_schema_is_that_of_the_type() {
    let file = "../../docs/schema/sim.schema.json";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = serde_json::to_string_pretty(&schemars::schema_for!(Distribution)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{file} is old: run this test with UPDATE_SCHEMA=1");
}
