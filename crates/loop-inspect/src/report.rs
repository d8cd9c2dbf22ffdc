//! One run for an auditor: what it cost, why it stopped, what it did and read, who approved it, and whether it is whole.

use loop_core::types::{Cost, PicoUsd, RunId, Totals};
use loop_core::{Evidence, Note, Run};
use loop_runtime::journal::{Recorded, replay};
use loop_runtime::people::{InstructionReport, PeopleReport, PersonRequestRecord};
use loop_runtime::report::{
    ActionReport, CallReport, Item, OverriddenReport, Report, StopReport, TotalsReport, action, domain_hash,
};
use loop_runtime::run::StartError;
use loop_runtime::tools::connects_to;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::audit::RunAudit;

/// The version of this format.
pub const RUN_REPORT_VERSION: u32 = 1;

/// One run for an auditor: what `loopgate report --json` prints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunReport {
    /// The version of this format: 1.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The work item.
    pub item: Item,
    /// The domain's name.
    pub domain: String,
    /// When the run began, in milliseconds since 1970 (UTC).
    pub begun_unix_ms: u64,
    /// The program that began it, with its version. Empty: not stated.
    pub program: String,
    /// Why it stopped. Null: it has not ended.
    pub stop: Option<StopReport>,
    /// Its usage and cost, so far where it has not ended.
    pub totals: TotalsReport,
    /// The models that were called, by tier, in the order of their first calls. Empty if none was.
    pub models: Vec<ModelUse>,
    /// The requested calls of tools that do more than read, in order. Empty if there were none.
    pub effects: Vec<EffectUse>,
    /// What people were asked, in order. Empty if nothing was.
    pub approvals: Vec<ApprovalRecord>,
    /// The instructions of people, in order. Empty if there were none.
    pub instructions: Vec<InstructionReport>,
    /// The policy under which it was decided.
    pub policy: PolicyRecord,
    /// What the tools returned, by number. Empty if nothing was returned.
    pub evidence: Vec<EvidenceUse>,
    /// Whether the journal's chain, each decision and every invariant hold: what `loopgate verify` finds.
    pub verify: RunAudit,
}

/// What one model was used for in a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModelUse {
    /// The tier that was requested: `selector`, `base`, `escalated` or `fallback`.
    pub tier: String,
    /// The provider that was called.
    pub provider: String,
    /// The model that was requested, by the provider's name for it.
    pub model: String,
    /// The models that served, as the provider reports them, each once. Empty if it reports none.
    pub served: Vec<String>,
    /// The calls that were charged, by their keys, for example `1/main`: `loopgate show RUN --events` has each reply under it.
    pub calls: Vec<String>,
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Cost in US dollars. Null while the price of any call is not known.
    pub cost_usd: Option<f64>,
    /// Cost in pico-dollars (10⁻¹² USD) of the calls with a known price, exact.
    pub cost_pico_usd: u64,
}

/// A requested call of a tool that does more than read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EffectUse {
    /// The tool's effect, for example `write_keyed` or `egress`.
    pub effect: String,
    /// Where the tool connects to: a URL, a program, a folder, a database, a server. Null: the tool does not say.
    pub connects_to: Option<String>,
    /// How the call ended, for example `ok`. Null: it did not run.
    pub status: Option<String>,
    /// What the tool returned, in one line. Null: it did not run.
    pub summary: Option<String>,
    /// The call with its verdict.
    pub action: ActionReport,
}

/// A request to a person, and its answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalRecord {
    /// BLAKE3 digest of run, action, tool, parameters, tool manifest and policy: what the answer counts for.
    pub binding: String,
    /// The request, its answer, and who gave it.
    pub request: PersonRequestRecord,
}

/// The policy under which a run was decided.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PolicyRecord {
    /// BLAKE3 digest of limits and gate settings.
    pub digest: String,
    /// The operator's name for it, `gate.label`. Empty: it has none.
    pub label: String,
    /// BLAKE3 digest of the domain as the run had it: settings with those that were overridden, prompts and tools.
    pub domain_hash: String,
    /// The settings that the caller gave instead of the domain's. Empty if there were none.
    pub overridden: Vec<OverriddenReport>,
}

/// What a tool returned.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvidenceUse {
    /// Its number, for example `E1`.
    pub id: String,
    /// The tool's own name.
    pub tool: String,
    /// Where the tool connects to. Null: the tool does not say.
    pub connects_to: Option<String>,
    /// The parameters that the tool received.
    pub parameters: Value,
    /// How it ended, for example `ok` or `empty`.
    pub status: String,
    /// One line for people.
    pub summary: String,
    /// Whether the domain declares what the tool returns as untrusted.
    pub untrusted: bool,
    /// Whether the domain declares that the tool reads private data.
    pub private: bool,
    /// BLAKE3 digest of the data.
    pub digest: String,
}

