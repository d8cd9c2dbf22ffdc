//! The outcome as one JSON object: what `--json` prints and what is saved. Schema: `docs/schema/outcome.schema.json`.

use loop_core::{
    Certificate, Condition, Effects, Evidence as Returned, JudgedAction, Outcome, PassSummary, PersonRequest,
    Saved, ServedCall, Slot, Started,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::people::PeopleReport;
use crate::served::is_other_model;
use crate::uses::ToolUse;

pub use crate::explain::explain;
pub use crate::forecast::{Bound, Forecast};

/// The version of this format.
pub const REPORT_VERSION: u32 = 1;

/// What a run ended with, for programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The version of this format: 1.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The id under which the run is traced: its caller's, or the run's own.
    pub trace_id: String,
    /// Who asked for the run, where the program that started it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The work item.
    pub item: Item,
    /// Why it stopped.
    pub stop: StopReport,
    /// How sure the last reply said it was: `high`, `medium`, `low` or `unknown`.
    pub confidence: String,
    /// Why it said so.
    pub confidence_reason: String,
    /// The history of passes, in their order.
    pub passes: Vec<PassReport>,
    /// The document; without sections where there is none.
    pub document: Sections,
    /// The final answer of a conversation, or as much of one as came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The last output, where a run is to end with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputReport>,
    /// How many attempts at an output were begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Why the last output that was rejected was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<RejectionReport>,
    /// What the run was doing when its reason was fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_in: Option<StoppedInReport>,
    /// What each tool was used for, where whoever made the report knows the run's entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolUse>>,
    /// What waits for people, of a run that is not over; nothing of it is decided or saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Vec<PersonRequestReport>>,
    /// What people were asked, what they answered and what they told the run, where whoever made the report knows the run's
    /// entries and people had to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<PeopleReport>,
    /// What the domain demands and did not get.
    pub missing: Vec<String>,
    /// What was observed, by number.
    pub evidence: Vec<EvidenceReport>,
    /// Every action that was asked for, with its verdict.
    pub actions: Vec<ActionReport>,
    /// Every call to a model that settled, in that order: which model was asked, and which served.
    pub calls: Vec<CallReport>,
    /// The program that began the run, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The settings that were given in place of the domain's, for example on the command line.
    pub overridden: Vec<OverriddenReport>,
    /// What a person should know, for example that another model served than was asked.
    pub warnings: Vec<String>,
    /// The bill.
    pub totals: TotalsReport,
    /// Where it was saved, or why not; null where nothing was to be saved.
    pub saved: Option<SavedReport>,
}

/// The work item.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// What such an item is called.
    pub kind: String,
    /// One line.
    pub title: String,
}

/// Why a run stopped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StopReport {
    /// The first condition that was true, in the gate's order.
    pub reason: String,
    /// `answered`, `partial`, `refused`, `needs_human`, `failed`, `in_doubt` or `cancelled`.
    pub class: String,
    /// The other reasons that were true as well.
    pub also: Vec<String>,
    /// One or two sentences.
    pub explanation: String,
    /// Each condition with its value, its threshold, and the smallest change under which it would not have been true.
    pub conditions: Vec<ConditionReport>,
    /// What was done and what was not, of all calls that do more than read.
    pub effects: EffectsReport,
}

/// How many of the effects that were asked for came to what. Their sum is the number of calls with an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectsReport {
    /// They ran, and their tool says so.
    pub executed: u32,
    /// They ran and failed, as their tool says.
    pub failed: u32,
    /// Policy or a person denied them.
    pub denied: u32,
    /// They need a person's consent that was not given, or their tool is not ready yet.
    pub waiting: u32,
    /// They were begun, and whether they happened is unknown.
    pub in_doubt: u32,
    /// They were not begun: a limit, arguments that do not fit, a repeat, the end of the run.
    pub not_run: u32,
}

impl EffectsReport {
    fn new(effects: &Effects) -> Self {
        let Effects { executed, failed, denied, waiting, in_doubt, not_run } = *effects;
        Self { executed, failed, denied, waiting, in_doubt, not_run }
    }
}

/// A condition that was true at the stop.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConditionReport {
    /// The reason that it gives.
    pub reason: String,
    /// What was found.
    pub value: String,
    /// What it was held against.
    pub threshold: Option<String>,
    /// The setting, and the nearest value under which this condition would not have been true.
    pub change: Option<String>,
}

