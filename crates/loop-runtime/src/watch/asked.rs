//! What an approver sees of a run: the actions that wait, with what their tools do and where each value came from, and the plan.

use std::fmt;

use loop_core::Run;
use loop_core::policy::PlannedEffect;
use loop_core::run::PersonRequest;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::watch::people::deadline_unix_ms;
use crate::watch::report::json;

pub use crate::watch::values::{TracedValue, ValueOrigin, ValuePlace};

/// An action that waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PersonRequestReport {
    /// The action's key, `pass/action-n`.
    pub action: String,
    /// The model's own name for it.
    pub id: String,
    /// The tool's own name.
    pub tool: String,
    /// The tool's effect.
    pub effect: String,
    /// What the tool does, as its domain or its server describes it. Empty: it does not say.
    pub description: String,
    /// Where the tool connects to: a URL, a program, a folder, a database, a server. Null: the tool does not say.
    pub connects_to: Option<String>,
    /// Whether it is a question, which takes an answer instead of an approval.
    pub question: bool,
    /// The exact parameters that would run.
    pub parameters: Value,
    /// Where each value of the parameters came from, in their order.
    pub origins: Vec<TracedValue>,
    /// How many further values are not traced.
    pub origins_left_out: u64,
    /// The slot of the run's plan that it fits. Null: it fits none, or there is no plan.
    pub slot: Option<String>,
    /// Why an approver is needed.
    pub why: String,
    /// The model's reason for the call.
    pub reason: String,
    /// When the time to answer ends, in milliseconds since 1970 (UTC). No answer by then is a denial. Null: it does not end.
    pub until_unix_ms: Option<u64>,
    /// BLAKE3 digest of run, action, tool, parameters, tool manifest and policy.
    pub binding: String,
}

impl PersonRequestReport {
    /// The report of an action that waits in `run`, whose tools declare `manifest`.
    pub fn new(run: &Run, manifest: &str, requested: &PersonRequest) -> Self {
        let tool = run.spec().tool(&requested.tool);
        let slots = run.plan().map_or(&[][..], |plan| &plan.slots);
        let slot = requested.slot.and_then(|slot| slots.get(slot as usize));
        let (origins, origins_left_out) = TracedValue::all(run, requested);
        Self {
            action: requested.key.to_string(),
            id: requested.id.to_string(),
            tool: requested.tool.to_string(),
            effect: requested.effect.name().to_owned(),
            description: tool.map_or_else(String::new, |tool| tool.description.to_string()),
            connects_to: loop_tools::connects_to(manifest, &requested.tool),
            question: requested.is_question,
            parameters: json(&requested.parameters),
            origins,
            origins_left_out,
            slot: slot.map(|it| it.slot.to_string()),
            why: requested.why.clone(),
            reason: requested.reason.to_string(),
            until_unix_ms: deadline_unix_ms(run.started(), requested),
            binding: requested.binding.to_string(),
        }
    }

    /// All actions that wait in `run`.
    pub fn all(run: &Run, manifest: &str) -> Vec<Self> {
        run.requested().iter().map(|requested| Self::new(run, manifest, requested)).collect()
    }
}

/// The plan of a run: the effects that it intends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectPlanReport {
    /// The call that gave it, `pass/slot`. Null: the domain gives it.
    pub by: Option<String>,
    /// Its slots, in order.
    pub slots: Vec<PlanSlotReport>,
}

/// A slot of a run's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanSlotReport {
    /// What it permits, for example `send_mail(to = "ann@acme.example", …), 1 call`.
    pub slot: String,
    /// The keys of the calls that took it.
    pub used_by: Vec<String>,
    /// The result of private data, not planned and read after untrusted text, since which it lets nothing out. Null: it is
    /// not void.
    pub void_since: Option<String>,
}

impl EffectPlanReport {
    /// The plan of a run as it is now. `None`: there is none.
    pub fn of(run: &Run) -> Option<Self> {
        let plan = run.plan()?;
        let slot = |PlannedEffect { slot, used, void }: &PlannedEffect| PlanSlotReport {
            slot: slot.to_string(),
            used_by: used.keys().map(ToString::to_string).collect(),
            void_since: void.map(|evidence| evidence.to_string()),
        };
        let by = plan.by.map(|key| key.to_string());
        Some(Self { by, slots: plan.slots.iter().map(slot).collect() })
    }

    /// Who gave it, in words.
    pub fn giver(&self) -> String {
        match &self.by {
            Some(key) => format!("The plan, which the model gave in {key}"),
            None => "The plan, which the domain gives".to_owned(),
        }
    }
}

/// How many calls of a slot are named in words.
const MAX_CALLS: usize = 6;

impl fmt::Display for PlanSlotReport {
    /// For example `send_mail(…), 1 call: used by 2/action-0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, used_by, void_since } = self;
        f.write_str(slot)?;
        let named = used_by.get(..MAX_CALLS).unwrap_or(used_by).join(", ");
        match used_by.len() {
            0 => f.write_str(": not used")?,
            1..=MAX_CALLS => write!(f, ": used by {named}")?,
            all => write!(f, ": used by {named} and {} more", all - MAX_CALLS)?,
        }
        void_since.iter().try_for_each(|evidence| {
            write!(f, "; void since {evidence}, private data that the plan does not name")
        })
    }
}
