//! Worlds of hostile simulations: specs of every protocol with tight limits, drawn from choices.

use std::sync::Arc;

use loop_core::run::Provenance;
use loop_core::spec::{
    Breakers, Calibration, Cite, CostMode, DefaultCall, Execution, GateSettings, Limits, MeasuredLevel,
    MeasuredModel, ModelSpec, OnDenied, OnDuplicate, OnInvalid, OnToolError, OpinionWhen, OutputSpec,
    ProtocolSpec, RepeatScope, Repeats, Resolve, SecondOpinion, SectionSpec, Selection, SpecNames, TaintRule,
    ToolPolicy, ToolRepeats, ToolSpec,
};
use loop_core::types::{Digest, Effect, PicoUsd, Price, RunId, Tier};
use loop_core::{Facts, Run, RunSpec, WorkItem};
use serde_json::json;

use crate::sim::Choices;

/// The nonce of every simulated run. A drawn reply contains it in place of the run's own.
pub const NONCE: &str = "n-5e3d";

/// A text that only incomplete parts of replies contain.
pub(crate) const CUT: &str = "CUT-HERE";

/// The inputs of a simulated run.
#[derive(Clone, Debug)]
pub struct HostileWorld {
    /// The spec.
    pub spec: Arc<RunSpec>,
    names: SpecNames,
    item: WorkItem,
    facts: Facts,
}

impl HostileWorld {
    /// A world of this spec and item.
    pub fn new(spec: Arc<RunSpec>, item: WorkItem) -> Self {
        let none = Digest::of("sim", b"");
        let provenance = Provenance::default();
        let facts =
            Facts { unix_ms: 0, nonce: NONCE.into(), prompts: none, tools: none, history: None, provenance };
        Self { names: SpecNames::of(&spec), spec, item, facts }
    }

    /// A world drawn from choices.
    pub fn drawn(choices: &mut Choices) -> Self {
        Self::new(
            Arc::new(spec(choices)),
            WorkItem::new("T-1", "ticket", "Disk full", "Mail ops: d is full."),
        )
    }

    /// Starts its run.
    pub fn start(&self) -> (Run, loop_core::Event, Vec<loop_core::Note>) {
        let (spec, id) = (Arc::clone(&self.spec), RunId::new("sim"));
        Run::start_named(id, spec, self.names, self.item.clone(), self.facts.clone())
    }
}

fn spec(choices: &mut Choices) -> RunSpec {
    let model = ModelSpec { context_tokens: 100_000, timeout_ms: 30_000, ..ModelSpec::new("sim", "base") };
    let is_priced = !choices.one_in(12);
    let model = if is_priced { model.with_price(price(choices)) } else { model };
    let mut spec = match choices.below(4) {
        0 | 1 => document(choices, model),
        2 => RunSpec::conversation("sim", model),
        _ => output(choices, model),
    };
    if let ProtocolSpec::Conversation(conversation) = &mut spec.protocol {
        conversation.execution = execution(choices);
    }
    spec.tools.splice(0..0, tools(choices));
    models(choices, &mut spec);
    limits(choices, &mut spec.limits, is_priced);
    gate(choices, &mut spec.gate);
    calibration(choices, &mut spec);
    second_opinion(choices, &mut spec);
    spec.save = choices.one_in(2);
    spec
}

