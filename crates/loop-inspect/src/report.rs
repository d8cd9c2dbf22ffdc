//! One run for an auditor: what it cost, why it stopped, what it did and read, who approved it, and whether it is whole.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::gate::JudgedAction;
use loop_core::types::{Approver, CommandKey, Cost, RunId, Tier, Usage};
use loop_core::{Command, Evidence, Note, Run};
use loop_runtime::journal::{Recorded, replay};
use loop_runtime::people::{ApproverReport, PeopleReport, PersonRequestRecord};
use loop_runtime::report::{Report, counted, domain_hash, explain};
use loop_runtime::run::StartError;
use loop_runtime::tools::connects_to;
use schemars::JsonSchema;
use serde::Serialize;

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
    /// What the page says, a part for each question, in order.
    pub parts: Vec<ReportPart>,
    /// The outcome, with a summary of its evidence and what people had to do with it. Null: the run has not ended.
    pub outcome: Option<Report>,
    /// Whether the journal's chain, each decision and every invariant hold: what `loopgate verify` finds.
    pub verify: RunAudit,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportPart {
    /// The question, for example `Why it stopped`.
    pub title: String,
    /// The entries, at least one.
    pub entries: Vec<ReportEntry>,
}

/// An entry of an answer. Its texts hold what models, tools and people wrote, so escape them before showing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportEntry {
    /// What it is about, in one line.
    pub text: String,
    /// What is known of it, a line each. Empty if the text says all.
    pub lines: Vec<String>,
}

impl RunReport {
    /// The report of a recorded run. `time` writes a wall time in milliseconds since 1970 (UTC).
    ///
    /// # Errors
    /// If the entries do not follow from each other.
    pub fn of(run: &RunId, recorded: &Recorded, time: fn(u64) -> String) -> Result<Self, StartError> {
        let state = replay(run, recorded)?;
        let (started, people) = (state.started(), PeopleReport::of(recorded));
        let verify = RunAudit::of_recorded(run, recorded);
        let (item, provenance) = (&started.item, &started.provenance);
        let begun = format!("begun {} UTC by {}", time(started.unix_ms), provenance.program);
        let instructions = people.instructions.iter().map(|it| {
            let text = format!("instruction, from pass {} on, of {} UTC", it.from_pass, time(it.unix_ms));
            entry(text, [it.text.clone()])
        });
        let work = entry(format!("{} {}: {}", item.kind, item.id, item.title), [begun]);
        let waits = !state.requested().is_empty();
        let label = Some(&state.spec().gate.label).filter(|label| !label.is_empty());
        let set = provenance
            .overridden
            .iter()
            .map(|it| format!("set by the caller: {} = {}", it.setting, it.value));
        let decided = [
            entry(format!("digest {}", started.policy), label.map(|label| format!("label {label}"))),
            entry(format!("domain {} {}", state.spec().domain, domain_hash(started)), set),
        ];
        let parts = vec![
            part("Work item", "", std::iter::once(work).chain(instructions)),
            part(
                "Why it stopped",
                if waits { "it waits for a person" } else { "it has not ended" },
                stop(&state),
            ),
            part("What it cost", "", cost(&state, recorded)),
            part("What it did", "nothing but reads", effects(&state, &recorded.manifest)),
            part("Who approved what", "no person was asked", approvals(&state, &people, time)),
            part("Under which policy", "", decided),
            part("What it read", "nothing but the work item", evidence(&state, &recorded.manifest)),
            part("Whether the record is whole: chain, decisions, invariants", "", [whole(&verify)]),
        ];
        let outcome = state.outcome().map(|it| Report::new(started, it).with_people(people));
        Ok(Self { version: RUN_REPORT_VERSION, run: run.to_string(), parts, outcome, verify })
    }
}

fn part(title: &str, none: &str, entries: impl IntoIterator<Item = ReportEntry>) -> ReportPart {
    let mut entries: Vec<ReportEntry> = entries.into_iter().collect();
    if entries.is_empty() {
        entries.push(entry(none.to_owned(), []));
    }
    ReportPart { title: title.to_owned(), entries }
}

