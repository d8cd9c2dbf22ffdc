//! The outcome as one JSON object: what `--json` prints and what is saved. Schema: `docs/schema/outcome.schema.json`.

use loop_core::gate::{Condition, Effects, JudgedAction};
use loop_core::run::{
    Cause, CheckRecord, CheckResult, Lack, PassSummary, RunWarning, SaveState, ServedCall, Started,
};
use loop_core::types::{Digest, Slot, Totals};
use loop_core::{Certificate, Evidence as Returned, Outcome, Run, RunSpec};
use loop_prompts::markdown_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::watch::people::PeopleReport;
use crate::watch::served::is_other_model;
use crate::watch::uses::ToolUse;

pub use crate::watch::asked::{
    EffectPlanReport, PersonRequestReport, PlanSlotReport, TracedValue, ValueOrigin, ValuePlace,
};
pub use crate::watch::batch_line::{BatchLine, BatchState};
pub use crate::watch::claims::{ClaimReport, ClaimTotalsReport, marked};
pub use crate::watch::explain::{continued_with, counted, explain, sentence};
pub use crate::watch::parent::{CallerReport, ParentEffectReport, ParentReport};

/// The version of this format.
pub const REPORT_VERSION: u32 = 1;

/// The outcome of a run, for programs: what `--json` prints and what is saved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The version of this format: 1.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The trace id: the caller's, or the run's own id.
    pub trace_id: String,
    /// The id of the trace in which the run's spans are, where it is traced: 32 hexadecimal digits.
    pub otel_trace_id: String,
    /// Who started the run, as the calling program stated it. Absent if not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The work item.
    pub item: Item,
    /// BLAKE3 digest of what the item says: the same for the same work.
    pub item_digest: String,
    /// Why it stopped.
    pub stop: StopReport,
    /// The last stated confidence: `high`, `medium`, `low` or `unknown`.
    pub confidence: String,
    /// The model's reason for it. Empty if it gave none.
    pub confidence_reason: String,
    /// The passes, in their order.
    pub passes: Vec<PassReport>,
    /// The document. Without sections if there is none.
    pub document: Sections,
    /// The final answer of a conversation, or the part of it that was received. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The last output of a run that ends with one. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputReport>,
    /// How many attempts at an output were begun. Absent outside of outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Why the last rejected output was rejected. Absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<RejectionReport>,
    /// What the run was doing when its stop reason was fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_in: Option<StoppedInReport>,
    /// What each tool was used for. Absent if the report was made without the run's entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolUse>>,
    /// The actions that wait for people, in a run that has not ended. Nothing of it is decided or saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Vec<PersonRequestReport>>,
    /// The effects that the run planned. Absent if it has no plan, or if the report was made without the run's entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<EffectPlanReport>,
    /// Requests to people, their answers and their instructions. Absent if there were none, or if the report was made
    /// without the run's entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<PeopleReport>,
    /// What the domain requires and the run does not have. Empty if nothing is missing.
    pub missing: Vec<String>,
    /// The checks of the document, in the order of the passes. Absent if none was demanded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckReport>,
    /// The settled results, by number. Empty if there are none, or if the report was made without them.
    pub evidence: Vec<EvidenceReport>,
    /// The checkable values of the document, each with where it was found, in its order. Absent if the domain does not
    /// look for them, or if the report was made without the run's spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ClaimReport>>,
    /// How many values were found where. Absent where `claims` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_totals: Option<ClaimTotalsReport>,
    /// Every requested action with its verdict.
    pub actions: Vec<ActionReport>,
    /// Every settled model call, in the order of settling: the model that was requested, and the one that served.
    pub calls: Vec<CallReport>,
    /// The program that began the run, with its version. Absent if not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The version of the price table that came with that program. Absent if not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<String>,
    /// The domain's name. Absent if the report was made without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// BLAKE3 digest of the domain as the run had it: settings with those that were overridden, prompts and tools.
    pub domain_hash: String,
    /// The run whose work it continues: of a fork, a retry and a salvaged run. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentReport>,
    /// The run that called it as a tool. Absent: none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_by: Option<CallerReport>,
    /// The settings that the caller gave instead of the domain's, for example on the command line.
    pub overridden: Vec<OverriddenReport>,
    /// Lines for people: another model served than was requested, the selection of tools failed, a client left an option out,
    /// a reply was irregular. Empty if there are none.
    pub warnings: Vec<String>,
    /// Usage and cost of the run.
    pub totals: TotalsReport,
    /// Where the report was saved, or why not. Null if nothing was to be saved.
    pub saved: Option<SavedReport>,
}

