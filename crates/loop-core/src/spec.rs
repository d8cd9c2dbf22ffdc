//! The run spec: everything about a run that is configuration rather than fact.
//!
//! It is stored once by its hash, and [`Started`](crate::Fact::Started) names that hash, so that a replay needs no
//! other input. Defaults are S0's numbers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::ArgSpec;
use crate::canonical::digest;
use crate::cost_limit::CostLimit;
use crate::ids::Digest;
use crate::limits::Limits;
use crate::money::{PicoUsd, Price};
use crate::policy;
use crate::policy_spec::{
    Breakers, OnDenied, OnDuplicate, OnInvalid, OnToolError, RepeatScope, Repeats, Resolve, Taint, ThreeTier,
    ToolPolicy,
};
use crate::protocol;
use crate::protocol_spec::{
    ConversationSpec, DocumentSpec, NonceMode, OutputSpec, ProtocolSpec, SectionSpec,
};
use crate::stop_own::OwnReason;

/// The version of [`RunSpec`] that this crate writes and reads: which rules a run follows. Another one is refused by its
/// number.
pub const SPEC_VERSION: u32 = 1;

/// After how many passes in a row in which nothing could be run a conversation ends.
const NATIVE_NO_PROGRESS: u32 = 3;

/// What a run is to do, with which tools and models, within which limits.
///
/// Its hash names it in the journal. A field that is added later must be left out of the text while it has its
/// default (`skip_serializing_if`), or the specs that are stored already would no longer have their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`SPEC_VERSION`] of the writer.
    pub version: u32,
    /// The domain's name, for example `helpdesk`.
    pub domain: Arc<str>,
    /// What the work is for, in a sentence or two, for the model.
    #[serde(default)]
    pub goal: Arc<str>,
    /// The profile of the domain, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// How replies become proposals.
    pub protocol: ProtocolSpec,
    /// The tools, in the order in which prompts list them.
    pub tools: Vec<ToolSpec>,
    /// Which tools run before the first pass.
    #[serde(default)]
    pub picking: Picking,
    /// Which model each tier uses.
    pub models: Models,
    /// What is never passed.
    #[serde(default)]
    pub limits: Limits,
    /// How the gate judges.
    #[serde(default)]
    pub gate: GateSettings,
    /// Whether the outcome is saved; where to is the runtime's business.
    #[serde(default)]
    pub save: bool,
    /// The domain's own reasons to stop, in the order in which they are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_reasons: Vec<OwnReason>,
}

/// What names a spec, for whoever starts many runs by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecNames {
    /// [`RunSpec::hash`].
    pub spec: Digest,
    /// [`RunSpec::policy_hash`].
    pub policy: Digest,
}

impl SpecNames {
    /// The names of `spec`.
    pub fn of(spec: &RunSpec) -> Self {
        Self { spec: spec.hash(), policy: spec.policy_hash() }
    }
}

impl RunSpec {
    /// The spec of a loop that writes these sections with this model, with S0's limits and no tools yet.
    ///
    /// Where the model's price is unknown there is no cost limit: nobody could keep it.
    pub fn document(
        domain: impl Into<Arc<str>>,
        sections: impl IntoIterator<Item = SectionSpec>,
        model: ModelSpec,
    ) -> Self {
        let sections = sections.into_iter().collect();
        let protocol = ProtocolSpec::Document(DocumentSpec { sections, nonce: NonceMode::default() });
        Self::of(domain.into(), protocol, model, Limits::default(), GateSettings::default())
    }

    /// The spec of a conversation with this model: tools one after another, with the limits of
    /// [`Limits::agent`] and no tools yet.
    ///
    /// Where the model's price is unknown there is no cost limit: nobody could keep it.
    pub fn conversation(domain: impl Into<Arc<str>>, model: ModelSpec) -> Self {
        let protocol = ProtocolSpec::Conversation(ConversationSpec::default());
        let gate = GateSettings { no_progress: NATIVE_NO_PROGRESS, ..GateSettings::default() };
        let picking = Picking { enabled: false, ..Picking::default() };
        Self { picking, ..Self::of(domain.into(), protocol, model, Limits::agent(), gate) }
    }

