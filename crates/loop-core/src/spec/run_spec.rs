//! The run spec: the whole configuration of a run.
//!
//! It is stored once by its digest, and [`Started`](crate::EventKind::Started) contains that digest, so that a replay
//! needs no other input.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::spec::cost_limit::CostLimit;
use crate::spec::gate::{GateSettings, GroundingRule};
use crate::spec::limits::{CostMode, Limits};
use crate::spec::models::{ModelSpec, ModelSpecs};
use crate::spec::own_reason::OwnReason;
use crate::spec::plan::PlanSlot;
use crate::spec::policy::Repeats;
use crate::spec::protocol::{
    ConversationSpec, DocumentSpec, NonceMode, OutputSpec, ProtocolSpec, SectionSpec,
};
use crate::spec::select::Selection;
use crate::spec::tool::ToolSpec;
use crate::types::{Digest, PicoUsd, Tier, digest};

/// The version of [`RunSpec`] that this crate writes and reads. Any other version is refused.
pub const SPEC_VERSION: u32 = 2;

/// The default of `gate.no_progress` for native calls: passes in a row in which no call could run.
const NATIVE_NO_PROGRESS: u32 = 3;

/// What a run is to do, with which tools and models, within which limits.
///
/// Its hash names it in the journal. A field that is added later must be left out of the text while it has its
/// default (`skip_serializing_if`), or the specs that are stored already would no longer have their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The version of the rules: [`SPEC_VERSION`], set by the writer. Any other number is refused.
    pub version: u32,
    /// The domain's name, for example `helpdesk`.
    pub domain: Arc<str>,
    /// What the work is for, in a sentence or two. The domain's author sets it and the model reads it; empty means that
    /// the prompt does not mention a goal.
    #[serde(default)]
    pub goal: Arc<str>,
    /// The profile that the caller chose; `None` means the domain without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// How replies become proposals: document, conversation or output.
    pub protocol: ProtocolSpec,
    /// The tools, in the order in which prompts list them. An empty list is a run without tools.
    pub tools: Vec<ToolSpec>,
    /// Which tools run before the first pass. Native protocols switch it off.
    #[serde(default)]
    pub selection: Selection,
    /// Which model each tier uses. Only the base model is required.
    pub models: ModelSpecs,
    /// The limits of the run. They are checked before each call.
    #[serde(default)]
    pub limits: Limits,
    /// The settings of the gate: stops, policy, repeats and breakers.
    #[serde(default)]
    pub gate: GateSettings,
    /// The effects that the domain's author plans for each run. Such a plan holds from the start, whatever a model plans.
    /// Empty: a model may plan before the run has read anything untrusted or private.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanSlot>,
    /// Whether the run has a save target, which the runtime knows. `false` skips the phase `Saving`.
    #[serde(default)]
    pub save: bool,
    /// The domain's own reasons to stop, in the order in which the certificate lists them. Empty means none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_reasons: Vec<OwnReason>,
}

/// The digests of a spec, computed once for callers that start many runs with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecNames {
    /// [`RunSpec::hash`].
    pub spec: Digest,
    /// [`RunSpec::policy_hash`].
    pub policy: Digest,
}

impl SpecNames {
    /// The digests of `spec`.
    pub fn of(spec: &RunSpec) -> Self {
        Self { spec: spec.hash(), policy: spec.policy_hash() }
    }
}

impl RunSpec {
    /// The spec of a loop that writes these sections with this model, with the default limits and no tools yet.
    ///
    /// If the model's price is unknown, the cost limit is `None`, since it could not be enforced.
    pub fn document(
        domain: impl Into<Arc<str>>,
        sections: impl IntoIterator<Item = SectionSpec>,
        model: ModelSpec,
    ) -> Self {
        let sections = sections.into_iter().collect();
        let protocol = ProtocolSpec::Document(DocumentSpec { sections, nonce: NonceMode::default() });
        Self::of(domain.into(), protocol, model, Limits::default(), GateSettings::default())
    }

    /// The spec of a conversation with this model: tools one after another, with the limits of [`Limits::agent`] and no
    /// tools yet.
    ///
    /// If the model's price is unknown, the cost limit is `None`, since it could not be enforced.
    pub fn conversation(domain: impl Into<Arc<str>>, model: ModelSpec) -> Self {
        let protocol = ProtocolSpec::Conversation(ConversationSpec::default());
        let gate = GateSettings { no_progress: NATIVE_NO_PROGRESS, ..GateSettings::default() };
        let selection = Selection { enabled: false, ..Selection::default() };
        Self { selection, ..Self::of(domain.into(), protocol, model, Limits::agent(), gate) }
    }

