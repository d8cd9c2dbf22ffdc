//! The parent of a run: the run whose work it continues, and what it takes over from there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run::budget::Budget;
use crate::run::calls::Calls;
use crate::run::clock::Clock;
use crate::run::draft::Draft;
use crate::run::event::Started;
use crate::run::inbox::Inbox;
use crate::run::knowledge::Knowledge;
use crate::run::phase::Phase;
use crate::run::route::Route;
use crate::types::{Arguments, EvidenceId, Millis, Observation, RunId, Status, Totals, is_default};

/// The run whose work a run continues, and what it takes over. The first event holds it, so that the journal of the new
/// run is enough to replay it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's id.
    pub run: RunId,
    /// What the new run takes over.
    pub how: Takeover,
    /// How many of the parent's journal entries it takes over, from the first on.
    pub entries: u64,
    /// The writes that the parent started and that the new run must not repeat on its own. A fork lists those that the
    /// parent started after the entries, or that had not settled by then; a retry lists all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<ParentEffect>,
    /// Whether the parent may have started, or may still start, writes that are not in `effects`: its journal is
    /// damaged, or it is not over. Every write of the new run then needs an approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: bool,
    /// Whether limits, gate settings or tools differ from the parent's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changed: bool,
    /// Wall-clock times of instants before the new run began: from each instant on, the milliseconds since 1970 (UTC) of
    /// that instant. Empty for a retry, whose time begins anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<(Millis, u64)>,
    /// The parent's state, without its first event.
    pub(super) state: Box<CarriedState>,
    /// Results that the parent obtained later, for calls that it had begun or that come before those in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) results: Vec<LaterResult>,
}

/// A result that the parent obtained after the place where the new run begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct LaterResult {
    pub(super) evidence: EvidenceId,
    /// The try that returned it, from 1.
    pub(super) attempt: u32,
    pub(super) observation: Arc<Observation>,
}

/// What a run takes over from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Takeover {
    /// The state after some of the entries: it continues from there.
    Fork,
    /// The evidence of an ended run: the work begins anew.
    Retry,
    /// The state after the readable entries of a damaged journal: it continues from there.
    Salvage,
}

impl Takeover {
    /// The name in JSON: `fork`, `retry` or `salvage`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A write that the parent started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ParentEffect {
    /// The idempotency key that the tool received: `run/pass/slot`.
    pub key: Arc<str>,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Its parameters, as canonical JSON.
    pub parameters: Arguments,
    /// How it ended. `None`: the parent does not say.
    pub status: Option<Status>,
    /// The number of its result in the new run's evidence. `None`: the new run does not have it, and does not know of
    /// the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceId>,
}

/// A state without its first event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct CarriedState {
    pub(super) clock: Clock,
    pub(super) phase: Phase,
    pub(super) inbox: Inbox,
    pub(super) route: Route,
    pub(super) knowledge: Knowledge,
    pub(super) calls: Calls,
    pub(super) draft: Draft,
    pub(super) budget: Budget,
}

impl Parent {
    /// The instant at which the new run begins, by its own clock.
    pub fn began_at(&self) -> Millis {
        self.state.clock.now
    }

    /// Usage, cost and time that the new run takes over. They count against its limits.
    pub fn totals(&self) -> Totals {
        let wall_ms = self.state.clock.elapsed_ms(self.state.phase.waiting_since());
        Totals { wall_ms, ..self.state.budget.totals }
    }
}

impl Started {
    /// The wall-clock time of an instant of the run, in milliseconds since 1970 (UTC). An instant before a fork has the
    /// parent's time.
    pub fn unix_ms_at(&self, at: Millis) -> u64 {
        let parent = self.parent.as_deref();
        let began = parent.map_or(Millis(0), Parent::began_at);
        let before = parent.filter(|_| at < began).map_or(&[][..], |parent| &parent.times);
        let (from, unix_ms) = match before.iter().rev().find(|(from, _)| *from <= at) {
            Some((from, unix_ms)) => (*from, *unix_ms),
            None => (began, self.unix_ms),
        };
        unix_ms.saturating_add(at.since(from))
    }
}