    /// The spec of a loop that ends with a validated value, with the limits of [`Limits::extract`] and no tools yet:
    /// the output tool that `output` names has to be among them, and so has the tool that submits.
    ///
    /// Where the model's price is unknown there is no cost limit: nobody could keep it.
    pub fn output(domain: impl Into<Arc<str>>, output: OutputSpec, model: ModelSpec) -> Self {
        let limits = Limits::extract(output.attempts, output.passes_per_attempt);
        let gate = GateSettings { no_progress: NATIVE_NO_PROGRESS, ..GateSettings::default() };
        let picking = Picking { enabled: false, ..Picking::default() };
        Self { picking, ..Self::of(domain.into(), ProtocolSpec::Output(output), model, limits, gate) }
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
            picking: Picking::default(),
            models: Models { picker: None, base: model, escalated: None, fallback: None },
            limits,
            gate,
            save: false,
            stop_reasons: Vec::new(),
        }
    }

    /// The limit of money, where it could not be kept since the price of the base model is unknown. Such a run ends before
    /// its first call.
    pub fn unpriced_limit(&self) -> Option<PicoUsd> {
        let limit = CostLimit::from(self.limits.cost).resolve(self.models.base.price.is_some());
        limit.err().map(|without| without.limit)
    }

    /// Whether a stop by a limit leaves a final pass: a last call without tools that finishes the answer.
    pub fn lands(&self) -> bool {
        self.protocol.lands() && self.gate.final_pass
    }

    /// Whether the last permitted pass is one like any other, since there is no final pass: what it asks for runs, and
    /// the limits of passes and model calls are checked before the next one (S4-26, S4-85).
    pub(crate) fn acts_last(&self) -> bool {
        self.protocol.lands() && !self.gate.final_pass
    }

    /// Whether there is a tool that policy may let run.
    pub(crate) fn has_tools(&self) -> bool {
        let may_run = |tool: &ToolSpec| !protocol::keeps(self, &tool.name) && !policy::is_barred(self, tool);
        self.tools.iter().any(may_run)
    }

    /// The digest that names this spec.
    pub fn hash(&self) -> Digest {
        digest("spec", &serde_json::to_value(self).unwrap_or_default())
    }

    /// The digest of the part that decides rather than describes: limits, gate, and what policy knows of each tool.
    pub fn policy_hash(&self) -> Digest {
        let known = |tool: &ToolSpec| json!([tool.name, tool.aliases, tool.effect, tool.policy]);
        let tools: Vec<Value> = self.tools.iter().map(known).collect();
        let decides = serde_json::to_value((&self.limits, &self.gate, tools));
        digest("policy", &decides.unwrap_or_default())
    }

    /// The tool with this name or alias (S0-84); never by a part of a name (S0-d1, S0-d2).
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        let by_name = self.tools.iter().find(|tool| &*tool.name == name);
        by_name.or_else(|| self.tools.iter().find(|tool| tool.aliases.iter().any(|alias| &**alias == name)))
    }

    /// The model of a tier; where it has none of its own, the base model.
    pub fn model(&self, tier: Tier) -> &ModelSpec {
        let special = match tier {
            Tier::Picker => self.models.picker.as_ref(),
            Tier::Base => None,
            Tier::Escalated => self.models.escalated.as_ref(),
            Tier::Fallback => self.models.fallback.as_ref(),
        };
        special.unwrap_or(&self.models.base)
    }

    /// The sections of the document; none in other protocols.
    pub fn sections(&self) -> &[SectionSpec] {
        match &self.protocol {
            ProtocolSpec::Document(document) => &document.sections,
            ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => &[],
        }
    }

    /// What becomes of a call that was made before: what the gate's settings say, or what suits the protocol.
    pub fn repeats(&self) -> Repeats {
        let suits = if self.protocol.is_native() { Repeats::Progress } else { Repeats::NeverRerun };
        self.gate.repeats.unwrap_or(suits)
    }
}

