//! One run for an auditor: what it cost, why it stopped, what it did and read, who approved it, and whether it is whole.

use std::collections::BTreeMap;

use loop_core::types::{Cost, Millis, PicoUsd, Price, RunId, Status, Tier, Usage};
use loop_core::{Note, Run};
use loop_runtime::journal::Recorded;
use loop_runtime::journal::audit::{AuditAction, AuditLine, AuditResult};
use loop_runtime::people::{ApproverReport, PeopleReport, PersonRequestRecord, waits};
use loop_runtime::report::{Report, counted, domain_hash, explain};
use loop_runtime::tools::connects_to;
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::RunAudit;
use crate::called::CalledRun;
use crate::effects::{EffectRow, approved_by, effects_of_all, state_of};
use crate::policy::policy_in_words;
use crate::why::LimitUse;

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
    /// The report of a run, as far as its entries can be read and follow from each other. `verify` says what is wrong with
    /// the others, `called` are the runs below it, `audit` says who decided through a server in any of them; `time` writes a wall time in milliseconds since 1970 (UTC).
    pub fn of(
        run: &RunId,
        recorded: Option<&Recorded>,
        called: &[CalledRun],
        verify: RunAudit,
        audit: &[AuditLine],
        time: fn(u64) -> String,
    ) -> Self {
        let whole = part(WHOLE, "", [whole(&verify)]);
        let known = recorded.and_then(|recorded| Some((recorded, state_of(recorded)?)));
        let Some((recorded, state)) = known else {
            let (run, version) = (run.to_string(), RUN_REPORT_VERSION);
            return Self { version, run, parts: vec![whole], outcome: None, verify };
        };
        let (started, people) = (state.started(), PeopleReport::of(recorded));
        let (item, provenance) = (&started.item, &started.provenance);
        let last = recorded.entries.last().map_or(Millis(0), |entry| entry.event.at);
        let ended = if state.is_done() { "ended" } else { "not ended, last entry" };
        let times = [
            format!("begun {} UTC by {}", time(started.unix_ms), provenance.program),
            format!("{ended} {} UTC, {} s later", time(started.unix_ms_at(last)), last.in_seconds()),
        ];
        let instructions = people.instructions.iter().map(|it| {
            let text = format!("instruction, from pass {} on, of {} UTC", it.from_pass, time(it.unix_ms));
            entry(text, [it.text.clone()])
        });
        let by = provenance.called_by.as_deref();
        let by = by.map(|by| format!("called by {} of run {}, part of run {}", by.key, by.run, by.root));
        let work = entry(format!("{} {}: {}", item.kind, item.id, item.title), times.into_iter().chain(by));
        let (rules, tools) = policy_in_words(state.spec());
        let tools = tools.iter().map(|row| {
            let cells: Vec<&str> = row.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            format!("{}{}", if row[0].is_empty() { "  " } else { "" }, cells.join(": "))
        });
        let label = Some(&state.spec().gate.label).filter(|label| !label.is_empty());
        let label = label.map(|label| format!("label {label}"));
        let set = provenance
            .overridden
            .iter()
            .map(|it| format!("set by the caller: {} = {}", it.setting, it.value));
        let decided = [
            entry(format!("digest {}", started.policy), label.into_iter().chain(rules).chain(tools)),
            entry(format!("domain {} {}", state.spec().domain, domain_hash(started)), set),
        ];
        let did = effects_of_all(&state, recorded, called);
        let mut approved = approvals(&state, &people, audit, time);
        for CalledRun { run, recorded } in called {
            let Some(state) = state_of(recorded) else { continue };
            let below = approvals(&state, &PeopleReport::of(recorded), audit, time);
            approved.extend(below.into_iter().map(|it| entry(format!("run {run}: {}", it.text), it.lines)));
        }
        let parts = vec![
            part("Work item", "", std::iter::once(work).chain(instructions)),
            part(
                "Why it stopped",
                if waits(&state, recorded.now()) { "it waits for a person" } else { "it has not ended" },
                stop(&state),
            ),
            part("What it cost", "", cost(&state, recorded)),
            part("What it did", "nothing but reads", did.into_iter().map(effect)),
            part("Who approved what", "no person was asked", approved),
            part("Under which policy", "", decided),
            part("What it read", "nothing but the work item", evidence(&state, &recorded.manifest)),
            whole,
        ];
        let outcome = state.outcome().map(|it| Report::new(started, it).with_people(people));
        Self { version: RUN_REPORT_VERSION, run: run.to_string(), parts, outcome, verify }
    }
}