impl RunReport {
    /// The report of a recorded run.
    ///
    /// # Errors
    /// If the entries do not follow from each other.
    pub fn of(run: &RunId, recorded: &Recorded) -> Result<Self, StartError> {
        let state = replay(run, recorded)?;
        let (started, spec, people) = (state.started(), state.spec(), PeopleReport::of(recorded));
        let binding = |request: &PersonRequestRecord| {
            let action = state.actions().iter().find(|it| it.key.to_string() == request.action)?;
            state.binding(&action.key)
        };
        let approval = |request: PersonRequestRecord| ApprovalRecord {
            binding: binding(&request).map_or_else(String::new, |it| it.to_string()),
            request,
        };
        let overridden = started.provenance.overridden.iter();
        Ok(Self {
            version: RUN_REPORT_VERSION,
            run: run.to_string(),
            item: Item {
                id: started.item.id.to_string(),
                kind: started.item.kind.to_string(),
                title: started.item.title.to_string(),
            },
            domain: spec.domain.to_string(),
            begun_unix_ms: started.unix_ms,
            program: started.provenance.program.to_string(),
            stop: state.outcome().map(|outcome| Report::new(started, outcome).stop),
            totals: TotalsReport::new(&Totals { wall_ms: state.elapsed_ms(), ..*state.totals() }),
            models: models(&state, recorded),
            effects: effects(&state, &recorded.manifest),
            approvals: people.requested.into_iter().map(approval).collect(),
            instructions: people.instructions,
            policy: PolicyRecord {
                digest: started.policy.to_string(),
                label: spec.gate.label.to_string(),
                domain_hash: domain_hash(started).to_string(),
                overridden: overridden
                    .map(|it| OverriddenReport {
                        setting: it.setting.to_string(),
                        value: it.value.to_string(),
                    })
                    .collect(),
            },
            evidence: state.evidence().iter().map(|it| evidence(it, &state, &recorded.manifest)).collect(),
            verify: RunAudit::of_recorded(run, recorded),
        })
    }
}

fn models(state: &Run, recorded: &Recorded) -> Vec<ModelUse> {
    let mut uses: Vec<(ModelUse, Cost)> = Vec::new();
    let calls = state.model_calls();
    for note in recorded.entries.iter().flat_map(|entry| &entry.notes) {
        let Note::CallCharged { key, attempt, tier, usage, cost } = note else { continue };
        // A sub-call has the key of its action.
        let call = calls.iter().find(|call| (&call.key, &call.attempt, &call.tier) == (key, attempt, tier));
        let of_tier = state.spec().model(*tier);
        let (provider, model) = call.map_or((&of_tier.provider, &of_tier.model), |it| (&it.provider, &it.model));
        let is_same = |(it, _): &(ModelUse, Cost)| {
            (it.tier.as_str(), it.provider.as_str(), it.model.as_str()) == (tier.name(), provider, model)
        };
        let at = uses.iter().position(is_same).unwrap_or_else(|| {
            let of_model = ModelUse {
                tier: tier.name().to_owned(),
                provider: provider.to_string(),
                model: model.to_string(),
                served: Vec::new(),
                calls: Vec::new(),
                input_tokens: 0,
                output_tokens: 0,
                cost_usd: None,
                cost_pico_usd: 0,
            };
            uses.push((of_model, Cost::default()));
            uses.len() - 1
        });
        let Some((of_model, spent)) = uses.get_mut(at) else { continue };
        let served = call.map(CallReport::new).and_then(|call: CallReport| call.served_model);
        of_model.served.extend(served.filter(|served| !of_model.served.contains(served)));
        of_model.calls.push(match attempt {
            1 => key.to_string(),
            attempt => format!("{key} (try {attempt})"),
        });
        of_model.input_tokens += usage.total_input();
        of_model.output_tokens += usage.total_output();
        spent.add(*cost);
    }
    let priced = |(of_model, spent): (ModelUse, Cost)| ModelUse {
        cost_usd: spent.total().map(PicoUsd::as_usd),
        cost_pico_usd: spent.known.0,
        ..of_model
    };
    uses.into_iter().map(priced).collect()
}

fn effects(state: &Run, manifest: &str) -> Vec<EffectUse> {
    let of_action = |judged: &std::sync::Arc<loop_core::gate::JudgedAction>| {
        let effect = state.spec().tool(judged.tool_name())?.effect;
        let result = judged.evidence.and_then(|id| state.evidence().iter().find(|it| it.id == id));
        let observation = result.map(|result| &result.observation);
        (!effect.is_read()).then(|| EffectUse {
            effect: effect.name().to_owned(),
            connects_to: connects_to(manifest, judged.tool_name()),
            status: observation.map(|it| it.status.name().to_owned()),
            summary: observation.map(|it| it.summary.to_string()),
            action: action(judged, state.evidence()),
        })
    };
    state.actions().iter().filter_map(of_action).collect()
}

fn evidence(it: &Evidence, state: &Run, manifest: &str) -> EvidenceUse {
    let policy = state.spec().tool(&it.tool).map(|tool| &tool.policy);
    EvidenceUse {
        id: it.id.to_string(),
        tool: it.tool.to_string(),
        connects_to: connects_to(manifest, &it.tool),
        parameters: serde_json::from_str(&it.parameters)
            .unwrap_or_else(|_| Value::String(it.parameters.to_string())),
        status: it.observation.status.name().to_owned(),
        summary: it.observation.summary.to_string(),
        untrusted: policy.is_some_and(|policy| policy.returns_untrusted),
        private: policy.is_some_and(|policy| policy.reads_private),
        digest: it.observation.digest.to_string(),
    }
}