/// A pass in the history of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PassReport {
    /// Its number, from 1.
    pub pass: u32,
    /// Whether it was the final pass: the last call, without tools.
    pub final_pass: bool,
    /// The tier that replied: `base`, `escalated` or `fallback`.
    pub tier: String,
    /// The provider that was asked.
    pub provider: String,
    /// The model that was asked, by the provider's name for it.
    pub model: String,
    /// The model that served, as the provider says; null where it does not say.
    pub served_model: Option<String>,
    /// How sure its reply said it was: `high`, `medium`, `low` or `unknown`.
    pub confidence: String,
    /// Why it said so.
    pub confidence_reason: String,
    /// The types of the sections that it changed.
    pub changed: Vec<String>,
    /// When its reply was read, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// A call to a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallReport {
    /// What it was for: `pass/main`, `pass/repair`, `0/select`, or the action whose tool made it.
    pub call: String,
    /// Which try of it, from 1.
    pub attempt: u32,
    /// The tier that was asked: `selector`, `base`, `escalated` or `fallback`.
    pub tier: String,
    /// The provider that was asked.
    pub provider: String,
    /// The model that was asked, by the provider's name for it.
    pub model: String,
    /// The model that served, as the provider says; null where it does not say.
    pub served_model: Option<String>,
    /// Whether another model served than was asked. A snapshot of the same model is the same.
    pub other_model: bool,
}

impl CallReport {
    /// The report of a call.
    pub fn new(call: &ServedCall) -> Self {
        Self {
            call: call.key.to_string(),
            attempt: call.attempt,
            tier: call.tier.name().to_owned(),
            provider: call.provider.to_string(),
            model: call.model.to_string(),
            served_model: call.served_model.as_ref().map(ToString::to_string),
            other_model: is_other_model(call),
        }
    }

    /// What a person should know of it, in a line.
    fn warning(&self) -> Option<String> {
        let served = self.served_model.as_ref().filter(|_| self.other_model)?;
        let (provider, model) = (&self.provider, &self.model);
        Some(format!("{provider} was asked for {model}, and {served} served"))
    }
}

/// What a person should know of these calls: a line for each other model that served.
pub fn call_warnings<'a>(calls: impl IntoIterator<Item = &'a ServedCall>) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for warning in calls.into_iter().filter_map(|call| CallReport::new(call).warning()) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

/// A setting that was given in place of the domain's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverriddenReport {
    /// Its dotted key, for example `limits.passes`, or `profile`.
    pub setting: String,
    /// The value as it was given.
    pub value: String,
}

impl PassReport {
    fn new(started: &Started, pass: &PassSummary, calls: &[ServedCall]) -> Self {
        let is_its = |call: &&ServedCall| {
            call.key.pass == pass.pass && matches!(call.key.slot, Slot::Main | Slot::Final)
        };
        // The last try is the one that replied.
        let call = calls.iter().rev().find(is_its);
        Self {
            pass: pass.pass,
            final_pass: pass.final_pass,
            tier: pass.tier.name().to_owned(),
            provider: call.map_or_else(String::new, |call| call.provider.to_string()),
            model: call.map_or_else(String::new, |call| call.model.to_string()),
            served_model: call.and_then(|call| call.served_model.as_ref()).map(ToString::to_string),
            confidence: pass.confidence.name().to_owned(),
            confidence_reason: pass.confidence_reason.to_string(),
            changed: pass.changed.iter().map(ToString::to_string).collect(),
            unix_ms: started.unix_ms.saturating_add(pass.at.0),
        }
    }
}

/// An output that the model gave.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OutputReport {
    /// The value; a text where the model wrote no JSON.
    pub value: Value,
    /// Whether it passed all validation.
    pub valid: bool,
}

/// Why an output was rejected.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RejectionReport {
    /// `schema`, or the validator's name.
    pub by: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a run was doing when its reason was fixed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StoppedInReport {
    /// The phase, for example `calling` or `acting`.
    pub phase: String,
    /// The pass, from 1; 0 before the first.
    pub pass: u32,
    /// The attempt at an output, from 1; 0 where there are none.
    pub attempt: u32,
}

/// The document.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sections {
    /// In the order in which they are shown.
    pub sections: Vec<SectionReport>,
}

/// A section with its provenance.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SectionReport {
    /// Its type, `preamble` for the text before the first heading.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its heading as written, for example `🔍 Situation`.
    pub heading: String,
    /// The heading without its emoji.
    pub heading_text: String,
    /// The emoji of the heading; empty where it has none.
    pub emoji: String,
    /// Markdown.
    pub body: String,
    /// The pass that last changed it.
    pub pass: u32,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_unix_ms: u64,
    /// The evidence that it cites, for example `E1`.
    pub evidence: Vec<String>,
    /// SHA-256 of the body that it replaced.
    pub replaced: Option<String>,
}

