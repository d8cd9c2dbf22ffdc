//! Owed effects that did not happen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::{DeniedBy, Verdict};
use crate::spec::RunSpec;
use crate::types::{CommandKey, Evidence, EvidenceId, Priority, Status, is_default};

/// The maximum number of results that an effect names as its sources.
const MAX_SOURCES: usize = 5;

/// An owed effect that did not happen. A run owes the effects that its model requested: a document those with the
/// priority `required`, a conversation and an output every one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotDone {
    /// The key of the action.
    pub key: CommandKey,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Why it did not happen.
    pub why: WhyNotDone,
    /// Whether the run has a plan, and the denied call fits no slot of it, so that the user did not request it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unplanned: bool,
    /// The last results of untrusted tools that the model had read before it requested the effect, at most five. Empty:
    /// it had read none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<EvidenceId>,
}

/// Why an owed effect did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNotDone {
    /// Policy or an approver denied it.
    Denied,
    /// No approver answered in time.
    Expired,
    /// It was not begun for another reason: a limit, an open breaker, no approver to ask, the end of the run.
    NotAdmitted,
    /// The action calls a run as a tool, and that run left an owed effect undone.
    Below,
}

impl WhyNotDone {
    /// The cause in words, after the name of the effect.
    pub fn words(self) -> &'static str {
        match self {
            Self::Denied => "was denied",
            Self::Expired => "was not approved in time",
            Self::NotAdmitted => "was not begun",
            Self::Below => "left an effect of its own undone",
        }
    }
}

impl fmt::Display for NotDone {
    /// For example `book_visit was denied (asked for after untrusted results E2, E3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tool, self.why.words())?;
        let sources: Vec<String> = self.sources.iter().map(ToString::to_string).collect();
        match sources.len() {
            0 => Ok(()),
            1 => write!(f, " (asked for after untrusted result {})", sources.join("")),
            _ => write!(f, " (asked for after untrusted results {})", sources.join(", ")),
        }
    }
}

/// The owed effects among `actions` that did not happen, each once, in request order. `evidence` holds their results.
///
/// An effect is owed until it ran, whatever it returned, until an earlier result answered it, or until the same tool ran
/// later. A run that is called as a tool is one if it owed one itself that did not happen, until the same call left none.
/// An action that names no tool or has invalid arguments is not an effect: the model reads why, and may correct or drop it.
pub(crate) fn not_done(
    spec: &RunSpec,
    has_plan: bool,
    actions: &[&JudgedAction],
    evidence: &[Evidence],
) -> Vec<NotDone> {
    let result = |id: Option<EvidenceId>| id.and_then(|id| Evidence::find(evidence, id));
    let effect = |action: &JudgedAction| {
        let tool = spec.tool(action.tool.as_deref()?)?;
        let is_run = || result(action.evidence).is_some_and(|it| it.observation.child.is_some());
        (!tool.effect.is_read() && !tool.policy.asks_person || tool.policy.lease.is_some() && is_run())
            .then_some(tool)
    };
    let effects: Vec<&JudgedAction> = actions.iter().filter(|it| effect(it).is_some()).copied().collect();
    if effects.is_empty() {
        return Vec::new();
    }
    let left_undone = |it: &Evidence| it.observation.child.as_ref().is_some_and(|child| child.undone);
    let is_run = |id: Option<EvidenceId>| {
        result(id).is_some_and(|it| was_made(it.observation.status) && !left_undone(it))
    };
    let has_run = |action: &JudgedAction| action.verdict == Verdict::Run && is_run(action.evidence);
    let call = |action: &JudgedAction| (action.tool.clone(), Arc::clone(action.parameters.text()));
    let ran: BTreeSet<_> = effects.iter().filter(|it| has_run(it)).map(|it| call(it)).collect();
    let last_run: BTreeMap<_, _> =
        effects.iter().filter(|it| has_run(it)).map(|it| (&it.tool, it.key)).collect();
    let by_key: BTreeMap<CommandKey, &JudgedAction> = effects.iter().map(|it| (it.key, *it)).collect();
    let untrusted = |it: &&Evidence| it.taint(spec).untrusted;
    let untrusted: Vec<(u32, EvidenceId)> =
        evidence.iter().filter(untrusted).map(|it| (it.pass, it.id)).collect();
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for action in &effects {
        let is_owed = match spec.protocol.properties().states_confidence {
            true => action.action.priority == Priority::Required,
            false => action.action.priority != Priority::NiceToHave,
        };
        let (earlier, is_answered) = match &action.verdict {
            Verdict::Duplicate { of, evidence, .. } => (by_key.get(of).copied(), is_run(*evidence)),
            _ => (None, false),
        };
        // Another task of a run that is called is not this one.
        let is_called = effect(action).is_some_and(|tool| tool.policy.lease.is_some());
        let is_later_run = !is_called && last_run.get(&action.tool).is_some_and(|last| *last > action.key);
        let is_done = is_answered || is_later_run || ran.contains(&call(action));
        if !is_owed || is_done || earlier.is_some_and(has_run) {
            continue;
        }
        let judged = earlier.unwrap_or(action);
        let is_below = result(judged.evidence).is_some_and(left_undone);
        let why = if is_below { Some(WhyNotDone::Below) } else { why_not(judged) };
        let Some(why) = why else { continue };
        if reported.insert(call(action)) {
            let read = untrusted.partition_point(|(pass, _)| *pass < action.key.pass);
            let sources = untrusted.iter().take(read).skip(read.saturating_sub(MAX_SOURCES));
            found.push(NotDone {
                key: action.key,
                tool: action.tool_name().into(),
                why,
                unplanned: has_plan && action.slot.is_none() && why == WhyNotDone::Denied,
                sources: sources.map(|(_, id)| *id).collect(),
            });
        }
    }
    found
}

/// Whether a call with this status was made, whatever it returned.
fn was_made(status: Status) -> bool {
    match status {
        Status::Ok
        | Status::Empty
        | Status::RetryableError
        | Status::PermanentError
        | Status::InvalidInput
        | Status::MalformedResult
        | Status::Timeout
        | Status::Pending
        | Status::InDoubt => true,
        Status::Denied | Status::Duplicate | Status::Skipped | Status::Cancelled => false,
    }
}

/// Why an effect that did not run is not done. `None`: it is not owed.
fn why_not(action: &JudgedAction) -> Option<WhyNotDone> {
    match &action.verdict {
        Verdict::Denied { by: DeniedBy::Policy | DeniedBy::Person, .. } => Some(WhyNotDone::Denied),
        Verdict::Denied { by: DeniedBy::Silence, .. } => Some(WhyNotDone::Expired),
        Verdict::Run
        | Verdict::Denied { by: DeniedBy::Repeat, .. }
        | Verdict::Duplicate { .. }
        | Verdict::NeedsPerson { .. }
        | Verdict::OverLimit { .. }
        | Verdict::BreakerOpen { .. }
        | Verdict::OneAtATime
        | Verdict::Ended { .. } => Some(WhyNotDone::NotAdmitted),
        Verdict::Kept | Verdict::Skipped | Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => {
            None
        }
    }
}