    /// The spec of a loop that ends with a validated value, with the limits of [`Limits::extract`] and no tools yet.
    /// The caller must add the output tool that `output` names, and the submit tool if there is one.
    ///
    /// If the model's price is unknown, the cost limit is `None`, since it could not be enforced.
    pub fn output(domain: impl Into<Arc<str>>, output: OutputSpec, model: ModelSpec) -> Self {
        let limits = Limits::extract(output.attempts, output.passes_per_attempt);
        let gate = GateSettings { no_progress: NATIVE_NO_PROGRESS, ..GateSettings::default() };
        let selection = Selection { enabled: false, ..Selection::default() };
        Self { selection, ..Self::of(domain.into(), ProtocolSpec::Output(output), model, limits, gate) }
    }

    fn of(
        domain: Arc<str>,
        protocol: ProtocolSpec,
        model: ModelSpec,
        mut limits: Limits,
        gate: GateSettings,
    ) -> Self {
        // A default never fails to resolve.
        limits.cost = CostLimit::Default.resolve(model.price.is_some()).unwrap_or_default();
        Self {
            version: SPEC_VERSION,
            domain,
            goal: "".into(),
            profile: None,
            protocol,
            tools: Vec::new(),
            selection: Selection::default(),
            models: ModelSpecs { selector: None, base: model, escalated: None, fallback: None },
            limits,
            gate,
            plan: Vec::new(),
            save: false,
            stop_reasons: Vec::new(),
        }
    }

    /// The cost limit, if it cannot be enforced because the price of the base model is unknown. Such a run ends before
    /// its first call.
    pub fn unpriced_limit(&self) -> Option<PicoUsd> {
        let limit = CostLimit::from(self.limits.cost).resolve(self.models.base.price.is_some());
        limit.err().map(|without| without.limit)
    }

    /// Whether a stop by a limit is preceded by a final pass: a last call without tools that finishes the answer.
    pub fn finishes(&self) -> bool {
        self.protocol.properties().has_final_pass && self.gate.final_pass
    }

    /// Whether the final pass is switched off. Then the calls of the last permitted pass run, and the limits of passes and model
    /// calls are checked before the next pass.
    pub(crate) fn acts_last(&self) -> bool {
        self.protocol.properties().has_final_pass && !self.gate.final_pass
    }

    /// Whether reads of cheap tools may start before the reply that requests them is complete.
    pub fn starts_reads_early(&self) -> bool {
        let is_on = self.gate.eager.unwrap_or(self.limits.cost_mode != CostMode::Strict);
        is_on && self.protocol.properties().native_calls
    }

    /// Milliseconds of the wall clock without the time reserved for the final pass.
    pub(crate) fn working_ms(&self) -> u64 {
        let held = if self.finishes() { self.limits.final_pass_ms() } else { 0 };
        self.limits.wall_ms.saturating_sub(held)
    }

    /// The digest of this spec.
    pub fn hash(&self) -> Digest {
        digest("spec", &serde_json::to_value(self).unwrap_or_default())
    }

    /// The digest of the settings that decide: limits, gate, plan, and the policy of each tool.
    pub fn policy_hash(&self) -> Digest {
        let known = |tool: &ToolSpec| json!([tool.name, tool.aliases, tool.effect, tool.policy]);
        let tools: Vec<Value> = self.tools.iter().map(known).collect();
        let decides = serde_json::to_value((&self.limits, &self.gate, tools, &self.plan));
        digest("policy", &decides.unwrap_or_default())
    }

    /// The tool with this name or alias. Parts of names do not match.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        let by_name = self.tools.iter().find(|tool| &*tool.name == name);
        by_name.or_else(|| self.tools.iter().find(|tool| tool.aliases.iter().any(|alias| &**alias == name)))
    }

    /// The model of a tier, else the base model.
    pub fn model(&self, tier: Tier) -> &ModelSpec {
        let special = match tier {
            Tier::Selector => self.models.selector.as_ref(),
            Tier::Base => None,
            Tier::Escalated => self.models.escalated.as_ref(),
            Tier::Fallback => self.models.fallback.as_ref(),
        };
        special.unwrap_or(&self.models.base)
    }

    /// The sections of the document. Empty in other protocols.
    pub fn sections(&self) -> &[SectionSpec] {
        match &self.protocol {
            ProtocolSpec::Document(document) => &document.sections,
            ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => &[],
        }
    }

    /// What follows from a value of a section that the evidence contradicts: its own rule, else that of the gate.
    pub fn grounding_of(&self, section: &str) -> GroundingRule {
        let own = self.sections().iter().find(|it| &*it.id == section).and_then(|it| it.grounding);
        own.unwrap_or(self.gate.grounding)
    }

    /// The repeat policy: the gate's setting, else the protocol's default.
    pub fn repeats(&self) -> Repeats {
        self.gate.repeats.unwrap_or(self.protocol.properties().repeats)
    }
}