/// What a tool is to the core: a name, arguments, an effect, limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its canonical name, for example `fetch_device_info` (S0-78).
    pub name: Arc<str>,
    /// Other names that mean it (S0-84).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Arc<str>>,
    /// What it brings, for the model.
    pub description: Arc<str>,
    /// When it helps, for the picker (S0-91).
    #[serde(default)]
    pub when: Arc<str>,
    /// What it takes.
    pub args: ArgSpec,
    /// What it does to the world.
    pub effect: Effect,
    /// Milliseconds until it is cut off (S0-94).
    pub timeout_ms: u64,
    /// How often one call may be made in all, if it fails in a way that may pass.
    pub attempts: u32,
    /// Whether it may ask a model about its own result (S0-39).
    #[serde(default)]
    pub smart: bool,
    /// What policy knows of it beside its effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: ToolPolicy,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it only looks.
    Read,
    /// Changes something; doing it twice is the same as once.
    WriteIdempotent,
    /// Changes something; the receiver drops a second call with the same key.
    WriteKeyed,
    /// Changes something that cannot be taken back.
    WriteIrreversible,
    /// Sends something out.
    Egress,
    /// Runs a program.
    Exec,
}

impl Effect {
    /// Whether the tool only looks.
    pub fn is_read(self) -> bool {
        self == Self::Read
    }

    /// The effect as it is written, for example `write_keyed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::WriteIdempotent => "write_idempotent",
            Self::WriteKeyed => "write_keyed",
            Self::WriteIrreversible => "write_irreversible",
            Self::Egress => "egress",
            Self::Exec => "exec",
        }
    }
}

/// Which tools run before the first pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Picking {
    /// Whether a model is asked to pick; without it the first pass begins at once.
    pub enabled: bool,
    /// What runs when the picker fails or cannot be called (S0-127).
    pub defaults: Vec<DefaultCall>,
}

impl Default for Picking {
    fn default() -> Self {
        Self { enabled: true, defaults: Vec::new() }
    }
}

/// A call that is made when the picker fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultCall {
    /// The tool's name.
    pub tool: Arc<str>,
    /// Its parameters, as JSON text.
    pub parameters: Arc<str>,
}

/// Which model of a domain's route is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Cheap: picks tools, filters results.
    Picker,
    /// Analyses and refines.
    Base,
    /// More capable: used when confidence stays low.
    Escalated,
    /// Another route: used for the rest of a run once the model of the tier before cannot be had.
    Fallback,
}

impl Tier {
    /// The tier as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Picker => "picker",
            Self::Base => "base",
            Self::Escalated => "escalated",
            Self::Fallback => "fallback",
        }
    }
}

/// The model of each tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// The base model where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picker: Option<ModelSpec>,
    /// Required.
    pub base: ModelSpec,
    /// No escalation where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated: Option<ModelSpec>,
    /// No other route where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ModelSpec>,
}

/// A model: whose it is, what it costs, what fits into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Which kind of client calls it, for example `offline`.
    pub provider: Arc<str>,
    /// Its id at the provider.
    pub model: Arc<str>,
    /// The model that it is, where the provider has another name for it, for example a deployment: a reply that this
    /// model served is no surprise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Arc<str>>,
    /// Pico-dollars a token; unknown where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Tokens that fit into one call, input and output together.
    pub context_tokens: u64,
    /// Output tokens that it can write in one call.
    pub max_output_tokens: u64,
    /// Milliseconds until a call is cut off.
    pub timeout_ms: u64,
}

impl ModelSpec {
    /// A model with room for 128,000 tokens, 8,192 of output, two minutes a call, and an unknown price.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            base_model: None,
            price: None,
            context_tokens: 128_000,
            max_output_tokens: 8_192,
            timeout_ms: 120_000,
        }
    }

    /// The same model with this price.
    #[must_use]
    pub fn with_price(self, price: Price) -> Self {
        Self { price: Some(price), ..self }
    }
}