fn entry(text: String, lines: impl IntoIterator<Item = String>) -> ReportEntry {
    ReportEntry { text, lines: lines.into_iter().collect() }
}

fn stop(state: &Run) -> Option<ReportEntry> {
    let stop = &state.outcome()?.stop;
    let conditions = std::iter::once(&stop.primary).chain(&stop.also).map(|it| match &it.threshold {
        Some(threshold) => format!("{}: {} against {threshold}", stop.name_of(it), it.value),
        None => format!("{}: {}", stop.name_of(it), it.value),
    });
    Some(entry(format!("{} ({}). {}", stop.name(), stop.class.name(), explain(stop)), conditions))
}

/// The whole cost, then that of each tier and model, with the keys of the calls.
fn cost(state: &Run, recorded: &Recorded) -> Vec<ReportEntry> {
    let (totals, calls) = (state.totals(), state.model_calls());
    let all = format!(
        "{}: {}, {}, {}",
        totals.cost,
        counted(totals.passes, "pass"),
        counted(totals.tool_calls, "tool call"),
        used(&totals.usage)
    );
    let mut models: BTreeMap<(Tier, String), (Cost, Usage, Vec<String>)> = BTreeMap::new();
    for note in recorded.entries.iter().flat_map(|entry| &entry.notes) {
        let Note::CallCharged { key, attempt, tier, usage, cost } = note else { continue };
        // A sub-call has the key of its action.
        let call = calls.iter().find(|call| (&call.key, &call.attempt, &call.tier) == (key, attempt, tier));
        let of_tier = state.spec().model(*tier);
        let (provider, model) =
            call.map_or((&of_tier.provider, &of_tier.model), |it| (&it.provider, &it.model));
        let served = call.and_then(|call| call.served_model.as_ref()).filter(|served| *served != model);
        let served = served.map_or_else(String::new, |served| format!(", served by {served}"));
        let (spent, tokens, keys) = models.entry((*tier, format!("{provider} {model}{served}"))).or_default();
        spent.add(*cost);
        *tokens = tokens.plus(usage);
        keys.push(if *attempt == 1 { key.to_string() } else { format!("{key} (try {attempt})") });
    }
    let model = |((tier, model), (spent, tokens, keys)): ((Tier, String), (Cost, Usage, Vec<String>))| {
        let calls = counted(keys.len() as u64, "call");
        let text = format!("{} {model}: {spent}, {calls}, {}", tier.name(), used(&tokens));
        entry(text, [format!("calls {}", keys.join(", "))])
    };
    let notes = recorded.entries.iter().flat_map(|entry| &entry.notes);
    let below = notes.filter_map(|note| {
        let Note::LeaseCharged { key, used } = note else { return None };
        let run = used.run.as_ref().map_or("its whole lease", |run| run.as_str());
        let calls = counted(used.model_calls, "model call");
        Some(entry(format!("run {run}: {}, {calls}, called by {key}", used.cost), []))
    });
    std::iter::once(entry(all, [])).chain(models.into_iter().map(model)).chain(below).collect()
}

fn used(usage: &Usage) -> String {
    let estimated = if usage.estimated { " (in part estimated)" } else { "" };
    format!("{} input and {} output tokens{estimated}", usage.total_input(), usage.total_output())
}

/// The state of an action that was begun.
pub const BEGUN: &str = "begun, its outcome is not recorded";

/// The actions that were begun and whose outcome is not recorded: each runs, or its driver was lost in it.
pub fn begun(state: &Run) -> BTreeSet<CommandKey> {
    let key = |it: Command| match it {
        Command::RunTool(tool) if tool.announced => Some(tool.key),
        _ => None,
    };
    state.commands().into_iter().filter_map(key).collect()
}

