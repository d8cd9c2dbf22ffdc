//! Messages of hooks in the outbox of a journal: committed with the entry that caused them, delivered after that.

use std::fmt;
use std::sync::Arc;

use loop_core::types::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum HookEvent {
    /// It waits for a person.
    Waiting,
    /// It waits for a person, and the time to answer is nearly over: a quarter of it is left, or an hour if that is less.
    Expiring,
    /// It has ended, for whatever reason.
    Ended,
    /// It has ended as `failed` or `in_doubt`.
    Failed,
}

impl HookEvent {
    /// Its name in a domain file, for example `ended`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A message of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookMessage {
    /// Its id: the same on each delivery, so that a receiver can drop what it has already.
    pub id: Arc<str>,
    /// The run that it is about.
    pub run: RunId,
    /// The hook's name.
    pub hook: Arc<str>,
    /// What happened.
    pub event: HookEvent,
    /// The body, as JSON: its form is that of `docs/schema/hook.schema.json`.
    pub body: Arc<str>,
    /// When it happened, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

/// A message in the outbox of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The message.
    pub message: HookMessage,
    /// How often its delivery has failed.
    pub failures: u32,
    /// When it is delivered next, in milliseconds since 1970 (UTC). `None`: never automatically.
    pub next_unix_ms: Option<u64>,
    /// Why the last delivery failed. `None`: none has.
    pub error: Option<Arc<str>>,
    /// Whether the journal vouches for it: a program with its key has made it. Others are not delivered.
    pub is_sealed: bool,
}

/// A message that this process alone delivers now, until it is dropped.
pub struct ClaimedMessage {
    /// The message.
    pub queued: QueuedMessage,
    /// Lets others deliver it when it is dropped.
    pub _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for ClaimedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedMessage").field("queued", &self.queued).finish_non_exhaustive()
    }
}

/// The result of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// It arrived, and leaves the outbox.
    Yes,
    /// It did not.
    No {
        /// Why not.
        error: Arc<str>,
        /// When it is delivered next, in milliseconds since 1970 (UTC). `None`: never automatically.
        next_unix_ms: Option<u64>,
    },
}