/// The work item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// The word for such an item, for example `ticket`.
    pub kind: String,
    /// One line for people.
    pub title: String,
}

/// Why a run stopped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StopReport {
    /// The first true condition in the gate's order. It decided.
    pub reason: String,
    /// `answered`, `partial`, `refused`, `needs_human`, `failed`, `in_doubt` or `cancelled`.
    pub class: String,
    /// The other reasons that were true. Empty if there are none.
    pub also: Vec<String>,
    /// One or two sentences.
    pub explanation: String,
    /// Each true condition with its value, its threshold, and the smallest change under which it would not have been
    /// true.
    pub conditions: Vec<ConditionReport>,
    /// What became of the requested effects.
    pub effects: EffectsReport,
}

/// How many requested effects ended in which way. An effect is a call of a tool that does more than read; the sum is
/// the number of effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectsReport {
    /// They ran, and the tool reports success.
    pub executed: u32,
    /// They ran, and the tool reports failure.
    pub failed: u32,
    /// Policy or an approver denied them.
    pub denied: u32,
    /// They need an approval that was not given, or the tool is not ready yet.
    pub waiting: u32,
    /// They were begun, and whether they happened is unknown.
    pub in_doubt: u32,
    /// They were not begun: a limit, invalid arguments, a repeat, the end of the run.
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
    /// The stop reason that the condition gives.
    pub reason: String,
    /// What the gate found.
    pub value: String,
    /// What the value was compared with. Null if the condition has no threshold.
    pub threshold: Option<String>,
    /// The setting, and the nearest value under which this condition would not have been true. Null if no setting
    /// decides it alone.
    pub change: Option<String>,
}

/// A check of the document of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// The pass, from 1.
    pub pass: u32,
    /// `passed`, `failed`, or `broken` if a checker itself failed.
    pub result: String,
    /// What it found lacking. Empty: nothing.
    pub lacks: Vec<LackReport>,
    /// The checker that is broken. Empty: none is.
    pub by: String,
    /// How it failed. Empty: it did not.
    pub message: String,
}

/// Something that a check found lacking in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LackReport {
    /// The section's id. Empty: the whole document.
    pub section: String,
    /// The sentence, as written. Empty: none in particular.
    pub sentence: String,
    /// The value in it, as written. Empty: none in particular.
    pub value: String,
    /// The evidence that has the value or contradicts it, for example `E1`. Empty: none.
    pub place: Vec<String>,
    /// `contradicted`, `wrong_citation`, `no_such_evidence`, or `own` of a checker of its own.
    pub cause: String,
    /// The checker of its own: `second_opinion`, or a validator's name. Empty: the values were looked for.
    pub by: String,
    /// What a checker of its own says. Empty: there is none.
    pub message: String,
}

impl CheckReport {
    /// The report of a recorded check.
    pub fn new(record: &CheckRecord) -> Self {
        let (lacks, by, message) = match &record.result {
            CheckResult::Passed => (Vec::new(), "", ""),
            CheckResult::Failed { lacks } => (lacks.iter().map(LackReport::new).collect(), "", ""),
            CheckResult::Broken { by, message } => (Vec::new(), &**by, &**message),
        };
        let (by, message) = (by.to_owned(), message.to_owned());
        Self { pass: record.pass, result: record.result.name().to_owned(), lacks, by, message }
    }