/// The requested calls of tools that do more than read.
fn effects(state: &Run, manifest: &str) -> Vec<ReportEntry> {
    let begun = begun(state);
    let waiting: BTreeSet<CommandKey> = state.requested().iter().map(|it| it.key).collect();
    let of_action = |judged: &std::sync::Arc<JudgedAction>| {
        let (tool, parameters) = (judged.tool_name(), &judged.parameters);
        let effect = state.spec().tool(tool).map(|tool| tool.effect).filter(|effect| !effect.is_read())?;
        let result = judged.evidence.and_then(|id| Evidence::find(state.evidence(), id));
        let ended = match result {
            Some(it) => it.observation.status.name(),
            None if begun.contains(&judged.key) => BEGUN,
            None if waiting.contains(&judged.key) => "waits for a person",
            None => "did not run",
        };
        let mut lines: Vec<String> =
            connects_to(manifest, tool).iter().map(|it| format!("target: {it}")).collect();
        lines.push(format!("parameters: {parameters}"));
        lines.push(format!("verdict {}: {}", judged.verdict.name(), judged.reason(state.evidence())));
        lines.extend(result.map(|it| format!("result {}: {}", it.id, it.observation.summary)));
        Some(entry(format!("{} {tool} ({}): {ended}", judged.key, effect.name()), lines))
    };
    state.actions().iter().filter_map(of_action).collect()
}

fn approvals(state: &Run, people: &PeopleReport, time: fn(u64) -> String) -> Vec<ReportEntry> {
    let by = |by: &ApproverReport| {
        let (account, user) = (by.account.as_str().into(), by.user.as_str().into());
        let by_whom = Approver { account, user, claim: by.unverified_claim.as_deref().map(Into::into) };
        format!("approved by {by_whom} at {} UTC", time(by.unix_ms))
    };
    let open = state.requested();
    let request = |it: &PersonRequestRecord| {
        let action = state.actions().iter().find(|action| action.key.to_string() == it.action);
        let mut lines = vec![format!("parameters: {}", it.parameters)];
        lines.extend(it.approvers.iter().map(by));
        lines.extend(it.text.iter().map(|text| format!("text: {text}")));
        lines.push(format!("asked at {} UTC because: {}", time(it.requested_unix_ms), it.why));
        let binding = action.and_then(|action| state.binding(&action.key));
        lines.extend(binding.map(|binding| format!("binding {binding}")));
        let waiting = open.iter().find(|open| open.key.to_string() == it.action);
        let answer = match (it.answer.as_deref(), waiting) {
            (Some(answer), _) => answer.to_owned(),
            (None, Some(open)) => format!("waits, approved by {} of {}", it.approvers.len(), open.approvals),
            (None, None) => "not answered".to_owned(),
        };
        if matches!(&*answer, "denied" | "answered") {
            lines
                .push(format!("by whom it was {answer} is in the audit log of a server, not in the journal"));
        }
        let at = it.answered_unix_ms.map_or_else(String::new, |at| format!(" at {} UTC", time(at)));
        entry(format!("{} {}: {answer}{at}", it.action, it.tool), lines)
    };
    people.requested.iter().map(request).collect()
}

fn evidence(state: &Run, manifest: &str) -> Vec<ReportEntry> {
    let of_result = |it: &loop_core::Evidence| {
        let policy = state.spec().tool(&it.tool).map(|tool| &tool.policy);
        let untrusted = policy.filter(|policy| policy.returns_untrusted).map_or("", |_| " untrusted");
        let private = policy.filter(|policy| policy.reads_private).map_or("", |_| " private");
        let mut lines: Vec<String> =
            connects_to(manifest, &it.tool).iter().map(|it| format!("from: {it}")).collect();
        lines.push(format!("parameters: {}", it.parameters));
        lines.push(format!("{}; digest {}", it.observation.summary, it.observation.digest));
        entry(format!("{} {}: {}{untrusted}{private}", it.id, it.tool, it.observation.status.name()), lines)
    };
    state.evidence().iter().map(of_result).collect()
}

fn whole(audit: &RunAudit) -> ReportEntry {
    let findings = audit.findings.iter().map(|it| format!("{}; {}", it.message, it.next));
    let ok = if audit.ok { "ok" } else { "not whole" };
    entry(format!("{ok}: {}", counted(audit.entries, "entry")), findings)
}