const WHOLE: &str = "Whether the record is whole: chain, decisions, invariants";

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
    let limits = LimitUse::of(state).into_iter();
    let limits = limits.map(|it| format!("{}: {}", it.setting, it.in_words()));
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
        let of_tier = state.spec().model(tier);
        let own = format!("{} {}", of_tier.provider, of_tier.model);
        let price = of_tier.price.as_ref().filter(|_| model.split(", served by ").next() == Some(&own));
        let calls = counted(keys.len() as u64, "call");
        let text = format!("{} {model}: {spent}, {calls}, {}", tier.name(), used(&tokens));
        let calls = format!("calls {}", keys.join(", "));
        entry(text, price.map(price_in_words).into_iter().chain([calls]))
    };
    let notes = recorded.entries.iter().flat_map(|entry| &entry.notes);
    let below = notes.filter_map(|note| {
        let Note::LeaseCharged { key, used } = note else { return None };
        let run = used.run.as_ref().map_or("its whole lease", |run| run.as_str());
        let calls = counted(used.model_calls, "model call");
        Some(entry(format!("run {run}: {}, {calls}, called by {key}", used.cost), []))
    });
    std::iter::once(entry(all, limits)).chain(models.into_iter().map(model)).chain(below).collect()
}

/// A price for people, for a million tokens.
pub fn price_in_words(price: &Price) -> String {
    let million = |per_token: u64| PicoUsd(per_token.saturating_mul(1_000_000));
    let caches = [("cache read", price.cache_read), ("cache write", price.cache_write)];
    let rates = [("input", Some(price.input)), ("output", Some(price.output))].into_iter().chain(caches);
    let rates = rates.filter_map(|(name, rate)| Some(format!("{name} {}", million(rate?))));
    let above = if price.above.is_empty() { "" } else { "; another price for a large input" };
    format!("price of a million tokens: {}{above}", rates.collect::<Vec<_>>().join(", "))
}

fn used(usage: &Usage) -> String {
    let estimated = if usage.estimated { " (in part estimated)" } else { "" };
    format!("{} input and {} output tokens{estimated}", usage.total_input(), usage.total_output())
}

fn effect(row: EffectRow) -> ReportEntry {
    let EffectRow { run, action, tool, effect, target, parameters, evidence, state, decided, result, .. } =
        row;
    let run = run.map_or_else(String::new, |run| format!("run {run}: "));
    let mut lines: Vec<String> = target.iter().map(|it| format!("target: {it}")).collect();
    lines.extend(parameters.map(|it| format!("parameters: {it}")));
    lines.push(format!("decided: {decided}"));
    lines.extend(result.map(|it| format!("result {}: {it}", evidence.unwrap_or_default())));
    entry(format!("{run}{action} {tool} ({effect}): {state}"), lines)
}

fn approvals(
    state: &Run,
    people: &PeopleReport,
    audit: &[AuditLine],
    time: fn(u64) -> String,
) -> Vec<ReportEntry> {
    let by = |by: &ApproverReport| {
        format!("{} at {} UTC", approved_by(std::slice::from_ref(by)), time(by.unix_ms))
    };
    // The journal itself has no account for these answers.
    let server = |it: &PersonRequestRecord| {
        let mut entries =
            audit.iter().rev().filter(|line| line.sealed).filter_map(|line| line.entry.as_ref());
        let said = entries.find(|entry| {
            let is_kind = matches!(entry.action, AuditAction::Deny | AuditAction::Answer);
            let is_it = entry.key.as_deref() == Some(&*it.action) && entry.unix_ms >= it.requested_unix_ms;
            let is_here = entry.run.as_ref().is_none_or(|run| run == state.id());
            is_kind && is_it && is_here && entry.result == AuditResult::Done
        })?;
        let who = if said.who.is_empty() { "an unknown caller" } else { &said.who };
        Some(format!("{who} ({}) from {} at {} UTC", said.account, said.from, time(said.unix_ms)))
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
            let by = server(it).unwrap_or_else(|| "a person whose name is not recorded".into());
            lines.push(format!("{answer} by {by}"));
        }
        let at = it.answered_unix_ms.map_or_else(String::new, |at| format!(" at {} UTC", time(at)));
        entry(format!("{} {}: {answer}{at}", it.action, it.tool), lines)
    };
    people.requested.iter().map(request).collect()
}

fn evidence(state: &Run, manifest: &str) -> Vec<ReportEntry> {
    let of_result = |it: &loop_core::Evidence| {
        let taint = it.taint(state.spec());
        let untrusted = if taint.untrusted { " untrusted" } else { "" };
        let private = if taint.private { " private" } else { "" };
        let mut lines: Vec<String> =
            connects_to(manifest, &it.tool).iter().map(|it| format!("from: {it}")).collect();
        lines.push(format!("parameters: {}", it.parameters));
        lines.push(format!("{}; digest {}", it.observation.summary, it.observation.digest));
        entry(format!("{} {}: {}{untrusted}{private}", it.id, it.tool, it.observation.status.name()), lines)
    };
    // The denial of an effect is no text that was read.
    let is_read = |it: &&loop_core::Evidence| {
        it.observation.status != Status::Denied
            || state.spec().tool(&it.tool).is_none_or(|tool| tool.effect.is_read())
    };
    state.evidence().iter().filter(is_read).map(of_result).collect()
}

fn whole(audit: &RunAudit) -> ReportEntry {
    let findings = audit.findings.iter().map(|it| format!("{}; {}", it.message, it.next));
    let ok = if audit.ok { "ok" } else { "not whole" };
    entry(format!("{ok}: {}", counted(audit.entries, "entry")), findings)
}