/// How the gate judges.
///
/// What a setting's default is stands in the text of no spec, so that a spec that was stored before the setting was
/// there keeps its hash; whether the newer settings count at all is told by [`RunSpec::version`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateSettings {
    /// Tools that must have been observed, with or without a finding, before `confident` counts.
    pub required_tools: Vec<Arc<str>>,
    /// Whether a cheaper tier's model may reply in place of one that the cost limit does not pay for. Off by default: such
    /// a run ends as `budget_exceeded`.
    #[serde(skip_serializing_if = "is_default")]
    pub cheaper_tier: bool,
    /// Whether somebody answers when an action needs a person's consent.
    pub people: bool,
    /// Tools that are never run, whatever the model asks; by their own names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<Arc<str>>,
    /// Whether high confidence ends the run although actions that matter are open (C15).
    #[serde(skip_serializing_if = "is_default")]
    pub high_is_final: bool,
    /// Which confidence counts as stale, from pass 3 on (S0-55, C16).
    #[serde(skip_serializing_if = "is_default")]
    pub stale: Stale,
    /// Whether a pass that saw new evidence is never stale.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_unless_new_evidence: bool,
    /// After how many passes in a row without new evidence and without a changed section the run ends: 2; with 0
    /// it never does. Where calls are native, passes count in which nothing could be run, and the run ends after 3.
    #[serde(skip_serializing_if = "is_two")]
    pub no_progress: u32,
    /// After how many passes in a row at low confidence the escalated model takes over: 2 (S0-121); with 0 it never
    /// does.
    #[serde(skip_serializing_if = "is_two")]
    pub escalate_after: u32,
    /// How many passes are granted to mend an answer at high confidence that lacks what is demanded: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub mending_passes: u32,
    /// Tools that change something and run without a person's consent, by their own names: whoever wrote the name here
    /// has given it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Arc<str>>,
    /// What becomes of a call that was made before; what suits the protocol where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Tools whose calls are judged as repeats, `*` for any characters; all of them where there are none (S3-24).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats_for: Vec<Arc<str>>,
    /// How far back a repeat is a repeat.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: RepeatScope,
    /// What a model gets for a call that is refused as a repeat.
    #[serde(skip_serializing_if = "is_default")]
    pub on_duplicate: OnDuplicate,
    /// The numbers of the policy `three_tier`.
    #[serde(skip_serializing_if = "is_default")]
    pub three_tier: ThreeTier,
    /// What the policy is called by whoever keeps it, for example a date; it changes nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub label: Arc<str>,
    /// Tools that may run, by their own names, `*` for any characters; all of the spec's where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Arc<str>>,
    /// What follows a call that policy denies.
    #[serde(skip_serializing_if = "is_default")]
    pub on_denied: OnDenied,
    /// What follows a reply that is not valid.
    #[serde(skip_serializing_if = "is_default")]
    pub on_invalid: OnInvalid,
    /// What follows a tool that fails.
    #[serde(skip_serializing_if = "is_default")]
    pub on_tool_error: OnToolError,
    /// Whether a stop by a limit leaves a final pass, for which part of each limit is reserved. Without it the last
    /// permitted pass is one like any other: its calls run, and the run ends before the next (S4-85).
    #[serde(skip_serializing_if = "is_true")]
    pub final_pass: bool,
    /// How a tool's name is found.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve: Resolve,
    /// Whether a run remembers what it has read.
    #[serde(skip_serializing_if = "is_default")]
    pub taint: Taint,
    /// Whether the work item itself was written by whoever liked to.
    #[serde(skip_serializing_if = "is_default")]
    pub item_untrusted: bool,
    /// Values that authority-bearing parameters may have, as policy says, for example `support@example.com` (K3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Arc<str>>,
    /// When repeated trouble opens a breaker.
    #[serde(skip_serializing_if = "is_default")]
    pub breakers: Breakers,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            required_tools: Vec::new(),
            cheaper_tier: false,
            people: false,
            forbid: Vec::new(),
            high_is_final: false,
            stale: Stale::default(),
            stale_unless_new_evidence: false,
            no_progress: 2,
            escalate_after: 2,
            mending_passes: 1,
            approved: Vec::new(),
            repeats: None,
            repeats_for: Vec::new(),
            scope: RepeatScope::default(),
            on_duplicate: OnDuplicate::default(),
            three_tier: ThreeTier::default(),
            label: "".into(),
            allow: Vec::new(),
            on_denied: OnDenied::default(),
            on_invalid: OnInvalid::default(),
            on_tool_error: OnToolError::default(),
            final_pass: true,
            resolve: Resolve::default(),
            taint: Taint::default(),
            item_untrusted: false,
            authorities: Vec::new(),
            breakers: Breakers::default(),
        }
    }
}

/// Which confidence counts as stale, held against that of the pass before (C16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stale {
    /// One that is not higher (S0-120); unknown counts as low.
    #[default]
    NotImproved,
    /// One that is the same (S0-44): a fall goes on.
    Equal,
    /// None.
    Off,
}

impl Stale {
    /// The setting as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotImproved => "not_improved",
            Self::Equal => "equal",
            Self::Off => "off",
        }
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_true(on: &bool) -> bool {
    *on
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

fn is_two(n: &u32) -> bool {
    *n == 2
}