    /// The check in one line, for example `failed after pass 1: second_opinion on findings: it says no`.
    pub fn in_words(&self) -> String {
        let what = self.what();
        let colon = if what.is_empty() { "" } else { ": " };
        format!("{} after pass {}{colon}{what}", self.result, self.pass)
    }

    fn what(&self) -> String {
        let lacks = self.lacks.iter().map(LackReport::in_words).collect::<Vec<_>>().join("; ");
        match self.by.is_empty() {
            true => lacks,
            false => format!("{}: {}", self.by, self.message),
        }
    }
}

/// The result of a check in words: the problems, or how a checker is broken. `passed` if it passed.
pub fn check_in_words(result: &CheckResult) -> String {
    match result {
        CheckResult::Passed => result.name().to_owned(),
        result => CheckReport::new(&CheckRecord { pass: 0, result: result.clone() }).what(),
    }
}

impl LackReport {
    fn new(lack: &Lack) -> Self {
        let (cause, by, message) = match &lack.cause {
            Cause::Contradicted => ("contradicted", "", ""),
            Cause::WrongCitation => ("wrong_citation", "", ""),
            Cause::NoSuchEvidence => ("no_such_evidence", "", ""),
            Cause::Own { by, message } => ("own", &**by, &**message),
        };
        Self {
            section: lack.section.to_string(),
            sentence: lack.sentence.to_string(),
            value: lack.value.to_string(),
            place: lack.place.iter().map(ToString::to_string).collect(),
            cause: cause.to_owned(),
            by: by.to_owned(),
            message: message.to_owned(),
        }
    }

    fn in_words(&self) -> String {
        let of = if self.section.is_empty() { "the document" } else { &self.section };
        match self.by.is_empty() {
            true => format!("{} in {of}: {}", self.cause.replace('_', " "), self.value),
            false => format!("{} on {of}: {}", self.by, self.message),
        }
    }
}

/// A pass in the history of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PassReport {
    /// The pass, from 1.
    pub pass: u32,
    /// Whether it was the final pass: the last call, without tools.
    pub final_pass: bool,
    /// The tier that replied: `base`, `escalated` or `fallback`.
    pub tier: String,
    /// The provider that was called.
    pub provider: String,
    /// The model that was requested, by the provider's name for it.
    pub model: String,
    /// The model that served, as the provider reports it. Null if not reported.
    pub served_model: Option<String>,
    /// The stated confidence: `high`, `medium`, `low` or `unknown`.
    pub confidence: String,
    /// The model's reason for it. Empty if it gave none.
    pub confidence_reason: String,
    /// The level by which the gate decided whether the run ends, as evals measured it. Absent: the stated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Ids of the sections that it changed.
    pub changed: Vec<String>,
    /// When its reply was read, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

/// A settled model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallReport {
    /// The call's key: `pass/main`, `pass/repair`, `0/select`, or the action whose tool made it.
    pub call: String,
    /// The try, from 1.
    pub attempt: u32,
    /// The tier that was requested: `selector`, `base`, `escalated` or `fallback`.
    pub tier: String,
    /// The provider that was called.
    pub provider: String,
    /// The model that was requested, by the provider's name for it.
    pub model: String,
    /// The model that served, as the provider reports it. Null if not reported.
    pub served_model: Option<String>,
    /// Whether another model served than was requested. A snapshot of the same model is the same.
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

