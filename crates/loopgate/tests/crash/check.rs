//! What must hold when the runs of a case are over, from the journal, the acknowledgements and the server's count.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::Run;
use loop_core::types::Status;
use loop_runtime::{
    Outcome, StopReason,
    journal::{Entry, Journal as _, Recorded, StoredJournal, replay},
    run::{EventKind, RunId, StopClass},
};
use serde_json::Value;

use crate::case::Played;
use crate::journal::hash_of;
use crate::scenarios::{is_effect, is_repeatable};
use crate::server::Hit;

/// What a case came to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Entries of the journal.
    pub entries: u64,
    /// Entries that were acknowledged.
    pub acknowledged: u64,
    /// Effects on the server.
    pub effects: u64,
    /// Effects whose outcome is unknown to their run.
    pub in_doubt: u64,
    /// How each item's run ended, where nothing is in doubt.
    pub ends: BTreeMap<String, Value>,
}

/// Checks a case that was played to its end. Problems are added to its own. An item `*` is the only one, whatever its name,
/// and the server knows it by no name.
pub fn check(played: &mut Played, items: &[&str]) -> Found {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut found =
        Found { acknowledged: played.acks.values().map(|acks| acks.len() as u64).sum(), ..Found::default() };
    let (runs, mut problems) = runtime.block_on(read(played));
    let hits = played.server.hits();
    for (run, acks) in &played.acks {
        if !runs.iter().any(|(_, id, _)| *id.0 == **run) {
            problems.push(format!("run {run} is lost, with {} acknowledged entries", acks.len()));
        }
    }
    for item in items {
        let of_item: Vec<_> = runs.iter().filter(|(of, _, _)| of == item || *item == ANY).collect();
        let [(_, run, recorded)] = of_item[..] else {
            problems.push(format!("item {item} has {} runs", of_item.len()));
            continue;
        };
        found.entries += recorded.entries.len() as u64;
        let acks = played.acks.get(&*run.0).cloned().unwrap_or_default();
        problems.extend(lost(run, &acks, &recorded.entries));
        problems.extend(recorded.unverified.iter().map(|why| format!("run {run}: {why}")));
        // I-11: the decisions follow from the events.
        let state = match replay(run, recorded) {
            Ok(state) => state,
            Err(error) => {
                problems.push(format!("I-11: {error}"));
                continue;
            }
        };
        let Some(outcome) = state.outcome() else {
            problems.push(format!("run {run} has no end: {}", state.phase().name()));
            continue;
        };
        let of_run: Vec<&Hit> = hits.iter().filter(|hit| hit.item == *item || *item == ANY).collect();
        problems.extend(effects(&state, outcome, &recorded.entries, &of_run, played.kills + played.failures));
        found.in_doubt += u64::from(outcome.stop.effects.in_doubt);
        let is_known = outcome.stop.class != StopClass::InDoubt;
        if is_known || outcome.stop.effects.in_doubt == 0 {
            found.ends.insert((*item).to_owned(), end_of(outcome));
        }
        if is_known && outcome.stop.reason() == StopReason::StorageFailed {
            problems.push(format!("run {run} ended with a journal that works"));
        }
    }
    found.effects = hits.iter().filter(|hit| hit.applied && is_effect(&hit.tool)).count() as u64;
    let foreign = hits.iter().filter(|hit| !items.contains(&&*hit.item) && *items != [ANY]);
    problems.extend(foreign.map(|hit| format!("a request of no run: {hit:?}")));
    played.problems.extend(problems);
    found
}

/// The item of a case with one run, by whatever name.
pub const ANY: &str = "*";