/// An observation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvidenceReport {
    /// Its number, for example `E1`.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it was asked.
    pub parameters: Value,
    /// How it ended, for example `ok` or `empty`.
    pub status: String,
    /// One line.
    pub summary: String,
    /// The pass that asked for it; 0 for a selected tool.
    pub pass: u32,
    /// SHA-256 of the data.
    pub digest: String,
}

/// An action with its verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ActionReport {
    /// `pass/action-n`.
    pub key: String,
    /// The id that the model gave it.
    pub id: String,
    /// `required`, `recommended` or `nice_to_have`.
    pub priority: String,
    /// The tool's own name, or what the model wrote.
    pub tool: String,
    /// What it was to be asked.
    pub parameters: Value,
    /// `run`, `unknown_tool`, `invalid_arguments`, `denied`, `duplicate`, `skipped`, `needs_person`,
    /// `over_limit`, `breaker_open`, `one_at_a_time` or `ended`.
    pub verdict: String,
    /// Why the verdict is what it is.
    pub verdict_reason: String,
    /// Which rule refused a repeat: `limit_exceeded`, `exact_duplicate`, `similar_query`, `same_result`, `failed_before` or
    /// `circle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// Why the model wanted it.
    pub reason: String,
    /// The number of its observation.
    pub evidence: Option<String>,
}

/// An action that waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PersonRequestReport {
    /// `pass/action-n`.
    pub action: String,
    /// The model's own name for it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What the tool does to the world.
    pub effect: String,
    /// Whether it is a question, which takes an answer in place of a consent.
    pub question: bool,
    /// What it would be run with.
    pub parameters: Value,
    /// Why a person is asked.
    pub why: String,
    /// Why the model wants it.
    pub reason: String,
    /// Silence until then is a no: milliseconds since 1970.
    pub until_unix_ms: u64,
    /// SHA-256 of run, action, tool, parameters, tool manifest and policy.
    pub binding: String,
}

/// The bill.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TotalsReport {
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind.
    pub model_calls: u32,
    /// Tool calls, selected ones included.
    pub tool_calls: u32,
    /// Of the model calls, those of smart tools.
    pub sub_calls: u32,
    /// All tokens.
    pub tokens: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Whether a part of the tokens was estimated.
    pub estimated: bool,
    /// US dollars; null while the price of any call is unknown.
    pub cost_usd: Option<f64>,
    /// Pico-dollars (10⁻¹² USD) of the calls whose price is known, exact.
    pub cost_pico_usd: u64,
    /// Milliseconds.
    pub wall_ms: u64,
}

/// What became of saving.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SavedReport {
    /// It is there.
    At {
        /// Where.
        location: String,
    },
    /// It is not.
    Not {
        /// Why.
        error: String,
    },
}

impl Report {
    /// The report of an outcome.
    pub fn new(started: &Started, outcome: &Outcome) -> Self {
        let usage = &outcome.totals.usage;
        Self {
            version: REPORT_VERSION,
            run: outcome.run.to_string(),
            trace_id: started.item.trace.as_ref().unwrap_or(&outcome.run.0).to_string(),
            caller: started.item.caller.as_ref().map(ToString::to_string),
            item: Item {
                id: started.item.id.to_string(),
                kind: started.item.kind.to_string(),
                title: started.item.title.to_string(),
            },
            stop: stop(outcome),
            confidence: outcome.confidence.name().to_owned(),
            confidence_reason: outcome.confidence_reason.to_string(),
            passes: outcome
                .passes
                .iter()
                .map(|pass| PassReport::new(started, pass, &outcome.calls))
                .collect(),
            document: Sections {
                sections: outcome
                    .document
                    .sections
                    .iter()
                    .map(|section| SectionReport {
                        kind: section.id.to_string(),
                        heading: section.heading.to_string(),
                        heading_text: section.heading_text.to_string(),
                        emoji: section.emoji.to_string(),
                        body: section.body.to_string(),
                        pass: section.pass,
                        updated_unix_ms: started.unix_ms.saturating_add(section.at.0),
                        evidence: section.evidence.iter().map(ToString::to_string).collect(),
                        replaced: section.replaced.map(|digest| digest.to_string()),
                    })
                    .collect(),
            },
            answer: outcome.answer.as_ref().map(ToString::to_string),
            output: outcome
                .output
                .as_ref()
                .map(|output| OutputReport { value: json(&output.value), valid: output.valid }),
            attempts: Some(outcome.attempts).filter(|attempts| *attempts > 0),
            rejection: outcome.rejection.as_ref().map(|rejection| RejectionReport {
                by: rejection.by.to_string(),
                message: rejection.message.to_string(),
            }),
            // A run that was written down before this was known has none.
            stopped_in: Some(&outcome.stopped_in).filter(|it| !it.phase.is_empty()).map(|it| {
                StoppedInReport { phase: it.phase.to_string(), pass: it.pass, attempt: it.attempt }
            }),
            tools: None,
            waiting: None,
            people: None,
            missing: outcome.missing.iter().map(ToString::to_string).collect(),
            evidence: outcome
                .evidence
                .iter()
                .map(|evidence| EvidenceReport {
                    id: evidence.id.to_string(),
                    tool: evidence.tool.to_string(),
                    parameters: json(&evidence.parameters),
                    status: evidence.observation.status.name().to_owned(),
                    summary: evidence.observation.summary.to_string(),
                    pass: evidence.pass,
                    digest: evidence.observation.digest.to_string(),
                })
                .collect(),
            actions: outcome.actions.iter().map(|it| action(it, &outcome.evidence)).collect(),
            calls: outcome.calls.iter().map(CallReport::new).collect(),
            program: Some(started.provenance.program.to_string()).filter(|program| !program.is_empty()),
            overridden: started
                .provenance
                .overridden
                .iter()
                .map(|it| OverriddenReport { setting: it.setting.to_string(), value: it.value.to_string() })
                .collect(),
            warnings: call_warnings(&outcome.calls),
            totals: TotalsReport {
                passes: outcome.totals.passes,
                model_calls: outcome.totals.model_calls,
                tool_calls: outcome.totals.tool_calls,
                sub_calls: outcome.totals.sub_calls,
                tokens: usage.total(),
                input_tokens: usage.total_input(),
                output_tokens: usage.total_output(),
                estimated: usage.estimated,
                cost_usd: outcome.totals.cost.total().map(|cost| cost.as_usd()),
                cost_pico_usd: outcome.totals.cost.known.0,
                wall_ms: outcome.totals.wall_ms,
            },
            saved: outcome.saved.as_ref().map(|saved| match saved {
                Saved::At { location } => SavedReport::At { location: location.to_string() },
                Saved::Not { message } => SavedReport::Not { error: message.to_string() },
            }),
        }
    }