/// What a person should know of a run, a line each: other models that served its calls, and what was irregular.
pub fn warnings(calls: &[ServedCall], irregular: &[RunWarning]) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    let served = calls.iter().filter_map(|call| CallReport::new(call).warning());
    for warning in served.chain(irregular.iter().map(in_words)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn in_words(warning: &RunWarning) -> String {
    match warning {
        RunWarning::SelectionFailed { why } => {
            format!("the selection of tools failed, and the domain's default tools ran: {why}")
        }
        RunWarning::Call { provider, model, what } => format!("{provider} {model}: {what}"),
        RunWarning::PlanRefused { pass, why } => format!("the plan of pass {pass} was not accepted: {why}"),
        RunWarning::Reply { pass, odd } => {
            // Its name, with what it says besides.
            let Ok(Value::Object(mut members)) = serde_json::to_value(odd) else { return String::new() };
            let name = members.remove("odd").and_then(|name| Some(name.as_str()?.replace('_', " ")));
            let details: Vec<&str> = members.values().filter_map(Value::as_str).collect();
            let details =
                if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
            format!("reply of pass {pass}: {}{details}", name.unwrap_or_default())
        }
    }
}

/// The digest of a domain as a run had it: its spec, its prompts and its tools.
pub fn domain_hash(started: &Started) -> Digest {
    let Started { spec, prompts, tools, .. } = started;
    Digest::of("domain", &[spec.0, prompts.0, tools.0].concat())
}

/// A setting that the caller gave instead of the domain's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverriddenReport {
    /// Its dotted path, for example `limits.passes`, or `profile`.
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
            measured: pass.measured.map(|measured| measured.name().to_owned()),
            changed: pass.changed.iter().map(ToString::to_string).collect(),
            unix_ms: started.unix_ms_at(pass.at),
        }
    }
}

/// A typed output of the model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OutputReport {
    /// The value; a string if the model wrote no JSON.
    pub value: Value,
    /// Whether it passed all validation.
    pub valid: bool,
}

/// Why an output was rejected.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RejectionReport {
    /// `schema`, or the name of the validator.
    pub by: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a run was doing when its stop reason was fixed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StoppedInReport {
    /// The name of the phase, for example `calling` or `acting`.
    pub phase: String,
    /// The pass, from 1; 0 before the first.
    pub pass: u32,
    /// The attempt at an output, from 1; 0 outside of outputs.
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
    /// The section's id, or `preamble` for the text before the first heading.
    #[serde(rename = "type")]
    pub kind: String,
    /// The heading as written, for example `🔍 Situation`.
    pub heading: String,
    /// The heading without its emoji.
    pub heading_text: String,
    /// The emoji of the heading. Empty if it has none.
    pub emoji: String,
    /// The body as Markdown.
    pub body: String,
    /// The pass that last changed it, from 1.
    pub pass: u32,
    /// When that pass's reply was read, in milliseconds since 1970 (UTC).
    pub updated_unix_ms: u64,
    /// The evidence that it cites, for example `E1`. Empty if it cites none.
    pub evidence: Vec<String>,
    /// BLAKE3 digest of the body that it replaced. Null if there was none.
    pub replaced: Option<String>,
}

/// The settled result of an action.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvidenceReport {
    /// Its number, for example `E1`.
    pub id: String,
    /// The tool's own name.
    pub tool: String,
    /// The parameters that the tool received.
    pub parameters: Value,
    /// How it ended, for example `ok` or `empty`.
    pub status: String,
    /// One line for people.
    pub summary: String,
    /// The pass that requested it, from 1; 0 for a tool that was selected before the first pass.
    pub pass: u32,
    /// BLAKE3 digest of the data.
    pub digest: String,
    /// The result as the model read it, in Markdown, cut to `limits.markdown_chars`. Only with all details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// The whole result as data; a string if it is not JSON. Only with all details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// How much of the evidence a report holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceDetail {
    /// Everything: also each result as the model read it, and its data.
    #[default]
    Full,
    /// Tool, parameters, status, summary and digest of each result.
    Summary,
    /// No list of evidence.
    #[serde(rename = "none")]
    Omitted,
}

