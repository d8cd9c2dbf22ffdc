//! The specs of simulations of the driver: every protocol, with tight limits and people.

use loop_core::RunSpec;
use loop_core::spec::{Execution, Limits, ModelSpec, OutputSpec, ProtocolSpec, SectionSpec};
use loop_core::types::Price;
use loop_testkit::sim::Choices;

pub(crate) fn drawn_spec(choices: &mut Choices) -> RunSpec {
    let model = ModelSpec { timeout_ms: 20_000, ..ModelSpec::new("sim", "base") };
    let model = model.with_price(Price::flat(100_000, 400_000));
    let mut spec = match choices.below(4) {
        0 | 1 => {
            let sections = [
                SectionSpec::new("situation", "Situation").required(),
                SectionSpec::new("findings", "Findings"),
                SectionSpec::new("next_steps", "Next steps"),
            ];
            RunSpec::document("sim", sections, model)
        }
        2 => RunSpec::conversation("sim", model),
        _ => {
            let submit = choices.one_in(2).then(|| "submit".into());
            let output = OutputSpec { submit, attempts: 2, passes_per_attempt: 3, ..OutputSpec::new("save") };
            RunSpec::output("sim", output, model)
        }
    };
    if let ProtocolSpec::Conversation(conversation) = &mut spec.protocol {
        conversation.execution = if choices.one_in(2) { Execution::Parallel } else { Execution::Ordered };
    }
    spec.selection.enabled = spec.selection.enabled && choices.one_in(3);
    spec.limits = Limits {
        passes: 2 + choices.below(4),
        tool_calls: 3 + choices.below(8),
        wall_ms: 120_000,
        person_ms: Some(30_000),
        cost: None,
        ..spec.limits
    };
    spec.gate.people = choices.one_in(2);
    if choices.one_in(2) {
        spec.gate.approved = vec!["restart".into(), "set".into(), "wipe".into(), "mail".into()];
    }
    spec.gate.approvals = if choices.one_in(3) { 2 } else { 1 };
    spec
}