async fn read(played: &Played) -> (Vec<(String, RunId, Recorded)>, Vec<String>) {
    let journal = match StoredJournal::open_existing(&played.journal) {
        Ok(journal) => journal,
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let (mut runs, mut problems) = (Vec::new(), Vec::new());
    match journal.runs().await {
        Ok(lines) => {
            for line in lines {
                problems.extend(line.trouble.iter().map(|trouble| format!("run {}: {trouble}", line.run)));
                match journal.read(&line.run).await {
                    Ok(recorded) => runs.push((line.item.to_string(), line.run, recorded)),
                    Err(error) => problems.push(error.to_string()),
                }
            }
        }
        Err(error) => problems.push(error.to_string()),
    }
    (runs, problems)
}

/// I-13: every acknowledged entry is in the journal, as it was.
fn lost(run: &RunId, acks: &BTreeMap<u64, String>, entries: &[Entry]) -> Vec<String> {
    let missing = acks.iter().filter_map(|(seq, hash)| {
        let entry = usize::try_from(*seq).ok().and_then(|seq| entries.get(seq));
        match entry {
            None => Some(format!("I-13: entry {seq} of run {run} was acknowledged and is lost")),
            Some(entry) if hash_of(entry) != *hash && printed(entry) != *hash => {
                Some(format!("I-13: entry {seq} of run {run} was acknowledged and is another now"))
            }
            Some(_) => None,
        }
    });
    missing.collect()
}

/// The event of an entry as the command prints it.
fn printed(entry: &Entry) -> String {
    serde_json::to_value(&entry.event.kind).unwrap().to_string()
}

/// I-6, I-7, I-25: what the server did, compared with what the run knows.
fn effects(state: &Run, outcome: &Outcome, entries: &[Entry], hits: &[&Hit], ends: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let announced: BTreeSet<String> = entries
        .iter()
        .filter_map(|entry| match &entry.event.kind {
            EventKind::ToolStarted { key, .. } => Some(key.to_string()),
            _ => None,
        })
        .collect();
    // What each requested effect came to, by tool and target. Of one that was requested again, what it came to at last: a
    // repeat of what is done came to nothing more.
    let mut statuses: BTreeMap<(String, String), (String, Option<Status>)> = BTreeMap::new();
    for action in state.actions().iter().filter(|action| is_effect(action.tool_name())) {
        let target = serde_json::from_str::<Value>(&action.parameters).unwrap()["target"].clone();
        let target = target.as_str().unwrap_or_default().to_owned();
        let observed = outcome.evidence.iter().find(|evidence| Some(evidence.id) == action.evidence);
        let status = observed.map(|evidence| evidence.observation.status);
        let of_effect = (action.tool_name().to_owned(), target);
        if !matches!(statuses.get(&of_effect), Some((_, Some(Status::Ok | Status::InDoubt)))) {
            // Another try has the key of the first.
            let key = observed.map_or(action.key, |evidence| evidence.key);
            statuses.insert(of_effect, (key.to_string(), status));
        }
    }
    let mut by_effect: BTreeMap<(String, String), Vec<&Hit>> = BTreeMap::new();
    for hit in hits.iter().copied().filter(|hit| is_effect(&hit.tool)) {
        by_effect.entry((hit.tool.clone(), hit.target.clone())).or_default().push(hit);
    }
    for ((tool, target), hits) in &by_effect {
        let name = format!("{tool}({target})");
        let applied = hits.iter().filter(|hit| hit.applied).count();
        let keys: BTreeSet<_> = hits.iter().map(|hit| &hit.key).collect();
        if keys.len() > 1 {
            problems.push(format!("I-6: {name} was requested under {} keys", keys.len()));
        }
        if !is_repeatable(tool) && applied > 1 {
            problems.push(format!("I-7: {name} happened {applied} times"));
        }
        if is_repeatable(tool) && applied as u64 > 1 + ends {
            problems
                .push(format!("I-6: {name} was requested {applied} times, with {ends} ends of a process"));
        }
        if tool == "save" {
            continue;
        }
        let Some((key, status)) = statuses.get(&(tool.clone(), target.clone())) else {
            problems.push(format!("I-25: {name} happened and was not decided"));
            continue;
        };
        if !announced.contains(key) {
            problems.push(format!("I-25: {name} happened and was not announced"));
        }
        if applied > 0 && !matches!(status, Some(Status::Ok | Status::InDoubt)) {
            problems.push(format!("{name} happened, and the run says {status:?}"));
        }
    }
    for ((tool, target), (_, status)) in &statuses {
        let happened = by_effect.get(&(tool.clone(), target.clone()));
        let happened = happened.is_some_and(|hits| hits.iter().any(|hit| hit.applied));
        if *status == Some(Status::Ok) && !happened {
            problems.push(format!("{tool}({target}) did not happen, and the run says that it did"));
        }
        if is_repeatable(tool) && *status == Some(Status::InDoubt) && ends < 3 {
            problems.push(format!("{tool}({target}) may be repeated, and is in doubt"));
        }
    }
    problems
}

/// What two runs of a scenario have in common, however often they were interrupted.
fn end_of(outcome: &Outcome) -> Value {
    let evidence: Vec<Value> = outcome
        .evidence
        .iter()
        .map(|found| {
            serde_json::json!([found.key.to_string(), found.tool, found.parameters, found.observation.status])
        })
        .collect();
    serde_json::json!({
        "reason": outcome.stop.reason().to_string(), "class": format!("{:?}", outcome.stop.class),
        "document": outcome.document.to_markdown(), "answer": outcome.answer,
        "output": outcome.output, "attempts": outcome.attempts, "passes": outcome.passes.len(),
        "evidence": evidence, "saved": outcome.saved.is_some(),
    })
}