/// An action with its verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ActionReport {
    /// The action's key, `pass/action-n`.
    pub key: String,
    /// The model's own name for the call.
    pub id: String,
    /// `required`, `recommended` or `nice_to_have`.
    pub priority: String,
    /// The tool's own name, or what the model wrote if no tool was found.
    pub tool: String,
    /// The parameters that were requested.
    pub parameters: Value,
    /// `run`, `unknown_tool`, `invalid_arguments`, `denied`, `duplicate`, `skipped`, `needs_person`,
    /// `over_limit`, `breaker_open`, `one_at_a_time` or `ended`.
    pub verdict: String,
    /// The reason of the verdict, for people.
    pub verdict_reason: String,
    /// The rule that refused a repeat: `limit_exceeded`, `exact_duplicate`, `similar_query`, `same_result`,
    /// `failed_before` or `cycle`. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// The model's reason for the call. Empty if it gave none.
    pub reason: String,
    /// The number of its result. Null if it has none.
    pub evidence: Option<String>,
}

/// Usage and cost of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TotalsReport {
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind, failed tries included.
    pub model_calls: u32,
    /// Tool calls, selected ones included.
    pub tool_calls: u32,
    /// How many of the model calls were sub-calls of smart tools.
    pub sub_calls: u32,
    /// All tokens, input and output.
    pub tokens: u64,
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Whether any of the tokens were estimated, because a provider reported no usage.
    pub estimated: bool,
    /// Cost in US dollars. Null while the price of any call is unknown.
    pub cost_usd: Option<f64>,
    /// Cost in pico-dollars (10⁻¹² USD) of the calls with a known price, exact.
    pub cost_pico_usd: u64,
    /// Milliseconds from start to stop. Waits for people and time without a driver do not count.
    pub wall_ms: u64,
}

/// Where the report was saved, or why not.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SavedReport {
    /// It is saved.
    At {
        /// Where: a path or an address.
        location: String,
    },
    /// It is not saved. The journal holds the run.
    Not {
        /// Why.
        error: String,
    },
}

impl TotalsReport {
    /// The report of these totals.
    pub fn new(totals: &Totals) -> Self {
        let usage = &totals.usage;
        Self {
            passes: totals.passes,
            model_calls: totals.model_calls,
            tool_calls: totals.tool_calls,
            sub_calls: totals.sub_calls,
            tokens: usage.total(),
            input_tokens: usage.total_input(),
            output_tokens: usage.total_output(),
            estimated: usage.estimated,
            cost_usd: totals.cost.total().map(|cost| cost.as_usd()),
            cost_pico_usd: totals.cost.known.0,
            wall_ms: totals.wall_ms,
        }
    }
}