fn document(choices: &mut Choices, model: ModelSpec) -> RunSpec {
    let cite = if choices.one_in(3) { Cite::Any } else { Cite::No };
    let verify = choices.one_in(3);
    let sections = [
        SectionSpec { verify, ..SectionSpec::new("situation", "Situation").required() },
        SectionSpec::new("findings", "Findings").citing(cite),
        SectionSpec::new("next_steps", "Next steps"),
    ];
    let mut spec = RunSpec::document("sim", sections, model);
    let defaults = vec![DefaultCall { tool: "fetch_docs".into(), parameters: r#"{"target":"d"}"#.into() }];
    spec.selection = Selection { enabled: choices.one_in(3), defaults };
    spec
}

fn output(choices: &mut Choices, model: ModelSpec) -> RunSpec {
    let output = OutputSpec {
        submit: choices.one_in(2).then(|| "submit".into()),
        attempts: 1 + choices.below(3),
        passes_per_attempt: 1 + choices.below(3),
        execution: execution(choices),
        ..OutputSpec::new("save")
    };
    let submits = output.submit.is_some();
    let mut spec = RunSpec::output("sim", output, model);
    spec.tools.push(tool("save", Effect::Read));
    spec.tools.extend(submits.then(|| tool("submit", Effect::Read)));
    spec
}

fn execution(choices: &mut Choices) -> Execution {
    choices.of(&[Execution::Parallel, Execution::Ordered, Execution::Single]).copied().unwrap_or_default()
}

fn price(choices: &mut Choices) -> Price {
    let flat = Price::flat(100_000, 400_000);
    if choices.one_in(3) { Price { cache_read: Some(10_000), ..flat } } else { flat }
}

fn models(choices: &mut Choices, spec: &mut RunSpec) {
    let base = spec.models.base.clone();
    let named = |name: &str, model: &ModelSpec| ModelSpec { model: name.into(), ..model.clone() };
    let cheap = |model: ModelSpec| match model.price {
        Some(_) => model.with_price(Price::flat(10_000, 40_000)),
        None => model,
    };
    spec.models.selector = choices.one_in(2).then(|| cheap(named("selector", &base)));
    spec.models.escalated = choices.one_in(3).then(|| named("escalated", &base));
    spec.models.fallback = choices.one_in(3).then(|| named("fallback", &base));
}

fn limits(choices: &mut Choices, limits: &mut Limits, is_priced: bool) {
    let few = |choices: &mut Choices, usual: u32, below: u32| match choices.below(24) {
        0..=18 => usual,
        19 if choices.one_in(2) => 0,
        _ => 1 + choices.below(below),
    };
    limits.passes = few(choices, 5, 5);
    limits.model_calls = few(choices, 14, 9);
    limits.tool_calls = few(choices, 10, 7);
    limits.selected = choices.below(3);
    if choices.one_in(8) {
        limits.requested_calls = 2;
    }
    limits.cost_mode =
        choices.of(&[CostMode::Estimated, CostMode::Strict, CostMode::After]).copied().unwrap_or_default();
    limits.cost = match choices.below(4) {
        _ if !is_priced => None,
        0 | 3 => Some(PicoUsd(40_000_000_000)),
        1 => Some(PicoUsd(u64::from(choices.below(60)) * 200_000_000)),
        _ => None,
    };
    limits.tokens = choices.one_in(4).then(|| 3_000 + u64::from(choices.below(60)) * 1_000);
    limits.wall_ms = 180_000 - u64::from(choices.below(3)) * 60_000;
    limits.person_ms = Some(5_000);
    limits.sub_call_bytes = 2_000;
    if choices.one_in(4) {
        limits.messages = Some(2 + choices.below(14));
    }
}

fn gate(choices: &mut Choices, gate: &mut GateSettings) {
    gate.people = choices.one_in(2);
    gate.no_progress = 1 + choices.below(3);
    gate.escalate_after = 1 + choices.below(2);
    gate.revision_passes = choices.below(2);
    gate.high_is_final = choices.one_in(6);
    gate.cheaper_tier = choices.one_in(6);
    gate.final_pass = !choices.one_in(5);
    gate.item_untrusted = choices.one_in(10);
    if choices.one_in(2) {
        gate.approved = vec!["restart".into(), "set".into(), "wipe".into()];
    }
    gate.approvals = if choices.one_in(3) { 2 } else { 1 };
    if choices.one_in(6) {
        gate.forbid.push("w*".into());
    }
    if choices.one_in(6) {
        gate.required_tools.push("fetch_docs".into());
    }
    let pick = |choices: &mut Choices, all: &[Option<Repeats>]| choices.of(all).copied().flatten();
    let rules = [Repeats::NeverRerun, Repeats::Reuse, Repeats::Progress, Repeats::ThreeTier, Repeats::Off];
    let rules: Vec<Option<Repeats>> = [None, None].into_iter().chain(rules.map(Some)).collect();
    gate.repeats = pick(choices, &rules);
    gate.scope = choices
        .of(&[RepeatScope::Run, RepeatScope::Run, RepeatScope::Attempt, RepeatScope::Step])
        .copied()
        .unwrap_or_default();
    gate.on_duplicate = choices
        .of(&[OnDuplicate::SkipMessage, OnDuplicate::ReplayCached, OnDuplicate::Deny])
        .copied()
        .unwrap_or_default();
    gate.on_denied = if choices.one_in(8) { OnDenied::Stop } else { OnDenied::FeedBack };
    gate.on_invalid = if choices.one_in(8) { OnInvalid::Stop } else { OnInvalid::FeedBack };
    gate.on_tool_error = match choices.below(9) {
        0..=5 => OnToolError::Continue,
        6 => OnToolError::Stop,
        7 => OnToolError::EscalateAfter(2),
        _ => OnToolError::StopOrEscalateAfter(2),
    };
    gate.resolve =
        choices.of(&[Resolve::Alias, Resolve::Strict, Resolve::FuzzyUnique]).copied().unwrap_or_default();
    gate.taint = if choices.one_in(6) { TaintRule::Off } else { TaintRule::Ask };
    let opens = if choices.one_in(3) { 1 + choices.below(3) } else { 0 };
    gate.breakers = Breakers { tool_failures: opens, denied: opens, bad_arguments: opens };
    gate.eager = choices.one_in(4).then_some(true);
}

/// Adds a second opinion to a section, if drawn.
fn second_opinion(choices: &mut Choices, spec: &mut RunSpec) {
    if spec.sections().iter().any(|section| section.verify) {
        let tier =
            choices.of(&[Tier::Selector, Tier::Base, Tier::Escalated]).copied().unwrap_or(Tier::Selector);
        spec.gate.second_opinion = Some(SecondOpinion { tier, when: OpinionWhen::Always });
    }
}

/// Adds a calibration of the base model, if drawn.
fn calibration(choices: &mut Choices, spec: &mut RunSpec) {
    if !spec.protocol.properties().states_confidence || !choices.one_in(4) {
        return;
    }
    let mut level = || MeasuredLevel { passed: choices.below(31), runs: 30 };
    let (low, medium, high) = (level(), level(), level());
    let ModelSpec { provider, model, .. } = spec.models.base.clone();
    let models = vec![MeasuredModel { provider, model, low, medium, high }];
    spec.gate.calibration = Some(Arc::new(Calibration { models }));
    spec.gate.allow_raise = choices.one_in(3);
}

fn tools(choices: &mut Choices) -> Vec<ToolSpec> {
    let mut tools = vec![
        ToolSpec { aliases: vec!["fetch_devices".into()], ..tool("fetch_device", Effect::Read) },
        ToolSpec { smart: true, ..tool("fetch_docs", Effect::Read) },
        tool("restart", Effect::WriteKeyed),
        tool("set", Effect::WriteIdempotent),
        tool("mail", Effect::Egress),
        tool("wipe", Effect::WriteIrreversible),
    ];
    for tool in &mut tools {
        let is_read = tool.effect.is_read();
        tool.attempts = 1 + choices.below(3);
        tool.policy = ToolPolicy {
            reads_private: choices.one_in(5),
            returns_untrusted: choices.one_in(4),
            cheap: is_read && choices.one_in(2),
            repeats: ToolRepeats { polls: choices.below(4), ..ToolRepeats::default() },
            ..ToolPolicy::default()
        };
    }
    if choices.one_in(4) {
        let asks_person = true;
        let policy = ToolPolicy { asks_person, ..ToolPolicy::default() };
        tools.push(ToolSpec { policy, ..tool("ask_user", Effect::Read) });
    }
    tools
}

fn tool(name: &str, effect: Effect) -> ToolSpec {
    let properties = json!({"target": {"type": "string"}, "limit": {"type": "integer", "default": 3}});
    let schema = json!({"type": "object", "properties": properties, "required": ["target"]});
    ToolSpec {
        name: name.into(),
        aliases: Vec::new(),
        description: "".into(),
        when: "".into(),
        args: loop_core::spec::ArgSpec::from_schema(&schema),
        effect,
        timeout_ms: 12_000,
        attempts: 2,
        smart: false,
        policy: ToolPolicy::default(),
    }
}