    /// The report with what each tool was used for, as [`ToolUses`](crate::tools::ToolUses) counts it.
    #[must_use]
    pub fn with_tools(self, tools: Vec<ToolUse>) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// The report with what people had to do with the run.
    #[must_use]
    pub fn with_people(self, people: PeopleReport) -> Self {
        Self { people: Some(people).filter(|people| !people.is_empty()), ..self }
    }

    /// The report with what waits for people.
    #[must_use]
    pub fn with_waiting(self, started: &Started, requested: &[PersonRequest]) -> Self {
        let waiting =
            requested.iter().map(|requested| PersonRequestReport::new(started, requested)).collect();
        Self { waiting: Some(waiting).filter(|waiting: &Vec<_>| !waiting.is_empty()), ..self }
    }
}

impl PersonRequestReport {
    /// The report of an action that waits, in the run that began with `started`.
    pub fn new(started: &Started, requested: &PersonRequest) -> Self {
        Self {
            action: requested.key.to_string(),
            id: requested.id.to_string(),
            tool: requested.tool.to_string(),
            effect: requested.effect.name().to_owned(),
            question: requested.is_question,
            parameters: json(&requested.parameters),
            why: requested.why.clone(),
            reason: requested.reason.to_string(),
            until_unix_ms: started.unix_ms.saturating_add(requested.deadline.0),
            binding: requested.binding.to_string(),
        }
    }
}

fn stop(outcome: &Outcome) -> StopReport {
    let Certificate { class, primary, also, effects } = &outcome.stop;
    StopReport {
        reason: primary.reason.name().to_owned(),
        class: class.name().to_owned(),
        also: also.iter().map(|condition| condition.reason.name().to_owned()).collect(),
        explanation: explain(&outcome.stop),
        conditions: std::iter::once(primary).chain(also).map(condition).collect(),
        effects: EffectsReport::new(effects),
    }
}

fn condition(condition: &Condition) -> ConditionReport {
    ConditionReport {
        reason: condition.reason.name().to_owned(),
        value: condition.value.to_string(),
        threshold: condition.threshold.as_ref().map(ToString::to_string),
        change: condition.change.as_ref().map(ToString::to_string),
    }
}

fn action(action: &JudgedAction, evidence: &[Returned]) -> ActionReport {
    ActionReport {
        key: action.key.to_string(),
        id: action.action.id.to_string(),
        priority: action.action.priority.name().to_owned(),
        tool: action.tool_name().to_owned(),
        parameters: json(&action.parameters),
        verdict: action.verdict.name().to_owned(),
        verdict_reason: action.reason(evidence),
        repeat: action.verdict.repeat_code().map(str::to_owned),
        reason: action.action.reason.to_string(),
        evidence: action.evidence.map(|id| id.to_string()),
    }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
