//! Calls as data: what a run commands, for whichever process makes it, and how it ended.

use loop_core::run::Started;
use loop_core::types::{CommandKey, Slot, Tier};
use loop_core::{EventKind, Outcome};
use loop_llm::ModelRequest;
use serde::{Deserialize, Serialize};

use crate::drive::check::CheckWork;
use crate::drive::tool::ToolWork;

/// A call or an action of a run, by its key and its try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkKey {
    /// The key of the call or the action.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
}

/// Work that a run commands, with everything that is needed to do it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineWork(pub(super) Kind);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Model(Box<ModelWork>),
    Tool(Box<ToolWork>),
    Check(Box<CheckWork>),
    Save(Box<SaveWork>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ModelWork {
    pub(super) of: WorkKey,
    pub(super) tier: Tier,
    pub(super) timeout_ms: u64,
    pub(super) request: ModelRequest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SaveWork {
    pub(super) attempt: u32,
    pub(super) left_ms: u64,
    pub(super) started: Started,
    pub(super) outcome: Outcome,
}

impl EngineWork {
    /// Its key and its try.
    pub fn key(&self) -> WorkKey {
        match &self.0 {
            Kind::Model(work) => work.of,
            Kind::Tool(work) => WorkKey { key: work.key, attempt: work.attempt },
            Kind::Check(work) => WorkKey { key: work.key, attempt: work.attempt },
            Kind::Save(work) => saving(work.attempt),
        }
    }

    /// The kind of work, for people: the tool's own name, `model`, `check` or `save`.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Model(_) => "model",
            Kind::Tool(work) => &work.tool,
            Kind::Check(_) => "check",
            Kind::Save(_) => "save",
        }
    }

    /// Whether it may be made twice without anything changing and without a cost: a read or a check without a question to a
    /// model, a save under its key. Any other is lost when its process ends in the middle, and the run decides what
    /// follows.
    pub fn is_repeatable(&self) -> bool {
        match &self.0 {
            Kind::Model(_) => false,
            Kind::Tool(work) => work.effect.is_read() && work.asks().is_none(),
            Kind::Check(work) => !work.asks(),
            Kind::Save(_) => true,
        }
    }

    /// Whether it is a tool call that is repeatable, so that several of one batch may be made in one call of an engine.
    pub fn is_cheap_read(&self) -> bool {
        matches!(&self.0, Kind::Tool(_)) && self.is_repeatable()
    }
}

pub(super) fn saving(attempt: u32) -> WorkKey {
    WorkKey { key: CommandKey::new(0, Slot::Save), attempt }
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The key and the try of the work.
    pub of: WorkKey,
    /// When it ended, in milliseconds since 1970 (UTC), by the clock of the process that made it.
    pub unix_ms: u64,
    pub(super) end: End,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// It ended, and this happened.
    Happened {
        kind: Box<EventKind>,
        /// Milliseconds to wait before the next try.
        retry_ms: Option<u64>,
    },
    /// Its process ended in the middle: it may have had an effect, or not.
    Lost,
}

impl Settlement {
    /// The settlement of work that may or may not have happened, because its process ended in the middle. `unix_ms` is
    /// when that was found out; 0 is the time of the run's last event.
    pub fn lost(of: WorkKey, unix_ms: u64) -> Self {
        Self { of, unix_ms, end: End::Lost }
    }

    /// Whether it is not known how the work ended.
    pub fn is_lost(&self) -> bool {
        self.end == End::Lost
    }
}

pub(super) fn unix_ms() -> u64 {
    loop_journal::unix_ms(std::time::SystemTime::now())
}