impl Report {
    /// The report of an outcome, with a summary of its evidence.
    pub fn new(started: &Started, outcome: &Outcome) -> Self {
        Self {
            version: REPORT_VERSION,
            run: outcome.run.to_string(),
            trace_id: started.item.trace.as_ref().unwrap_or(&outcome.run.0).to_string(),
            otel_trace_id: started.trace().trace.to_string(),
            caller: started.item.caller.as_ref().map(ToString::to_string),
            item: Item {
                id: started.item.id.to_string(),
                kind: started.item.kind.to_string(),
                title: started.item.title.to_string(),
            },
            item_digest: started.item.digest().to_string(),
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
                        updated_unix_ms: started.unix_ms_at(section.at),
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
            // A run that was recorded before this was known has none.
            stopped_in: Some(&outcome.stopped_in).filter(|it| !it.phase.is_empty()).map(|it| {
                StoppedInReport { phase: it.phase.to_string(), pass: it.pass, attempt: it.attempt }
            }),
            tools: None,
            waiting: None,
            plan: None,
            people: None,
            missing: outcome.missing.iter().map(ToString::to_string).collect(),
            checks: outcome.checks.iter().map(CheckReport::new).collect(),
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
                    markdown: None,
                    data: None,
                })
                .collect(),
            claims: None,
            claim_totals: None,
            actions: outcome.actions.iter().map(|it| action(it, &outcome.evidence)).collect(),
            calls: outcome.calls.iter().map(CallReport::new).collect(),
            program: Some(started.provenance.program.to_string()).filter(|program| !program.is_empty()),
            prices: Some(started.provenance.prices.to_string()).filter(|prices| !prices.is_empty()),
            domain: None,
            domain_hash: domain_hash(started).to_string(),
            parent: ParentReport::of(started),
            called_by: CallerReport::of(started),
            overridden: started
                .provenance
                .overridden
                .iter()
                .map(|it| OverriddenReport { setting: it.setting.to_string(), value: it.value.to_string() })
                .collect(),
            warnings: warnings(&outcome.calls, &outcome.warnings),
            totals: TotalsReport::new(&outcome.totals),
            saved: outcome.saved.as_ref().map(|saved| match saved {
                SaveState::At { location } => SavedReport::At { location: location.to_string() },
                SaveState::Not { message } => SavedReport::Not { error: message.to_string() },
            }),
        }
    }

    /// The report with what each tool was used for, as [`ToolUses`](crate::tools::ToolUses) counts it.
    #[must_use]
    pub fn with_tools(self, tools: Vec<ToolUse>) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// The report with what the run's spec says: the domain's name, and where the values of the document were found.
    #[must_use]
    pub fn with_spec(self, spec: &RunSpec, started: &Started, outcome: &Outcome) -> Self {
        Self { domain: Some(spec.domain.to_string()), ..self }.with_claims(spec, started, outcome)
    }

    /// The report with where the values of the document are found, unless the spec looks for none.
    #[must_use]
    pub fn with_claims(self, spec: &RunSpec, started: &Started, outcome: &Outcome) -> Self {
        let of_section = spec.sections().iter().filter_map(|section| section.grounding);
        let looks = of_section.chain([spec.gate.grounding]).any(|rule| rule.looks());
        let claims = looks.then(|| loop_claims::of_outcome(outcome, spec, started));
        Self {
            claim_totals: claims.as_deref().map(ClaimTotalsReport::of),
            claims: claims.map(|claims| claims.iter().map(ClaimReport::new).collect()),
            ..self
        }
    }

    /// The report with this much of the evidence of `outcome`, of which it is the report.
    #[must_use]
    pub fn with_evidence(mut self, outcome: &Outcome, detail: EvidenceDetail) -> Self {
        match detail {
            EvidenceDetail::Full => {
                for (reported, evidence) in self.evidence.iter_mut().zip(&outcome.evidence) {
                    reported.markdown = Some(markdown_of(&evidence.observation).into_owned());
                    reported.data = Some(json(&evidence.observation.data));
                }
            }
            EvidenceDetail::Summary => {}
            EvidenceDetail::Omitted => self.evidence.clear(),
        }
        self
    }

    /// The report with the requests to people, their answers and their instructions.
    #[must_use]
    pub fn with_people(self, people: PeopleReport) -> Self {
        Self { people: Some(people).filter(|people| !people.is_empty()), ..self }
    }

    /// The report with the run's plan, and what waits for people in it. `manifest` is that of its tools.
    #[must_use]
    pub fn with_run(self, run: &Run, manifest: &str) -> Self {
        let waiting = PersonRequestReport::all(run, manifest);
        let plan = EffectPlanReport::of(run);
        Self { waiting: Some(waiting).filter(|waiting| !waiting.is_empty()), plan, ..self }
    }
}

fn stop(outcome: &Outcome) -> StopReport {
    let stop @ Certificate { class, primary, also, effects, style: _ } = &outcome.stop;
    let all = std::iter::once(primary).chain(also);
    StopReport {
        reason: stop.name().to_owned(),
        class: class.name().to_owned(),
        also: also.iter().map(|condition| stop.name_of(condition).to_owned()).collect(),
        explanation: explain(stop),
        conditions: all.map(|it| condition(stop.name_of(it), it)).collect(),
        effects: EffectsReport::new(effects),
    }
}

fn condition(name: &str, condition: &Condition) -> ConditionReport {
    ConditionReport {
        reason: name.to_owned(),
        value: condition.value.to_string(),
        threshold: condition.threshold.as_ref().map(ToString::to_string),
        change: condition.change.as_ref().map(ToString::to_string),
    }
}

/// An action as it was judged, with what was returned for it.
pub fn action(action: &JudgedAction, evidence: &[Returned]) -> ActionReport {
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
