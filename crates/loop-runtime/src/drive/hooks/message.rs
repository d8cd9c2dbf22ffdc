//! From what happened to a run to the messages of its hooks.

use loop_core::Run;
use loop_core::run::{PersonRequest, Phase};
use loop_core::types::StopClass;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::{DecisionLinks, HookEvent, HookMessage, Hooks};
use crate::watch::people::deadline_unix_ms;

/// The version of a message's data.
pub const HOOK_VERSION: u32 = 1;

/// The body of a message. It holds ids, names and numbers, the title of the work item, and no text of a model or a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HookBody {
    /// `run.waiting`, `run.expiring`, `run.ended` or `run.failed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened, or the message is due, as an RFC 3339 time in UTC.
    pub timestamp: String,
    /// What happened.
    pub data: HookData,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HookData {
    /// The version of this form.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item's id.
    pub item: String,
    /// The work item's title.
    pub title: String,
    /// The trace id of the caller. Absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The class of the stop, for example `answered`. Absent while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The name of the reason for which it stopped. Absent while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What waits for a person. Empty if it has ended.
    pub waiting: Vec<HookRequest>,
}

/// An action or a question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HookRequest {
    /// The action's key, which `approve`, `deny` and `answer` take.
    pub action: String,
    /// The tool's own name.
    pub tool: String,
    /// Whether it is a question, which takes an answer instead of an approval.
    pub question: bool,
    /// The digits that an answer may be bound to.
    pub binding: String,
    /// When no answer counts as a denial, in milliseconds since 1970 (UTC). Null: it never does.
    pub deadline_unix_ms: Option<u64>,
    /// The address of the page where a person decides it, on the server that made the message. It is signed, is valid until
    /// the deadline and at most for seven days, and leads nowhere once the action is decided. The page asks for a login.
    /// Absent: no server made the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// Whether a run waited or was over before an event: to tell what is new behind it. The default is that of a run that is not
/// there yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusBefore {
    waits: bool,
    done: bool,
}

impl StatusBefore {
    pub(crate) fn of(run: &Run) -> Self {
        Self { waits: matches!(run.phase(), Phase::WaitingForPerson { .. }), done: run.is_done() }
    }
}

impl Hooks {
    /// The messages of what has just happened to a run.
    pub(crate) fn messages(&self, before: StatusBefore, run: &Run, unix_ms: u64) -> Vec<HookMessage> {
        let now = StatusBefore::of(run);
        let is_end = now.done && !before.done;
        let is_wait = now.waits && !before.waits;
        let mut events = Vec::new();
        if is_wait {
            events.push((HookEvent::Waiting, unix_ms));
            events.extend(expiring_at(run).map(|at| (HookEvent::Expiring, at)));
        } else if is_end {
            events.extend(has_failed(run).then_some((HookEvent::Failed, unix_ms)));
            events.push((HookEvent::Ended, unix_ms));
        }
        let of_hook = |hook: &super::Hook| -> Vec<HookMessage> {
            let asked = events.iter().filter(|(event, _)| hook.on.contains(event));
            // An end is reported once.
            let reported = asked.take(if is_wait { events.len() } else { 1 });
            reported
                .filter_map(|(event, at)| {
                    let body = serde_json::to_string(&body(self.links.as_deref(), *event, run, *at)).ok()?;
                    Some(HookMessage {
                        id: format!("msg_{}", Uuid::now_v7()).into(),
                        run: run.id().clone(),
                        hook: hook.name.clone(),
                        event: *event,
                        body: body.into(),
                        unix_ms: *at,
                    })
                })
                .collect()
        };
        self.hooks.iter().flat_map(of_hook).collect()
    }
}

/// The longest time before a deadline at which it is nearly over, in milliseconds.
const SOON_MS: u64 = 3_600_000;

/// When the time to answer what a run waits for is nearly over, in milliseconds since 1970 (UTC). `None`: it does not wait, or
/// without a deadline.
pub(super) fn expiring_at(run: &Run) -> Option<u64> {
    let deadline = run.deadline().filter(|_| StatusBefore::of(run).waits)?;
    let soon = (run.spec().limits.person_ms? / 4).min(SOON_MS);
    Some(run.started().unix_ms_at(deadline).saturating_sub(soon))
}

fn has_failed(run: &Run) -> bool {
    let class = run.outcome().map(|outcome| outcome.stop.class);
    matches!(class, Some(StopClass::Failed | StopClass::InDoubt))
}

fn body(links: Option<&dyn DecisionLinks>, event: HookEvent, run: &Run, unix_ms: u64) -> HookBody {
    let started = run.started();
    let stop = run.outcome().map(|outcome| &outcome.stop);
    let waiting = |requested: PersonRequest| HookRequest {
        link: links.and_then(|links| links.link(&requested, unix_ms)),
        action: requested.key.to_string(),
        tool: requested.tool.to_string(),
        question: requested.is_question,
        binding: requested.binding.short(),
        deadline_unix_ms: deadline_unix_ms(started, &requested),
    };
    let at = jiff::Timestamp::from_millisecond(i64::try_from(unix_ms).unwrap_or_default());
    HookBody {
        kind: format!("run.{}", event.name()),
        timestamp: at.map(|at| at.to_string()).unwrap_or_default(),
        data: HookData {
            version: HOOK_VERSION,
            run: run.id().to_string(),
            domain: run.spec().domain.to_string(),
            item: started.item.id.to_string(),
            title: started.item.title.to_string(),
            trace: started.item.trace.as_ref().map(ToString::to_string),
            class: stop.map(|stop| stop.class.name().to_owned()),
            reason: stop.map(|stop| stop.name().to_owned()),
            waiting: run.requested().into_iter().map(waiting).collect(),
        },
    }
}
